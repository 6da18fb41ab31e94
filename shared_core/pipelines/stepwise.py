"""Answer questions of several steps from the documents alone: the founder first, then when she was born.

Where the passages hold no answer that is probable enough, a phrase of the question that names something by its relation
to something else is asked about first (``reading.steps``), and the question is asked again with the answer in its
place, of passages that name it. What is found so is a chain of quotes, as probable as all of them together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from shared_core.abstention.statements import LEANING
from shared_core.citation.facts.tokens import fold
from shared_core.errors import LimitError, SelfReflectError
from shared_core.pipelines.decision.question_run import QuestionRun, retrieve, try_reader
from shared_core.pipelines.evidence import titled
from shared_core.reading.base import Reading, ReadResult, Step
from shared_core.reading.comparisons import Comparison, comparison
from shared_core.reading.confidence import logit, sigmoid
from shared_core.reading.features import stem
from shared_core.reading.language import word_list
from shared_core.reading.places import above
from shared_core.reading.steps import FirstStep, first_steps, without_ending
from shared_core.runtime.flow import Flow
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

DEPTH = 3
"""Steps of one chain: "Who is the mother of the founder of the company that made it?" takes three."""
_QUOTES = 5
_LEAST = 0.02  # a first step less probable than this leads nowhere
_WORD = lazy_regex(r"\w+")
_PAIR = lazy_regex(r"(?=\b([^\W\d_a-z]\w*) (\w+))")  # a word with a capital, and the one behind it
_ASKING = word_list("question_words") | word_list("beside_question_words")
_ASKING_STEMS = {stem(word) for word in _ASKING}
_BESIDE_NAMES = word_list("beside_names")
_SURE = 0.001  # no probability of a reader's is further from 1/2 than its log-odds
FIRST, TITLED, REST = (0.08, 1.43), 1.77, (1.12, 1.68)
"""P(the first step is right) has an intercept, a weight of the log-odds of its reading, and one if the passage that
answers has its answer in the title; P(the rest is, if the first is) an intercept and a weight of log-odds. Fitted by
``python benchmarks/steps.py --fit``, half of it on questions about something else than the passages."""
UNRELATED = 0.15
"""P(right) at most of a first step's quote from a passage that lacks a word of what the step asks of: "the founder of
the bank" and the founder of something else. Of 22 chains of this kind 4 were right."""
ONLY_FIRST = 0.05
"""P(right) of a quote for the whole question that gives the first step's answer: of 89 such quotes (the same command) 3
were right."""


@dataclasses.dataclass(frozen=True, slots=True)
class Chain:
    """Quotes that answer a question together.

    Attributes:
        result: of the last of its ``steps``; its readings are as probable as the chain would be with each of them.
        passages: all that were read for the last step, and those that the steps before it quote.
    """

    result: ReadResult
    passages: tuple[Passage, ...]

    @property
    def probability(self) -> float:
        """P(it answers the question)."""
        return self.result.readings[0].probability or 0.0

    @property
    def quoted(self) -> tuple[Passage, ...]:
        """The passages that it quotes, that of the answer first."""
        ids = [step.reading.quote.passage_id for step in reversed(self.result.steps)]
        by_id = {p.id: p for p in self.passages}
        return tuple(by_id[i] for i in dict.fromkeys(ids))


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of answering a question in steps.

    Attributes:
        answers: names that answer its first steps; as answers to the whole question they are wrong.
        chain: the most probable one; ``None`` if a step found nothing, or the question takes no steps.
    """

    answers: tuple[str, ...] = ()
    chain: Chain | None = None

    def lower(self, result: ReadResult) -> ReadResult:
        """Return a reading of the whole question in which quotes for its first step alone are no answers."""
        firsts = [_words(answer) for answer in self.answers]

        def judge(reading: Reading) -> Reading:
            said = _words(reading.short_answer.text) if reading.short_answer else set()
            if reading.probability is None or not any(said and (said <= f or f <= said) for f in firsts):
                return reading
            return dataclasses.replace(reading, probability=min(reading.probability, ONLY_FIRST))

        readings = [judge(r) for r in result.readings]
        if readings != list(result.readings):
            readings.sort(key=lambda r: -(r.probability or 0.0))
        return dataclasses.replace(result, readings=tuple(readings))


def takes_steps(question: str) -> bool:
    """Return whether a question is split into others.

    >>> takes_steps("When was the founder of the museum born?"), takes_steps("When was Ada Lind born?")
    (True, False)
    """
    return comparison(question) is not None or bool(first_steps(question))


def answer_in_steps(
    question: str, found: Sequence[Passage], wanted: int, run: QuestionRun, depth: int = DEPTH
) -> Flow[Attempt]:
    """Answer a question in steps.

    Args:
        found: passages of the whole question; they are read for each step, after those that the step retrieves.
        wanted: passages to retrieve for each step.
        depth: steps that the chain may have.
    """
    asked = comparison(question) if depth > 1 else None
    if asked is not None:
        return Attempt(chain=(yield from _compare(asked, found, wanted, run)))
    answers: list[str] = []
    chains: list[Chain] = []
    for first in first_steps(question) if depth > 1 else ():
        answer, chain = yield from _follow(first, found, wanted, run, depth)
        answers += [answer] if answer != answer.lower() else []  # other words may answer both questions
        chains += [chain] if chain is not None else []
        if run.trace.limit is not None:
            break
    return Attempt(tuple(answers), max(chains, key=lambda c: c.probability, default=None))


def _follow(
    first: FirstStep, found: Sequence[Passage], wanted: int, run: QuestionRun, depth: int
) -> Flow[tuple[str, Chain | None]]:
    """Answer a first step, and the question behind it; return the step's answer and the best chain."""
    passages = yield from passages_for(first.question, found, wanted, run)
    result = yield from try_reader(first.question, passages, _QUOTES, run)
    head = result.readings[0] if result.readings else None
    if head is None or head.short_answer is None or not (head.probability or 0.0) > _LEAST:
        return "", None
    answer = without_ending(head.short_answer.text)
    before = [p for p in passages if p.id == head.quote.passage_id]
    if not _speaks_of(first.about, f"{above(before[0])} {before[0].text}"):
        head = dataclasses.replace(head, probability=min(head.probability or 0.0, UNRELATED))
    question = first.then(answer)
    if question is None:
        return "", None
    yield run.note("step", answer, first.question, probability=head.probability)
    step = Step(first.question, head)
    passages = yield from passages_for(question, found, wanted, run)
    further = yield from answer_in_steps(question, passages, wanted, run, depth - 1)
    # Read as a whole, a question whose next step is known is mostly answered by that step's own sentence.
    naming = () if further.answers else passages_naming(answer, passages)
    result = (yield from try_reader(question, naming, _QUOTES, run)) if naming else ReadResult(())
    titles = {p.id: p.title for p in naming}
    readings = tuple(
        r for r in result.readings if not _repeats(r, first.phrase) and _tells_of(r, answer, titles[r.quote.passage_id])
    )
    chains = [] if further.chain is None else [further.chain]
    if readings:
        result = dataclasses.replace(result, readings=readings, steps=(Step(question, readings[0]),))
        chains.append(Chain(result, naming))
    chains = [_behind(step, answer, before, chain) for chain in chains]
    return answer, max(chains, key=lambda c: c.probability, default=None)


def _compare(asked: Comparison, found: Sequence[Passage], wanted: int, run: QuestionRun) -> Flow[Chain | None]:
    """Answer which of two is first or is more by what is known of each; the one asked for is the last step."""
    steps: list[Step] = []
    read: list[Passage] = []
    for name, question in zip(asked.names, asked.questions):
        passages = yield from passages_for(question, found, wanted, run)
        naming = passages_naming(name, passages)
        result = yield from try_reader(question, naming, _QUOTES, run)
        titles = {p.id: p.title for p in naming}
        readings = [r for r in result.readings if _tells_of(r, name, titles[r.quote.passage_id])]
        if not readings or readings[0].short_answer is None or readings[0].probability is None:
            return None
        steps.append(Step(question, readings[0]))
        yield run.note("step", readings[0].short_answer.text, question, probability=readings[0].probability)
        read += naming
    said = [step.reading.short_answer.text for step in steps if step.reading.short_answer is not None]
    chosen = asked.choose(*said)
    if chosen is None:
        return None
    probability = math.prod(_rest(step.reading.probability or 0.0) for step in steps)
    ordered = (steps[1 - chosen], steps[chosen])
    best = dataclasses.replace(ordered[1].reading, probability=probability)
    result = ReadResult((best,), probability, steps=ordered, answer=asked.names[chosen])
    return Chain(result, tuple({p.id: p for p in read}.values()))


def _repeats(reading: Reading, phrase: str) -> bool:
    """Return whether what answers the last step is what the first one asked about."""
    said = reading.short_answer.text if reading.short_answer else ""
    return bool(said) and _words(said) <= _words(phrase)


def _tells_of(reading: Reading, name: str, title: str) -> bool:
    """Return whether a quote may be about a name that its passage holds: it has it, or the title, or "she" instead."""
    telling = _telling(name)
    quote = reading.quote.text
    said = _words(quote)
    if telling & said and not telling <= said:  # "Bo Lind was born …" is not about Ada Lind
        before = {b.casefold() for b, word in _PAIR.findall(quote) if word.casefold() in telling}
        return before <= telling | _BESIDE_NAMES | _ASKING
    return telling <= said or holds_name(title, name) or LEANING.match(quote) is not None


def _behind(step: Step, answer: str, before: Sequence[Passage], rest: Chain) -> Chain:
    """Return a chain that begins with one more step, on which all readings of the others rest."""
    titles = {p.id: p.title for p in rest.passages}
    first = step.reading.probability
    readings = tuple(
        dataclasses.replace(r, probability=join(first, r.probability, holds_name(titles[r.quote.passage_id], answer)))
        for r in rest.result.readings
    )
    steps = (step, *rest.result.steps)
    result = dataclasses.replace(rest.result, readings=readings, answerable=readings[0].probability, steps=steps)
    return Chain(result, tuple({p.id: p for p in (*rest.passages, *before)}.values()))


def join(first: float | None, rest: float | None, titled: bool) -> float | None:
    """Return P(a chain is right) from the probability of its first step and that of the rest; ``None`` if unknown.

    It may exceed that of the first step: what the rest finds about its answer confirms it.

    Args:
        titled: whether the passage that answers has the first step's answer in its title.

    >>> join(0.5, 0.9, titled=True) > join(0.5, 0.9, titled=False) > join(0.5, 0.2, titled=False), join(0.5, None, True)
    (True, None)
    """
    if first is None or rest is None:
        return None
    return sigmoid(FIRST[0] + FIRST[1] * _log_odds(first) + TITLED * titled) * _rest(rest)


def _rest(p: float) -> float:
    return sigmoid(REST[0] + REST[1] * _log_odds(p))


def _log_odds(p: float) -> float:
    return logit(min(max(p, _SURE), 1 - _SURE))


def passages_naming(name: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return the passages that have all words of a name, with their headings; those with it in the title first."""
    naming = [p for p in passages if holds_name(titled(p), name)]
    return tuple(sorted(naming, key=lambda p: not holds_name(p.title, name)))


def holds_name(text: str, name: str) -> bool:
    """Return whether a text has all words of a name but titles and the like.

    >>> holds_name("Ada Lind, engineer", "Dr Ada Lind"), holds_name("Bo Lind", "Ada Lind")
    (True, False)
    """
    return _telling(name) <= _words(text)


def _telling(name: str) -> set[str]:
    return _words(name) - _BESIDE_NAMES or _words(name)


def _speaks_of(name: str, text: str) -> bool:
    """Return whether a text has all words of a name but those that ask, up to endings and accents."""
    said, about = ({stem(fold(word)) for word in _words(t)} for t in (text, name))
    return about - said <= _ASKING_STEMS


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def passages_for(question: str, found: Sequence[Passage], wanted: int, run: QuestionRun) -> Flow[tuple[Passage, ...]]:
    """Retrieve passages for a further query; those that were found before follow."""
    more: tuple[Passage, ...] = ()
    if run.trace.limit is None:
        try:
            more = yield from retrieve(question, wanted, run)
        except LimitError as error:
            yield run.stop(error)
        except SelfReflectError as error:  # what was found for the whole question may do
            yield run.note("retrieve", "left out", error.message)
    return tuple({p.id: p for p in (*more, *found)}.values())
