"""Text from documents, file names and models, made safe to show: nothing in it can move a cursor or turn text around.

Terminals obey control characters (an escape sequence can clear the screen, retitle the window, or hide text), and
Unicode's formatting characters can show a text in another order than it has, or carry text that nobody sees.
"""

from __future__ import annotations

import json
import re
from typing import Any

from shared_core.support.regex import lazy_regex

_LINE_ENDS = lazy_regex("\r\n|[\r\x85\u2028\u2029]")
# C0 but for tab and line feed, delete, C1; surrogates, which no stream can hold.
_CONTROL = lazy_regex("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
# Marks, embeddings, overrides and isolates of direction; joiners of nothing; annotations; tags.
_MARKS = "\u061c\u180e\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
_INVISIBLE = lazy_regex(f"[{_MARKS}]")
_TO_ESCAPE = lazy_regex(f"[\x7f-\x9f\ud800-\udfff\u2028\u2029{_MARKS}]")


def to_printable(text: str) -> str:
    """The text as it can be shown: line ends as ``\\n``, control characters as ``�``, invisible ones left out."""
    return _INVISIBLE.sub("", _CONTROL.sub("\ufffd", _LINE_ENDS.sub("\n", text)))


def to_printable_line(text: str) -> str:
    """The same on one line: each run of white space is a space."""
    return " ".join(to_printable(text).split())


def to_printable_json(values: Any) -> str:
    """Indented JSON with nothing lost: what cannot be shown is escaped. ValueError if a figure is not finite."""
    return _TO_ESCAPE.sub(_escape, json.dumps(values, ensure_ascii=False, indent=2, allow_nan=False))


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1]
