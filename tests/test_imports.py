"""The arrows between the rooms run one way, and importing the core stays cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "shared_core"
BASE = {"types", "errors", "settings"}
MATHS = {"uncertainty", "reflection", "citation", "abstention"}
ALLOWED: dict[str, set[str]] = {
    **{room: BASE | MATHS | {room} for room in MATHS},
    "lm": BASE | {"lm"},
    # chunking cuts at sentences, and the reader quotes them
    "retrieval": BASE | {"retrieval", "citation"},
    "reading": BASE | {"reading", "retrieval", "citation", "lm"},
    "pipelines": BASE | MATHS | {"lm", "retrieval", "reading", "flow", "pipelines"},
}
HEAVY = {"torch", "transformers", "chromadb", "sentence_transformers", "llguidance", "sklearn", "scipy", "matplotlib"}
FRAMEWORKS = {"llama_index", "langchain", "langchain_core", "langchain_community"}


def imports(path: Path, *, top_level_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    nodes = _top_level(tree) if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return found


def _top_level(tree: ast.Module) -> list[ast.stmt]:
    """Statements that run at import: not those in functions, nor under ``if TYPE_CHECKING``."""
    found: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        found.extend(n for n in ast.walk(node) if isinstance(n, (ast.Import, ast.ImportFrom)) and n in tree.body)
    return found


def modules(room: str) -> list[Path]:
    return sorted((CORE / room).rglob("*.py"))


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_a_room_imports_only_what_it_may(room: str) -> None:
    for path in modules(room):
        for name in imports(path):
            parts = name.split(".")
            if name == "shared_core.lm.base" and room == "citation":
                continue  # the value type Grammar, which has no model in it
            if parts[0] == "shared_core" and len(parts) > 1:
                assert parts[1] in ALLOWED[room], f"{path.relative_to(ROOT)} imports {name}"


def test_the_core_knows_no_framework() -> None:
    for path in CORE.rglob("*.py"):
        roots = {name.split(".")[0] for name in imports(path)}
        assert not roots & (FRAMEWORKS | {"llamaindex_selfreflect", "langchain_selfreflect"}), path


@pytest.mark.parametrize("room", sorted(MATHS))
def test_a_maths_room_does_no_io(room: str) -> None:
    for path in modules(room):
        roots = {name.split(".")[0] for name in imports(path)}
        assert not roots & {"torch", "transformers", "chromadb", "httpx", "openai", "sqlite3", "socket"}, path


def test_heavy_packages_are_imported_where_they_are_used() -> None:
    for path in CORE.rglob("*.py"):
        if any(part.startswith("_") and not part.startswith("__") for part in path.relative_to(CORE).parts):
            continue  # the inside of a backend, itself imported where it is used
        roots = {name.split(".")[0] for name in imports(path, top_level_only=True)}
        assert not roots & HEAVY, path


def test_importing_the_core_loads_nothing_heavy() -> None:
    code = "import sys, shared_core; from shared_core import Passage, SelfReflectSettings; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {name.split(".")[0] for name in loaded} & (HEAVY | FRAMEWORKS)
