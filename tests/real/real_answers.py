"""Questions and small settings for a slow model, and what must hold of each of its answers."""

from __future__ import annotations

from typing import get_args

from shared_core.settings import (
    PipelineName,
    ReclaimSettings,
    ResearchSettings,
    SeakrSettings,
    SelfRagSettings,
    SelfReflectSettings,
)
from shared_core.types import Answer

PIPELINES: tuple[PipelineName, ...] = get_args(PipelineName)
QUESTIONS = ("What is the capital of Tavarrin?", "Who developed the vaccine against the grey fever?")
"""One that the documents of ``conftest`` answer, and one that they do not."""


def small_settings(pipeline: PipelineName, max_calls: int = 16) -> SelfReflectSettings:
    """Budgets that end any question within half a minute on one core."""
    return SelfReflectSettings(
        pipeline=pipeline,
        top_k=2,
        max_calls=max_calls,
        max_tokens=6_000,
        reclaim=ReclaimSettings(max_pairs=1, max_reference_tokens=64, max_claim_tokens=32, regenerate=1),
        seakr=SeakrSettings(samples=3, max_steps=2, max_step_tokens=32, rerank_passages=2),
        self_rag=SelfRagSettings(max_depth=2, max_segment_tokens=48),
        research=ResearchSettings(rounds=1, samples=3, max_tokens=48, splitter="sentences"),
    )


def check_answer(answer: Answer, question: str) -> None:
    """An answer or an abstention, with exact quotes, and the model was asked."""
    assert answer.question == question
    assert answer.text
    assert answer.usage.calls >= 1
    if answer.abstained:
        assert answer.reason
    for claim in answer.kept_claims:
        for citation in claim.citations:
            for span in citation.spans:
                assert answer.passage(span.passage_id).text[span.start : span.end] == span.text
