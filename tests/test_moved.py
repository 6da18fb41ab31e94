"""Imports of 0.1.0 that README or docs named: names still load, with a warning; moved modules name their new place."""

from __future__ import annotations

import importlib

import pytest

from shared_core.support.moved import MODULES, NAMES


@pytest.mark.parametrize(
    ("package", "name"), [(package, name) for package, names in NAMES.items() for name in sorted(names)]
)
def test_a_moved_name_loads_with_a_warning(package: str, name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"from {NAMES[package][name]} import {name}"):
        found = getattr(importlib.import_module(package), name)
    assert found is getattr(importlib.import_module(NAMES[package][name]), name)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_moved_module_names_its_new_place(module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"{module} has moved to {MODULES[module]}$"):
        importlib.import_module(module)
    assert importlib.import_module(MODULES[module])
