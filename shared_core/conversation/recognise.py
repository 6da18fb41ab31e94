"""Recognise from words alone whether a question needs the conversation before it. English."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Literal

from shared_core.citation.english import AUXILIARIES
from shared_core.conversation.numbered import WORDS
from shared_core.conversation.phrases import phrases_of, words_of
from shared_core.reading.questions import asks_nothing
from shared_core.support.regex import lazy_regex

Kind = Literal["full", "open", "reference", "ellipsis", "about_answer", "nothing"]
"""``full``: can be understood alone; ``open``: names nothing, so that it may belong to the topic; ``reference``: has a
word that refers to something said before; ``ellipsis``: leaves out what was said before; ``about_answer``: asks about
the answer given; ``nothing``: asks nothing."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A question's relation to the conversation before it.

    >>> FollowUp("reference", "it", 9, 11).needs_history
    True

    Attributes:
        word: the words that refer or that are elliptic; empty for the others.
    """

    kind: Kind
    word: str = ""
    start: int = 0
    end: int = 0

    @property
    def needs_history(self) -> bool:
        """Whether the question alone cannot be answered."""
        return self.kind not in ("full", "open")


_REPLIES = WORDS["replies"]
_REPLY_CORE = _REPLIES - frozenset(
    "that was this is i it you all on very much a not of what do go well that's please".split()
)
_OBJECT = (
    r"(?:all of )?(?:it|that|this|those|these|them|the above|everything|your (?:last )?(?:answers?|reply|response))"
)
_TALK = r"(?:the|this|our) (?:whole )?(?:conversation|chat|discussion)"
_SAID = rf"(?:what (?:you|we|i) (?:just )?(?:said|wrote|told me|discussed|talked about)|{_TALK}|{_OBJECT})"
_MANNER = (
    r"(?:,?(?: but)? (?:up|again|(?:more )?briefly|short(?:er)?|simpl(?:er|y)|(?:more )?(?:slowly|clearly)|"
    r"please|for me|(?:in)?to \w+|as (?:a )?\w+(?: \w+)?|in (?:\w+ ){0,2}(?:words?|sentences?|"
    r"terms|detail|english|german|french|spanish|italian|chinese)))*"
)
_POLITE = (
    r"(?:(?:please|and|but|so|ok(?:ay)?|hm+|well|no|yes|sorry|thanks|thank you|can you|could you|would you)[,.!]? )*"
)
_ABOUT_ANSWER = lazy_regex(
    rf"{_POLITE}(?:"
    + "|".join(
        [
            rf"are (?:you|u)(?: \w+)? (?:sure|certain|confident|positive|serious)(?: (?:about|of) {_OBJECT})?",
            rf"how (?:sure|certain|confident|reliable) (?:are you|is (?:that|this|it))(?: (?:about|of) {_OBJECT})?",
            r"how (?:do|can|did) you know(?: (?:that|this|it))?",
            r"(?:is|was) (?:that|this|it)(?: \w+ly)? (?:right|true|correct|so|accurate|certain|a fact|all)",
            r"really|according to (?:whom|what)|who says(?: (?:so|that))?",
            rf"(?:summari[sz]e|sum up|recap|repeat|rephrase|paraphrase|reword|shorten|simplify|translate|clarify|"
            rf"elaborate(?: on)?|expand on|explain)(?: (?:briefly|again|to me))*(?: {_SAID})?{_MANNER}",
            rf"(?:give|write|make)(?: me)? (?:a|the) (?:\w+ )?(?:summary|recap)(?: of {_SAID})?",
            rf"(?:say|make|keep|put) {_OBJECT}{_MANNER}",
            r"what do you mean(?: by (?:that|this|it)| exactly)?",
            r"what (?:did (?:you|i) (?:just )?(?:say|ask|tell me|mean)|was (?:my|your)(?: \w+)? (?:question|answer))",
            r"(?:from )?where (?:did|do|have) you (?:get|find|read|got|found|have|take) (?:that|this|it)(?: from)?",
            rf"(?:(?:what|which)(?:'s| is| are| was| were)?|show(?: me)?|name|cite|give me) (?:your|the) "
            rf"(?:sources?|evidence|proof|citations?|references?)(?: (?:of|for) {_OBJECT})?",
            r"(?:that|this|it)(?:'s| is| was| sounds| seems| can(?:'t|not) be)(?:n't| not)? (?:wrong|right|true|false|"
            r"incorrect|correct|nonsense|strange|odd|what i (?:asked|meant|said))",
            r"(?:you're|you are|you were) (?:wrong|right|mistaken|sure|lying|joking|kidding)",
            r"i (?:do not|don't|can't|cannot) (?:believe|understand|get|follow)(?: (?:you|that|this|it))?",
            r"in (?:other|simple|simpler|plain|short|fewer) (?:words|terms|english)",
            r"shorter|simpler|longer|again|(?:more )?briefly|in short|in (?:german|english|french|spanish|italian)",
            rf"(?:try|think|check|look) again|double[- ]check(?: {_OBJECT})?",
        ]
    )
    + r")(?:,? (?:please|though|then|now|again|exactly|right|actually))*[\s.!?]*",
    re.IGNORECASE,
)

_PRONOUN = lazy_regex(
    r"\b(?:he|she|it|they|him|her|his|hers|its|their|theirs|them|himself|herself|itself)(?:'s|’s)?\b", re.I
)
_EMPTY_IT = lazy_regex(
    r"\b(?:is|was|isn't|wasn't|would|will|be|how)\W+it\W+(?:be\W+)?(?:\w+ly\W+)?(?:true|possible|safe|allowed|legal|"
    r"necessary|normal|common|worth|better|best|a good|okay|ok|important|easy|hard|difficult|raining|likely|required|"
    r"free|too late|time|a problem|mandatory|permitted|forbidden)\b"
    r"|\bdo(?:es)? it (?:take|cost|matter|mean|make sense) (?:for|when|if|that)\b"
    r"|\bdo(?:es)? it (?:matter|mean|make sense) to\b|\bwhat (?:does|did|would|will) it take to\b"
    r"|\b(?:make|makes|made|find|finds) it (?:\w+ly )?(?:possible|easy|easier|hard|harder|difficult|clear|worth)\b"
    r"|\bwhat time is it\b"
    r"|\b(?:what|how (?:long|much|many)\b[^?]*) (?:does|did|will|would) it (?:take|cost)s? [^?]*\bto\b"
    r"(?!\s+\w+(?: in| up)?\W*$)"  # of "how long did it take to build?" the object is "it"
    r"|\bit (?:is|was) (?:\w+ )?(?:that|who|when|where|said|known|possible|true|believed)\b",
    re.I,
)
_THAT = lazy_regex(
    r"(?:^|[,;]\s*|\b(?:and|but|or|so|is|was|are|were|do|does|did|of|about|after|before|by|on|in|at|for|with|to|from|like|"
    r"than|since|until|during|near|from|why|how|when|where|what|who|which|mean|means|did|has|had|can|could|would|will|"
    r"should|\w+ed)\s+)(?P<word>that|this|those|these)\b(?P<after>\s+\w+)?",
    re.I,
)
_OUR_OWN = frozenset("document documents manual guide text page site website file handbook book article app".split())
_NOW = frozenset("year month week morning evening afternoon day time century".split())
_SUBJECTS = frozenset("i you we the a an there he she it they my your".split())
_THERE = lazy_regex(r"\bthere\b", re.I)
_BEING = frozenset(
    "is are was were isn't aren't wasn't weren't be been any will would has have had exist exists".split()
)
_OTHERS = lazy_regex(
    "|".join(
        [
            r"\b(?:the\s+)?(?:first|second|third|fourth|fifth|last|next|previous|other|former|latter|same|smaller|larger|"
            r"bigger|older|newer|younger)\s+ones?\b",
            r"\bthe\s+(?:former|latter|other|others|two|three)\b(?!\s+[a-z])",
            r"\b(?:both|either|neither)(?:\s+of\s+(?:them|these|those))?(?=\s*\??$|\s+(?:was|were|is|are|have|had|do|did))",
            r"\b(?:which|that|this|the|any|each)\s+one\b|\b(?:one|ones)\s*\??$|\bthe\s+(?:same|aforementioned)\b",
            r"(?<=\bof )one\b(?!\s+of\b)|\b(?:others|another one|anything else|someone else|anyone else|else)\b",
            r"\b(?:since|until|by|before|after) then\b|\b(?:then|at (?:that|the) time|(?:in )?that year)(?=\s*\??$)",
            r"\bthereof\b|\btherein\b|\bsuch an?\b",
        ]
    ),
    re.I,
)
_LEAD = lazy_regex(r"^(?:ok(?:ay)?|yes|no|hm+|well|thanks|thank you|sorry|please|oh|ah|great|right)[,.!]\s+", re.I)
_AND = lazy_regex(r"^(?:and|but|or|so|also|then|plus|&)\b[,:]?\s*", re.I)
_WHAT_ABOUT = lazy_regex(
    r"^(?:(?:and|but|so|ok|okay|no)[,]?\s+)?(?:(?:what|how)\s+about"
    r"|i (?:meant|mean)(?! (?:wh|how|it|that|is|are|do|does)))\b\s*",
    re.I,
)
_BARE = lazy_regex(
    r"^(?:(?:and|but|or|so)\s+)?(?:who|(?:by |for |from |to |with )?whom|why|(?:by |from |since |until )?when|"
    r"where|how|what|which|from where|"
    r"why not|how (?:many|much|long|old|big|high|tall|far|deep|wide|thick|heavy|fast|large|hot|cold|often|so|come|late|"
    r"early)|(?:what|who|where) else|"
    r"what for|(?:what|and) then|what next|then what|what happened(?: then| next| afterwards| after that)?|which ones?)"
    r"(?:\s+(?:exactly|then|though|precisely|not))?\s*[?.!]*$",
    re.I,
)
_VERB = lazy_regex(
    rf"\b(?:{AUXILIARIES}|am|be|been|shall|might|who|what|when|where|why|how|which|whose|whom|tell|give|show|list|name|"
    r"explain|describe|find|add|define|compare|i|isn't|aren't|didn't|doesn't|don't|wasn't|weren't|can't|won't|what's|"
    r"who's|where's|how's|when's|there's|it's)\b",
    re.I,
)
_PREPOSITION = lazy_regex(
    r"^(?:in|on|at|for|with|without|by|from|to|of|about|after|before|since|until|during|under|over|per|as|between)\b",
    re.I,
)
_MORE = lazy_regex(
    r"^(?:please )?(?:(?:(?:tell|show|give) me )?(?:any |a bit |a little )?more(?: details?| info)?|details)"
    r"(?: please)?[\s.?!]*$",
    re.I,
)
_COMPARED = lazy_regex(
    r"^(?:and |but |so )?(?:which|who|what) (?:is|was|are|were|has|had) (?:more \w+|less \w+|bigger|larger|smaller|"
    r"older|younger|newer|longer|shorter|higher|taller|lower|deeper|faster|slower|heavier|lighter|cheaper|better|worse|"
    r"earlier|later|wider|stronger)\??$",
    re.I,
)
_SENTENCE_END = lazy_regex(r"(?<=[.?!])\s+")
_LONG, _SHORT = 30, 15  # words
_EMPTY = WORDS["vague"] | WORDS["plain"]
_CLAUSE = lazy_regex(r",\s|\b(?:and|but|or|because|if|that|then|so|while|when|until|unless|once|whether)\b", re.I)


def recognise(question: str) -> FollowUp:
    """Tell how far a question needs what was said before it.

    >>> recognise("And when was it closed?").kind, recognise("Are you sure?").kind, recognise("yes").kind
    ('reference', 'about_answer', 'nothing')
    >>> recognise("What about the second one?").kind, recognise("Who founded the Tide Museum?").kind
    ('reference', 'full')
    """
    text = question.strip()
    at = question.index(text) + _acknowledged(text)
    text = question[at:].rstrip()
    said = words_of(text)
    last = _SENTENCE_END.split(text)[-1].replace("’", "'")
    if len(said) <= _SHORT and _ABOUT_ANSWER.fullmatch(last):
        return FollowUp("about_answer")
    if _asks_nothing(text, said):
        return FollowUp("nothing")
    if len(said) > _LONG:  # long enough to name what it is about
        return FollowUp("full")
    if found := _ellipsis(text) or _reference(text):
        return dataclasses.replace(found, start=found.start + at, end=found.end + at)
    names = phrases_of(text)
    numbers = any(c.isdigit() for c in text)
    return FollowUp("full" if names or numbers or '"' in text or "“" in text else "open")


def names_only(text: str) -> bool:
    """Whether a message only names a thing, as to a search engine: a few words without a verb or a question mark."""
    return "?" not in text and not _VERB.search(text) and 1 <= len(words_of(text)) <= 4


def _acknowledged(text: str) -> int:
    """Return the length of the sentences at its head that ask nothing: "Thanks. How high is it?"."""
    start = 0
    for end in (m.end() for m in _SENTENCE_END.finditer(text)):
        if not _asks_nothing(text[start:end], words_of(text[start:end])):
            break
        start = end
    return start


def _asks_nothing(text: str, said: list[str]) -> bool:
    if asks_nothing(text) or not said:
        return True
    if len(said) == 1 and text.rstrip().endswith("?"):
        return False  # "really?", "right?" ask about the answer; "why?" about its topic
    return len(said) <= 6 and all(w in _REPLIES for w in said) and any(w in _REPLY_CORE for w in said)


def _ellipsis(text: str) -> FollowUp | None:
    """Find what leaves out its verb or its object: "and in 1904?", "what about the ferry?", "why?", "tell me more"."""
    bare = _LEAD.sub("", text)
    at = len(text) - len(bare)
    if _BARE.match(bare) or _MORE.match(bare):
        said = re.sub(r"^(?:and|but|or|so)\s+", "", bare, flags=re.I)
        return FollowUp("ellipsis", (said if _BARE.match(said) else bare).strip(" ?.!"), at, len(text))
    about = _WHAT_ABOUT.match(bare)
    lead = about or _AND.match(bare)
    rest = bare[lead.end() :] if lead else bare
    if _OTHERS.search(rest):
        return None  # "the second one" refers
    whole = rest.strip(" ?.!")
    if about and whole and not _PRONOUN.search(whole):
        return FollowUp("ellipsis", whole, at + about.end(), at + about.end() + len(whole))
    if whole and not _VERB.search(whole) and (lead or (_PREPOSITION.match(whole) and len(whole.split()) <= 5)):
        start = len(text) - len(rest)
        return FollowUp("ellipsis", whole, start, start + len(whole))
    return None


def _reference(text: str) -> FollowUp | None:
    """Find the first word that refers to something the question itself does not name before it."""
    searches = (
        _first_pronoun(text),
        _first_that(text),
        _first_there(text),
        _OTHERS.search(text),
        _COMPARED.match(text),
    )
    found = [m for m in searches if m]
    if not found:
        return None
    start, end = min((m.span("word") if "word" in m.re.groupindex else m.span()) for m in found)
    start, end = start, start + len(text[start:end].rstrip(" ?"))
    word = text[start:end]
    if _SENTENCE_END.search(text[:start]):
        return None  # a sentence before it says what it is about
    clauses = _CLAUSE.split(text[:start])
    if len(clauses) > 1 and any(
        len([w for w in words_of(c) if len(w) > 3 and w not in _EMPTY]) > 1 for c in clauses[:-1]
    ):
        return None  # so does a clause
    named = [p for p in phrases_of(text) if p.end <= start]
    persons = word.lower().startswith(("he", "she", "his", "him", "her"))
    if any(p.is_person if persons else True for p in named) and not _OTHERS.fullmatch(word):
        return None  # the question names what it refers to
    return FollowUp("reference", word, start, end)


def _first_pronoun(text: str) -> re.Match[str] | None:
    empty = [m.span() for m in _EMPTY_IT.finditer(text)]
    matches = _PRONOUN.finditer(text)
    return next((m for m in matches if not any(a <= m.start() and m.end() <= b for a, b in empty)), None)


def _first_that(text: str) -> re.Match[str] | None:
    for match in _THAT.finditer(text):
        after = (match["after"] or "").strip().lower()
        if after in _OUR_OWN or (match["word"].lower() == "this" and after in _NOW):
            continue
        verb_before = match.group().lower().startswith(("is ", "was ", "are ", "were "))
        if match["word"].lower() == "that" and after in _SUBJECTS and not verb_before:
            continue  # a conjunction
        return match
    return None


def _first_there(text: str) -> re.Match[str] | None:
    for match in _THERE.finditer(text):
        before, after = words_of(text[: match.start()])[-1:], words_of(text[match.end() :])[:1]
        if not (set(before) | set(after)) & _BEING or (not after and before and before[0] not in ("is", "are")):
            return match
    return None
