"""What a claim's support is made of, and how it is put together.

One meaning everywhere: the probability that a claim is a right answer to the question, or a right part of one. No
witness knows that alone, and a model is not the only judge of itself where another is at hand:

- ``entailed``: do its quotes support the claim? (the engine's judge, else the critic, else the model)
- ``answers``: does the passage around the quote support the claim as an answer to this question? (critic)
- ``quoted``: does the quoted sentence hold a right answer? ``sufficient``: do the passages hold one at all? (reader)
- ``certain``: how sure is the model? ``agreement``: do independent answers say the same?
- ``named``: do the passages cited hold the names and numbers that were asked about? (heard by a stack only)
- ``likely``: how probable were its words to it, having read the passages? (heard by a stack only)

They are put together by a stack that was fitted for this configuration (``Context.stack``), or else by the
rule of the most doubtful witness (``most_doubtful``).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from shared_core.errors import LimitError, SelfReflectError
from shared_core.pipelines.decision.decide import DecisionRequest, decide
from shared_core.pipelines.decision.keeping import merge_duplicates
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.support import ask_model, model_method, support, support_method
from shared_core.reading.base import ReadResult
from shared_core.runtime.flow import Flow, Judge, Read
from shared_core.types import Answer, Claim, Passage, Signals, Span

WITNESSES = ("entailed", "answers", "quoted", "sufficient", "certain", "agreement", "named", "likely")
"""Signals in the order of a stack's figures."""


@dataclasses.dataclass(frozen=True, slots=True)
class Weighed:
    """Claims with their support and what it is made of.

    Attributes:
        claims: as given, with ``support`` and ``signals``.
        answerable: P(the passages answer the question), ``None`` if unknown.
        calibrated: supports are by a stack fitted for this configuration.
        unknown: why supports are unknown, where all are.
    """

    claims: list[Claim]
    answerable: float | None = None
    calibrated: bool = False
    unknown: str = ""


def weigh(
    question: str, claims: Sequence[Claim], passages: Sequence[Passage], run: QuestionRun, *, judged: bool = False
) -> Flow[Weighed]:
    """Ask the witnesses about claims that cite passages, and put what they say together.

    Signals that a claim brings with it (``certain``, ``agreement`` from samples) are kept; if it brings ``entailed``,
    its writer's verdict, the more doubtful of that and the other witness's counts. A claim without citations
    has no witness but the model, and its support stays as it is.

    Args:
        question: as asked.
        claims: with their citations.
        passages: what was read, best first.
        run: of the question.
        judged: ``entailed`` is the word of the engine's own judge or critic, who is not asked again.
    """
    cited = [c for c in claims if c.citations]
    if not cited:
        return Weighed(list(claims))
    read = yield from _read(question, cited, passages, run)
    entailed: list[float | None] = [None] * len(cited)
    alone = run.settings.witnesses == "judge"
    brought = run.abilities.scorer is None and all(c.signals.entailed is not None for c in cited)
    if not judged and (support_method(run.abilities) in ("judge", "critic") or (alone and not brought)):
        entailed = yield from support([(_quote(c), c.text) for c in cited], run)
        if not alone and support_method(run.abilities) == "critic":
            # a statement that stands in its quote follows from it, whatever a trained critic makes of it
            entailed = [1.0 if _stands_in(c.text, _quote(c)) else p for c, p in zip(cited, entailed)]
    answers = yield from _ask_critic(question, cited, passages, run)
    quoted = _of_quotes(cited, read)
    said = [r.short_answer.text for r in read.readings[:1] if r.short_answer and (r.probability or 0) > 0.5]
    found = [
        dataclasses.replace(
            claim.signals,
            entailed=_least(_heard(entailed[i]), claim.signals.entailed),
            answers=_heard(answers[i]),
            quoted=_heard(quoted[i]),
            sufficient=_heard(read.answerable),
            agreement=_agree(claim.text, said) if said else claim.signals.agreement,
            named=_named(question, claim, passages),
        )
        for i, claim in enumerate(cited)
    ]
    if not alone:
        found = yield from _ask_model(question, cited, found, run)
    signals = {id(claim): s for claim, s in zip(cited, found)}
    stack = run.abilities.stack
    weighed = [
        dataclasses.replace(c, signals=s, support=put_together(s, run)) if (s := signals.get(id(c))) else c
        for c in claims
    ]
    yield run.note(
        "confidence",
        f"calibrated on {stack.n} claims" if stack else "the judge alone" if alone else "the most doubtful witness",
        read.unknown,
        claims=len(cited),
        unknown=sum(c.support is None for c in weighed),
        answerable=read.answerable,
    )
    return Weighed(weighed, read.answerable, stack is not None, read.unknown)


def decide_weighed(
    question: str, weighed: Weighed, passages: Sequence[Passage], run: QuestionRun, *, pipeline: str, reason: str = ""
) -> Flow[Answer]:
    """``decide`` over claims that were weighed; at most ``max_claims`` of them, the surest, are shown.

    ``reason``: for abstaining, where it cannot be told from claims and passages.
    """
    claims = merge_duplicates(weighed.claims)
    surest = sorted(range(len(claims)), key=lambda i: -1.0 if (p := claims[i].support) is None else -p - 1.0)
    shown = sorted(surest[: run.settings.max_claims])
    request = DecisionRequest(
        question,
        [claims[i] for i in shown],
        passages,
        pipeline=pipeline,
        answerable=weighed.answerable,
        calibrated=weighed.calibrated,
        unknown=weighed.unknown,
        reason=reason,
    )
    return (yield from decide(request, run))


def put_together(signals: Signals, run: QuestionRun) -> float | None:
    """A claim's support: by the stack of this configuration, else by the most doubtful witness."""
    stack = run.abilities.stack
    if stack is not None:
        return stack.combine([getattr(signals, name) for name in stack.names])
    return signals.entailed if run.settings.witnesses == "judge" else most_doubtful(signals)


def most_doubtful(signals: Signals) -> float | None:
    """The least of: the quote supports the claim, the claim answers the question, and the model's own word if asked.

    Of the answer the reader's word on the sentence quoted counts (``quoted``), and only where it is silent the critic's
    (``answers``), which tells right claims from wrong ones much worse (docs/confidence.md). Support must be known, and
    one witness must say that the claim answers; otherwise it is unknown. ``sufficient`` and ``agreement`` raise or
    lower nothing by themselves: answers are right with insufficient passages, and wrong ones agree.
    """
    answers = signals.quoted if signals.quoted is not None else signals.answers
    of_answer = [p for p in (answers, signals.certain) if p is not None]
    if signals.entailed is None or not of_answer:
        return None
    return min(signals.entailed, *of_answer)


def _heard(said: float | None) -> float | None:
    """What a witness says, if it is a probability; NaN and numbers outside [0, 1] are silence."""
    return said if said is not None and 0.0 <= said <= 1.0 else None


def _stands_in(claim: str, quote: str) -> bool:
    return bool(said := _words(claim)) and f" {said} " in f" {_words(quote)} "


def _read(question: str, claims: Sequence[Claim], passages: Sequence[Passage], run: QuestionRun) -> Flow[ReadResult]:
    """What the reader says of the passages and of the sentences quoted; nothing where there is no reader."""
    if not run.abilities.has_reader or not passages:
        return ReadResult(())
    spans = tuple(s for c in claims for s in _spans(c))
    expected = run.abilities.expected.value
    try:
        result: ReadResult = yield Read(question, tuple(passages), 3, expected, spans)
    except LimitError as error:
        yield run.stop(error)
        return ReadResult(())
    except SelfReflectError as error:  # a witness that cannot be heard is unknown, whoever else is
        yield run.note("read", "unknown", error.message)
        return ReadResult(())
    run.abilities.expected.see(result)
    return result


def _spans(claim: Claim) -> list[Span]:
    return [s for citation in claim.citations for s in citation.primary]


def _quote(claim: Claim) -> str:
    return " ".join(c.quote for c in claim.citations)


def _of_quotes(claims: Sequence[Claim], read: ReadResult) -> list[float | None]:
    """For each claim the best of what the reader says of its quotes."""
    judged = iter(read.judged)
    out: list[float | None] = []
    for claim in claims:
        mine = [next(judged, None) for _ in _spans(claim)]
        known = [r.probability for r in mine if r is not None and r.probability is not None]
        out.append(max(known) if known else None)
    return out


def _ask_critic(
    question: str, claims: Sequence[Claim], passages: Sequence[Passage], run: QuestionRun
) -> Flow[list[float | None]]:
    """P(the passages cited support question and claim together), by the critic; unknown where there is none."""
    if run.abilities.critic is None:
        return [None] * len(claims)
    by_id = {p.id: p for p in passages}
    pairs = []
    for claim in claims:
        cited = dict.fromkeys(s.passage_id for s in _spans(claim))
        evidence = "\n".join(_whole(by_id[i]) for i in cited if i in by_id)
        pairs.append((evidence or _quote(claim), f"{question} {claim.short_answer or claim.text}"))
    try:
        return list((yield Judge(tuple(pairs), by="critic")))
    except LimitError as error:
        yield run.stop(error)
    except SelfReflectError as error:
        yield run.note("critic", "unknown", error.message)
    return [None] * len(claims)


_NAME = re.compile(r"(?<=\s)[^\W\d_]\w*|\d+(?:[.,]\d+)*")
"""Words, but for the question's first, and numbers."""


def _named(question: str, claim: Claim, passages: Sequence[Passage]) -> float | None:
    """Share of the question's names and numbers that stand in the passages cited; ``None`` where it has none."""
    names = {n.casefold() for n in _NAME.findall(question) if n[0].isupper() or n[0].isdigit()}
    cited = {s.passage_id for s in _spans(claim)}
    held = set(re.findall(r"\d+(?:[.,]\d+)*|\w+", "\n".join(_whole(p) for p in passages if p.id in cited).casefold()))
    return sum(n in held for n in names) / len(names) if names and cited else None


def _whole(passage: Passage) -> str:
    return f"{passage.title}\n{passage.text}" if passage.title else passage.text


def _ask_model(
    question: str, claims: Sequence[Claim], found: Sequence[Signals], run: QuestionRun
) -> Flow[list[Signals]]:
    """Where no other witness can judge a claim, the model's word that it is a right answer by its quote."""
    unheard = [
        i
        for i, s in enumerate(found)
        if s.entailed is None or (s.answers is None and s.quoted is None and s.certain is None)
    ]
    out = list(found)
    if unheard and model_method(run.abilities) is not None:
        said = yield from ask_model([(question, _quote(claims[i]), claims[i].text) for i in unheard], run)
        for i, p in zip(unheard, said):
            entailed = found[i].entailed if found[i].entailed is not None else p
            out[i] = dataclasses.replace(found[i], entailed=entailed, certain=_least(p, found[i].certain))
    return out


def _least(*said: float | None) -> float | None:
    """The least of what was said; ``None`` if nothing was."""
    return min((p for p in said if p is not None), default=None)


def _agree(text: str, said: Sequence[str]) -> float:
    """Share of the answers ``said`` that stand in the text."""
    words = f" {_words(text)} "
    held = [f" {_words(s)} " in words for s in said if _words(s)]
    return sum(held) / len(held) if held else 0.0


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
