"""Check whether an answer's evidence is about a conversation's topic, and says what a follow-up asks."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from shared_core.citation.facts.dates import MONTH_NAMES, WEEKDAYS
from shared_core.conversation.numbered import LISTS, WORDS, has_its_number, numbers_in, singular
from shared_core.conversation.phrases import new_in, phrases_of, words_of
from shared_core.pipelines.evidence import cited_spans
from shared_core.reading.conflicts import gives_other_dimension
from shared_core.reading.features import stem
from shared_core.reading.told import gives_reason
from shared_core.support.regex import lazy_regex
from shared_core.types import Answer, Claim, Passage

_READ = 600  # characters before a quote
_MONTHS = "|".join(MONTH_NAMES)
_LENGTH = r"met(?:re|er)s?|kilomet\w+|centimet\w+|millimet\w+|km|cm|mm|m|miles?|feet|foot|ft|inch(?:es)?|yards?"
_TIME = r"seconds?|minutes?|hours?|days?|weeks?|months?|years?|decades?|centur\w+"
_AREA = r"square|hectares?|acres?|sq|km²|m²|km2|inhabitants|people|population|members|size|area|[gmkt]i?b|\w*bytes"
_MEASURES = {
    "high": f"{_LENGTH}|stor(?:ey|y|ie)s?|height|elevation|per|percent|%",
    "long": f"{_LENGTH}|{_TIME}|length|pages|words|characters|until|since|forever|permanent\\w*",
    "far": f"{_LENGTH}|{_TIME}|distance",
    "large": _AREA,
    "old": f"{_TIME}|age|aged|born|founded|built|\\d{{4}}",
    "heavy": r"kilo\w*|kg|grams?|g|tons?|tonnes?|pounds?|lbs?|weigh\w*|weight",
    "fast": r"knots?|mph|kph|km/h|per|speed|seconds?|minutes?|hours?",
    "often": r"times?|once|twice|every|each|daily|weekly|monthly|annually|yearly|hourly|per|whenever|always|never",
    "hot": r"degrees?|°\w*|celsius|fahrenheit|temperature",
}
_ALIKE = {"tall": "high", "deep": "high", "wide": "high", "thick": "high", "low": "high", "big": "large",
          "small": "large", "quickly": "fast", "frequently": "often", "cold": "hot", "warm": "hot", "soon": "long",
          "short": "long"}  # fmt: skip
_HOW = lazy_regex(rf"\bhow (?:very )?({'|'.join((*_MEASURES, *_ALIKE))})\b", re.I)
_WHY = lazy_regex(r"(?:^|\b(?:and|but|so|or)\s+)(?:why|for what reason|what (?:was|is) the reason|how come)\b", re.I)
_WHERE = lazy_regex(r"^\W*(?:(?:and|but|so|or)\s+)?where\b", re.I)
_PAST = lazy_regex(r"\bwhen (?:did|was|were)\b", re.I)
_ONLY_TIME = lazy_regex(
    rf"(?:\W|\b(?:on|in|at|and|the|of|to|from|until|every|{'|'.join(WEEKDAYS)}|{_MONTHS})s?\b|\d)+", re.I
)
_PLACED = lazy_regex(
    r"\b(?:in|at|on|onto|near|from|to|into|off|over|outside|inside|beside|between|along|behind|above|below|beneath|under|"
    r"opposite|around|across|through|throughout|within|beyond|towards?|of|north|south|east|west|here|there|home|abroad|"
    r"upstairs|downstairs|online|behind|next|ahead|by (?:the|an?)|via|\w*where\w*)\b"
    rf"(?!\W+(?:(?:the|early|late|mid)\W+)?(?:\d|{_MONTHS}|spring|summer|autumn|winter|\w+days?\b|"
    r"(?:most|all|some|every) \w+s\b))"
    r"|/|\.\w+\b|:",
    re.I,
)
"""Words before a place, but not before a time; paths, files' names and headings name places as well."""
_HABIT = lazy_regex(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days\b|\b(?:daily|weekly|every)\b", re.I)
_PRICE = lazy_regex(r"\bhow much\b.*\b(?:costs?|pay|price|charged?|fees?)\b|\bwhat\b.*\b(?:price|cost|fee)\b", re.I)
_MONEY = lazy_regex(
    r"[£$€¥₹]|\b(?:eur|usd|gbp|chf|kr|euros?|pounds?|dollars?|cents?|pence|francs?|crowns?|free|gratis|charge[ds]?|"
    r"prices?|priced|costs?|costing|fees?|fares?|paid|included|nothing|per ?cent|half)\b|%"
    rf"|(?<![\w:.,-])(?!(?:1[5-9]|20)\d\d\b)\d[\d.,]*(?![\d:]|-\d)(?!\s*(?:{_LENGTH}|{_TIME}|{_AREA}|[ap]\.?m|places?)\b)",
    re.I,
)
"""A sum of money, or a plain number that is no measure, time or year."""
_HOW_MUCH = lazy_regex(r"\bhow much (?:is|are|was|were|will|do|does|did|would|can|for|to)\b(?!.*\bweigh)", re.I)
_WHO = lazy_regex(r"^\W*(?:(?:and|but|so|or)\s+)?(?:by |for |from |to |with )?(?:who|whom|whose)\b", re.I)
_WHEN = lazy_regex(r"^\W*(?:(?:and|but|so|or)\s+)?(?:(?:since|until|by) )?(?:when|(?:at |from )?what time)\b", re.I)
_TIMED = lazy_regex(
    r"\d|\b(?:open(?:s|ed)?|clos(?:es?|ed)|always|never|ever|daily|weekly|monthly|yearly|every|before|after|during|until|"
    r"since|when|while|once|noon|midnight|morning|evening|night|today|weekends?|weekdays?|\w+days?|spring|summer|autumn|"
    rf"winter|{_MONTHS})\b",
    re.I,
)
_NUMBER = lazy_regex(
    r"\d|\b(?:no|none|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|hundreds?|thousands?|"
    r"dozens?|several|both|half|as many as)\b",
    re.I,
)
_COUNTED = lazy_regex(r"\bhow many (?:of the |more |other |such )?([a-z][\w-]*)(?:\s+([a-z][\w-]*))?", re.I)
_PRONOUN = lazy_regex(r"\W*(?:it|its|he|his|she|her|they|their|this|these|there)\b", re.I)
_VAGUE = WORDS["vague"]
_PLAIN = WORDS["plain"]
_LINES = [line.split() for name in ("forms", "alike") for line in LISTS[name].splitlines()]
_FORMS = {form: forms[0] for forms in _LINES for form in forms}


def is_about(answer: Answer, topics: Sequence[frozenset[str]]) -> bool:
    """Whether the evidence of each claim shown is about every topic.

    The topic's words must be in the claim, the passage or its title, and the claim itself must not speak of a namesake
    instead ("Tobin Aldreth" where "Perrin Aldreth" is the topic), nor of another number ("Windows 10" for "Windows
    11"). A claim that begins with a pronoun is read with the sentence before it.
    """
    wanted = [frozenset(map(singular, topic)) for topic in topics]
    by_id = {p.id: p for p in answer.passages}
    return all(_speaks_of(claim, by_id, topic) for claim in answer.kept_claims for topic in wanted)


def only_about(answer: Answer, topics: Sequence[frozenset[str]]) -> Answer:
    """Leave out claims behind the first that are about another number: one about Nova 5 where Nova 7 is the topic."""
    kept = answer.kept_claims
    if answer.abstained or not any(map(numbers_in, topics)):
        return answer
    other = [c for c in kept if not is_about(dataclasses.replace(answer, claims=(c,)), topics)]
    start = next((c.start for c in other), None)
    if start is None or list(kept[len(kept) - len(other) :]) != other or len(other) == len(kept):
        return answer
    claims = (
        dataclasses.replace(c, status="dropped", start=None, end=None) if c in other else c for c in answer.claims
    )
    return dataclasses.replace(answer, text=answer.text[:start].rstrip(), claims=tuple(claims))


def _speaks_of(claim: Claim, by_id: Mapping[str, Passage], topic: frozenset[str]) -> bool:
    cited = [(by_id[s.passage_id], s) for s in cited_spans(claim) if s.passage_id in by_id]
    # what is named only behind a quote is another topic: "Renewal in May. Excess 250." says nothing of the excess's
    texts = [
        f"{p.title} {p.metadata.get('section', '')} {p.metadata.get('source', '')} {p.text[: s.end]}" for p, s in cited
    ]
    if not topic <= {singular(w) for w in words_of(" ".join([claim.text, *texts]))}:
        return False
    heads = (f"{p.title} {p.metadata.get('section', '')}. {p.text[: s.start]}" for p, s in cited)
    if cited and not any(has_its_number(topic, claim.text, head) for head in heads):
        return False
    before = [_sentence_before(p.text, s.start) for p, s in cited] if _PRONOUN.match(claim.text) else []
    kind = topic - numbers_in(topic)
    names = [frozenset(map(singular, p.words - p.numbers)) for p in phrases_of(" ".join([*before, claim.text]))]
    namesakes = [n for n in names if len(n) > 1 and n & kind and not (kind <= n or n <= kind)]
    return not namesakes or any(kind <= n for n in names)


def _sentence_before(text: str, start: int) -> str:
    return re.split(r"(?<=[.?!])\s+", text[max(0, start - _READ) : start].rstrip())[-1]


def missing_in(answer: Answer, question: str, topics: Sequence[frozenset[str]], said: str = "") -> str:
    """Say what a full question asks for that the claims shown do not speak of; empty if nothing is missing.

    Every passage about the topic of a conversation fits its name; what is asked about it must be there too. "What was
    Senna Brode's salary?" is not answered by when she retired, "How large is the lake?" not by its depth, "Where does
    it meet?" not by "on Tuesdays".

    Args:
        answer: of the pipeline to ``question``.
        topics: words of the names that were put into it. Without any it was understood alone: then only the form of
            the answer is checked (a measure, a reason, a place, a price, a date), not its words.
        said: the follow-up as the user said it, whose own words are what is asked, if it has any.
    """
    missing = ""
    for claim in answer.kept_claims:
        if not (missing := _missing(claim, question, topics, said)):
            return ""
    return missing


def _missing(claim: Claim, question: str, topics: Sequence[frozenset[str]], user: str) -> str:
    quotes = [span.text for span in cited_spans(claim)]
    text, short = " ".join([claim.text, *quotes]), claim.short_answer or ""
    if measure := _HOW.search(question):
        word = measure[1].lower()
        units = _MEASURES[_ALIKE.get(word, word)]
        if not re.search(rf"(?<!\w)(?:\d[\d.,]*)?(?:{units}|{word}\w*)(?!\w)", text, re.I):
            return f"how {word}"
    if gives_other_dimension(question, text):
        return "that size"
    if _WHY.search(question) and not gives_reason(text):
        return "a reason"
    if _WHERE.search(question) and (not _PLACED.search(text) or (short and _ONLY_TIME.fullmatch(short))):
        return "a place"
    if short and _PRICE.search(question) and _counts(short, text, question):
        return "a price"
    if (_HOW_MUCH.search(question) or _PRICE.search(question)) and not _MONEY.search(text):
        return "a price"
    if short and _PAST.search(question) and _HABIT.search(short) and not any(c.isdigit() for c in short):
        return "a date"
    if not topics or not quotes:
        return ""
    said = {_root(w) for w in words_of(text)}
    if _HOW_MUCH.search(question) and all(_root(w) in said for topic in topics for w in topic):
        return ""  # "Juniors pay £12": a price, below the heading of the thing that has it
    if (counted := _COUNTED.search(question)) and not _holds(counted, said):
        return f"how many {counted[1]}"
    names = frozenset().union(*topics, *(p.words for p in phrases_of(question)))
    # "And the Gut Bridge?", "And version 3.11?": what is asked was said before
    left_out = not frozenset(words_of(user)) - names - _PLAIN - WORDS["numbers of"]
    asked = _content(question if left_out else user, names)
    if asked and not any(_root(w) in said for w in asked):
        return " or ".join(dict.fromkeys(asked))
    return ""


def form_missing_in(answer: Answer, question: str) -> str:
    """Say which form an answer to a question has that the first claim shown has not; empty if it has it.

    >>> form_missing_in(Answer("?", "…", (Claim("Coxes wear life jackets."),)), "How much is it for coxes?")
    'a price'
    """
    for claim in answer.kept_claims[:1]:
        text = " ".join([claim.text, *(span.text for span in cited_spans(claim))])
        if _WHO.search(question) and not new_in(phrases_of(text), phrases_of(question)):
            return "a name"
        if _WHEN.search(question) and not _TIMED.search(text):
            return "a time"
        if _COUNTED.search(question) and not _NUMBER.search(text):
            return "a number"
        return _missing(claim, question, (), "")
    return ""


def _content(question: str, names: frozenset[str]) -> list[str]:
    return [w for w in words_of(question) if w not in names | _VAGUE | _PLAIN and not w.isdigit()]


def _holds(counted: re.Match[str], said: set[str]) -> bool:
    words = [w.lower() for w in counted.groups() if w]
    return words[0] in _VAGUE | _PLAIN or any(_root(w) in said for w in words if w not in _PLAIN)


def _counts(short: str, text: str, question: str) -> bool:
    """Whether a number counts what the question itself names ("ten tickets"): no price of it."""
    unit = re.search(rf"{re.escape(short)}\s+([a-z]+)", text)
    return unit is not None and _root(unit[1]) in {_root(w) for w in words_of(question)}


def _root(word: str) -> str:
    return stem(_FORMS.get(word, word))
