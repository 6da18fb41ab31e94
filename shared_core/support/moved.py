"""Load the names of a package at first use, and name the new home of what 0.1.0 kept elsewhere."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from types import ModuleType
from typing import Any

MODULES = {
    "shared_core.bindings": "shared_core.calibration.binding",
    "shared_core.calibration_io": "shared_core.calibration.io",
    "shared_core.checker": "shared_core.facades.checker",
    "shared_core.commands": "shared_core.cli",
    "shared_core.defaults": "shared_core.facades.assembly",
    "shared_core.engine": "shared_core.facades.engine",
    "shared_core.files": "shared_core.support.files",
    "shared_core.flow": "shared_core.runtime.flow",
    "shared_core.gated_retriever": "shared_core.facades.gated_retriever",
    "shared_core.journal": "shared_core.support.run_log",
    "shared_core.meter": "shared_core.runtime.budget",
    "shared_core.lab.train": "benchmarks.lab.train",
    "shared_core.mistakes": "shared_core.facades.arguments",
    "shared_core.parts": "shared_core.facades.assembly",
    "shared_core.portable": "shared_core.support.pickling",
    "shared_core.printable": "shared_core.support.sanitize",
    "shared_core.requests": "shared_core.runtime.requests",
    "shared_core.reranker": "shared_core.facades.reranker",
    "shared_core.resources": "shared_core.runtime.resources",
    "shared_core.retrieval.loaders": "shared_core.documents.loaders",
    "shared_core.threads": "shared_core.support.threads",
    "shared_core.training.reader": "benchmarks.reader",
    "shared_core.uncertainty.calibration": "shared_core.calibration",
}
"""Modules of 0.1.0 that moved, and where to."""

_CALIBRATION = {"Calibration", "choose_threshold", "fit_calibration"}
_GUARANTEES = {"DriftWatch", "FittedGuarantee", "GUARANTEES", "fit_guarantee", "two_sample_p"}
_DOCUMENTS = {"Document", "DocumentIndex", "IndexSettings", "chunk_document", "iter_documents", "load_document"}
NAMES = {
    "shared_core.uncertainty": dict.fromkeys(_CALIBRATION, "shared_core.calibration"),
    "shared_core.abstention": dict.fromkeys(_GUARANTEES, "shared_core.calibration"),
    "shared_core.retrieval": dict.fromkeys(_DOCUMENTS, "shared_core.documents"),
}
"""Names that packages exported in 0.1.0, and the package that exports each now."""


def lazy_names(
    package: str, names: Collection[str], home: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package that loads ``names`` from their modules at first use.

    Args:
        home: module, relative to the package, of each name that is loaded lazily.
    """

    def load(name: str) -> Any:
        if name not in home:
            return moved_name(package, name)
        value = getattr(importlib.import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(names)


def moved_name(package: str, name: str) -> Any:
    """Load what ``package`` exported as ``name`` in 0.1.0 from its new home, with a warning that names it.

    AttributeError if it never exported that.
    """
    if (home := NAMES.get(package, {}).get(name)) is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    warnings.warn(f"{package}.{name} has moved: from {home} import {name}", DeprecationWarning, stacklevel=3)
    return getattr(importlib.import_module(home), name)


class _MovedModules(importlib.abc.MetaPathFinder):
    """Refuses imports of modules that moved; asked last, when no other finder knows the module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if home := MODULES.get(fullname):
            raise ModuleNotFoundError(f"{fullname} has moved to {home}", name=fullname)
        return None


def refuse_moved_modules() -> None:
    """Make imports of moved modules fail with their new place instead of "No module named …"."""
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(_MovedModules())
