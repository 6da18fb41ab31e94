"""The engine's default pipeline: parts of the published systems in sequence, as far as the model's abilities allow.

Without a language model it quotes (``extractive``). With one it asks first whether the model knows by itself (SeaKR's
gate, if calibrated), re-ranks candidates by how well they answer (critic or reader; SeaKR's uncertainty on request),
writes each claim after a verbatim quote (ReClaim), estimates every claim's support, reads the passages again for a
short answer if no claim is worth showing, and keeps the claims that raise expected utility (ReSearch).
"""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.errors import BudgetError, LimitError, SelfReflectError
from shared_core.pipelines.competing import read_where_hopeless, replace_by_steps
from shared_core.pipelines.confidence import Weighed, decide_weighed, weigh
from shared_core.pipelines.decision.decide import DecisionRequest, decide, merge_duplicates
from shared_core.pipelines.decision.question_run import QuestionRun, retrieve
from shared_core.pipelines.decision.wording import assemble_uncited
from shared_core.pipelines.extractive import (
    UnusableReplies,
    answer_without_model,
    extractive,
    keep_or_chain,
    quote_best,
)
from shared_core.pipelines.gating.choose import choose_estimator, choose_threshold
from shared_core.pipelines.gating.query import decide_retrieval, draft_answer
from shared_core.pipelines.reclaim.loop import write
from shared_core.pipelines.rerank import rerank_by_rating, rerank_by_reading, rerank_by_uncertainty
from shared_core.pipelines.rereading import read_again
from shared_core.pipelines.seakr.answer import answer_claim
from shared_core.runtime.flow import Flow
from shared_core.types import Answer, Claim, Passage
from shared_core.uncertainty import final_answer


def composed(question: str, run: QuestionRun) -> Flow[Answer]:
    """Answer with the parts that the model's abilities allow for (see the module).

    The trace holds ``gate rerank write support keep``, ``read again`` if no quoted claim was worth showing, then
    ``answer`` or ``abstain``.
    """
    if not run.abilities.has_model("default"):  # a model with the role of a judge does not write
        return (yield from extractive(question, run))
    settings = run.settings
    own = yield from _recall(question, run)
    if own is not None:  # calibrated: `_recall` asks for a calibration of answers
        request = DecisionRequest(question, [own], (), pipeline="composed", calibrated=True, layout=assemble_uncited)
        return (yield from decide(request, run))
    method = _rerank_method(run)
    # A re-ranker can only promote what it is given: twice as many candidates as will be read.
    wanted = settings.top_k if method == "none" else settings.candidates or 2 * settings.top_k
    found = yield from retrieve(question, wanted, run)
    weighed = Weighed([])
    passages: Sequence[Passage] = found
    if found:
        hopeless = yield from read_where_hopeless(question, found, run)
        if hopeless is not None:
            kept, result = yield from keep_or_chain(question, found, hopeless, run)
            return (yield from quote_best(question, kept, result, run))
        passages = yield from _rerank(question, found, method, run)
        try:
            claims = yield from write(question, passages, run)
        except UnusableReplies as error:
            return (yield from answer_without_model(question, error, passages, run, pipeline="composed"))
        # Beside all that was found, as without a model: fewer passages would make the reader surer than it is.
        weighed = yield from weigh(question, merge_duplicates(claims), found, run)  # merged first: judged once
        weighed = yield from read_again(question, weighed, passages, run, found=found)
    answer = yield from decide_weighed(question, weighed, passages, run, pipeline="composed", found=found)
    return (yield from replace_by_steps(answer, found, run))


def _recall(question: str, run: QuestionRun) -> Flow[Claim | None]:
    """Return the model's own answer if a calibrated gate says that it knows; ``None`` if passages are needed.

    Only with ``allow_answers_without_citation``. An uncalibrated gate decides nothing here: such an answer needs a
    confidence that means something.
    """
    settings, context = run.settings, run.abilities
    # The gate says when the model knows; only "answer" gives a confidence to show.
    if not {"gate", "answer"} <= set(context.calibrations):
        yield run.note("gate", "retrieve", "no calibration says when the model knows by itself")
        return None
    if not settings.allow_answers_without_citation:
        yield run.note("gate", "retrieve", "an answer from memory would have no quote (allow_answers_without_citation)")
        return None
    chosen = choose_estimator(settings, context)
    threshold = choose_threshold(chosen, settings, context)
    try:
        draft = yield from draft_answer(question, chosen, threshold, run, attention=settings.seakr.gate == "dragin")
    except BudgetError as error:  # whether it knows is unknown, and unknown means: retrieve
        yield run.note("gate", "retrieve", error.message)
        return None
    if draft is None:
        return None
    wanted, reason = decide_retrieval(draft, threshold, settings.seakr)
    text = final_answer(f"the answer is {draft.text}")  # the prompt ended in this lead
    yield run.note("gate", "retrieve" if wanted or not text else "know", reason, draft=draft.text[:200])
    if wanted or not text:
        return None
    claim = yield from answer_claim(question, text, draft.uncertainty, (), chosen, run)
    return claim if claim.support is not None and claim.support > settings.target_accuracy else None


def _rerank_method(run: QuestionRun) -> str:
    """Choose the cheapest re-ranker available; the model's uncertainty, hundreds of generations, only as the last."""
    if run.settings.rerank != "auto":
        return run.settings.rerank
    if run.abilities.critic is not None:
        return "critic"
    if run.abilities.has_reader:
        return "reading"
    model = run.abilities.model("default")
    return "uncertainty" if model is not None and model.hidden_states else "none"


def _rerank(question: str, found: Sequence[Passage], method: str, run: QuestionRun) -> Flow[list[Passage]]:
    """Return the ``top_k`` best passages; in the order found if the budget does not suffice to rank them."""
    if method == "none":
        return list(found)
    ways = {"reading": rerank_by_reading, "critic": rerank_by_rating, "uncertainty": rerank_by_uncertainty}
    try:
        ranked = yield from ways[method](question, found, run)
    except SelfReflectError as error:
        # Who asks for a method must see it fail, and "uncertainty" asks the model that is to write. A budget too small
        # for ranking may suffice to answer; a deadline is over for both.
        asked_for = run.settings.rerank != "auto" or method == "uncertainty"
        if not isinstance(error, BudgetError) and (asked_for or isinstance(error, LimitError)):
            raise
        yield run.note("rerank", "left out", error.message, method=method)  # go on as if there were no re-ranker
        return list(found[: run.settings.top_k])
    kept = ranked[: run.settings.top_k]
    yield run.note("rerank", f"{len(kept)} of {len(found)} passages", kept[0].reason, method=method)
    return [r.passage for r in kept]
