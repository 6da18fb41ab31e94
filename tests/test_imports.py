"""The arrows between the rooms run one way, there are no circles, and importing the core stays cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "shared_core"
PACKAGES = ("shared_core", "llamaindex_selfreflect", "langchain_selfreflect")
PLUG_INS = [path for package in PACKAGES[1:] for path in sorted((ROOT / package).rglob("*.py"))]
BASE = {"types", "evidence", "errors", "settings", "pipeline_settings", "support"}
MATHS = {"uncertainty", "reflection", "citation", "abstention"}
ALLOWED: dict[str, set[str]] = {
    "support": {"support", "errors"},
    **{room: BASE | MATHS | {room} for room in MATHS},
    "lm": BASE | {"lm"},
    "retrieval": BASE | {"retrieval", "citation"},  # sentences have vectors of their own
    "documents": BASE | {"documents", "retrieval", "citation"},
    "reading": BASE | {"reading", "retrieval", "citation", "lm"},
    "calibration": BASE | MATHS | {"calibration", "lm"},  # a calibration is bound to a model's identity
    "runtime": BASE | {"runtime", "lm", "retrieval", "reading"},
    "pipelines": BASE | MATHS | {"lm", "retrieval", "reading", "calibration", "runtime", "pipelines"},
    "conversation": BASE | MATHS | {"lm", "reading", "runtime", "pipelines", "conversation"},
    "facades": BASE
    | MATHS
    | {"lm", "retrieval", "reading", "calibration", "runtime", "pipelines", "conversation", "facades"},
}
ALLOWED["serve"] = ALLOWED["facades"] | {"serve", "documents"}
ALLOWED["lab"] = ALLOWED["facades"] | {"lab", "evaluation"}
HEAVY = {"torch", "transformers", "chromadb", "sentence_transformers", "llguidance", "sklearn", "scipy", "matplotlib"}
FRAMEWORKS = {"llama_index", "langchain", "langchain_core", "langchain_community"}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path, *, top_level_only: bool = False) -> set[str]:
    tree = tree_of(path)
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
            if name == "shared_core.lm.requests" and room == "citation":
                continue  # the value type Grammar, which has no model in it
            if parts[0] == "shared_core" and len(parts) > 1:
                assert parts[1] in ALLOWED[room], f"{path.relative_to(ROOT)} imports {name}"


def test_facades_and_plug_ins_know_nothing_of_what_is_above_them() -> None:
    above = {"evaluation", "training", "lab", "serve", "cli"}
    for path in [*CORE.glob("*.py"), *modules("facades"), *PLUG_INS]:
        names = [name.split(".") for name in imports(path)]
        assert not {n[1] for n in names if n[0] == "shared_core" and len(n) > 1} & above, path
        own = path.relative_to(ROOT).parts[0]
        assert not {n[0] for n in names} & (set(PACKAGES) - {own, "shared_core"}), path


def test_the_core_knows_no_framework() -> None:
    for path in CORE.rglob("*.py"):
        roots = {name.split(".")[0] for name in imports(path)}
        assert not roots & (FRAMEWORKS | {"llamaindex_selfreflect", "langchain_selfreflect", "benchmarks"}), path


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


# --- circles and private names -------------------------------------------------------------------------------------


def every_module() -> dict[str, Path]:
    """Path of each module of the three packages by its dotted name (a package's is its ``__init__``)."""
    found: dict[str, Path] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """(module, name imported from it or "", what it is bound to) of every import: in functions and for types too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", alias.asname or alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name, alias.asname or alias.name) for alias in node.names)


def import_graph(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Which of the modules each one imports; a name imported from a package is its submodule, where it is one."""
    graph: dict[str, set[str]] = {}
    for module, tree in trees.items():
        targets = (f"{base}.{name}" if f"{base}.{name}" in trees else base for base, name, _ in imported(tree))
        graph[module] = {target for target in targets if target in trees and target != module}
    return graph


def circles(graph: Mapping[str, Set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for other in graph[module]:
            if other not in order:
                visit(other)
            if other in stack:
                low[module] = min(low[module], low[other])
        if low[module] == order[module]:
            members = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(members) > 1:
                found.append(sorted(members))

    for module in graph:
        if module not in order:
            visit(module)
    return found


def owner(dotted: str) -> str | None:
    """The package whose own the first private part of a dotted name is; ``None`` if all of it is public."""
    parts = dotted.split(".")
    place = next((i for i, part in enumerate(parts) if part.startswith("_") and not part.startswith("__")), None)
    return None if place is None else ".".join(parts[:place])


def trespasses(module: str, tree: ast.Module, modules: Set[str], packages: Set[str]) -> list[str]:
    """Names that ``module`` takes from the inside of a package it is not in: imported, or reached for by a dot."""
    bound: dict[str, str] = {}
    used: list[str] = []
    for base, name, alias in imported(tree):
        if base.split(".")[0] in PACKAGES:
            used.append(f"{base}.{name}" if name else base)
            bound[alias] = used[-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and bound.get(node.value.id) in modules:
            used.append(f"{bound[node.value.id]}.{node.attr}")
    wrong = []
    for dotted in used:
        inside = owner(dotted)
        while inside and inside not in packages:  # a private name of a module belongs to the module's package
            inside = inside.rpartition(".")[0]
        if inside and module != inside and not module.startswith(f"{inside}."):
            wrong.append(dotted)
    return wrong


def parsed() -> tuple[dict[str, ast.Module], set[str]]:
    modules = every_module()
    trees = {name: tree_of(path) for name, path in modules.items()}
    return trees, {name for name, path in modules.items() if path.name == "__init__.py"}


def test_there_are_no_circles() -> None:
    assert circles(import_graph(parsed()[0])) == []


def test_nobody_uses_what_another_package_keeps_to_itself() -> None:
    trees, packages = parsed()
    wrong = {module: found for module in trees if (found := trespasses(module, trees[module], set(trees), packages))}
    assert not wrong


def test_the_rules_would_see_a_circle_and_a_private_name() -> None:
    sources = {
        "shared_core": "",
        "shared_core.a": "def f():\n    from shared_core import b",
        "shared_core.b": "if TYPE_CHECKING:\n    import shared_core.c",
        "shared_core.c": "from shared_core.a import f",
        "shared_core.d": "from shared_core import c as see\nsee._hidden()\nfrom shared_core.a import _own",
        "langchain_selfreflect": "from shared_core.a import _own\nfrom shared_core import a as aa\naa._own",
    }
    trees = {name: ast.parse(text) for name, text in sources.items()}
    assert circles(import_graph(trees)) == [["shared_core.a", "shared_core.b", "shared_core.c"]]
    packages = {"shared_core", "langchain_selfreflect"}
    found = {module: trespasses(module, trees[module], set(trees), packages) for module in trees}
    assert {module for module, names in found.items() if names} == {"langchain_selfreflect"}
    assert found["langchain_selfreflect"] == ["shared_core.a._own", "shared_core.a._own"]
