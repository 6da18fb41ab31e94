"""Read an amount in a question as the range that a sentence has it in: 3 days before as "less than 7 days before".

Documents state rules for ranges, and people ask about their own case. A range that is a condition or may be chosen says
something of each of its values ("parcels over 10 kg must …", "can be set from 35 to 60 °C"); "it weighs over 60 kg"
does not say that it weighs 80.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shared_core.citation.facts.ages import age_asked
from shared_core.citation.facts.quantities import UNITS, Quantity, quantities_of
from shared_core.reading.bands import Band
from shared_core.reading.language import word_list
from shared_core.reading.questions import content_stems
from shared_core.support.regex import lazy_regex

_LESS = "less|fewer|shorter|lower|colder|cooler|lighter|smaller|narrower|cheaper|slower|younger|newer"
_MORE = "more|[a-z]{3,}er"
_BOUND = lazy_regex(
    rf"\b(?:(?P<below>(?:{_LESS}) than"
    r"|under|below|up to(?: and including)?|at most|no(?:t)? (?:more|longer|higher|later|heavier|larger) than"
    r"|a maximum of|within)"
    rf"|(?P<above>(?:{_MORE}) than"
    r"|over|above|at least|no(?:t)? (?:less|fewer|shorter) than|a minimum of|exceeding|beyond))\s+\Z",
    re.IGNORECASE,
)
_INCLUDING = lazy_regex(r"up to|at |no|a m|within", re.IGNORECASE)
_BEHIND = lazy_regex(
    r"\s(?P<noun>[^\W\d_]+\s)?(?:or|and)\s(?:(?P<above>more|over|above|higher|longer|warmer|heavier|larger|upwards)"
    r"|less|fewer|below|under|lower|shorter|lighter)\b",
    re.IGNORECASE,
)
_TO = lazy_regex(r"\s?(?:-{1,2}|–|—|to|and|until|up to)\s?", re.IGNORECASE)
_FROM = lazy_regex(r"\b(?:between|from)\s+\Z", re.IGNORECASE)
_AHEAD = lazy_regex(r"\s(?:before|prior to|in advance|ahead|beforehand)\b", re.IGNORECASE)
_LATEST = lazy_regex(r"up to|no(?:t)? later than|until", re.IGNORECASE)
"""Of a time before something a least one: cancelling is free up to 14 days before."""
_NOUN = lazy_regex(r"\s([^\W\d_]{3,})")

_CONDITION = lazy_regex(r"\b(?:if|when|whenever|once|unless|while|who|that|whose)\b[^,;:]*\Z", re.IGNORECASE)
_FINITE = lazy_regex(
    r"\b(?:is|are|was|were|must|may|can|cannot|could|should|will|would|shall|needs?|requires?|costs?|gets?|pays?|have|has"
    r"|do|does|receives?|counts?|qualif(?:y|ies)|incurs?|earns?|loses?|fits?|takes?|goes|go|comes?|travels?|stays?|shows?"
    r"|stops?|starts?|applies|apply|becomes?|remains?|n['’]t)\b|\w{3,}ed\b",
    re.IGNORECASE,
)
_TELLING = lazy_regex(
    r"\b(?:is|are|was|were|has|have|had|took|lasts?|lasted|weighs?|weighed|costs?|measures?|holds?|contains?|handles?"
    r"|employs?|serves?|covers?|reach(?:es|ed)|rises?|rose|fell|makes?|made|sells?|sold|produces?|moves?|does|did|spent"
    r"|there|it|he|she|they|we|you|I|\w+ed)\b|\btakes\b",
    re.IGNORECASE,
)
_MODAL = lazy_regex(r"\b(?:must|may|can|cannot|should|will|need)\b", re.IGNORECASE)
_SUBJECT_WORDS = 4
_CHOSEN = lazy_regex(
    r"\b(?:sets?|setting|settable|adjust\w*|select\w*|choose|chosen|works?|operat\w+|stor(?:e|ed|age)|keep|kept|use[ds]?"
    r"|accept\w*|supports?|allow\w*|permit\w*|ranges?|var(?:y|ies)|valid|available|suitable)\b",
    re.IGNORECASE,
)
_CARRIES = lazy_regex(
    r"\b(?:carr(?:y|ies)|holds?|supports?|takes?|accepts?|allows?|withstands?|seats?|lifts?|tows?|fits?|admits?|bears?)\b"
    r"[^.;:]{0,40}\Z",
    re.IGNORECASE,
)
_PERMITTED = lazy_regex(
    r"\b(?:can|may) (?!(?:also |often )?(?:take|last|cost|reach|be|vary|rise|grow|live)\b)[^.;:]{0,40}\Z", re.IGNORECASE
)
_OF_SUCH = lazy_regex(
    r"\b(?:on|for|in|at|to|from|with|by)\s+(?:all |any |every )?(?:[\w-]+\s+)?[\w-]{2,}s\s+"
    r"(?:of\s+|with\s+|that are\s+)?\Z",
    re.IGNORECASE,
)
"""Before the range of things that a rule is for: "free on crossings of less than 45 minutes"."""
_POSSIBLE = lazy_regex(
    r"\b(?:can|may|must|could|free|possible|allowed|given|granted|return\w*|refund\w*)\b", re.IGNORECASE
)
_CAPACITY = lazy_regex(r"up to|at most|a maximum of|no(?:t)? more than", re.IGNORECASE)
_LONGEST = 1000  # characters of a sentence
_SENTENCE = lazy_regex(r"[^\n]+?(?:[.;!?](?=\s|\Z)|(?=\n|\Z))")
_AGO = lazy_regex(r" (?:ago|old)\b")
_AT = lazy_regex(r"\bat \Z", re.IGNORECASE)
_OF = lazy_regex(r"\bof \Z", re.IGNORECASE)
_MORE_THAN = lazy_regex(r"[a-z]+er than")  # "a trip longer than", but "a trip of more than"
_OWNER = lazy_regex(r"\b([^\W\d_]{3,}) of \Z")
_MEASURED = lazy_regex(
    r"\b(?:do|does|did|will|can) (?:[\w-]+ ){0,2}?([^\W\d_]{3,}) (?:weigh|cost|measure|last|take|carry|hold"
    r"|lift|tow|seat|fit|support|withstand) \Z",
    re.IGNORECASE,
)
_PLURALS = {"child": "children", "person": "people", "man": "men", "woman": "women"}
_ARTICLE = lazy_regex(r"\b(?:an?|the|my|our|your|this|that) \Z", re.IGNORECASE)
_ASIDE = content_stems(" ".join(word_list("beside_amounts"))) | content_stems("happen happens")


class _Range(NamedTuple):
    """A range in a sentence.

    Attributes:
        text: as it is written.
        band: its values in the base unit.
        stems: of the sentence and its heading.
        before: what of them is before the range.
        ahead: it is a time before something.
    """

    text: str
    band: Band
    stems: frozenset[str]
    before: str
    ahead: bool


def read_ranges(question: str, texts: Sequence[str]) -> str:
    """Return a question with its only amount in the words of the range that the texts have it in.

    The question stays as it is if a sentence as near to it has the amount itself, if it asks for a range, and if texts
    have several.

    >>> boiler = "Below 0.5 bar the boiler stops. It weighs over 30 kg."
    >>> read_ranges("Does the boiler stop at 0.4 bar?", [boiler]), read_ranges("Does it weigh 40 kg?", [boiler])
    ('Does the boiler stop below 0.5 bar?', 'Does it weigh 40 kg?')
    """
    amounts = [q for q in quantities_of(question) if not q.ordinal and not q.is_year]
    if len(amounts) != 1 or amounts[0].hedge or age_asked(question) is not None:
        return question
    (asked,) = amounts
    if _AGO.match(question, asked.end):
        return question
    kind, value = _kind_of(asked, question), _value_of(asked, question)
    if not kind or _BOUND.search(question[: asked.start]):
        return question
    words = content_stems(f"{question[: asked.start]} {question[asked.end :]}") - _ASIDE - {kind}
    ahead = _AHEAD.match(question, asked.end) is not None
    owner, measured = _owner_of(question, asked)
    shares = {text: len(words & content_stems(text)) for text in texts}
    found = [
        ((len(words & some.stems), shares[text]), some)
        for text in texts
        for some in _ranges_of(text, kind)
        if some.ahead == ahead and (not owner or owner & (content_stems(some.before) if measured else some.stems))
    ]
    shared = max((share for share, _ in found), default=(0, 0))
    best = {some.text: some.band for share, some in found if share == shared and some.band.holds(value)}
    if len({*best.values()}) != 1 or 2 * max(shared) < len(words):
        return question
    beside = ((text, stems) for text in texts for stems in _stems_beside(kind, value, text))
    if any((len(words & stems), shares[text]) >= shared for text, stems in beside):
        return question
    before, text = question[: asked.start], next(iter(best))
    before = before if text[:1] in "-−0123456789" else _AT.sub("", before)
    before = _OF.sub("", before) if _MORE_THAN.match(text) else before
    noun = _NOUN.match(question, asked.end) if kind in content_stems(text) else None  # "7 nights or longer" has it
    return f"{before}{text}{question[noun.end() if noun else asked.end :]}"


def _stems_beside(kind: str, value: float, text: str) -> Iterator[frozenset[str]]:
    """Yield the stems of the sentences that have an amount itself."""
    for said in (sentence.group() for sentence in _SENTENCE.finditer(text)):
        if len(said) <= _LONGEST and any(
            _kind_of(q, said) == kind and _value_of(q, said) == value for q in quantities_of(said)
        ):
            yield frozenset(content_stems(said))


def _owner_of(question: str, asked: Quantity) -> tuple[set[str], bool]:
    """Return the stem of what has the amount, and whether the question is if it has: "Does a parcel weigh 3 kg?".

    Of "a parcel of 3 kg" and "a 3 kg parcel" that is the stem of "parcel", too.
    """
    before = question[: asked.start]
    measured = _MEASURED.search(before)
    found = measured or _OWNER.search(before) or (_ARTICLE.search(before) and _NOUN.match(question, asked.end))
    stems = content_stems(f"{found[1]} {_PLURALS.get(found[1].lower(), '')}") if found else set[str]()
    return stems, measured is not None


def _kind_of(quantity: Quantity, text: str, end: int = 0) -> str:
    """Return the dimension of a unit, or the stem of what is counted; "" if there is neither."""
    if quantity.unit:
        return UNITS[quantity.unit].dimension
    noun = _NOUN.match(text, end or quantity.end)
    return next(iter(content_stems(noun[1])), "") if noun and quantity.text[:1].isdigit() else ""


def _value_of(quantity: Quantity, text: str, unit: str = "") -> float:
    """Return a value in the base unit of its dimension, with the sign that it is written with."""
    value = max(abs(v) for v in quantity.values) if "," in quantity.text else min(abs(v) for v in quantity.values)
    signed = text[quantity.start] in "-−" or re.search(r"(?:(?<![\w\d])[-−]|\bminus )\Z", text[: quantity.start])
    value = -value if signed else value
    known = UNITS.get(quantity.unit or unit)
    return known.base(value) if known else value


def _ranges_of(text: str, kind: str) -> Iterator[_Range]:
    """Yield the ranges of a text, of one kind of amounts, that say something of each of their values."""
    heading = ""
    for sentence in _SENTENCE.finditer(text):
        said = sentence.group()
        heading = said if said.startswith("#") else heading
        if len(said) > _LONGEST:
            continue
        found = [q for q in quantities_of(said) if not q.ordinal and not q.is_year]
        stems = frozenset(content_stems(f"{heading} {said}")) if found else frozenset[str]()
        for first, last, start, end, band in _bands_of(said, found):
            if band.dimension != kind:
                continue
            ahead = _AHEAD.match(said, end) is not None
            if ahead and _LATEST.match(said, start) and not first:
                band = band._replace(lowest=band.highest, highest=math.inf)
            counted = not last.unit
            if _is_condition(said, start, end, counted=counted) or _may_be_chosen(said, start, two=first is not None):
                written = f"{said[start].lower()}{said[start + 1 : end]}"
                yield _Range(written, band, stems, f"{heading} {said[:start]}", ahead)


def _bands_of(said: str, found: Sequence[Quantity]) -> Iterator[tuple[Quantity | None, Quantity, int, int, Band]]:
    """Yield the ranges of a sentence: their quantities (the first is ``None`` for a bound), places and values."""
    number = 0
    while number < len(found):
        one, two = found[number], found[number + 1] if number + 1 < len(found) else None
        number += 1
        if two is not None and _TO.fullmatch(said, one.end, two.start) and (one.unit in ("", two.unit)):
            number += 1
            kind = _kind_of(two, said)
            low, high = _value_of(one, said, two.unit), _value_of(two, said)
            begun = _FROM.search(said[: one.start])
            if kind and low < high:
                yield one, two, begun.start() if begun else one.start, two.end, Band(low, high, kind)
            continue
        bound, behind = _BOUND.search(said[: one.start]), _BEHIND.match(said, one.end)
        kind, value = (
            _kind_of(one, said, behind.end() if behind and not behind["noun"] else one.end),
            _value_of(one, said),
        )
        if not kind or (bound is None) == (behind is None):
            continue
        match = bound or behind
        assert match is not None
        start, end = (match.start(), one.end) if bound else (one.start, match.end())
        included = behind is not None or _INCLUDING.match(match.group()) is not None
        above = match["above"] is not None
        band = Band(value, math.inf, kind, included, True) if above else Band(-math.inf, value, kind, True, included)
        yield None, one, start, end, band


def _is_condition(said: str, start: int, end: int, *, counted: bool) -> bool:
    """Return whether a range tells when something holds: it begins a sentence, or belongs to its subject or an "if"."""
    before, behind = said[:start], said[end:]
    if said.lstrip().startswith("#"):
        return True
    if _CONDITION.search(before) or _OF_SUCH.search(before):
        return True
    if _AHEAD.match(behind) and _POSSIBLE.search(before):
        return True
    clause = re.split(r"[,;:(]\s", before)[-1]
    words = re.findall(r"[^\W\d_][\w'’-]*", clause)
    if not words and counted:
        return _MODAL.search(behind) is not None
    if not words:
        return not behind.startswith(" of ") and len(behind.split()) > 1
    return len(words) <= _SUBJECT_WORDS and not _TELLING.search(clause) and _FINITE.search(behind) is not None


def _may_be_chosen(said: str, start: int, *, two: bool) -> bool:
    """Return whether each value of a range is possible: it can be set, is accepted, or is carried."""
    before = said[:start]
    if two:
        return _CHOSEN.search(before) is not None
    may = _CARRIES.search(before) or _PERMITTED.search(before)
    return _CAPACITY.match(said, start) is not None and may is not None
