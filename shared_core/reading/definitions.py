"""Find the sentence that defines what a question asks the meaning of: "A relay is a service that …"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from shared_core.reading.prepared import Asked
from shared_core.reading.rows import Entry, above, source_of, stems_of

LIKELY = 0.5
"""Probability from which on a definition that is asked for comes before what the network thinks best."""
_ASKS = re.compile(
    r"\W*(?:(?:so|and|but|exactly|please|can you|could you|tell me|explain|define),?\s+)*"
    r"(?:(?:what(?:['’]s|\s+(?:is|are|was|were))(?:\s+meant\s+by)?|what\s+do(?:es)?(?=.+\bmean\b))\s+)"
    r"(?P<term>(?:[\w.+#&/'’`*\"“”-]+\s+){0,4}?[\w.+#&/'’`*\"“”-]+?)"
    r"(?:\s+(?:in|of|for|on|with)\s+(?P<place>[^?]+?))?(?:\s+mean)?\s*\?*\s*",
    re.IGNORECASE,
)
_NO_TERM = re.compile(
    r"\b(?:your?|my|our|his|her|their|this|that|these|those|it|there|we|you|i|they|best|better|most|difference|default|not|to|of|for|in|on"
    r"|at|by|with|from|about|as|like|made|used|called|known|named)\b",
    re.IGNORECASE,
)
_BESIDE = re.compile(r"\s\([^()]+\)")
"""An abbreviation beside what it stands for."""
_ARTICLE = re.compile(r"(?:an?|the)\s+", re.IGNORECASE)
_BEFORE = r"[\W_]*(?:(?:an?|the|each|every|(?:in|with|within|for|when) [^,.;:\n]{2,60},(?:\s+(?:an?|the))?)\s+)?"
_JUDGES = (
    "(?:key|important|great|useful|powerful|good|easy|simple|common|popular|first|last|next|only|main|major|new|real|core"
    "|better|best|big|huge|few|lot|bit|must|way|part|default|same|case|reason|problem)"
)
"""What follows an article where something is judged, not defined: "Threads are a key part of it."."""
_SAYS = re.compile(
    r"[\s)*_`\"”'’]*(?:\](?:\([^()\s]*\)|\[[^\]\n]*\])?)?[\s)*_`\"”'’]*(?:\([^()\n]{1,120}\)[\s*_`]*)*(?:\[[^\]\n]*\][\s)*_`]*)*"
    r"(?:feature|option|setting|mode|protocol|service|tool|function|command|program|method|process)?[\s*_`]*"
    r"(?:(?:is|are|was|were|means?|refers?\s+to)(?:\s+(?:simply|just|basically|essentially|usually|generally|really))?\s+"
    rf"(?:(?:an?|the)\s+(?!{_JUDGES}\b)|(?:any|one\s+of|what|how|when|where|defined\s+as|used\s+(?:to|for)"
    r"|software|hardware|someone|something|anything)\b)"
    r"|(?:lets|allows?|enables?|describes?|represents?|stands?\s+for|consists?\s+of|helps?)\b"
    r"|(?:[-–—:]+)\s+(?=\w+\s+\w+\s+\w+))",
    re.IGNORECASE,
)


@lru_cache(maxsize=64)
def term_asked(question: str) -> tuple[str, str] | None:
    """Return the term whose meaning a question asks, and where, if it asks for nothing else.

    >>> term_asked("What is a relay in Vessen?"), term_asked("What is the default port?")
    (('relay', 'Vessen'), None)
    """
    found = _ASKS.fullmatch(_BESIDE.sub("", question))
    term = _ARTICLE.sub("", found["term"], count=1).strip("`*\"“”'’ ") if found else ""
    if not found or not term or _NO_TERM.search(term) or not len(stems_of(term)):
        return None
    return term, found["place"] or ""


def defines(term: str, sentence: str) -> bool:
    """Return whether a sentence says what a term is.

    >>> [defines("relay", said) for said in ("Relays are the servers between.", "The relay feature lets you roam.")]
    [True, True]
    >>> [defines("relay", said) for said in ("Relays are slow.", "A relay server is a box.", "A lamp is a relay.")]
    [False, False, False]
    """
    wanted = [*map(re.escape, term.split())]
    if not wanted:
        return False
    named = r"[\s_-]+".join(wanted)
    if re.fullmatch(r"\w+", wanted[-1]):  # the last word may be in the plural, or not
        singular = re.sub(r"(?<=[^s])s\Z", "", named)
        named = rf"{singular}(?:e?s)?\b"
    found = re.match(rf"{_BEFORE}[\W_]*{named}", sentence, re.IGNORECASE)
    return found is not None and _SAYS.match(sentence, found.end()) is not None


def of_terms_defined(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> dict[int, int]:
    """Return 1 for the best of the sentences that define what a question asks the meaning of, if there is one."""
    wanted = term_asked(asked.text)
    if wanted is None:
        return {}
    term, place = wanted
    where = {*stems_of(place).tolist()}

    def is_there(entry: Entry) -> bool:
        told = f"{above(entry.passage)}\n{source_of(entry.passage)}\n{entry.text}" if where else ""
        return where <= {*stems_of(told).tolist()}

    found = [i for i in kept if defines(term, entries[i].text) and is_there(entries[i])]
    return {max(found, key=lambda i: entries[i].candidate.score): 1} if found else {}
