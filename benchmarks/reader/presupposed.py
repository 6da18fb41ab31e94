"""Questions whose passage says what they presuppose, and not what they ask.

"The museum was moved to Ellisk." has all words of "Why was the museum moved to Ellisk?" and no reason. Three kinds are
made of passages and of questions that people asked, each beside questions of the same form that are answered:

- ``removed``: the answer of a question is taken out of its paragraph, with the preposition or conjunction before it;
- ``stated``: a sentence is turned into a question for its reason, time, place or agent, whether it has such or not;
- ``otherwise``: a question for a time, place, person, or reason is made one for another of these.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.reader.data import QuestionRow
from shared_core.citation.sentences import split_sentences
from shared_core.reading.told import gives_reason
from shared_core.types import Passage

_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DATE = (
    rf"(?:(?:early|late|mid-?)\s*)?(?:{_MONTH}(?:\s+\d{{1,2}})?(?:,?\s+\d{{4}})?"
    rf"|\d{{1,2}}\s+{_MONTH}(?:\s+\d{{4}})?|\d{{4}}s?)"
)
_NAMED = r"(?:the\s+)?[A-Z][\w'’.-]*(?:\s+(?:of\s+|the\s+|de\s+)?[A-Z][\w'’-]*)*"
_ENDS = r"(?=[.,;]|\s+(?:and|but|as|to|in|on|at|by|for|with|when|where|which|who|after|before|while)\b|\s*$)"
_ADJUNCTS: Mapping[str, re.Pattern[str]] = {
    "why": re.compile(
        r",?\s+(?:because(?: of)?|due to|owing to|in order to|so that)\s+(?P<told>[^.;]{8,140})(?=[.;]|$)"
    ),
    "when": re.compile(rf",?\s+(?:in|on|since|by|until|during|from)\s+(?P<told>{_DATE}){_ENDS}"),
    "where": re.compile(rf",?\s+(?:in|at|near|on)\s+(?P<told>(?!{_MONTH}\b){_NAMED}(?:,\s+[A-Z]\w+)?){_ENDS}"),
    "who": re.compile(rf",?\s+by\s+(?P<told>(?!{_MONTH}\b){_NAMED}){_ENDS}"),
}
"""Parts of a sentence that tell a reason, time, place or agent: they can be taken out."""
_MAY_TELL: Mapping[str, re.Pattern[str]] = {
    "when": re.compile(
        r"\d|\b(?:when|after|before|until|during|while|since|century|day|days|week|weeks|month|months|year|years|once|as"
        rf"|today|now|later|soon|time|first|then|date|{_MONTH})\b",
        re.IGNORECASE,
    ),
    "where": re.compile(r"\b(?:in|at|near|on|inside|within|under|from|into|where|here|there|to|between|along)\b"),
    "who": re.compile(r"\bby\b|\b(?:who|they|he|she|we|his|her|their)\b"),
    "what if": re.compile(r"\b(?:if|when|unless|otherwise|whether|or|without|fail\w*|error\w*|caus\w+|lead\w*)\b"),
}
"""Words that may tell it in other ways: a sentence with one does not stand for a passage without an answer."""
_AUXILIARY = r"is|are|was|were|cannot|can|could|must|should|may|might|will|would|has been|have been|had been"
_STATED = re.compile(
    rf"^(?P<subject>[A-Z][^,;:()\"*|]{{2,70}}?)\s+(?P<verb>{_AUXILIARY})\s+(?P<rest>[^\n]{{8,240}}?)[.]?$"
)
_NO_SUBJECT = re.compile(
    r"\b(?:it|he|she|they|this|that|these|those|there|which|who|what|where|when|if|as|because|while|although|but|and|or"
    r"|here|so|not|was|were|is|are|had|has|have|did|does|do|in|on|at|by|after|before|during|since|i)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,;:(–—]|\s(?:and|but|or|which|who|while|although|whereas|because|so that|in order to|due to)\s")
_PARTICIPLE = re.compile(r"^(?:\w+ly\s+)?(?:\w+ed|\w+en|built|made|held|found|sold|sent|won|lost|led|written|drawn)\b")
_FIRST_PERSON = ((re.compile(r"\byou are\b"), "I am"), (re.compile(r"\byour\b"), "my"), (re.compile(r"\byou\b"), "I"))
_BEFORE = re.compile(
    r",?\s+(?:in|on|at|by|from|for|since|during|because of|because|due to|owing to|near|until|after|before|to)\s+"
    r"(?:the\s+|about\s+|around\s+)?$"
)
_AFTER = re.compile(_ENDS)
_ASKED = re.compile(
    r"^(?P<wh>(?:In|On|At|During|By)\s+(?:what|which)\s+\w+|When|Where|Why|Who(?=\s+(?:was|were)\b.+\bby\?$)|How)\s+"
    r"(?P<verb>did|was|were|is|are|does|do|can|must|should)\s+(?P<rest>.{8,160})\?$"
)
_TIME = re.compile(r"\b(?:when|year|month|day|date|century|decade)\b", re.IGNORECASE)
_PLACE = re.compile(r"\b(?:where|city|country|place|state|town)\b", re.IGNORECASE)
_AT_MOST = 16  # words of a statement that become a question
_WHY = re.compile(r"why\b", re.IGNORECASE)
_ALONE = 0.25  # share of the paragraphs without an answered question that get an open one
_QUESTIONS = 3  # answered questions kept of a paragraph


@dataclass(frozen=True, slots=True)
class Made:
    """Questions, and the passages that they are about."""

    passages: list[Passage]
    questions: list[QuestionRow]


def make(passages: Mapping[str, Passage], asked: Sequence[QuestionRow], rng: random.Random) -> Made:
    """Make the three kinds, each of other passages, so that no passage says what was taken out of another.

    Args:
        passages: by id.
        asked: people's questions about them.
        rng: decides what becomes of each passage.
    """
    by_passage: dict[str, list[QuestionRow]] = {}
    for row in asked:
        by_passage.setdefault(row.passage, []).append(row)
    small = _small_words(passages)
    made = Made([], [])
    for key, passage in passages.items():
        kind, rows = rng.random(), by_passage.get(key, [])
        if kind < 0.4 and rows:
            found = _removed(passage, rows, rng)
        elif kind < 0.6 and rows:
            found = passage, _otherwise(passage, rows, rng)
        else:
            found = passage, list(_stated(passage, small, rng))
        if found and found[0] is passage:  # people's few questions for reasons, beside the many open ones
            found[1].extend(row for row in rows if row.spans and _WHY.match(row.question) and row not in found[1])
        if found and found[1]:
            made.passages.append(found[0])
            made.questions.extend(found[1])
    return made


def _removed(
    passage: Passage, rows: Sequence[QuestionRow], rng: random.Random
) -> tuple[Passage, list[QuestionRow]] | None:
    """Take the answer of one question out of the paragraph; others that are still answered stay."""
    for row in rng.sample(list(rows), len(rows)):
        start, end = row.spans[0] if row.spans else (0, 0)
        before = _BEFORE.search(passage.text[:start]) if row.spans else None
        if before is None or not _AFTER.match(passage.text, end):
            continue
        cut = before.start()
        text = passage.text[:cut] + passage.text[end:]
        if any(answer in text for answer in row.answers):
            continue
        others = [moved for other in rows if other is not row and (moved := _moved(other, cut, end))]
        kept = rng.sample(others, min(_QUESTIONS, len(others)))
        return replace(passage, text=text), [QuestionRow(row.question, row.passage, (), ()), *kept]
    return None


def _moved(row: QuestionRow, start: int, end: int) -> QuestionRow | None:
    """Move the answers of a question by what was taken out; ``None`` if that holds one, or it has none."""
    if not row.spans or any(a < end and b > start for a, b in row.spans):
        return None
    shift = end - start
    return replace(row, spans=tuple((a - shift, b - shift) if a >= end else (a, b) for a, b in row.spans))


def _otherwise(passage: Passage, rows: Sequence[QuestionRow], rng: random.Random) -> list[QuestionRow]:
    """Ask for another circumstance of what people asked about, which the paragraph does not tell by any sign."""
    out: list[QuestionRow] = []
    for row in rows:
        match = _ASKED.match(row.question)
        if match is None or not row.spans:
            continue
        start, end = row.spans[0]
        near = passage.text[max(0, start - 250) : end + 250]
        has = "when" if _TIME.search(match["wh"]) else "where" if _PLACE.search(match["wh"]) else match["wh"].lower()
        fitting = [kind for kind in ("why", "when", "where") if kind != has and not _may_tell(kind, near)]
        if fitting:
            question = f"{rng.choice(fitting).capitalize()} {match['verb']} {match['rest']}?"
            out.append(QuestionRow(question, row.passage, (), ()))
            out.append(row)
    return out


def _may_tell(kind: str, text: str) -> bool:
    return gives_reason(text) if kind == "why" else _MAY_TELL[kind].search(text) is not None


def _stated(passage: Passage, small: Mapping[str, bool], rng: random.Random) -> Iterator[QuestionRow]:
    """Turn a few sentences into questions: as many that are answered as are not, where both can be made."""
    spans = split_sentences(passage.text)
    answered: list[QuestionRow] = []
    open_ones: list[QuestionRow] = []
    for i, (start, end) in enumerate(spans):
        match = _STATED.match(passage.text[start:end].strip())
        if match is None or _NO_SUBJECT.search(match["subject"]):
            continue
        near = passage.text[spans[max(0, i - 1)][0] : spans[min(len(spans) - 1, i + 1)][1]]
        for kind in ("why", "when", "where", "who", "what if"):
            asked = _question(kind, match, small, rng)
            told = _ADJUNCTS[kind].search(passage.text, start, end) if kind in _ADJUNCTS else None
            if asked is None:
                continue
            if told:
                a, b = told.span("told")
                answered.append(QuestionRow(asked, passage.id, (passage.text[a:b],), ((a, b),)))
            elif not _may_tell(kind, near):
                open_ones.append(QuestionRow(asked, passage.id, (), ()))
    rng.shuffle(answered)
    rng.shuffle(open_ones)
    yield from answered[:2]
    yield from open_ones[: len(answered) if answered else int(rng.random() < _ALONE)]


def _question(kind: str, match: re.Match[str], small: Mapping[str, bool], rng: random.Random) -> str | None:
    """Ask for the circumstance ``kind`` of a statement; ``None`` if no question of this kind can be made of it."""
    subject, verb, rest = match["subject"], match["verb"], match["rest"]
    first = subject.split()[0]
    if small.get(first.lower(), False):
        subject = subject[0].lower() + subject[1:]
    for pattern in _ADJUNCTS.values():
        if pattern is _ADJUNCTS.get(kind):  # what is asked for is left out
            rest = pattern.sub("", rest)
    rest = _CLAUSE.split(rest)[0].strip()
    if len(rest.split()) < 2 or len(f"{subject} {rest}".split()) > _AT_MOST:
        return None
    helper, _, more = verb.partition(" ")
    rest = f"{more} {rest}".strip()
    if helper == "cannot":
        helper = rng.choice(("can't", "can't", "cannot"))
    if kind == "who":
        if helper not in ("is", "are", "was", "were") or not _PARTICIPLE.match(rest):
            return None
        text = f"Who {helper} {subject} {rest} by?"
    elif kind == "what if":
        if helper not in ("is", "are") or not _PARTICIPLE.match(rest):
            return None
        text = f"What happens if {subject} {helper} not {rest}?"
    else:
        text = f"{kind.capitalize()} {helper} {subject} {rest}?"
    for pattern, new in _FIRST_PERSON:
        text = pattern.sub(new, text)
    return text


def _small_words(passages: Mapping[str, Passage]) -> dict[str, bool]:
    """Tell for every word whether it occurs in small letters more often than after a sentence's first."""
    counts: dict[str, int] = {}
    for passage in passages.values():
        for word in re.findall(r"(?<=[a-z,] )[A-Za-z]+", passage.text):
            counts[word.lower()] = counts.get(word.lower(), 0) + (1 if word.islower() else -1)
    return {word: n > 0 for word, n in counts.items()}
