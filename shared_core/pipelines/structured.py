r"""Read replies in JSON or LaTeX, which some models write whatever form is asked for.

A model in its JSON mode says ``{"answer": "It costs €85.", "sources": [2]}``, one trained on sums
``\boxed{\text{It costs €85.}}``. Both are rewritten as the text that they stand for: claims in tags behind their
references, or prose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from shared_core.support.regex import lazy_regex

_DECLINES = "NO ANSWER"
_CLAIMS = ("claim", "statement", "fact")
_ANSWERS = (
    "answer", "finalanswer", "shortanswer", "response", "finalresponse", "text", "output", "result", "content", "reply",
    "conclusion", "message", "value",
)  # fmt: skip
_LISTS = ("claims", "statements", "facts", "answers", "results", "responses", "items", "pairs", "data")
_REFERENCES = (
    "reference", "references", "ref", "refs", "source", "sources", "citation", "citations", "cites", "cited", "quote",
    "quotes", "evidence", "sentence", "sentences", "id", "number",
)  # fmt: skip
_ASIDES = (
    "thought", "thoughts", "thinking", "reasoning", "explanation", "analysis", "rationale", "question", "query",
    "title", "confidence", "note", "notes", "comment", "language",
)  # fmt: skip
_FENCED = lazy_regex(r"```[\w+\-.]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_BEGINS = lazy_regex(r"\s*+[{\[]\s*+[\"{\[\]}]")
# A member of an object that was cut off, or is no valid JSON: only those with a whole text count.
_MEMBER = lazy_regex(r'"(\w{1,40})"\s*+:\s*+("(?>(?:[^"\\]|\\.)*)")', re.DOTALL)
_SENTENCE = lazy_regex(r"\s*\[?\s*S?(\d{1,6})\s*\]?\s*", re.IGNORECASE)
_QUOTE_WORDS = 3
"""Words of a quote at least; what is shorter names a document."""
_MACRO = lazy_regex(
    r"(?:(?:\$\$?|\\\[|\\\()\s*)?\\(?:boxed|fbox|text|textbf|textit|textrm|mathrm|mathbf)\s*"
    r"\{((?>(?:[^{}]|\{[^{}]*+\})*))\}(?:\s*(?:\$\$?|\\\]|\\\)))?"
)
_ESCAPED = lazy_regex(r"\\([%&#$_{}])")
_DEEP = 8  # macros within macros; lists within objects


def plain_reply(reply: str, count: int = 0) -> str:
    r"""Return the text that a reply stands for; any but those in JSON or LaTeX unchanged.

    Args:
        count: of the sentences that were numbered; a number above it names none.

    Returns:
        Claims with their references in tags, one to a line, prose where nothing names sentences, ``NO ANSWER`` where
        the answer is left empty; an empty text for JSON that holds no answer.

    >>> plain_reply('{"answer": "It costs €85.", "sources": [2]}', 3)
    '<reference>S2</reference><claim>It costs €85.</claim>'
    >>> plain_reply(r"$$\boxed{\text{It costs €85.}}$$")
    'It costs €85.'
    >>> plain_reply("It costs €85.")
    'It costs €85.'
    """
    found = _values(reply)
    if found is None:
        return _without_macros(reply)
    return "\n".join(_line(_without_macros(c), r, count) for c, r in _pairs(found))


def plain_text(reply: str) -> str:
    """Return the text that a reply stands for, without references; empty for JSON that cannot be read.

    >>> plain_text('{"answer": "It costs €85.", "sources": [2]}')
    'It costs €85.'
    """
    found = _values(reply)
    if found is None:
        return "" if reply.lstrip().startswith("{") else _without_macros(reply)
    return "\n".join(_without_macros(c) for c, _ in _pairs(found))


def _values(reply: str) -> list[object] | None:
    """Parse the JSON of a reply, be it fenced, several objects in a row or cut off; ``None`` if there is none."""
    fenced = [m[1] for m in _FENCED.finditer(reply) if _BEGINS.match(m[1])]
    text = "\n".join(fenced) if fenced else reply[_start(reply) :]
    if not _BEGINS.match(text):
        return None
    decoder = json.JSONDecoder(strict=False)  # models break lines within a text
    found: list[object] = []
    at = 0
    while at < len(text) and text[at] in "{[":
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            members = [{m[1]: json.loads(m[2], strict=False)} for m in _MEMBER.finditer(text, at) if _is_text(m[2])]
            merged: dict[str, object] = {}
            for member in members:
                merged = {**member, **merged}  # the first of a name
            return [*found, merged]
        found.append(value)
        while at < len(text) and text[at] in " \t\r\n,;":
            at += 1
    return found


def _is_text(literal: str) -> bool:
    try:
        json.loads(literal, strict=False)
    except ValueError:  # an escape that JSON lacks
        return False
    return True


def _start(reply: str) -> int:
    """Return where JSON begins: at once, or on a line of its own behind words such as "Here is the answer:"."""
    opened = re.search(r"(?m)^[ \t]*+(?=\{\s*+\"|\[\s*+[{\"])", reply)
    return opened.end() if opened else len(reply) - len(reply.lstrip())


_Pair = tuple[str, object]
"""A claim with its reference as JSON."""


def _pairs(value: object, depth: int = 0) -> Iterator[_Pair]:
    """Find claims and answers in parsed JSON, in order."""
    if isinstance(value, str):
        yield value, None
    elif isinstance(value, Sequence) and depth < _DEEP:
        for item in value:
            yield from _pairs(item, depth + 1)
    elif isinstance(value, Mapping) and depth < _DEEP:
        members = {re.sub(r"[\W_]", "", str(name)).casefold(): member for name, member in value.items()}
        reference = next((members[name] for name in _REFERENCES if members.get(name) not in (None, "", [])), None)
        named = next((name for name in (*_CLAIMS, *_ANSWERS, *_LISTS) if name in members), None)
        texts = [m for name, m in members.items() if isinstance(m, str) and name not in (*_REFERENCES, *_ASIDES)]
        answer = members[named] if named else texts[0] if len(texts) == 1 else ()
        if answer is None or answer == "" or (named in _LISTS and answer == []):
            yield _DECLINES, None
        elif isinstance(answer, (str, int, float)) and not isinstance(answer, bool):
            yield str(answer), reference
        else:
            for claim, own in _pairs(answer, depth + 1):
                yield claim, own if own is not None else reference


def _line(claim: str, reference: object, count: int) -> str:
    claim = " ".join(claim.split())
    cited = _reference(reference, count)
    return f"<reference>{cited}</reference><claim>{claim}</claim>" if cited and claim != _DECLINES else claim


def _reference(value: object, count: int) -> str:
    """Return what a reference names, as the form has it: numbers of sentences or a quote; empty if it is neither."""
    items = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    texts = [_reference_text(item) for item in items]
    numbers = [part for text in texts for part in re.split(r"[,;]|\band\b", text)]
    named = [int(m[1]) for part in numbers if (m := _SENTENCE.fullmatch(part))]
    if named and len(named) == len(numbers):
        return ", ".join(f"S{n}" for n in named) if all(1 <= n <= count for n in named) else ""
    quotes = [text for text in texts if len(text.split()) >= _QUOTE_WORDS]
    return " ".join(quotes[0].split()) if quotes else ""


def _reference_text(item: object) -> str:
    if isinstance(item, Mapping):
        found = (v for name, v in item.items() if re.sub(r"[\W_]", "", str(name)).casefold() in _REFERENCES)
        item = next(found, item.get("text"))
    return str(item) if isinstance(item, (str, int)) and not isinstance(item, bool) else ""


def _without_macros(text: str) -> str:
    r"""Take off ``\boxed{…}`` with what is within, and ``\text{…}`` around the whole; elsewhere it may be quoted."""
    if "\\boxed" not in text and not _MACRO.fullmatch(text.strip()):
        return text
    for _ in range(_DEEP):
        bare = _MACRO.sub(lambda m: m[1], text)
        if bare == text:
            return text
        text = _ESCAPED.sub(r"\1", bare)
    return text
