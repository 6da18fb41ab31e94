"""Take the question out of what a model wrote when it was asked for one: out of JSON, tags, marks, labels and talk."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from shared_core.citation.sentences import split_sentences
from shared_core.conversation.phrases import words_of
from shared_core.lm.chat.thoughts import without_thoughts
from shared_core.support.regex import lazy_regex

_FENCE = lazy_regex(r"^\s*```\w*\s*$", re.M)
_TAGGED = lazy_regex(r"<((?:\w+[_-])?(?:question|query|rewritten|rewriting))>\s*(.*?)\s*</\1>", re.I | re.S)
_TAG = lazy_regex(r"</?[a-z][\w-]*>", re.I)
_KEY = lazy_regex(r"question|query|rewrit|standalone|condensed", re.I)
_OURS = lazy_regex(r"rewrit|standalone|condensed|reformulated|final|full|contextuali[sz]ed|new|output", re.I)
_LABEL = lazy_regex(
    r"(?:\b(?:the|a|my|your)\s+)?(?:\b(?:rewritten|standalone|stand-alone|condensed|reformulated|rephrased|full|"
    r"final|last|new|self-contained|complete)\s+){0,2}\b(?:question|query|version|rewriting|rewritten|standalone)"
    r"(?:\s+(?:is|would be))?"
    r"\s*[*_]*:[*_]*\s*",
    re.I,
)
_MARKS = "\"'“”„‘’‚«»‹›`*_# \t"
_BULLET = lazy_regex(r"^\s*(?:[-•>]|\d[.)])\s+")
_TALK = lazy_regex(
    r"(?:sure|certainly|of course|absolutely|okay|ok|yes|great|got it|understood|no problem|happy to help|thanks|"
    r"thank you|let me|here (?:is|are|it is|you go|you are)|here['’]s|i (?:have )?(?:rewrote|rewritten|replaced)|"
    r"i['’](?:ve|ll|d)\b|i hope|hope|feel free|please let|note(?: that)?|this (?:question|version|rewrit)|"
    r"the (?:rewritten|pronoun)|would you like|"
    r"is there anything|do you (?:want|need)|can i help|does (?:this|that) help|anything else)\b",
    re.I,
)
_ANSWER = lazy_regex(r"\banswer\s*[*_]*:[*_]*\s*\w", re.I)
_HEADING = lazy_regex(r"(?:the\s+)?(?:\w+\s+){0,2}(?:question|query|rewriting)\Z", re.I)
_ASIDE = lazy_regex(r"^\s*[(\[].*[)\]]\s*$")


def read_rewriting(reply: str) -> str:
    """Take the one question out of a model's reply; empty if it wrote none, several, or an answer as well.

    >>> read_rewriting("Sure! Here is the rewritten question: When does support for Windows 11 end?")
    'When does support for Windows 11 end?'
    >>> read_rewriting('{"question": "When does it end?"}'), read_rewriting("When does it end? It ends in 2031.")
    ('When does it end?', '')
    """
    text = _FENCE.sub("", without_thoughts(reply)).strip()
    if (value := _of_json(text)) is not None:
        return read_rewriting(value) if value else ""
    if tagged := list(_TAGGED.finditer(text)):
        ours = [m for m in tagged if _OURS.search(m[1])] or tagged
        return _one(m[2] for m in ours)
    return _of_prose(_TAG.sub(" ", text))


def _of_json(text: str) -> str | None:
    """Return the question that an object in JSON has, empty without exactly one; ``None`` if the text is no object."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        found = json.loads(text[start : end + 1])
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or any(re.search(r"answer", str(key), re.I) and found[key] for key in found):
        return ""
    fields = {str(key): value for key, value in found.items() if isinstance(value, str) and _KEY.search(str(key))}
    ours = [value for key, value in fields.items() if _OURS.search(key)] or list(fields.values())
    return _one(ours)


def _of_prose(text: str) -> str:
    """Return the question among sentences, behind a label or talk; without a question mark the only sentence."""
    if _ANSWER.search(text):
        return ""
    labels = list(_LABEL.finditer(text))
    behind = text[labels[-1].end() :] if labels else text
    if labels and not words_of(behind):
        behind = text[: labels[-1].start()]
    parts = [part for part in _parts(behind) if words_of(part) and not _ASIDE.match(part)]
    parts = [part for part in parts if not (part.endswith(":") or _TALK.match(part) or _HEADING.match(part))]
    asked = [part for part in parts if part.endswith("?")]
    return _one(asked if len(asked) == len(parts) else parts)


def _parts(text: str) -> list[str]:
    """Split a text at lines, ends of sentences, and colons before what is asked."""
    found: list[str] = []
    for line in filter(words_of, text.splitlines()):
        said = _bare(line)
        for start, end in split_sentences(said):
            part = _bare(said[start:end])
            lead, colon, rest = part.rpartition(": ")
            if colon and rest.endswith("?") and (_TALK.match(lead) or lead.lower().endswith("follows")):
                part = _bare(rest)
            found.append(part)
    return found


def _bare(text: str) -> str:
    return _BULLET.sub("", text.strip()).strip(_MARKS)


def _one(found: Iterable[str]) -> str:
    texts = list(dict.fromkeys(_bare(text) for text in found if words_of(text)))
    return texts[0] if len(texts) == 1 else ""
