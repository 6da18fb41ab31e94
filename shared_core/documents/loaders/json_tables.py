"""Read JSON Lines and JSON tables, and other JSON as text. A line that cannot be read costs that line, not the file."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from typing import Any

from shared_core.documents.loaders.config import block_headings
from shared_core.documents.loaders.extracted import Extracted, Problem
from shared_core.documents.loaders.limits import Budget, too_much
from shared_core.documents.loaders.rows import MAX_CELLS, SHORT, TEXT_COLUMNS, Row, as_text, below, has_words, row_text
from shared_core.errors import DocumentError
from shared_core.support.regex import lazy_regex

MAX_LINE_CHARACTERS = 8 * 2**20
"""Of JSON: parsed values take up to fifty times their length in memory."""

_JSON_BREAK = lazy_regex(  # strings and lists of numbers stay whole
    r'"(?>(?:[^"\\]|\\.)*)"|\[[^\[\]{}"]*+\]|\{\s*+\}|(?P<at>(?P<open>[{\[,])[ \t]*|(?P<close>[}\]]))'
)
_DEEPEST = 40  # spaces before a value


def load_jsonl(text: str, text_column: str | None, budget: Budget) -> Extracted:
    """Read one JSON object per line; ``row`` is the line's number. A malformed line is left out and reported.

    DocumentError if no line can be used, there is no text column, or the time is used up.
    """
    rows: list[Row] = []
    problems: list[Problem] = []
    cells = 0
    for number, line in enumerate(io.StringIO(text), 1):
        if number % 1000 == 0:
            budget.check()
        if not line.strip():
            continue
        value, problem = _json(line)
        if problem:
            problems.append(Problem(f"line {number} {problem}", "Each line must be one JSON object."))
        elif not isinstance(value, dict):
            problems.append(Problem(f"line {number} is not a JSON object", 'Wrap it: {"text": …}'))
        else:
            cells += len(value)
            if cells > MAX_CELLS:
                raise too_much("values", cells, MAX_CELLS)
            rows.append((number, value))
    if not rows and problems:
        raise DocumentError(f"No line can be used; {problems[0].message}.", hint=problems[0].hint)
    return as_text(rows, _columns(rows), text_column, problems, "line")


def load_json(text: str, text_column: str | None) -> Extracted | None:
    """Read a JSON file that is a list of objects as a table, as JSON Lines are; ``None`` for any other JSON.

    So is an object that holds two or more of them in a list, and else only single values, which are a text of their
    own. Without a text column they must be two or more, with words in their values; DocumentError if the user named one
    and the list has none of that name.
    """
    value, beside = _listed(_json(text)[0])
    if not isinstance(value, list) or not value or not all(isinstance(entry, dict) for entry in value):
        return None
    rows = list(enumerate(value, 1))
    columns = _columns(rows)
    has_texts = text_column is not None or not {name.lower() for name in columns}.isdisjoint(TEXT_COLUMNS)
    if not has_texts and (len(rows) < 2 or not has_words(rows)):
        return None
    return below(row_text(beside), as_text(rows, columns, text_column, [], "entry"))


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for _, values in rows for name in values))


def _listed(value: object) -> tuple[object, dict[str, Any]]:
    """Return the list of objects that an object holds, and the values beside it; any other value as it is."""
    if not isinstance(value, dict):
        return value, {}
    nested = [name for name, entry in value.items() if isinstance(entry, dict | list)]
    entries = value[nested[0]] if len(nested) == 1 else None
    if not isinstance(entries, list) or len(entries) < 2:
        return value, {}
    return entries, {name: entry for name, entry in value.items() if name != nested[0]}


def load_other_json(text: str) -> Extracted:
    """Read JSON that is no table: the file, with sections; one without line breaks is broken after each value."""
    if not (len(text) < SHORT or "\n" in text.strip() or _json(text)[1]):
        text = _broken(text)
    return Extracted(text, headings=tuple(block_headings(text)))


def _broken(text: str) -> str:
    """Break JSON after each value, indented by how deep it is."""
    depth = 0

    def part(match: re.Match[str]) -> str:
        nonlocal depth
        opens, closes = match["open"], match["close"]
        if not match["at"]:
            return match[0]
        depth += -1 if closes else opens != ","
        return f"{opens or ''}\n{' ' * min(depth, _DEEPEST)}{closes or ''}"

    return _JSON_BREAK.sub(part, text)


def _json(text: str) -> tuple[object, str]:
    """Return the value and, if there is none, the reason."""
    if len(text) > MAX_LINE_CHARACTERS:
        return None, f"has {len(text):,} characters, more than {MAX_LINE_CHARACTERS:,}"
    try:
        return json.loads(text), ""
    except (ValueError, RecursionError) as error:
        return None, f"is not valid JSON: {getattr(error, 'msg', '') or 'too deeply nested or too long a number'}"
