"""Whether an answer in a conversation is about the topic, and whether its evidence says what was asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from shared_core.conversation.phrases import phrases_of, words_of
from shared_core.reading.features import stem
from shared_core.types import Answer, Claim, Passage

_READ = 600  # characters before a quote
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
_HOW = re.compile(rf"\bhow (?:very )?({'|'.join((*_MEASURES, *_ALIKE))})\b", re.I)
_WHY = re.compile(r"(?:^|\b(?:and|but|so|or)\s+)(?:why|for what reason|what (?:was|is) the reason|how come)\b", re.I)
_REASON = re.compile(
    r"\b(?:because|since|as|so|for|due|owing|thanks|reasons?|caus\w+|why|after|when|in order|led|thus|"
    r"therefore|hence|result\w*|mean\w*|allow\w*|ensur\w*|help\w*|avoid\w*|prevent\w*|if|unless|to [a-z]+)\b",
    re.I,
)
_WHERE = re.compile(r"^\W*(?:(?:and|but|so|or)\s+)?where\b", re.I)
_PAST = re.compile(r"\bwhen (?:did|was|were)\b", re.I)
_ONLY_TIME = re.compile(
    r"(?:\W|\b(?:on|in|at|and|the|of|to|from|until|every|monday|tuesday|wednesday|thursday|friday|saturday|sunday|"
    r"january|february|march|april|may|june|july|august|september|october|november|december)s?\b|\d)+",
    re.I,
)
_HABIT = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days\b|\b(?:daily|weekly|every)\b", re.I)
_PRICE = re.compile(r"\bhow much\b.*\b(?:costs?|pay|price|charged?|fees?)\b|\bwhat\b.*\b(?:price|cost|fee)\b", re.I)
_COUNTED = re.compile(r"\bhow many (?:of the |more |other |such )?([a-z][\w-]*)(?:\s+([a-z][\w-]*))?", re.I)
_PRONOUN = re.compile(r"\W*(?:it|its|he|his|she|her|they|their|this|these|there)\b", re.I)
_VAGUE = frozenset(
    """do did does have had has take took taken come came go went gone get got make made give gave say said tell
    told know happen happened use used want need mean meant think thought work worked ask asked let put set keep
    kept please exactly really actually now today still ever also too there here then first last thing things
    kind sort type way ways lot bit some any many much more most other others another one ones something anything
    anyone someone everyone person people time times year years day number name called example possible
    different specific certain able""".split()
) - {"famous"}
_PLAIN = frozenset(
    """a an the of in on at to for from by with about and or but not no nor so if than as is are was were be been
    being am i me my we us our you your he him his she her it its they them their this that these those who whom
    whose what which when where why how can could will would shall should may might must up out off over into onto
    under between during before after since until while because through across against within without around long
    high old far large big tall deep wide fast often heavy isn't aren't wasn't don't doesn't didn't can't""".split()
)
_FORMS = {
    form: forms.split()[0]
    for forms in """die died death dead killed, build built building, sell sold sale sales, lay laid, buy bought
    purchase, write wrote written author, begin began begun beginning, lead led leader, run ran runs, win won winner,
    hold held, pay paid payment, leave left, speak spoke spoken, meet met meeting, lose lost loss losses, grow grew
    grown growth, choose chose chosen choice, draw drew drawn, drive drove driven driver, eat ate eaten, fall fell
    fallen, fight fought, fly flew flown, rise rose risen, sing sang sung, sink sank sunk, spend spent, steal stole
    stolen, stand stood, swim swam, wear wore worn, bear born birth, marry married marriage husband wife, live lived
    life inhabitants residents, see saw seen, find found, teach taught teacher, receive received receipt, apply
    application, succeed success successor""".split(",")
    for form in forms.split()
}


def is_about(answer: Answer, topics: Sequence[frozenset[str]]) -> bool:
    """Whether the evidence of each claim shown is about every topic.

    The topic's words must be in the claim, the passage or its title, and the claim itself must not speak of a namesake
    instead ("Tobin Aldreth" where "Perrin Aldreth" is the topic). A claim that begins with a pronoun is read with the
    sentence before it.
    """
    wanted = [frozenset(map(_form, topic)) for topic in topics]
    by_id = {p.id: p for p in answer.passages}
    return all(_speaks_of(claim, by_id, topic) for claim in answer.kept_claims for topic in wanted)


def _speaks_of(claim: Claim, by_id: Mapping[str, Passage], topic: frozenset[str]) -> bool:
    spans = [s for citation in claim.citations for s in citation.primary]
    cited = [(by_id[s.passage_id], s) for s in spans if s.passage_id in by_id]
    texts = [f"{p.title} {p.text} {p.metadata.get('source', '')}" for p, _ in cited]
    if not topic <= {_form(w) for w in words_of(" ".join([claim.text, *texts]))}:
        return False
    before = [_sentence_before(p.text, s.start) for p, s in cited] if _PRONOUN.match(claim.text) else []
    names = [frozenset(map(_form, p.words)) for p in phrases_of(" ".join([*before, claim.text]))]
    namesakes = [n for n in names if len(n) > 1 and n & topic and not (topic <= n or n <= topic)]
    return not namesakes or any(topic <= n for n in names)


def _sentence_before(text: str, start: int) -> str:
    return re.split(r"(?<=[.?!])\s+", text[max(0, start - _READ) : start].rstrip())[-1]


def _form(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word


def missing_in(answer: Answer, question: str, topics: Sequence[frozenset[str]], said: str = "") -> str:
    """Say what a full question asks for that the claims shown do not speak of; empty if nothing is missing.

    Every passage about the topic of a conversation fits its name; what is asked about it must be there too. "What was
    Senna Brode's salary?" is not answered by when she retired, "How large is the lake?" not by its depth, "Where does
    it meet?" not by "on Tuesdays".

    Args:
        answer: of the pipeline to ``question``.
        question: a full question.
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
    quotes = [span.text for citation in claim.citations for span in citation.primary]
    text, short = " ".join([claim.text, *quotes]), claim.short_answer or ""
    if measure := _HOW.search(question):
        word = measure[1].lower()
        units = _MEASURES[_ALIKE.get(word, word)]
        if not re.search(rf"(?<!\w)(?:\d[\d.,]*)?(?:{units}|{word}\w*)(?!\w)", text, re.I):
            return f"how {word}"
    if _WHY.search(question) and not _REASON.search(text):
        return "a reason"
    if short and _WHERE.search(question) and _ONLY_TIME.fullmatch(short):
        return "a place"
    if short and _PRICE.search(question) and _counts(short, text, question):
        return "a price"
    if short and _PAST.search(question) and _HABIT.search(short) and not any(c.isdigit() for c in short):
        return "a date"
    if not topics or not quotes:
        return ""
    said = {_root(w) for w in words_of(text)}
    if (counted := _COUNTED.search(question)) and not _holds(counted, said):
        return f"how many {counted[1]}"
    names = frozenset().union(*topics, *(p.words for p in phrases_of(question)))
    left_out = not frozenset(words_of(user)) - names - _PLAIN  # "And the Gut Bridge?": what is asked was said before
    asked = _content(question if left_out else user, names)
    if asked and not any(_root(w) in said for w in asked):
        return " or ".join(dict.fromkeys(asked))
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
