"""Plain text and Markdown: the text is the file, character for character."""

from __future__ import annotations

import re

from shared_core.retrieval.loaders.base import Extracted, Heading, Part, decode, first_line_title, one_line

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})(?=[ \t\r\n]|$)")
_SETEXT = re.compile(r" {0,3}(=+|-{2,})[ \t]*\r?$")
_FRONT_TITLE = re.compile(r"^title[ \t]*:[ \t]*(.+)$", re.MULTILINE | re.IGNORECASE)
_BLOCK_START = re.compile(r"[ \t]*([-*+>|#]|\d+[.)])")


def load_text(data: bytes, fallback: str | None) -> Extracted:
    """A plain text file."""
    text = decode(data, fallback=fallback)
    return Extracted(text, first_line_title(text))


def load_markdown(data: bytes, fallback: str | None) -> Extracted:
    """A Markdown file: its source as it is, headings found (ATX and setext, not within fenced code)."""
    text = decode(data, fallback=fallback)
    body = _front_matter_end(text)
    headings = tuple(_markdown_headings(text, body))
    named = _FRONT_TITLE.search(text[:body]) if body else None
    title = one_line(named.group(1)).strip("\"'") if named else ""
    parts = (Part(body, len(text)),) if body else ()
    return Extracted(text, title or (headings[0].label if headings else ""), headings, parts)


def _front_matter_end(text: str) -> int:
    """Where the text proper begins, after a YAML block between two ``---`` lines at the very top."""
    if not re.match(r"---[ \t]*\r?\n", text):
        return 0
    end = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?(?:\n|\Z)", re.MULTILINE).search(text, text.index("\n") + 1)
    return end.end() if end and ":" in text[: end.start()] else 0


def _markdown_headings(text: str, position: int) -> list[Heading]:
    headings: list[Heading] = []
    fence = ""
    fresh = True  # a line here would begin a paragraph
    candidate: tuple[int, int] | None = None  # a paragraph of one line so far: an underline makes it a heading
    while position < len(text):
        stop = text.find("\n", position)
        stop = len(text) if stop < 0 else stop
        line = text[position:stop]
        end = position + len(line.rstrip())
        opened = _FENCE.match(line)
        was_candidate, candidate = candidate, None
        if fence:
            if opened and opened.group(1).startswith(fence) and not line[opened.end() :].strip():
                fence = ""
        elif opened:
            fence, fresh = opened.group(1), True
        elif atx := _ATX.match(line):
            label, fresh = _without_closing_marks(line[atx.end() :].strip()), True
            if label:
                headings.append(Heading(position, end, len(atx.group(1)), one_line(label)))
        elif was_candidate and (underline := _SETEXT.match(line)):
            level, fresh = (1 if underline.group(1)[0] == "=" else 2), True
            headings.append(Heading(was_candidate[0], end, level, one_line(text[slice(*was_candidate)])))
        elif not line.strip():
            fresh = True
        else:
            # A list item, a quotation or a table row cannot be underlined into a heading.
            candidate = (position, stop) if fresh and not _BLOCK_START.match(line) else None
            fresh = False
        position = stop + 1
    return headings


def _without_closing_marks(label: str) -> str:
    stripped = label.rstrip("#")
    if not stripped:
        return ""
    return stripped.rstrip() if stripped[-1] in " \t" else label
