"""Docstrings, errors, descriptions of settings and pages of docs are written in plain English.

CONTRIBUTING.md has the glossary.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("shared_core", "llamaindex_selfreflect", "langchain_selfreflect", "benchmarks")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

INSTEAD = {
    r"witness(es)?": "signal", r"gauges?": "uncertainty estimator",
    r"(is|are|was|were) told": "receives, is called with", r"told of": "reported",
    r"(is|are|was|were) heard": "is used, counts",
    r"what is (said|shown|heard|told)": "the text, the claims shown, the score",
    r"stands? in": "replaces, is contained in", r"stands? beside": "accompanies", r"kept rows": "run log",
    r"bills?": "usage, cost",
}  # fmt: skip
"""Words that no newcomer can look up (as regular expressions), and what to write."""
OPENINGS = ("What ", "Which ", "Who ", "Where ", "How ")
"""First words of a docstring that announce a clause without a verb."""


def banned(text: str) -> list[str]:
    """Each banned word of a text, with what to write instead."""
    return [
        f"{found.group()!r} (write: {instead})"
        for word, instead in INSTEAD.items()
        for found in re.finditer(rf"\b{word}\b", text, re.IGNORECASE)
    ]


def texts_of(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Line, text, and whether it is a docstring: docstrings, errors and hints, descriptions and help texts."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if text := ast.get_docstring(node):
                yield getattr(node, "lineno", 1), text, True
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield from ((n.lineno, t, False) for n, t in literals(node.exc))
        elif isinstance(node, ast.keyword) and node.arg in ("hint", "description", "help"):
            yield from ((n.lineno, t, False) for n, t in literals(node.value))
        elif isinstance(node, ast.Call) and name_of(node.func).endswith(("Error", "note", "warning")):
            yield from ((n.lineno, t, False) for a in node.args for n, t in literals(a))


def literals(node: ast.expr) -> Iterator[tuple[ast.Constant, str]]:
    """The text constants in an expression; of f-strings their constant parts."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner, inner.value


def name_of(function: ast.expr) -> str:
    """The last part of a called name."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def faults(path: Path) -> list[str]:
    """What a module's or page's words break, with the lines."""
    own = path.relative_to(ROOT)
    if path.suffix == ".md":
        lines = path.read_text(encoding="utf-8").splitlines()
        return [f"{own}:{n}: {word}" for n, line in enumerate(lines, 1) for word in banned(line)]
    found = []
    for line, text, is_docstring in texts_of(path):
        found += [f"{own}:{line}: {word}" for word in banned(text)]
        if is_docstring and text.startswith(OPENINGS):
            found.append(f"{own}:{line}: begins with {text.split()[0]!r}: {text.splitlines()[0]}")
    return found


FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))] + PAGES


@pytest.mark.parametrize("place", sorted({p.relative_to(ROOT).parts[0] for p in FILES}))
def test_words_are_plain(place: str) -> None:
    checked = [p for p in FILES if p.relative_to(ROOT).parts[0] == place]
    wrong = [fault for path in checked for fault in faults(path)]
    assert not wrong, "\n".join(wrong)


def test_the_words_are_found() -> None:
    assert banned("The witnesses say so.")
    assert banned("The reader is told of it.")
    assert banned("He who stands in for it.")
    assert not banned("A billion signals, as the standard says.")
