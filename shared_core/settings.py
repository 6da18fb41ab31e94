"""Settings: validated when created, frozen, and strict about names."""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from shared_core.pipeline_settings import (
    Demonstration,
    GateName,
    ReclaimPublished,
    ReclaimSettings,
    ResearchPublished,
    ResearchSettings,
    SeakrPublished,
    SeakrSettings,
    SelfRagPublished,
    SelfRagSettings,
)
from shared_core.support.settings_base import Renamed, Settings

__all__ = [
    "AbstainPolicy", "Demonstration", "GateName", "GuaranteeName", "PipelineName", "ReclaimPublished",
    "ReclaimSettings", "ResearchPublished", "ResearchSettings", "SeakrPublished", "SeakrSettings",
    "SelfRagPublished", "SelfRagSettings", "SelfReflectSettings", "Settings",
]  # fmt: skip

PipelineName = Literal["composed", "reclaim", "research", "seakr", "self_rag"]
"""Every pipeline; no other module lists them (see ``pipelines.PIPELINES``)."""

GuaranteeName = Literal["conformal_factuality", "conformal_risk_control", "learn_then_test"]
"""Every guarantee (see ``abstention``)."""

AbstainPolicy = Literal["say", "show", "raise", "fallback"]
"""Every policy for abstentions (see ``on_abstain``)."""


class SelfReflectSettings(Settings):
    """Settings of the engine.

    >>> settings = SelfReflectSettings(target_accuracy=0.8, seakr=SeakrSettings(samples=10))
    >>> settings.replace(top_k=3).top_k
    3
    """

    renamed: ClassVar[Mapping[str, Renamed]] = {
        "witnesses": Renamed("signals", {"auto": "all", "judge": "support_only"}),
        "second_reading": Renamed("retry_short_answer"),
        "unsupported": Renamed("unsupported_claims"),
        "allow_uncited": Renamed("allow_answers_without_citation"),
    }

    target_accuracy: float = Field(
        default=0.5,
        gt=0,
        lt=1,
        description="ρ*: show only claims that are right at least this often. A higher target answers fewer questions.",
    )
    pipeline: PipelineName = Field(default="composed", description="The pipeline that answers.")
    top_k: int = Field(default=5, ge=1, description="Passages to read.")
    expected_answerable: float | Literal["auto"] = Field(
        default=0.75,
        description="Prior: the share of questions that the documents answer, in (0, 1). auto estimates it from the "
        "questions asked, after the first 20.",
    )
    guarantee: GuaranteeName | None = Field(
        default=None,
        description="Statistical guarantee for the claims shown, at the target accuracy ρ*; fitted by `selfreflect "
        "calibrate guarantee` and read from the calibration file. conformal_factuality: with probability 1-α, at "
        "least ρ* of an answer's claims are right; conformal_risk_control: ρ* of an answer's claims are right on "
        "average; learn_then_test: the same, with probability 1-α over the calibration.",
    )
    guarantee_alpha: float = Field(
        default=0.1, gt=0, lt=1, description="α: the probability that the guarantee may fail."
    )
    signals: Literal["all", "support_only"] = Field(
        default="all",
        description="Signals that decide whether a claim is right: all of them (the embedded reader and critic, the "
        "judge, the model); or support_only, as ReClaim was published: only whether quotes support claims, so that "
        "answers to another question are not caught.",
    )
    rerank: Literal["auto", "none", "reading", "critic", "uncertainty"] = Field(
        default="auto",
        description="Re-ranker of the composed pipeline: reader, critic, the model's uncertainty (needs hidden states; "
        "costs (candidates + 1) · (samples + 1) generations) or none. auto takes the first available of critic, reader "
        "and uncertainty.",
    )
    candidates: int | None = Field(
        default=None, ge=1, description="Passages to retrieve for re-ranking; None is twice top_k."
    )
    max_claims: int = Field(
        default=3,
        ge=1,
        description="Maximum quotes of an answer without a model. Where it is set, also the maximum claims of a model "
        "(composed pipeline); otherwise all above the target accuracy are shown.",
    )
    on_abstain: AbstainPolicy = Field(
        default="say",
        description="If the engine abstains: say why; show the nearest passages too; raise AbstainedError; or fall "
        "back to the model's own knowledge, marked as such (needs a language model).",
    )
    unsupported_claims: Literal["drop", "flag"] = Field(
        default="drop", description="Leave claims below the target out, or show them with a mark."
    )
    allow_answers_without_citation: bool = Field(
        default=False,
        description="Show answers without a quote, marked as such. composed: from memory, if calibrations of gate and "
        "answer say that the model knows; otherwise passages are always retrieved. seakr: from memory, or from "
        "passages of which no sentence can be cited (yes, no); otherwise it abstains, or quotes what the reader finds.",
    )
    retry_short_answer: bool = Field(
        default=True,
        description="composed, reclaim, self_rag: if no claim reaches the target, ask again for a short answer from "
        "the same passages, and cite the sentences that contain it. One or two calls, only in that case.",
    )
    compete: bool = Field(
        default=True,
        description="With a language model: let the embedded default's own quotes compete with the model's claims, and "
        "learn from their agreement how far the model's word counts (docs/confidence.md). Then answers depend on the "
        "questions asked before. Without, the lowest signal counts and a refusal is believed.",
    )
    on_overflow: Literal["drop", "raise"] = Field(
        default="drop",
        description="If the prompt exceeds the model's context: drop the lowest-ranked passages, or raise.",
    )
    abstain_text: str | None = Field(
        default=None,
        description="Text of an abstention, in any language; {question} and {reason} (a sentence in English) are "
        "filled in. None uses the built-in text. Confidence and other figures are in the answer's fields.",
    )
    deadline: float | None = Field(
        default=None,
        gt=0,
        description="Seconds from question to answer (questions of a batch start together). Unfinished work is "
        "cancelled; the engine answers with what it has, or from the documents alone, or abstains.",
    )
    max_calls: int | None = Field(
        default=None, ge=1, description="Maximum language model requests per question; then as at the deadline."
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Maximum tokens that models read and write per question; no request starts after that.",
    )
    where: dict[str, Any] | None = Field(default=None, description="Metadata filter of every retrieval.")
    seed: int | None = Field(default=0, description="Seed of all sampling; None draws a new one each time.")
    calibration: Path | None = Field(default=None, description="File written by `selfreflect calibrate`.")
    seakr: SeakrSettings = Field(default_factory=SeakrSettings, description="SeaKR, gate and uncertainty re-ranker.")
    reclaim: ReclaimSettings = Field(default_factory=ReclaimSettings, description="ReClaim.")
    self_rag: SelfRagSettings = Field(default_factory=SelfRagSettings, description="Self-RAG.")
    research: ResearchSettings = Field(default_factory=ResearchSettings, description="ReSearch.")

    @field_validator("expected_answerable")
    @classmethod
    def _is_share(cls, value: float | str) -> float | str:
        if isinstance(value, float) and not 0 < value < 1:
            raise ValueError("must be above 0 and below 1, or 'auto'")
        return value

    @field_validator("abstain_text")
    @classmethod
    def _fill_in(cls, text: str | None) -> str | None:
        """Refuse a template that could not be filled in later."""
        for _, name, form, conversion in string.Formatter().parse(text or ""):
            if name is not None and (name not in ("question", "reason") or form or conversion):
                raise ValueError(
                    f"only {{question}} and {{reason}} can be filled in, not {{{name}}} (write {{{{ for {{)"
                )
        return text
