"""Answer with the documents' own sentences, without any language model: the embedded default.

Two passages may both answer a question, each otherwise: "The dam was completed in 1911." and "… in 1921." Whichever is
shown, the reader of the answer has to know of the other. Sentences contradict each other if they say the same but for
one fact, or but for their answers; if both say all that the question names, with other years or amounts for answers; or
if one denies the other's answer. What says that something was changed comes before what it was, and what a document's
newer edition says (by the date or version in its title or path) before what an older one said.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence

from shared_core.calibration.calibration import Calibration
from shared_core.errors import GenerationError, SelfReflectError
from shared_core.pipelines.contradictions import add_contradiction
from shared_core.pipelines.decision.decide import DecisionRequest, decide, standing
from shared_core.pipelines.decision.question_run import QuestionRun, retrieve
from shared_core.pipelines.decision.reasons import REPLIES_UNUSABLE
from shared_core.pipelines.decision.wording import one_line
from shared_core.pipelines.evidence import known_probability, quoted_places
from shared_core.pipelines.rerank import rank_by_reading
from shared_core.pipelines.stepwise import Chain, answer_in_steps, passages_for
from shared_core.reading.base import Reading, ReadResult, Step
from shared_core.reading.definitions import find_definitions, holds_definition, is_headed, term_asked
from shared_core.reading.item_lists import write_quote
from shared_core.reading.places import place_of
from shared_core.runtime.flow import Flow, Read, Report
from shared_core.types import Answer, Citation, Claim, ClaimSealed, Passage, Signals, Span

_LOG = logging.getLogger(__name__)
ANSWERED_BY = "embedded default"
"""``metadata["answered_by"]`` of its answers in place of a model's."""
QUOTES = 10
"""Quotes asked of the reader; more if there are more passages, so that each can show its best sentence."""
_MANY = 5  # times as many passages: of its words the rest of a list repeats few
_MOST_ROWS = 200  # of a table, which are read in two seconds
_DEFINITIONS = 3  # passages that are added where a term's meaning is asked
_NEARLY = 0.8  # a further quote is shown if its probability is at least this share of the first one's


class UnusableReplies(GenerationError):
    """No reply of a model could be used, and it did not decline to answer either."""


def find_unusable(claims: Sequence[Claim], run: QuestionRun, *, pruned: bool = False) -> UnusableReplies | None:
    """Return an error if nothing that a model wrote about passages can be used; ``None`` if something can.

    Unusable means: nothing was written, or no claim has a quote and none is sure enough without one. A model that
    declined to answer is the caller's to tell apart.

    Args:
        pruned: there were claims, and a search gave all of them up as unsupported.
    """
    target = run.settings.target_accuracy
    if any(c.citations or (c.support is not None and c.support > target) for c in claims):
        return None
    what = "is in no passage" if claims else "is supported by no passage" if pruned else "is empty"
    return UnusableReplies(
        f"What {run.abilities.model_name('default')} wrote {what}.",
        hint="See what it replies to a plain question; a larger model keeps to the passages.",
    )


def extractive(question: str, run: QuestionRun) -> Flow[Answer]:
    """Retrieve, quote the sentences that answer, keep those whose support is above the target.

    The trace holds the decisions ``retrieve``, ``read``, ``rerank`` (if reading changed the order of the passages or
    left some out), ``keep`` and ``answer`` or ``abstain``. The confidence is that of the first quote, which answers by
    itself; further quotes are shown if they are nearly as sure.
    """
    found, result = yield from read_best(question, run)
    if not found:
        return (yield from decide(DecisionRequest(question, (), (), pipeline="composed"), run))
    return (yield from quote_best(question, found, result, run))


def quote_best(question: str, found: Sequence[Passage], result: ReadResult, run: QuestionRun) -> Flow[Answer]:
    """Show the best of the quotes that were read in passages, if their support is above the target."""
    by_id = {p.id: p for p in found}
    calibration = run.abilities.calibrations.get("confidence")
    quotes = claims_from(result.readings, by_id, calibration)
    # Of several steps only the last one's quotes are alternatives; those of the others are shown behind them.
    before = claims_from([step.reading for step in result.steps[:-1]], by_id, None)
    before = [b for b in before if quotes and not quoted_places(b) & quoted_places(quotes[0])]
    quotes = [c for c in quotes if not any(quoted_places(c) & quoted_places(b) for b in before)]
    last = result.steps[-1].question if result.steps else question
    most = run.settings.max_claims - len(before)
    rivals = [*quotes[:1], *quotes[result.parts :]]  # parts of one list or table do not contradict each other
    claims, contradiction, undisputed = add_contradiction(quotes[:most], rivals, found, last)
    first = claims[0].support if claims else None
    if result.answer and claims:
        claims[0] = dataclasses.replace(claims[0], short_answer=result.answer)
    # Quotes are alternatives here, not parts of one answer: one far below the first is more likely to mislead.
    nearly = {i for i, c in enumerate(claims) if c.support is not None and first and c.support >= _NEARLY * first}
    nearly |= set(range(len(claims), len(claims) + len(before)))
    claims += [dataclasses.replace(c, support=first, short_answer=None) for c in reversed(before)]
    claims = [
        # A quote follows from itself; whether it answers is the reader's to say.
        dataclasses.replace(c, signals=Signals(entailed=1.0, quoted=c.support, sufficient=result.answerable))
        for c in claims
    ]
    if result.parts > most:
        yield run.note("keep", "part of a list", f"{most} of {result.parts} parts; max_claims may be raised", k=most)
    for claim in claims:
        yield Report(ClaimSealed(claim))
    request = DecisionRequest(
        question,
        claims,
        found,
        pipeline="composed",
        answerable=result.answerable,
        confidence=first,
        # the reader's probabilities are fitted, as shipped or by the user; in other languages on three of them only
        calibrated=calibration is not None or not result.by_words,
        unknown=result.unknown,
        scores=standing(claims, nearly),
        contradiction=contradiction,
        undisputed=undisputed,
    )
    answer = yield from decide(request, run)
    read = {"read_as": result.read_as} if result.read_as else {}
    steps = {"steps": [_described(step) for step in result.steps]} if result.steps else {}
    chosen = {"chosen": result.answer} if result.answer else {}
    parts = {"list_parts": result.parts} if result.parts > most and not answer.abstained else {}
    return dataclasses.replace(answer, metadata={**answer.metadata, **read, **steps, **chosen, **parts})


def _described(step: Step) -> dict[str, str]:
    short = step.reading.short_answer
    return {"question": step.question, "answer": one_line(short.text) if short else ""}


def answer_without_model(
    question: str, error: UnusableReplies, passages: Sequence[Passage], run: QuestionRun, *, pipeline: str
) -> Flow[Answer]:
    """Answer with the documents' own sentences after a model whose replies could not be used.

    Log, trace and ``metadata["answered_by"]`` say so. Without a reader (``signals="support_only"`` asks none) this is
    an abstention.
    """
    _LOG.warning("%s The embedded default answers instead.", error.message)
    yield run.note("write", "replies unusable", error.message)
    if not run.abilities.has_reader:
        request = DecisionRequest(question, (), passages, pipeline=pipeline, reason=REPLIES_UNUSABLE)
        return (yield from decide(request, run))
    return in_place_of_model((yield from extractive(question, run)), pipeline)


def in_place_of_model(own: Answer, pipeline: str) -> Answer:
    """Mark an answer of the embedded default that takes the place of a pipeline's own."""
    return dataclasses.replace(own, metadata={**own.metadata, "pipeline": pipeline, "answered_by": ANSWERED_BY})


def retraced(answer: Answer, run: QuestionRun) -> Answer:
    """Return the answer with all decisions so far, also those that were taken after it."""
    return dataclasses.replace(answer, trace=tuple(run.trace.decisions))


def replace_abstention(answer: Answer, run: QuestionRun) -> Flow[Answer]:
    """Answer from the documents alone where time, calls or tokens ended a model's work before it had an answer.

    Reading costs no calls and no tokens, and the engine's deadline keeps time for it. Any other answer stays as it is,
    and so does the abstention where the documents' own sentences are not certain enough, or there is no reader.
    """
    limit, context = run.trace.limit, run.abilities
    if limit is None or not answer.abstained or not context.has_reader or not context.has_model("default"):
        return answer
    if run.settings.pipeline == "research" and run.settings.research.closed_book:
        return answer  # the documents were not to be asked
    yield run.note("write", "left to the embedded default", limit.message)
    try:
        own = yield from extractive(answer.question, run)
    except SelfReflectError as error:
        yield run.note("write", "left out", error.message)  # the abstention is an answer; a failure here is none
        return retraced(answer, run)
    if own.abstained and answer.claims:  # what the model had claimed until then would be lost
        return retraced(answer, run)
    return in_place_of_model(own, answer.metadata["pipeline"])


def count_candidates(run: QuestionRun) -> int:
    """Count the passages to retrieve for the reader: a re-ranker can only promote what was retrieved."""
    settings = run.settings
    top_k = settings.top_k
    return top_k if settings.rerank == "none" else max(top_k, settings.candidates or 2 * top_k)


def read_best(question: str, run: QuestionRun) -> Flow[tuple[tuple[Passage, ...], ReadResult]]:
    """Retrieve, read, and return the ``top_k`` passages with the best quotes and their readings, best first."""
    settings = run.settings
    wanted = count_candidates(run)
    yield run.note("retrieve", "always", "no language model is there to know anything by itself", k=wanted)
    found = yield from retrieve(question, wanted, run)
    if not found:
        return (), ReadResult(())
    found = yield from _add_definition(question, found, run)
    # The prior of "the documents answer", estimated from the questions asked so far, shifts all probabilities.
    expected = run.abilities.expected.value
    limit = max(QUOTES, len(found), settings.max_claims)
    # A model that reads other languages may decline in one, in words that are not known here as a refusal.
    by_words = not run.abilities.has_model("default")
    result: ReadResult = yield Read(question, found, limit, expected, by_words=by_words)
    if result.rest:
        found, result = yield from _read_rest(question, found, result, run)
    result = dataclasses.replace(result, answerable=known_probability(result.answerable))
    run.abilities.expected.see(result)  # after reading: no question shifts its own prior
    yield run.note(
        "read",
        f"{len(result.readings)} candidate quotes",
        result.remark,
        best=result.readings[0].probability if result.readings else None,
        answerable=result.answerable,
        expected_answerable=expected,
    )
    return (yield from keep_or_chain(question, found, result, run))


def _add_definition(question: str, found: tuple[Passage, ...], run: QuestionRun) -> Flow[tuple[Passage, ...]]:
    """Look for passages that say what a term is, if its meaning is asked and none does: many may only mention it."""
    asked = term_asked(question) if run.settings.rerank != "none" else None  # then no more than top_k are kept
    if asked is None or find_definitions(question, found):
        return found
    query = f"{' '.join(filter(None, asked))} definition"
    every = yield from passages_for(query, found, _MANY * count_candidates(run), run)
    known = {p.id for p in found}
    unknown = [p for p in every if p.id not in known]
    stated = [p for p in unknown if holds_definition(asked[0], p.text)]
    more = (*stated, *(p for p in unknown if p not in stated and is_headed(asked[0], p)))[:_DEFINITIONS]
    if more:
        yield run.note("retrieve", "definitions", f"{len(more)} more passages say what {asked[0]} is", k=len(more))
    return (*found, *more)


def _read_rest(
    question: str, found: tuple[Passage, ...], result: ReadResult, run: QuestionRun
) -> Flow[tuple[tuple[Passage, ...], ReadResult]]:
    """Retrieve the passages with the rest of a list or table that was read in part; read again if there are some."""
    held = result.rest_of or result.readings[0].quote.passage_id
    quoted = next(p for p in found if p.id == held)
    rows = quoted.metadata.get("rows")
    wanted = max(_MANY * count_candidates(run), min(rows if isinstance(rows, int) else 0, _MOST_ROWS))
    every = yield from passages_for(result.rest, found, wanted, run)
    known = {p.id for p in found}
    more = tuple(p for p in every if p.id not in known and place_of(p) == place_of(quoted))
    if not more:
        return found, result
    yield run.note("retrieve", "rest of a list", f"{quoted.title} goes on in {len(more)} more passages", k=len(more))
    found = (*found, *more)
    again: ReadResult = yield Read(question, found, max(QUOTES, len(found)), result.expected)
    return found, again


def keep_or_chain(
    question: str, found: tuple[Passage, ...], result: ReadResult, run: QuestionRun
) -> Flow[tuple[tuple[Passage, ...], ReadResult]]:
    """Keep the best passages and readings of a question; those of a chain of steps where that is more probable."""
    kept, best = yield from keep_best(found, result, run)
    if result.unknown or result.by_words or not best.readings:
        return kept, best
    attempt = yield from answer_in_steps(question, found, count_candidates(run), run)
    best = attempt.lower(best)
    chain, sure = attempt.chain, best.readings[0].probability
    most = run.settings.max_claims
    if chain is None or sure is None or chain.probability <= sure or len(chain.result.steps) > most:
        return kept, best
    if {step.reading.quote for step in chain.result.steps} == {best.readings[0].quote}:  # it holds all of them
        first = dataclasses.replace(best.readings[0], probability=chain.probability)
        return kept, dataclasses.replace(best, readings=(first, *best.readings[1:]))
    asked = "; ".join(step.question for step in chain.result.steps)
    yield run.note("steps", f"{len(chain.result.steps)} steps", asked, probability=chain.probability)
    kept, by_steps = _keep_quoted(chain, kept, run.settings.top_k)
    return kept, dataclasses.replace(by_steps, answerable=max(best.answerable or 0.0, chain.probability))


def _keep_quoted(chain: Chain, kept: Sequence[Passage], top_k: int) -> tuple[tuple[Passage, ...], ReadResult]:
    """Keep the passages that a chain quotes, and as many of the others as ``top_k`` leaves room for."""
    quoted = chain.quoted
    others = [p for p in kept if p.id not in {q.id for q in quoted}]
    passages = (*quoted, *others[: max(0, top_k - len(quoted))])
    ids = {p.id for p in passages}
    readings = tuple(r for r in chain.result.readings if r.quote.passage_id in ids)
    return passages, dataclasses.replace(chain.result, readings=readings, passage_scores=())


def keep_best(
    found: tuple[Passage, ...], result: ReadResult, run: QuestionRun
) -> Flow[tuple[tuple[Passage, ...], ReadResult]]:
    """Keep the ``top_k`` passages with the best quotes, and their readings; all, in order, if nothing re-ranks."""
    top_k = run.settings.top_k
    if run.settings.rerank == "none":
        return found, result
    ranked = rank_by_reading(found, result)
    kept = tuple(r.passage for r in ranked[:top_k])
    if kept != found:
        yield run.note("rerank", f"{len(kept)} of {len(found)} passages", ranked[0].reason, method="reading")
    ids = {p.id for p in kept}  # quotes come only from passages that the answer lists
    scores = tuple(r.score for r in ranked[:top_k])
    readings = tuple(r for r in result.readings if r.quote.passage_id in ids)
    return kept, dataclasses.replace(result, readings=readings, passage_scores=scores)


def claims_from(
    readings: Sequence[Reading], passages: Mapping[str, Passage], calibration: Calibration | None
) -> list[Claim]:
    """Make one claim of each distinct quote; ``calibration``, fitted on the app's own questions, is applied to all."""
    claims: list[Claim] = []
    seen: dict[str, int] = {}
    for reading in readings:
        text = one_line(reading.quote.text)  # copies of a sentence may differ in line breaks
        if text in seen:  # the same sentence in another passage is a second place, not a second claim
            # Readings are best first, so the claim keeps the probability and short answer of the best place.
            claims[seen[text]] = _add_place(claims[seen[text]], reading.quote)
            continue
        support = known_probability(reading.probability)
        if calibration is not None and support is not None:
            support = calibration.probability(support)
        seen[text] = len(claims)
        short = one_line(reading.short_answer.text) if reading.short_answer else None
        said = write_quote(passages[reading.quote.passage_id].text, reading.quote)
        claims.append(Claim(said, support, (Citation((reading.quote,)),), short_answer=short))
    return claims


def _add_place(claim: Claim, span: Span) -> Claim:
    citation = claim.citations[0]
    merged = Citation((*citation.spans, span), citation.match, ambiguous=True, quote=citation.quote)
    return Claim(claim.text, claim.support, (merged,), short_answer=claim.short_answer)
