"""Read JSON, or what Python prints for the same values, with the place of each value in the text."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from shared_core.support.regex import lazy_regex

__all__ = ["Key", "Node", "read_json"]

_LONGEST = 200_000
_DEEPEST = 40
_TOKEN = lazy_regex(
    r"\s*(?:(?P<mark>[{}\[\]:,])|(?P<string>\"(?>(?:[^\"\\]|\\.)*)\"|'(?>(?:[^'\\]|\\.)*)')"
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<word>true|false|null|True|False|None|NaN)\b)",
    re.DOTALL,
)
_WORDS = {"true": True, "True": True, "false": False, "False": False}


class Key(NamedTuple):
    """The name of a field, and its place with the quotes."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place.

    Attributes:
        written: as the text has it.
        value: text, number, truth value or ``None``; ``None`` for objects and lists.
        fields: of an object.
        items: of a list.
    """

    start: int
    end: int
    written: str = ""
    value: str | float | bool | None = None
    fields: dict[Key, Node] | None = None
    items: list[Node] | None = None

    @property
    def is_value(self) -> bool:
        """A known value: neither null, nor an object or list."""
        return self.value is not None


class _Failed(ValueError):
    """The text is no JSON."""


def read_json(text: str) -> Node | None:
    """Return the object or list that a text is, with the places of its values; ``None`` if it is neither.

    >>> node = read_json('[{"qty": 2}]')
    >>> [(key.text, node.written) for key, node in node.items[0].fields.items()]
    [('qty', '2')]
    """
    if len(text) > _LONGEST or text.lstrip()[:1] not in ("{", "[") or text.rstrip()[-1:] not in ("}", "]"):
        return None
    tokens = _tokens(text)
    try:
        node = _read(next(tokens), tokens, 0)
        return node if next(tokens, None) is None else None
    except (_Failed, StopIteration, RecursionError):
        return None


def _tokens(text: str) -> Iterator[re.Match[str]]:
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _Failed
        yield match
        at = match.end()


def _read(token: re.Match[str], tokens: Iterator[re.Match[str]], depth: int) -> Node:
    kind = token.lastgroup or ""
    start, end, written = token.start(kind), token.end(), token[kind]
    if kind == "mark" and written in "{[" and depth < _DEEPEST:
        return _read_object(start, tokens, depth) if written == "{" else _read_list(start, tokens, depth)
    if kind == "string":
        return Node(start, end, written, _text(written))
    if kind == "number":
        return Node(start, end, written, float(written) if re.search("[.eE]", written) else int(written))
    if kind == "word":
        return Node(start, end, written, _WORDS.get(written))
    raise _Failed


def _read_object(start: int, tokens: Iterator[re.Match[str]], depth: int) -> Node:
    fields: dict[Key, Node] = {}
    token = next(tokens)
    while token["mark"] != "}":
        if token["string"] is None or next(tokens)["mark"] != ":":
            raise _Failed
        fields[Key(_text(token["string"]), token.start("string"), token.end())] = _read(next(tokens), tokens, depth + 1)
        token = _after(tokens, "}")
    return Node(start, token.end(), fields=fields)


def _read_list(start: int, tokens: Iterator[re.Match[str]], depth: int) -> Node:
    items: list[Node] = []
    token = next(tokens)
    while token["mark"] != "]":
        items.append(_read(token, tokens, depth + 1))
        token = _after(tokens, "]")
    return Node(start, token.end(), items=items)


def _after(tokens: Iterator[re.Match[str]], close: str) -> re.Match[str]:
    """Return the token behind the comma after a value, or the mark that closes."""
    token = next(tokens)
    if token["mark"] == close:
        return token
    if token["mark"] != ",":
        raise _Failed
    return next(tokens)


def _text(written: str) -> str:
    try:
        found = json.loads(written, strict=False) if written[0] == '"' else ast.literal_eval(written)
    except (ValueError, SyntaxError):
        raise _Failed from None
    return str(found).encode("utf-8", "replace").decode()  # half of an emoji is no text
