"""Find the sentence that defines what a question asks the meaning of: "A relay is a service that …"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from shared_core.citation.sentences import split_sentences
from shared_core.reading.features import stem
from shared_core.reading.places import above, innermost, source_of
from shared_core.reading.prepared import Asked
from shared_core.reading.questions import drop_parentheses
from shared_core.reading.rows import Entry, stems_of
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

LIKELY = 0.5
"""Probability from which on a definition that is asked for comes before what the network thinks best."""
_BY_MARK = lazy_regex(r"[-–—:]\s+\Z")
_NUMBERED = lazy_regex(r"(?:\d+(?:\.\d+)+[.)]?|\d+[.)])\s+")
_VERSION = lazy_regex(r"(?<=\S)\s*(?:@\d[\w.-]*|\bv\d[\w.-]*|\b\d+\.\d+\.\d+[\w.-]*)\s*$")
_WITH_SHORT = lazy_regex(r"(?P<long>[^()]+?)\s*\((?P<short>[^()]*[A-Z]{2}[^()]*)\)")
_WITH_ARGUMENTS = lazy_regex(r"([a-z][\w-]*)(?:\s+(?:[\[<{|][^\n]*|[A-Z][A-Z_]+[^\n]*|-{1,2}[a-z][^\n]*))")
"""A command with what it takes: "pop [--index] [<stash>]", "start UNIT..."."""
_HEADED = 2  # passages below such a heading that are read closely
_RUN_IN = lazy_regex(r"[\W_]*[^\W_][^.:;!?\n]{0,80}[.:][\s*_`”\"]*")
_BEGINNING = 4  # letters that a word and its stem share
_ASKS = lazy_regex(
    r"\W*(?:(?:so|and|but|exactly|please|can you|could you|tell me|explain|define),?\s+)*"
    r"(?:(?:what(?:['’]s|\s+(?:is|are|was|were))(?:\s+meant\s+by)?|what\s+counts\s+as|what\s+do(?:es)?(?=.+\bmean\b))\s+)"
    r"(?P<term>(?:[\w.+#&/'’`*\"“”-]+\s+){0,4}?[\w.+#&/'’`*\"“”-]+?)"
    r"(?:\s+(?:in|of|for|on|with|under|within|when)\s+(?P<place>[^?]+?))?(?:\s+mean)?\s*\?*\s*",
    re.IGNORECASE,
)
_ASIDE = lazy_regex(
    r"(?P<asks>.*?\b(?:counts as|meant by)\b[^,?]{1,200}), (?:when|where|if|which)\s[^?]+"
    r"|(?P<rest>.*?),? (?:as opposed to|in contrast (?:to|with)|as distinct from|unlike)\s[^?]+",
    re.IGNORECASE,
)
"""What a question says besides, which is not where the term is used."""
_NO_TERM = lazy_regex(
    r"\b(?:your?|my|our|his|her|their|this|that|these|those|it|there|we|you|i|they|best|better|most|difference|default|not|to|of|for|in|on"
    r"|at|by|with|from|about|as|like|made|used|called|known|named)\b",
    re.IGNORECASE,
)
_ARTICLE = lazy_regex(r"(?:an?|the)\s+", re.IGNORECASE)
_IN = r"(?:in|with|within|for|when) (?!the (?:example|code|listing|figure)|this )[^,.;:\n]{2,60},"
_BEFORE = rf"[\W_]*(?:(?:an?|the|each|every|{_IN}(?:\s+(?:an?|the))?)\s+)?"
_NAMED = lazy_regex(r"[^\W_]+")
_EVERY = lazy_regex(r"[\W_]*(?:each|every)\b", re.IGNORECASE)
_JUDGES = (
    "(?:key|important|great|useful|powerful|good|easy|simple|common|popular|first|last|next|only|main|major|new|real|core"
    "|better|best|big|huge|few|lot|bit|must|way|part|default|same|case|reason|problem)"
)
"""What follows an article where something is judged, not defined: "Threads are a key part of it."."""
_SAYS = lazy_regex(
    r"[\s)*_`\"”'’]*(?:\](?:\([^()\s]*\)|\[[^\]\n]*\])?)?[\s)*_`\"”'’]*(?:\([^()\n]{1,120}\)[\s*_`]*)*(?:\[[^\]\n]*\][\s)*_`]*)*"
    r"(?:feature|option|setting|mode|protocol|service|tool|function|command|program|method|process)?[\s*_`]*"
    r"(?:of\s+(?:an?|the|each|every)\s+[\w-]+\s+(?=(?:is|are)\b))?"
    r"(?:(?:in\s+general|generally|usually|typically|basically|essentially|simply)\s+)?"
    r"(?:(?:is|are|was|were|means?|refers?\s+to)(?:\s+(?:simply|just|basically|essentially|usually|generally|really))?\s+"
    rf"(?:(?:an?|the)\s+(?!{_JUDGES}\b)|(?:any|one\s+of|what|how|when|where|defined\s+as|used\s+(?:to|for)"
    r"|software|hardware|someone|something|anything)\b)"
    r"|(?:lets|allows?|enables?|describes?|represents?|stands?\s+for|consists?\s+of|helps?)\b"
    r"|(?:[-–—:]+)\s+(?=\S+(?:\s+\S+){4}))",
    re.IGNORECASE,
)


_TELLS_OF_TEXT = lazy_regex(
    r"[\W_]*(?:\w+\s+)?(?:"
    r"(?:this|these|the(?:\s+\w+)?\s+following|the\s+next|here|below)\b[^.]{0,60}?\b(?:documents?|pages?|sections?"
    r"|chapters?|guides?|topics?|references?|articles?|tutorials?|lists?|examples?|tables?|parts?|notes?|classes|views"
    r"|functions|methods|are)\b"
    r"|(?:an?|the)\s+(?:complete\s+|full\s+)?(?:list|overview|summary|reference|guide|introduction|tutorial|table"
    r"|collection)\s+(?:of|to|for|on)\b"
    r"|(?:[\w-]+\s+){1,3}(?:reference|documentation|overview|guide|tutorial|index)\W*\Z"
    r"|for\s+(?:more|further|an?\s+(?:introduction|overview))\b"
    r"|(?:table|listing|figure|chapter|appendix|section)\s+(?:\w+[.-])?\d[\w.-]*\s+(?:contains|lists|shows|gives|summari[sz]es"
    r"|describes|presents|illustrates|explains|covers)\b"
    r"|there\s+is\s+an?\s+new(?:er)?\s+(?:edition|version)\s+of\b[^.]{0,40}\bold\b)",
    re.IGNORECASE,
)
_NARRATES = lazy_regex(
    r"\b(?:so far|as (?:you|we)(?:['’]ve)? (?:saw|seen|learned|discussed|mentioned)"
    r"|we(?:['’]ve| have) (?:seen|discussed|looked)"
    r"|(?:previous|last|earlier) (?:chapter|section|lesson|example)|let['’]s)\b",
    re.IGNORECASE,
)
"""What a course says to lead over from what came before."""
_CALLS = lazy_regex(
    r"\b(?:call(?:s|ed)?|marks?|marked|means?|known as|refer(?:s|red)? to|term(?:s|ed)?|dubbed)\b", re.IGNORECASE
)
_NAMES_KIND = lazy_regex(r"[\W_]*(?:an?|the|any|how|when|where|someone|something)\b", re.IGNORECASE)


@lru_cache(maxsize=64)
def term_asked(question: str) -> tuple[str, str] | None:
    """Return the term whose meaning a question asks, and where, if it asks for nothing else.

    >>> term_asked("What is a relay in Vessen?"), term_asked("What is the default port?")
    (('relay', 'Vessen'), None)
    >>> term_asked("What counts as a relay under the by-laws of Vessen?")
    ('relay', 'the by-laws of Vessen')
    >>> term_asked("What is a relay, as opposed to a lamp?"), term_asked("What counts as dusk, when lamps must burn?")
    (('relay', ''), ('dusk', ''))
    >>> term_asked("What is the fee, if I pay late?")
    """
    found = _ASKS.fullmatch(_without_aside(drop_parentheses(" ".join(question.split()))))
    term = _ARTICLE.sub("", found["term"], count=1).strip("`*\"“”'’ ") if found else ""
    if not found or not term or _NO_TERM.search(term) or not len(stems_of(term)):
        return None
    return term, found["place"] or ""


def _without_aside(question: str) -> str:
    found = _ASIDE.match(question)
    return (found["asks"] or found["rest"]) if found else question


def defines(term: str, sentence: str) -> bool:
    """Return whether a sentence says what a term is.

    >>> [defines("relay", said) for said in ("Relays are the servers between.", "The relay feature lets you roam.")]
    [True, True]
    >>> defines("relay", "A relay in general refers to a box between two others.")
    True
    >>> [defines("relay", said) for said in ("Relays are slow.", "A relay server is a box.", "A lamp is a relay.")]
    [False, False, False]
    """
    end = _end_of_subject(term, sentence)
    return end > 0 and _SAYS.match(sentence, end) is not None


def states(term: str, sentence: str) -> bool:
    """Return whether a sentence says what a term is by a verb, not by a colon or a dash.

    >>> states("relay", "A relay is a box."), states("relay", "`relay`: the box that is used for it")
    (True, False)
    """
    said = _SAYS.match(sentence, end) if (end := _end_of_subject(term, sentence)) else None
    return said is not None and _BY_MARK.search(said[0]) is None


def holds_definition(term: str, text: str) -> bool:
    """Return whether some sentence of a text states what a term is."""
    first = _NAMED.search(term.lower())
    if first is None or stem(first[0])[:_BEGINNING] not in text.lower():
        return False
    return any(states(term, text[start:end]) for start, end in split_sentences(text))


def names_in_heading(heading: str) -> list[str]:
    """Return the names in a heading with a number, a version, or a long and a short name: without it, each by itself.

    >>> names_in_heading("2.2 Ledger of Ropes (LR)"), names_in_heading("3. Rope"), names_in_heading("404 Ropes")
    (['Ledger of Ropes', 'LR'], ['Rope'], [])
    >>> names_in_heading("haul @2.1.0"), names_in_heading("haul v3"), names_in_heading("Rope 66")
    (['haul'], ['haul'], [])
    >>> names_in_heading("haul [--fast] [<drum>]"), names_in_heading("haul DRUM...")
    (['haul'], ['haul'])
    """
    if command := _WITH_ARGUMENTS.fullmatch(heading):
        return [command[1]]
    name = _NUMBERED.sub("", heading, count=1) if _NUMBERED.match(heading) else _VERSION.sub("", heading, count=1)
    if both := _WITH_SHORT.fullmatch(name):
        return [both["long"], both["short"]]
    return [name] if name != heading else []


def is_headed(term: str, passage: Passage) -> bool:
    """Return whether the innermost heading above a passage is a term, but for a number, or one of two names for it."""
    wanted = _stems(term)
    heading = innermost(passage)
    return any(_stems(name) == wanted for name in (heading, *names_in_heading(heading)))


def _stems(text: str) -> set[int]:
    return {*stems_of(text).tolist()}


def find_definitions(question: str, passages: Sequence[Passage]) -> set[int]:
    """Return the numbers of the passages that state what a term is whose meaning a question asks."""
    asked = term_asked(question)
    return {i for i, p in enumerate(passages) if holds_definition(asked[0], p.text)} if asked else set()


def find_headed(question: str, passages: Sequence[Passage]) -> set[int]:
    """Return the numbers of the first passages below a heading that is the term whose meaning a question asks."""
    asked = term_asked(question)
    return {*[i for i, p in enumerate(passages) if asked and is_headed(asked[0], p)][:_HEADED]}


def _end_of_subject(term: str, sentence: str) -> int:
    """Return where a term ends that a sentence begins with, 0 if it does not."""
    wanted = _NAMED.findall(term.lower())
    number = max(len(wanted) - 1, 0)
    named = rf"{_BEFORE}[\W_]*(?P<named>(?:[^\W_]+[\s_-]+){{{number}}}[^\W_]+)"
    found = re.match(named, sentence, re.IGNORECASE)
    if not wanted or found is None or [*map(stem, _NAMED.findall(found["named"].lower()))] != [*map(stem, wanted)]:
        return 0
    return found.end()


def tells_of_text(sentence: str) -> bool:
    """Return whether a sentence says what a text is about, which defines nothing.

    >>> tells_of_text("This document explains all knots."), tells_of_text("A knot is a loop of rope.")
    (True, False)
    """
    return _TELLS_OF_TEXT.match(sentence) is not None


def may_define(term: str, sentence: str) -> bool:
    """Return whether the first sentence below a heading may say what that is.

    It does not if it tells of the text, or names it other than as what it is about.

    >>> [may_define("knot", said) for said in ("A loop of rope.", "This page lists knots.", "Vessen has four knots.")]
    [True, False, False]
    >>> may_define("knot", "All that we’ve tied so far was a loop of rope.")
    False
    >>> [may_define("knot", said) for said in ("We call such a loop a knot.", "The knot argument is a loop.")]
    [True, False]
    """
    if tells_of_text(sentence) or _NARRATES.search(sentence):
        return False
    if _end_of_subject(term, sentence):
        return defines(term, sentence)
    names_it = _stems(term) <= _stems(sentence)
    return not names_it or _NAMES_KIND.match(sentence) is not None or _CALLS.search(sentence) is not None


def _runs_in(term: str, entry: Entry) -> bool:
    """Return whether a sentence is the first behind a term that begins its line: "Relay. A box between two lamps."."""
    text, start = entry.passage.text, entry.candidate.start
    before = text[text.rfind("\n", 0, start) + 1 : start]
    named = _RUN_IN.fullmatch(before)
    return named is not None and (end := _end_of_subject(term, before)) > 0 and not _NAMED.search(before, end)


def of_terms_defined(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> dict[int, int]:
    """Return 1 for the best of the sentences that define what a question asks the meaning of, if there is one."""
    wanted = term_asked(asked.text)
    if wanted is None:
        return {}
    term, place = wanted
    where = _stems(place)

    def is_there(entry: Entry) -> bool:
        told = f"{above(entry.passage)}\n{source_of(entry.passage)}\n{entry.passage.text}" if where else ""
        return where <= _stems(told)

    found = [i for i in kept if defines(term, entries[i].text) and is_there(entries[i])]
    # "A relay is …" comes before "`relay`: …", an entry of one list of several, and that before "Relay. A box …"
    found = [i for i in found if states(term, entries[i].text)] or found
    found = [i for i in found if not _EVERY.match(entries[i].text)] or found  # "Every relay is …" tells a property
    found = found or [i for i in kept if _runs_in(term, entries[i]) and is_there(entries[i])]
    return {max(found, key=lambda i: entries[i].candidate.score): 1} if found else {}
