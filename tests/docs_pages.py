"""The README and the pages of ``docs/``: their code blocks, and what stands in for what a reader has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md")))
SHELL = ("sh", "bash", "console", "")
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced block: the page and line it begins at, its language, its text."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def read(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def blocks(page: str) -> list[Block]:
    text = read(page)
    return [
        Block(page, text[: m.start()].count("\n") + 2, m[2], re.sub(f"^{m[1]}", "", m[3], flags=re.MULTILINE))
        for m in _FENCE.finditer(text)
    ]


def inline(page: str) -> list[str]:
    """What stands between backticks outside of blocks."""
    return _INLINE.findall(_FENCE.sub("", read(page)))


def python(block: Block) -> str | None:
    """The block as a program, of a change the new lines; ``None`` if it is none."""
    if block.language not in ("python", "diff"):
        return None
    lines = block.text.split("\n")
    if any(line[:2] in ("+ ", "- ") for line in lines):
        lines = [line[2:] if line[:2] in ("+ ", "  ") else line for line in lines if line[:2] != "- "]
    return re.sub(r"=…(?=[,)])", "=None", "\n".join(lines))


def stand_in(real: Callable[..., Any], make: Callable[[], Any]) -> Callable[..., Any]:
    """Called as ``real`` is, it gives what ``make`` makes; TypeError for arguments that ``real`` does not take."""

    def called(*given: Any, **options: Any) -> Any:
        inspect.signature(real).bind(*given, **options)
        return make()

    return called
