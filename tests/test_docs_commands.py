"""The commands and packages that README and docs name exist."""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from shared_core.cli import app
from shared_core.cli.common import DefaultGroup
from tests.docs_pages import PAGES, ROOT, SHELL, blocks, inline, read

COMMAND: Any = typer.main.get_command(app)
_ENDS = re.compile(r"\s#.*$|[|<>].*$|&&.*$|;.*$")


def lines(page: str) -> Iterator[str]:
    """Commands: of shell blocks, continued lines joined, and between backticks."""
    for block in blocks(page):
        if block.language in SHELL:
            yield from (line.strip() for line in block.text.replace("\\\n", " ").splitlines())
    yield from inline(page)


def words(line: str) -> list[str]:
    """The first command of a line, in words."""
    try:
        return shlex.split(_ENDS.sub("", line))
    except ValueError:  # an apostrophe in prose
        return line.split()


def find_command(names: list[str]) -> tuple[Any, list[str]]:
    """The command that the words name, and the words behind it; several at once are written ``a|b``."""
    command, rest = COMMAND, names
    while rest and hasattr(command, "commands") and not rest[0].startswith("-"):
        if rest[0] not in command.commands and isinstance(command, DefaultGroup):
            return next(iter(command.commands.values())), rest
        assert rest[0] in command.commands, f"there is no command {rest[0]!r}"
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_their_options_exist(page: str) -> None:
    for line in lines(page):
        line = re.sub(r"^(\.venv/bin/|\S+ \| )(?=selfreflect)", "", line)
        if not re.match(r"selfreflect( |$)", line) or re.search(r"\w\|\w", line):
            continue
        command, rest = find_command(words(line)[1:])
        known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
        known |= {"-h", "--help", "--install-completion", "--show-completion"}
        for word in rest:
            if word.startswith("-") and word != "-" and not re.match(r"-\d", word):
                assert word.split("=")[0].rstrip(",") in known, f"{line}: {word}"


@pytest.mark.parametrize("page", PAGES)
def test_scripts_modules_and_make_targets_exist(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for line in lines(page):
        for script in re.findall(r"(?:benchmarks|examples|scripts)/\w+\.py", line):
            assert (ROOT / script).is_file(), line
        for module in re.findall(r"python -m ((?:shared_core|benchmarks)[\w.]*)", line):
            assert importlib.util.find_spec(module), line
        target = re.match(r"make ([a-z-]+)", line)
        assert target is None or re.search(rf"^{target[1]}:", makefile, re.MULTILINE), line


@pytest.mark.parametrize("page", PAGES)
def test_options_of_benchmarks_exist(page: str) -> None:
    for line in lines(page):
        found = re.search(r"(benchmarks/\w+\.py|-m benchmarks[\w.]*)((?: [^`|;#]*)?)", line)
        if found is None:
            continue
        path = ROOT / found[1].removeprefix("-m ").replace(".py", "").replace(".", "/")
        # A script, a module, or a package that a script of its name starts.
        sources = [path.with_suffix(".py"), *(path.glob("*.py") if path.is_dir() else ())]
        text = "".join(source.read_text("utf-8") for source in sources if source.is_file())
        if "command_line(" in text:  # the options that scripts share
            text += (ROOT / "benchmarks/__init__.py").read_text("utf-8")
        for option in re.findall(r"--[a-z-]+", found[2]):
            # benchmarks.lab.train makes the names of some options from its settings
            assert f'"{option}"' in text or f'"{option[2:]}"' in text, f"{found[1]} has no {option}"


@pytest.mark.parametrize("page", PAGES)
def test_extras_exist(page: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for extras in re.findall(r"(?:selfreflect-rag|'\.|\"\.)\[([\w,-]+)\]", read(page)):
        assert set(extras.split(",")) <= set(project["optional-dependencies"]), extras


def test_the_pages_are_read() -> None:
    told = [line for page in PAGES for line in lines(page)]
    assert sum(line.startswith("selfreflect ") for line in told) > 30
    assert sum("benchmarks/" in line for line in told) > 10
    with pytest.raises(AssertionError, match="no command"):
        find_command(["aks", "Who?"])
