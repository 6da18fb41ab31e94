"""Find the entry whose name is asked for by what it does: "Which signal makes it reload its configuration?"

The network expects an answer in the sentence; the name of an option, a setting or a signal stands above its definition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from shared_core.reading.candidates import Candidate
from shared_core.reading.defaults import asks_default
from shared_core.reading.features import STOP_WORDS, stem
from shared_core.reading.places import above, innermost
from shared_core.reading.prepared import Asked
from shared_core.reading.questions import words
from shared_core.reading.rows import Entry
from shared_core.reading.signatures import parameter_at
from shared_core.support.options import find_options
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

_KIND = (
    r"(?:command|subcommand|option|flag|switch|setting|parameter|variable|function|method|class|filter|tag|signal|event"
    r"|plugin|module|argument|attribute|field|property|directive|keyword|exception|decorator|hook|key|utility|widget)s?"
)
_ASKS_NAME = lazy_regex(
    rf"\W*(?:(?:which|what)|(?:what|which) is the(?: name of the)?|how is the)(?: [\w-]+){{0,2}}? {_KIND}\b",
    re.IGNORECASE,
)
_NAME = lazy_regex(
    r"-{1,2}\w[\w-]*|[a-z$_@][\w.$:-]*(?:\(.*\))?|[A-Z][A-Z\d]+|[A-Za-z]\w*[_.]\w+|[A-Z][a-z\d]+(?:[A-Z][a-z\d]*)+"
)
"""A name of programs, which is no word of a heading."""
_FIELD = lazy_regex(
    r"\W*(?:[A-Z][\w-]*(?: [\w-]+){0,2}[*_`]*:[*_`]*(?:\s+[^\s;]+){0,4}"
    r"|(?i:default|type|deprecated|required|since|alias(?:es)?|environment variable|(?:allowed|default) values?)"
    r"[*_`]*:[*_`]*\s[^\n]*)\s*"
)
_LIGHT = r"(?:use[sd]?|hold|holds|call|called|need|want|turn|turns)"
_CAUSES = r"(?:make|let|cause|tell|allow|force)s?"
_NOTHING = lazy_regex(rf"\b(?:{_LIGHT}\b|{_CAUSES} (?:the )?[\w.-]+(?: to\b)?)", re.IGNORECASE)
"""Words that say nothing of what an entry does, with the one that is made to do it."""
_OWNER = lazy_regex(r"\sin (?:the )?[\w.-]+(?=\W*$)")
"""The product at the end of a question."""
_NEAR = 200
"""Characters between a name and its definition at most, for both to be quoted."""
_LEAST = 2
"""Words of the question in a definition at least."""


def is_field(entry: Entry) -> bool:
    """Return whether a candidate is a field of what it stands below: "Default: 3"."""
    return _FIELD.fullmatch(entry.text) is not None


def of_names_asked(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> tuple[list[int], list[int]]:
    """Leave out fields if a question asks for a name; also return what defines that name, if there is one such entry.

    Its sentence has the most content words of the question, two at least, and all that are not in the headings above;
    what follows the first of them in the question does so in the sentence ("removes tags" is not "removes the space
    between tags").
    """
    kind = _ASKS_NAME.match(asked.text)
    if not kind or asks_default(asked.text):
        return [*kept], []
    kept = [i for i in kept if not is_field(entries[i])]
    does = _NOTHING.sub(" ", asked.text[kind.end() :])
    shorter = _OWNER.sub("", does)
    does = shorter if len(_stems(shorter)) >= _LEAST else does  # "hauls in the rope"
    question = [*_stems(asked.text[: kind.end()]), *_stems(does)]
    held: dict[int, int] = {}
    for i in kept:
        passage = entries[i].passage
        if not _NAME.fullmatch(innermost(passage).strip("` ").split(",")[0].split(" ")[0]):
            continue
        sentence = _stems(entries[i].text)
        if {*question} <= {*sentence, *_stems(above(passage))} and _agrees(_stems(does), sentence):
            held[i] = len({*question} & {*sentence})
    most = max(held.values(), default=0)
    best = [i for i, number in held.items() if number == most >= _LEAST]
    return kept, best[:1] if len({entries[i].place for i in best}) == 1 else []


def from_name(question: str, passage: Passage, candidate: Candidate) -> Candidate:
    """Return a definition begun at the name above it, its short answer, if the question asks for that name.

    Only where the passage has the name on a line of its own not far above: a quote is one stretch of its passage.
    """
    name = innermost(passage)
    begun = (
        re.search(rf"^[`*]*{re.escape(name)}[`*]*$", passage.text[: candidate.start], re.MULTILINE) if name else None
    )
    far = begun is not None and candidate.start - begun.start() > _NEAR + len(name)
    if candidate.defines <= 0 or begun is None or far or not _ASKS_NAME.match(question) or asks_default(question):
        return candidate
    c, text = candidate, passage.text
    if name in text[c.start : c.end] or parameter_at(text, c.start, c.end):
        return candidate
    return replace(candidate, start=begun.start(), answer=begun.span())


def from_option(question: str, passage: Passage, candidate: Candidate) -> Candidate:
    """Return the first sentence of an option's definition begun at the option, unless the question names that.

    "Remove only what is ignored." says of ``-X`` what it seems to say of the command.
    """
    text, c, name = passage.text, candidate, innermost(passage)
    if not name.startswith("-") or {*find_options(question)} & {*find_options(name)}:
        return candidate
    begun = re.match(rf"\s*{re.escape(name)}[:`*]*\s+", text)
    return replace(c, start=0) if begun and begun.end() == c.start and len(name) <= _NEAR else candidate


def _agrees(question: Sequence[str], sentence: Sequence[str]) -> bool:
    """Return whether the first word of a question is followed by its second one in a sentence, if it is there."""
    pairs = [*pairwise(sentence)]
    return len(question) < 2 or question[0] not in sentence or (question[0], question[1]) in pairs


def _stems(text: str) -> list[str]:
    """Return the stems of the content words, in order, but for kinds of names."""
    parts = words(text.replace("_", " "))
    return [stem(word) for word in parts if word not in STOP_WORDS and not re.fullmatch(_KIND, word)]
