"""Let the embedded default's own quotes compete with an answer that was decided on without them."""

from __future__ import annotations

import dataclasses

from shared_core.pipelines.competing import ANSWERED_BY, compete, takes_part
from shared_core.pipelines.decision.decide import DecisionRequest, decide
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.evidence import cited_spans
from shared_core.pipelines.extractive import count_candidates
from shared_core.runtime.flow import Flow, Report, Retrieve
from shared_core.types import Answer, Passage, Retrieved


def reconsider(question: str, answer: Answer, run: QuestionRun, *, search: bool = False) -> Flow[Answer]:
    """Let the embedded default's own quotes compete with an answer that abstains or shows no quote of its own.

    Args:
        search: read what the question itself finds as well: a model's own queries may have led elsewhere.
    """
    if not answer.passages or any(c.citations for c in answer.kept_claims) or run.trace.limit is not None:
        return answer
    passages = answer.passages
    if search and takes_part(run):
        k = count_candidates(run)
        found: tuple[Passage, ...] = yield Retrieve(question, k, run.settings.where)
        yield Report(Retrieved(question, found))
        yield run.note("retrieve", "the question itself", "for the embedded default's own quotes", k=k)
        passages = tuple({p.id: p for p in (*found, *passages)}.values())
    rivals = yield from compete(question, answer.claims, (), passages, run)
    known = answer.metadata["answerable"] if rivals.answerable is None else rivals.answerable
    if not rivals.own:
        metadata = {**answer.metadata, "answerable": known}
        return dataclasses.replace(answer, trace=tuple(run.trace.decisions), metadata=metadata)
    pipeline = str(answer.metadata["pipeline"])
    cited = {s.passage_id for c in rivals.claims for s in cited_spans(c)} - {p.id for p in answer.passages}
    shown = [*answer.passages, *(p for p in passages if p.id in cited)]
    request = DecisionRequest(question, rivals.claims, shown, pipeline=pipeline, answerable=known)
    decided = yield from decide(request, run)
    metadata = {**answer.metadata, **decided.metadata, "answered_by": ANSWERED_BY}
    return dataclasses.replace(decided, metadata=metadata)
