"""Mutation testing: change the code in small ways and see whether a test fails.

    python scripts/mutate.py                                     # 100 mutants of pipelines/ and calibration/
    python scripts/mutate.py --mutants 20 --seed 7 shared_core/pipelines/confidence.py
    python scripts/mutate.py --json mutants.json                 # the survivors, for a later look

A mutant that every test survives shows a line whose behaviour no test holds, or one that changes nothing (an
"equivalent" mutant: read the diff before writing a test for it).

First the tests run once with a tracer, so that each line knows the tests that execute it. Then each mutant (one
change, chosen with ``--seed``) runs against the quickest of these tests, ``--most`` seconds of them at most, in a
process of its own. Everything happens in a temporary copy: the working tree is never touched, and stopping the script
leaves nothing behind. Expect four minutes for the first step and ten seconds for each mutant on one core.

Changes: a comparison turned (``<`` ↔ ``<=``, ``==`` ↔ ``!=``, ``in`` ↔ ``not in``, …), ``min`` ↔ ``max``, ``and`` ↔
``or``, ``not`` left out, a number moved by one (a probability halved), ``True`` ↔ ``False``, a ``return`` of ``None``,
a statement left out. Notes in traces, logs, docstrings, annotations and error messages are left alone.

Prints each survivor with its place and diff. Exit code 0; 1 if the tests cannot be run at all.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("shared_core/pipelines", "shared_core/calibration")
TESTS = (
    "tests/pipelines",
    "tests/calibration",
    "tests/engine",
    "tests/flow",
    "tests/evaluation",
    "tests/uncertainty",
    "tests/abstention",
)
PYTEST = (
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "-x",
    "-n0",
    "-p",
    "no:cacheprovider",
    "--no-header",
    "--tb=no",
    "-p",
    "mutate_tracer",
)

_FLIPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_SWAPS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_QUIET = {"note", "debug", "info", "warning", "explain"}  # calls whose only effect is words


@dataclass
class Mutant:
    """One change: source text between two offsets replaced.

    Attributes:
        file: from the root.
        line: of the change, from 1.
        kind: of the change.
        start, end: offsets of the text replaced, in bytes.
        text: put in its place.
        scope: lines whose tests are run if no test executes ``line`` itself: of the statement, of the function for a
            default, of the file for a constant of the module.
    """

    file: str
    line: int
    kind: str
    start: int
    end: int
    text: str
    scope: tuple[int, int]
    outcome: str = ""
    diff: list[str] = field(default_factory=list)

    def apply(self, source: bytes) -> bytes:
        """Return the mutated source."""
        return source[: self.start] + self.text.encode() + source[self.end :]


class _Finder(ast.NodeVisitor):
    """Collects the mutants of one file."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[Mutant] = []
        self.scope, self.depth = (1, source.count(b"\n") + 1), 0

    def visit(self, node: ast.AST) -> None:
        """Remember the innermost statement of a function."""
        before = self.scope
        if isinstance(node, ast.stmt) and self.depth:
            self.scope = (node.lineno, node.end_lineno or node.lineno)
        super().visit(node)
        self.scope = before

    def _add(self, node: ast.expr | ast.stmt, new: ast.AST | str, kind: str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[node.end_lineno - 1] + node.end_col_offset
        text = new if isinstance(new, str) else ast.unparse(new)
        if isinstance(node, ast.expr):
            text = f"({text})"  # ast forgets the parentheses that precedence needs
        self.found.append(Mutant(self.file, node.lineno, kind, start, end, text, self.scope))

    def visit_Compare(self, node: ast.Compare) -> None:
        """Turn each operator."""
        for i, op in enumerate(node.ops):
            new = copy.deepcopy(node)
            new.ops[i] = _FLIPS[type(op)]()
            self._add(node, new, "comparison")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Swap and, or."""
        new = copy.copy(node)
        new.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add(node, new, "and/or")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Leave not out."""
        if isinstance(node.op, ast.Not):
            self._add(node, node.operand, "not")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Swap min, max and any, all; leave words alone."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _QUIET or name.endswith("Error"):
            return
        if isinstance(node.func, ast.Name) and name in _SWAPS:
            self._add(node.func, _SWAPS[name], "min/max")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Move numbers, turn booleans."""
        value = node.value
        if isinstance(value, bool):
            self._add(node, repr(not value), "constant")
        elif isinstance(value, int):
            self._add(node, repr(value + 1), "constant")
        elif isinstance(value, float):
            self._add(node, repr(value / 2 if 0 < value <= 1 else value + 1), "constant")

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave formatted words alone."""

    def visit_Return(self, node: ast.Return) -> None:
        """Return None."""
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._add(node.value, "None", "return value")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Leave a call out."""
        value = node.value.value if isinstance(node.value, (ast.YieldFrom, ast.Await)) else node.value
        if isinstance(value, ast.Call) and not isinstance(node.value, ast.YieldFrom):
            name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
            if name not in _QUIET:
                self._add(node, "pass", "statement")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Leave it out."""
        self._add(node, "pass", "statement")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        """Leave out a branch that only assigns: the name keeps its value."""
        for child in node.body:
            if isinstance(child, ast.Assign):
                self._add(child, "pass", "statement")
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Leave the annotation alone."""
        if node.value is not None:
            self.visit(node.value)

    def visit_arguments(self, node: ast.arguments) -> None:
        """Only defaults."""
        for default in (*node.defaults, *(d for d in node.kw_defaults if d is not None)):
            self.visit(default)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Leave decorators and annotations alone."""
        self.depth += 1
        self.scope = (node.lineno, node.end_lineno or node.lineno)
        self.visit_arguments(node.args)
        for child in node.body:
            self.visit(child)
        self.depth -= 1


def find_mutants(root: Path, targets: Sequence[str]) -> list[Mutant]:
    """Find every mutant of the files, in their order."""
    found: list[Mutant] = []
    for target in targets:
        path = root / target
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            source = file.read_bytes()
            finder = _Finder(str(file.relative_to(root)), source)
            finder.visit(ast.parse(source))
            found += finder.found
    return found


TRACER = '''
"""Which tests execute which lines; as a plugin of pytest."""
import json, os, sys, threading, time
import pytest

TARGETS = tuple(os.environ.get("MUTATE_TARGETS", "").split(os.pathsep))
LINES, SECONDS, CURRENT, FAILED = {}, {}, [""], set()

try:  # a mutant is judged by what tests assert, not by how long they take on a busy machine
    from hypothesis import HealthCheck, settings
    settings.register_profile("mutate", deadline=None, suppress_health_check=list(HealthCheck))
    settings.load_profile("mutate")
except ImportError:
    pass
TRACES = "MUTATE_OUT" in os.environ

def local(frame, event, arg):
    if event == "line":
        LINES.setdefault((frame.f_code.co_filename, frame.f_lineno), set()).add(CURRENT[0])
    return local

KNOWN = {}

def tracer(frame, event, arg):
    code = frame.f_code
    wanted = KNOWN.get(code.co_filename)
    if wanted is None:
        wanted = KNOWN[code.co_filename] = code.co_filename.startswith(TARGETS)
    return local if wanted else None

def pytest_collection_modifyitems(items):
    """Few examples of each property are enough to know which lines it executes."""
    for item in items:
        test = getattr(item, "obj", None)
        if hasattr(test, "_hypothesis_internal_use_settings"):
            test = getattr(test, "__func__", test)
            own = test._hypothesis_internal_use_settings
            most = 10 if TRACES else own.max_examples
            test._hypothesis_internal_use_settings = settings(
                own, max_examples=most, deadline=None, suppress_health_check=list(HealthCheck)
            )

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    if not TRACES:
        yield
        return
    CURRENT[0] = item.nodeid
    threading.settrace(tracer)
    sys.settrace(tracer)
    start = time.perf_counter()
    yield
    sys.settrace(None)
    threading.settrace(None)
    SECONDS[item.nodeid] = time.perf_counter() - start

def pytest_runtest_logreport(report):
    if report.failed:
        FAILED.add(report.nodeid)

def pytest_sessionfinish():
    if not TRACES:
        return
    lines = {}
    for (file, line), tests in LINES.items():
        lines.setdefault(file, {})[line] = sorted(tests - {""} - FAILED)
    with open(os.environ["MUTATE_OUT"], "w") as out:
        json.dump({"lines": lines, "seconds": SECONDS, "failed": sorted(FAILED)}, out)
'''


@dataclass(frozen=True)
class Coverage:
    """The tests of each line, quickest first."""

    tests: dict[tuple[str, int], list[str]]
    seconds: dict[str, float]

    def choose(self, mutant: Mutant, most: float) -> list[str]:
        """Choose tests that execute the mutant's line: from many files, ``most`` seconds of them."""
        tests = self.tests.get((mutant.file, mutant.line)) or self._of_scope(mutant)
        left, chosen = most, []
        for test in _spread(tests):
            if not chosen or self.seconds[test] <= left:
                chosen.append(test)
                left -= self.seconds[test]
        return chosen

    def _of_scope(self, mutant: Mutant) -> list[str]:
        first, last = mutant.scope
        found = {t for n in range(first, last + 1) for t in self.tests.get((mutant.file, n), [])}
        return sorted(found, key=lambda t: self.seconds[t])


def _spread(tests: Sequence[str]) -> Iterator[str]:
    """Take one test of each file in turn: tests of one file hold much the same behaviour."""
    by_file: dict[str, list[str]] = {}
    for test in tests:
        by_file.setdefault(test.partition("::")[0], []).append(test)
    while by_file:
        for file in list(by_file):
            yield by_file[file].pop(0)
            if not by_file[file]:
                del by_file[file]


def trace(copy_: Path, targets: Sequence[str], tests: Sequence[str]) -> Coverage:
    """Run the tests once and record which of them execute which lines; tests that fail anyway judge no mutant."""
    out = copy_ / "mutate_lines.json"
    environment = _environment(copy_) | {
        "MUTATE_TARGETS": os.pathsep.join(str(copy_ / t) for t in targets),
        "MUTATE_OUT": str(out),
    }
    subprocess.run([arg for arg in PYTEST if arg != "-x"] + list(tests), cwd=copy_, env=environment, check=False)
    if not out.exists():
        sys.exit("The tests could not be run.")
    read = json.loads(out.read_text())
    for test in read["failed"]:
        print(f"left out, fails without any mutation: {test}", flush=True)
    seconds: dict[str, float] = read["seconds"]
    lines = {
        (str(Path(file).relative_to(copy_)), int(line)): sorted(found, key=lambda t: seconds.get(t, 1e9))
        for file, by_line in read["lines"].items()
        for line, found in by_line.items()
    }
    return Coverage(lines, seconds)


def _environment(copy_: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(copy_), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}


def judge(mutant: Mutant, copy_: Path, tests: Sequence[str], timeout: float) -> str:
    """Run the tests against the mutant: ``killed``, ``survived``, ``timeout`` (killed too) or ``uncovered``."""
    if not tests:
        return "uncovered"
    file = copy_ / mutant.file
    source = file.read_bytes()
    file.write_bytes(mutant.apply(source))
    try:
        process = subprocess.Popen(
            [*PYTEST, *tests], cwd=copy_, env=_environment(copy_), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            return "killed" if process.wait(timeout) else "survived"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the tests, and the processes that they started
            process.wait()
            return "timeout"
    finally:
        file.write_bytes(source)


def show(mutant: Mutant, source: bytes) -> list[str]:
    """Return the lines that the mutant changes, before and after."""
    first = source[: mutant.start].count(b"\n")
    last = source[: mutant.end].count(b"\n")
    mutated = mutant.apply(source)
    grown = mutated.count(b"\n") - source.count(b"\n")
    before, after = source.decode().splitlines(), mutated.decode().splitlines()
    return [
        *(f"- {line}" for line in before[first : last + 1]),
        *(f"+ {line}" for line in after[first : last + 1 + grown]),
    ]


def copy_tree(to: Path) -> None:
    """Copy what git knows and what it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Mutation testing; see the docstring of this file.")
    parser.add_argument("targets", nargs="*", default=TARGETS, help="files or folders to mutate")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="tests to choose from")
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=float, default=15.0, help="seconds of tests for each mutant")
    parser.add_argument("--timeout", type=float, default=90.0, help="seconds for each mutant, start of Python included")
    parser.add_argument("--minutes", type=float, default=None, help="begin no further mutant after so long")
    parser.add_argument("--json", type=Path, default=None, help="write all mutants with their outcomes")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the copy is removed
    end = None if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copy_ = Path(folder).resolve()
        copy_tree(copy_)
        (copy_ / "mutate_tracer.py").write_text(TRACER)
        mutants = find_mutants(copy_, asked.targets)
        chosen = random.Random(asked.seed).sample(mutants, min(asked.mutants, len(mutants)))
        print(f"{len(mutants)} mutants in {', '.join(asked.targets)}; {len(chosen)} are tried", flush=True)
        coverage = trace(copy_, asked.targets, asked.tests)
        done: list[Mutant] = []
        for mutant in chosen:
            if end is not None and time.monotonic() > end:
                break
            mutant.diff = show(mutant, (copy_ / mutant.file).read_bytes())
            mutant.outcome = judge(mutant, copy_, coverage.choose(mutant, asked.most), asked.timeout)
            done.append(mutant)
            if mutant.outcome in ("survived", "uncovered"):
                print(
                    f"\n{mutant.outcome}: {mutant.file}:{mutant.line} ({mutant.kind})",
                    *mutant.diff,
                    sep="\n",
                    flush=True,
                )
            if asked.json is not None:
                asked.json.write_text(json.dumps([asdict(m) for m in done], indent=1))
        counts = {o: sum(m.outcome == o for m in done) for o in ("killed", "timeout", "survived", "uncovered")}
        print(f"\n{len(done)} mutants:", ", ".join(f"{n} {outcome}" for outcome, n in counts.items()))


if __name__ == "__main__":
    main()
