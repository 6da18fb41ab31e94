"""ReSearch as a pipeline: search for the answer of the highest expected utility, show it, or abstain.

``closed_book`` is the paper's form: the model's own knowledge, judged by its self-consistency; the answer is a whole
candidate, as it was written. With retrieval (ours) a claim is judged by what the passages say of it; the answer is a
candidate as it was written too, but sentences that nothing can be quoted for, or whose support is below the target,
are left out or marked (``unsupported_claims``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from shared_core.abstention import claim_key
from shared_core.errors import LimitError
from shared_core.pipelines.competing import reconsider
from shared_core.pipelines.decision.decide import DecisionRequest, decide
from shared_core.pipelines.decision.question_run import QuestionRun, retrieve
from shared_core.pipelines.decision.reasons import (
    CERTAINTY_UNKNOWN,
    NOT_KNOWN,
    PASSAGES_DO_NOT_ANSWER,
    UNSUPPORTED_HERE,
)
from shared_core.pipelines.decision.wording import assemble
from shared_core.pipelines.extractive import ANSWERED_BY, UnusableReplies, answer_without_model, find_unusable
from shared_core.pipelines.research.claims import Candidate, lay_out
from shared_core.pipelines.research.evaluate import evaluate, self_evaluation_of
from shared_core.pipelines.research.search import Search, search
from shared_core.runtime.flow import Flow, Report
from shared_core.types import Answer, Claim, ClaimSealed

Verdict = Literal["supported", "unsupported here", "false", "likely", "unlikely", "unknown"]
"""By passages: ``supported``; ``unsupported here``: the passages do not say so; ``false``: they do not, and the model
does not believe it either. Closed book: ``likely`` or ``unlikely``. ``unknown``: could not be told."""


def research(question: str, run: QuestionRun) -> Flow[Answer]:
    """See the module. The trace holds ``retrieve``, for each round ``split evaluate search`` (or ``split quote …
    confidence search``), ``select``, ``keep``, and ``answer`` or ``abstain``.

    ``metadata`` has ``closed_book``; ``verdicts``, one for each of ``Answer.claims``; ``written``, the candidate as it
    was; and ``search``: rounds, candidates, claims, cache hits, tokens, best utility of each round.
    """
    settings = run.settings
    state = yield from searched(question, run)
    if not state.passages and not settings.research.closed_book:
        return (yield from decide(DecisionRequest(question, (), (), pipeline="research"), run))
    # Dashes and dots are not an answer, not even a wrong one.
    wrote = any(character.isalnum() for c in state.candidates for character in c.text)
    if state.passages and state.candidates and not wrote and run.trace.limit is None:
        error = find_unusable((), run)
        assert error is not None, "nothing was written"
        return (yield from _without_model(question, error, state))
    best, worth = _select(state)
    yield run.note(
        "select",
        "a candidate" if worth else "none",
        "the highest expected utility" if worth else "no candidate is worth more than saying nothing",
        candidates=len(state.candidates),
        utility=max(state.history, default=0.0),
        round=best.round if best is not None else None,
    )
    claims = [state.claims.get(claim_key(c), Claim(c)) for c, _ in best.places()] if best is not None else []
    verdicts = yield from _verdicts(state, claims)
    # What will not be shown is not reported as settled.
    for claim in claims if worth else ():
        yield Report(ClaimSealed(claim))
    answer = yield from _decide(state, best, claims, worth=worth, verdicts=verdicts)
    told = {
        "closed_book": settings.research.closed_book,
        "verdicts": [verdicts[claim_key(c.text)] for c in answer.claims],
        "written": best.text if best is not None and worth else "",
        "search": _figures(state),
    }
    answer = dataclasses.replace(answer, metadata={**answer.metadata, **told})
    decided = yield from reconsider(question, answer, run)
    return _judged_by_quotes(decided) if decided.metadata.get("answered_by") == ANSWERED_BY else decided


def _judged_by_quotes(answer: Answer) -> Answer:
    """Add the verdicts on claims that are quotes of the documents."""
    verdicts = ["supported" if c.status == "kept" else "unsupported here" for c in answer.claims]
    return dataclasses.replace(answer, metadata={**answer.metadata, "verdicts": verdicts})


def _without_model(question: str, error: UnusableReplies, state: Search) -> Flow[Answer]:
    """From the documents alone: nothing at all was written about them."""
    answer = yield from answer_without_model(question, error, state.passages, state.run, pipeline="research")
    told = {"closed_book": False, "written": "", "search": _figures(state)}
    return _judged_by_quotes(dataclasses.replace(answer, metadata={**answer.metadata, **told}))


def searched(question: str, run: QuestionRun) -> Flow[Search]:
    """Retrieve, where the settings say so, and search; without candidates where nothing was retrieved."""
    settings = run.settings
    if settings.research.closed_book:
        yield run.note("retrieve", "never", "closed book: the model's own knowledge")
        return (yield from search(question, (), run))
    yield run.note("retrieve", "always", "claims are judged by what the passages say", k=settings.top_k)
    passages = yield from retrieve(question, settings.top_k, run)
    return (yield from search(question, passages, run)) if passages else Search(question, run)


def _select(state: Search) -> tuple[Candidate | None, bool]:
    """The candidate to show, and whether it is worth more than saying nothing (else it is the nearest there was)."""
    ranked = state.ranked()
    # Strictly: a tie with abstaining is an abstention (Algorithm 1).
    if ranked and ranked[0][1] > 0:
        return ranked[0][0], True
    return next((c for c, _ in ranked if c.claims), None), False


def _decide(
    state: Search, best: Candidate | None, claims: Sequence[Claim], *, worth: bool, verdicts: dict[str, Verdict]
) -> Flow[Answer]:
    run, closed = state.run, state.options.closed_book
    fitted = self_evaluation_of(run.settings, run.abilities) is not None
    # Without scores no claim passes the bar: a candidate that is not worth it is not shown.
    scores = state.shown_by(best) if best is not None and worth else [None for _ in claims]
    request = DecisionRequest(
        state.question,
        claims,
        state.passages,
        pipeline="research",
        answerable=state.weighed.answerable,
        calibrated=fitted if closed else state.weighed.calibrated,
        unknown=state.weighed.unknown,
        scores=scores,
        # Closed book the candidate stays as it was written, unlikely claims included.
        whole=closed and worth,
        layout=assemble if best is None else lambda judged: lay_out(best, judged, marks=not closed),
        reason=_reason(state, claims, verdicts),
    )
    return (yield from decide(request, run))


def _reason(state: Search, claims: Sequence[Claim], verdicts: dict[str, Verdict]) -> str:
    """Why there is no answer, where the pipeline knows: not known by itself, or not in these documents."""
    said = set(verdicts.values()) - {"unknown"}
    if state.options.closed_book:
        # Unknown: there are claims, and no probability of any could be read.
        return NOT_KNOWN if said or not claims else CERTAINTY_UNKNOWN
    if not claims:
        return PASSAGES_DO_NOT_ANSWER if state.candidates else ""
    return UNSUPPORTED_HERE if said and not any(c.citations for c in claims) else ""


def _verdicts(state: Search, claims: Sequence[Claim]) -> Flow[dict[str, Verdict]]:
    """Verdicts by ``claim_key``; the model is asked about claims that passages do not support."""
    target, closed = state.target, state.options.closed_book
    found: dict[str, Verdict] = {}
    for claim in claims:
        above = claim.support is not None and claim.support > target
        if closed:
            found[claim_key(claim.text)] = "unknown" if claim.support is None else "likely" if above else "unlikely"
        # With a quote only the judgement is missing; without one nothing supports it.
        elif claim.support is None and claim.citations:
            found[claim_key(claim.text)] = "unknown"
        else:
            found[claim_key(claim.text)] = "supported" if above else "unsupported here"
    doubted = [c.text for c in claims if found[claim_key(c.text)] == "unsupported here"]
    if not doubted or not state.options.published.own_word or state.run.trace.limit is not None:
        return found
    try:
        asked, _ = yield from evaluate(state.question, doubted, [()] * len(doubted), 0, state.run)
    except LimitError as error:
        yield state.run.note("own word", "left out", error.message)
        return found
    for text, own in zip(doubted, asked):
        # As sure of the contrary as ρ* asks of a claim.
        if own.probability is not None and own.probability <= 1 - target:
            found[claim_key(text)] = "false"
    return found


def _figures(state: Search) -> dict[str, object]:
    return {
        "rounds": state.rounds,
        "candidates": len(state.candidates),
        "claims": len(state.cache),
        "cache_hits": state.cache.hits,
        "cache_misses": state.cache.misses,
        "missing_probabilities": state.missing,
        "sentences_split": state.splits.asked,
        "split_fallbacks": state.splits.fallbacks,
        "tokens": state.tokens,
        "utility_by_round": list(state.history),
    }
