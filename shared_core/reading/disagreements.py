"""Find whether two sentences of different documents answer a question otherwise: of one thing, or each of its own."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from shared_core.citation.facts.arithmetic import same_quantity
from shared_core.citation.facts.dates import dates_of, same_date, weekdays_of
from shared_core.citation.facts.quantities import Quantity, quantities_of
from shared_core.citation.facts.tokens import Sentence, Token, clauses_of, content_keys, fold, stem, tokens_of
from shared_core.reading.editions import DATED
from shared_core.reading.language import word_list
from shared_core.reading.questions import asks_yes_or_no
from shared_core.reading.values import holds, values_of
from shared_core.support.regex import lazy_regex

_ANOTHER = lazy_regex(
    r"\b(?:first|second|third|fourth|fifth|last|next|another|other|additional|further|again|new|newer|newest|old|older|"
    r"oldest|earlier|later|former|previous|current|currently|originally|initially|re(?:built|opened|founded|launched))\b",
    re.IGNORECASE,
)
"""Words that tell one of several things or times of a kind from another: "a second lamp was lit in 1899"."""
_CHANGES = lazy_regex(
    r"\b(?:now|no longer|mov(?:e|es|ed|ing)|postpon\w+|delay\w+|reschedul\w+|brought forward|put off|chang(?:e|es|ed)"
    r"|rais(?:e|es|ed)|rise[sn]?|rose|lower(?:s|ed)|increas(?:e|es|ed)|reduc(?:e|es|ed)|extend(?:s|ed)|corrected|revised|updated)\b",
    re.IGNORECASE,
)
"""Words that a sentence says by that something is otherwise than it was."""
_PAST_ASKED = lazy_regex(r"\b(?:was|were|did|had|originally|initially|previously|formerly)\b", re.IGNORECASE)
_FOR_OTHERS = lazy_regex(r"\bfor (?:the |an? |our |all )?([^\W\d_]{3,})")
_RANGE = lazy_regex(
    r"(?<!\d)(\d[\d.:,]{0,9})(?: ?[ap]\.?m\.?)?(?: (?:to|until|till|through) | ?[-–—] ?)(\d[\d.:,]{0,8}\d|\d)"
)
_END_ASKED = lazy_regex(
    r"\b(?:until|till)\b|\bup to (?:when|what)|\bhow late\b|\b(?:close|end|finish|stop)(?:s|e[sd])?\b", re.IGNORECASE
)
_START_ASKED = lazy_regex(r"\bfrom when\b|\bsince\b|\bhow early\b|\b(?:open|start|begin)s?\b", re.IGNORECASE)
_DENIES = r"\b(?:not|no longer|instead of|rather than) (?:(?:by|in|at|on|for|to) )?(?:the |an? )?"
_FREE = lazy_regex(r"(?:free|no charge)\b(?! of (?!charge))", re.IGNORECASE)
_RATE = lazy_regex(
    r"\d\S{0,12}(?: (?:an?|per|each|every) | ?/ ?)(hour|day|night|week|month|quarter|year|person|item)\b"
)
_TIME_ASKED = lazy_regex(r"\b(?:earlier|former|old|older|before|ago|last|used to)\b", re.IGNORECASE)
_ALIKE = 0.6  # of the words of two sentences that say the same of two times, but for their answers
_SAME_MATTER = 0.75  # of the words beside the answer of the shorter of two sentences: they speak of one matter
_SAYS_KIND = frozenset(map(stem, word_list("says_kind")))
"""Words that tell no more of a thing than what kind of value is asked, or that it is opened to all."""
_NARROWS, _WHOLE_CLAUSE, _RELATES = map(word_list, ("narrows", "whole_clause", "relates"))
_ARTICLES, _VERBS = map(word_list, ("articles", "verbs"))
_TIMES = frozenset(map(stem, word_list("dates") | word_list("recurring")))


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence that may answer a question.

    Attributes:
        answer: its short answer, empty if none was found.
    """

    text: str
    answer: str
    title: str = ""

    @property
    def sentence(self) -> Sentence:
        """The sentence with its tokens."""
        return Sentence(self.text, tokens_of(self.text))

    @property
    def place(self) -> range:
        """Code points of the short answer; empty if there is none, or it stands otherwise in the sentence."""
        begin = self.text.find(self.answer)
        return range(begin, begin + len(self.answer)) if begin >= 0 else range(0)

    @property
    def is_answer(self) -> bool:
        """Whether the short answer is the whole sentence."""
        return len(self.place) >= len(self.text.rstrip(" .!?"))

    @property
    def amounts(self) -> list[Quantity]:
        """The numbers of the short answer; what is free costs 0."""
        found = [q for q in quantities_of(self.text) if q.start in self.place]
        free = _FREE.match(self.answer)
        return found or ([Quantity(free[0], 0, free.end(), frozenset({0.0}))] if free else [])

    @property
    def near(self) -> str:
        """The clause that holds the short answer, with the one before it: "In 2010, 4,100 people lived there"."""
        clauses = clauses_of(self.sentence)
        at = next((i for i, c in enumerate(clauses) if c[-1].end > self.place.start), 0)
        return self.text[clauses[max(0, at - 1)][0].start : clauses[at][-1].end] if clauses else ""


def tells_another(one: str, other: str) -> bool:
    """Return whether one text tells its thing or time from another of the kind, and the other does not so."""
    return bool({w.casefold() for w in _ANOTHER.findall(one)} ^ {w.casefold() for w in _ANOTHER.findall(other)})


def names_subject(said: Said) -> bool:
    """Return whether a sentence says of what it speaks; what has nothing but an answer leaves that to its heading.

    >>> names_subject(Said("Between 14:00 and 20:00.", "")), names_subject(Said("The fee is €9.", "€9"))
    (False, True)
    """
    return bool(_matter(said))


def speak_of_same(one: Said, other: Said) -> bool:
    """Return whether two sentences are of one matter: what the shorter one says beside its answer, the other says too.

    >>> ends = "may end the tenancy with six months' notice."
    >>> speak_of_same(Said(f"The tenant {ends}", ""), Said(f"The landlord {ends}", ""))
    False
    >>> speak_of_same(Said("The rent is €9.", "€9"), Said("The rent is €8 and is due in May.", "€8"))
    True
    """
    short, long = sorted((_matter(one), _matter(other)), key=len)
    if not short or len(short & long) < _SAME_MATTER * len(short):
        return False
    pairs = ((_subject(a.sentence), b.sentence.keys) for a, b in ((one, other), (other, one)))
    return any(subject and held.issuperset(t.key for t in subject) for subject, held in pairs)


def kinds_apart(question: str, one: str, other: str) -> bool:
    """Return whether both headings end in what is asked of, each after a word of its own.

    >>> kinds_apart("When does the shop open?", "North shop", "South shop")
    True
    """
    asked = content_keys(tokens_of(question))
    kinds = []
    for heading in (one, other):
        words = [t.key for t in tokens_of(heading)]
        first = next((i for i, w in enumerate(words) if w in asked), 0)
        kinds.append(set(words[:first]) if set(words[first:]) <= asked | set(words[:first]) else set())
    return all(kinds) and not kinds[0] & kinds[1]


def agree_where_asked(question: str, one: Said, other: Said) -> bool:
    """Return whether the question asks for one end of a span, and both sentences agree on that end.

    >>> agree_where_asked("Until when is it open?", Said("Open 9:00 to 17:00.", ""), Said("Open 8:30 to 17:00.", ""))
    True
    """
    ends = [tuple(zip(*_RANGE.findall(s.text))) for s in (one, other)]
    if not all(ends):
        return False
    if _END_ASKED.search(question):
        return set(ends[0][1]) == set(ends[1][1])
    return _START_ASKED.search(question) is not None and set(ends[0][0]) == set(ends[1][0])


def only_one_holds(question: str, one: Said, other: Said) -> bool:
    """Return whether one sentence, or its title, holds a value by which a question names its thing, and one does not.

    In a question for yes or no, the value may be what is in doubt.

    >>> only_one_holds("When was 1.12 released?", Said("1.12 (2022)", "2022"), Said("1.3 (2009)", "2009"))
    True
    """
    values = () if asks_yes_or_no(question) else values_of(question)
    return any(holds(v, f"{one.text}\n{one.title}") != holds(v, f"{other.text}\n{other.title}") for v in values)


def answer_otherwise(question: str, one: Said, other: Said) -> bool:
    """Return whether both sentences speak of all that the question names, however worded, and answer otherwise.

    So they do with another year or amount, or where one denies the other's answer: "yellow, not green".

    >>> seen = Said("The Lenz dam, completed in 1921, is 40 m high.", "1921")
    >>> answer_otherwise("When was the Lenz dam completed?", Said("The Lenz dam was completed in 1911.", "1911"), seen)
    True
    """
    if not one.answer or not other.answer or tells_another(one.near, other.near):
        return False
    asked = content_keys(tokens_of(question)) - _SAYS_KIND
    named = [asked & s.sentence.keys for s in (one, other)]
    if not asked or named[0] != named[1]:
        return False
    if 2 * len(named[0]) >= len(asked) and (_denies(other.text, one.answer) or _denies(one.text, other.answer)):
        return True
    if named[0] != asked or not _differ(one, other) or _dates_beside(one) != _dates_beside(other):
        return False
    return _says_only(question, one, other) and _says_only(question, other, one)


def tells_change(question: str, new: Said, old: Said) -> bool:
    """Return whether both sentences speak of all that the question names, and one says that it was changed.

    Not where the change is for some only, of whom neither the question nor the other sentence speaks, nor where it is
    asked how something was.

    >>> old, new = Said("We launch on 15 April.", "15 April"), Said("The launch was moved to 13 May.", "13 May")
    >>> tells_change("When is the launch?", new, old), tells_change("When is the launch?", old, new)
    (True, False)
    """
    if not new.answer or not old.answer or _PAST_ASKED.search(question):
        return False
    if not _CHANGES.search(new.text) or _CHANGES.search(old.text):
        return False
    asked = content_keys(tokens_of(question)) - _SAYS_KIND
    if not asked or not asked <= new.sentence.keys & old.sentence.keys or not _differ(new, old):
        return False
    known = {t.key for t in tokens_of(question)} | old.sentence.keys
    return all(stem(fold(word)) in known for word in _FOR_OTHERS.findall(new.text))


def tells_of_two_times(question: str, one: Said, other: Said) -> bool:
    """Return whether two sentences say the same but for their answers, and the question names no time.

    >>> one, other = Said("Members pay 40 crowns.", "40 crowns"), Said("Members pay 55 crowns.", "55 crowns")
    >>> tells_of_two_times("What do members pay?", one, other), tells_of_two_times("What did they pay?", one, other)
    (True, False)
    """
    if DATED.search(question) or _PAST_ASKED.search(question) or _TIME_ASKED.search(question):
        return False
    if not one.answer or not other.answer or fold(one.answer) == fold(other.answer):
        return False
    mine, theirs = (said.sentence.keys - {t.key for t in tokens_of(said.answer)} for said in (one, other))
    return bool(mine & theirs) and len(mine & theirs) >= _ALIKE * len(mine | theirs)


def narrowed_apart(question: str, one: Said, other: Said) -> bool:
    """Return whether one sentence speaks of a part or a case of which neither the other nor the question speaks.

    Where a whole sentence is the answer, all of it counts: "Dogs are not allowed on the grounds."

    >>> narrowed_apart("What is the fee?", Said("The fee is €9.", "€9"), Said("The fee for students is €5.", "€5"))
    True
    """
    one, other = (replace(s, answer="") if s.is_answer else s for s in (one, other))
    rates = [set(_RATE.findall(s.text.casefold())) for s in (one, other)]
    if all(rates) and not rates[0] & rates[1]:
        return True
    amounts = one.amounts, other.amounts
    if all(len(row) == 1 for row in amounts) and _compatible(amounts[0][0], amounts[1][0]):
        return True
    if all(amounts) and set(weekdays_of(one.text)) != set(weekdays_of(other.text)):
        return True
    asked = content_keys(tokens_of(question))
    known = {t.key for t in tokens_of(f"{question} {one.title} {other.title}")}
    pairs = [(s, known | o.sentence.keys) for s, o in ((one, other), (other, one))]
    cases = [_cases(s, words, asked) for s, words in pairs]
    if _names_thing(question) and not all(cases) and all(any(q.is_year for q in row) for row in amounts):
        # who died in Riga in 1907 died once
        cases = [
            [t for t in row if not t.is_capitalised and t.start < s.place.start]
            for row, (s, _) in zip(cases, pairs, strict=True)
        ]
    return any(cases) or all(_owners(s.sentence, words) for s, words in pairs)


def _matter(said: Said) -> set[str]:
    """The content words beside the answer, but for amounts and times; of all of it, where all of it is the answer."""
    inside = range(0) if said.is_answer else said.place
    amounts = quantities_of(said.text)
    return {
        t.key
        for t in said.sentence.tokens
        if t.is_content and t.start not in inside and not any(q.start <= t.start < q.end for q in amounts)
    } - _TIMES


def _denies(text: str, answer: str) -> bool:
    """Return whether a sentence denies a short answer in its own words."""
    return re.search(rf"{_DENIES}{re.escape(answer.casefold())}(?![\w-])", text.casefold()) is not None


def _differ(one: Said, other: Said) -> bool:
    """Return whether two short answers are one value each, of the same kind, and cannot both be right."""
    numbers = one.amounts, other.amounts
    years = [[q for q in row if q.is_year] for row in numbers]
    dates = [[d for d in dates_of(s.answer) if d.month] for s in (one, other)]
    if all(len(row) == 1 for row in dates):  # of one year, maybe
        return not same_date(dates[0][0], dates[1][0])
    if all(len(row) == 1 for row in years):
        return not same_quantity(years[0][0], years[1][0])
    if any(years) or any(dates):
        return False
    if any(len(row) != 1 for row in numbers):
        return False
    a, b = numbers[0][0], numbers[1][0]
    if a.hedge or b.hedge or a.ordinal != b.ordinal:
        return False
    free = {0.0} in (a.values, b.values) and "" in (a.unit, b.unit)  # "free", beside an amount of money
    return (free or a.dimension == b.dimension) and not _compatible(a, b)


def _compatible(one: Quantity, other: Quantity) -> bool:
    """Return whether two amounts are the same ("about 400 metres" is 412) or of other kinds: a year, a time of day."""
    if one.is_year != other.is_year and (one.dimension or other.dimension):
        return True
    return same_quantity(one, other) or same_quantity(other, one)


def _dates_beside(said: Said) -> tuple[frozenset[tuple[int, ...]], frozenset[frozenset[float]]]:
    """The dates and years near the answer and in the title, which tell one time from another."""
    beside = f"{said.near.replace(said.answer, ' ')}\n{said.title}"
    dates = frozenset((d.month, d.day, d.year, d.weekday) for d in dates_of(beside))
    return dates, frozenset(q.values for q in quantities_of(beside) if q.is_year)


def _names_thing(question: str) -> bool:
    return any(t.is_capitalised and t.is_content and not t.first for t in tokens_of(question))


def _says_only(question: str, said: Said, other: Said) -> bool:
    """Return whether its subject is the question's, and what it says around the answer holds no other word or number.

    "The café on the bridge opened in 1934" is of the café; "The fee for children is €4" of children's.
    """
    asked = {t.key for t in tokens_of(question)} | _SAYS_KIND
    known = asked | other.sentence.keys
    inside = said.place
    clause = next((c for c in clauses_of(said.sentence) if any(t.start in inside for t in c)), ())
    beside = [t for t in clause if t.start not in inside]
    # Whoever did it; and what happened once to a thing of that name happened once, whatever follows the year
    once = _names_thing(question) and any(q.is_year for q in said.amounts)
    end = next((i for i, t in enumerate(beside) if t.start >= inside.start and (once or fold(t.text) == "by")), None)
    beside = [t for t in beside[:end] if not (once and t.is_capitalised and not t.first)]
    subject = _subject(said.sentence)
    if any(t.is_negation or (t.is_number and t.key not in known) for t in beside):
        return False
    return all(t.key in known for t in beside if t.is_content) and all(t.key in asked for t in subject)


def _subject(sentence: Sentence) -> list[Token]:
    """The content words that a sentence begins with, up to the next function word, number or comma."""
    found: list[Token] = []
    for token in sentence.tokens:
        if found and (not token.is_content or "," in sentence.text[found[-1].end : token.start]):
            break
        if token.is_content:
            found.append(token)
    return found


def _cases(said: Said, known: Collection[str], asked: Collection[str]) -> list[Token]:
    """The words beside the answer, none of those known, that narrow what the sentence speaks of."""
    sentence, inside = said.sentence, said.place
    opening, *others = clauses_of(sentence) or [()]
    clause = next((c for c in others if any(t.start in inside for t in c)), opening)
    if clause is not opening and _opens_with_case(sentence, opening):
        clause = opening + clause
    found, narrows = [], ""
    for token, follows in zip_longest(clause, clause[1:]):
        word = fold(token.text)
        if not token.is_telling:
            keeps = narrows in _WHOLE_CLAUSE or (narrows and word in _ARTICLES)
            narrows = narrows if keeps else word if word in _NARROWS else ""
        elif token.start in inside:
            narrows = ""
        elif token.key not in known and (narrows or word == "online" or _modifies(follows, asked)):
            found.append(token)
    return found + _other_subject(sentence, known, asked)


def _opens_with_case(sentence: Sentence, opening: Sequence[Token]) -> bool:
    """Whether it begins with a phrase set off by a comma: "For students, …"."""
    return fold(opening[0].text) in _NARROWS and sentence.text[opening[-1].end :].lstrip().startswith(",")


def _modifies(follows: Token | None, asked: Collection[str]) -> bool:
    return follows is not None and follows.is_content and follows.key in asked


def _other_subject(sentence: Sentence, known: Collection[str], asked: Collection[str]) -> list[Token]:
    """The words that make the subject another thing: "the café on the bridge", "the church tower was"."""
    subject = _subject(sentence)
    behind = sentence.tokens[sentence.tokens.index(subject[-1]) + 1 :][:1] if subject else ()
    new = [t for t in subject if t.key not in known]
    if not new or not behind:
        return []
    if fold(behind[0].text) in _RELATES:
        return new
    headed = fold(behind[0].text) in _VERBS and new[-1] is subject[-1] and any(t.key in asked for t in subject)
    return new if headed else []


def _owners(sentence: Sentence, known: Collection[str]) -> list[str]:
    """The new words behind "of" and "by", names left out."""
    found = []
    for i, token in enumerate(sentence.tokens):
        if fold(token.text) in ("of", "by"):
            first = next((t for t in sentence.tokens[i + 1 : i + 3] if t.is_content), None)
            if first is not None and first.key not in known and not first.is_capitalised:
                found.append(first.key)
    return found
