"""Settings: validated when they are made, frozen, and strict about names."""

from __future__ import annotations

import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from shared_core.errors import SettingsError, did_you_mean

PipelineName = Literal["composed", "reclaim", "research", "seakr", "self_rag"]
"""The pipelines that there are, and no others: this is the one place that names them (``pipelines.PIPELINES``)."""

GuaranteeName = Literal["conformal_factuality", "conformal_risk_control", "learn_then_test"]
"""The guarantees that there are (``abstention``)."""


class Settings(BaseModel):
    """Base of all groups of settings. Wrong values raise SettingsError, and so do names that do not exist."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise SettingsError(_describe(type(self).__name__, error), hint=_hint_for(type(self), error)) from error

    def replace(self, **values: Any) -> Self:
        """A copy with these values, validated again (``model_copy`` would not validate).

        As set (``model_fields_set``) count those that were set before and these: a caller who left ``top_k`` alone has
        still not chosen it afterwards.
        """
        return type(self)(**{**{name: getattr(self, name) for name in self.model_fields_set}, **values})


def _describe(name: str, error: ValidationError) -> str:
    problems = [
        f"{'.'.join(map(str, e['loc'])) or 'value'}: {e['msg']} (given: {e['input']!r})" for e in error.errors()
    ]
    return f"{name} cannot be made: " + "; ".join(problems)


def _hint_for(model: type[BaseModel], error: ValidationError) -> str:
    unknown = [e for e in error.errors() if e["type"] == "extra_forbidden"]
    if not unknown:
        return "Each setting's range is in its description: selfreflect doctor --settings"
    group: Any = model
    for part in unknown[0]["loc"][:-1]:
        group = group.model_fields[part].annotation
    near = did_you_mean(str(unknown[0]["loc"][-1]), group.model_fields)
    return f"{near}Known settings: {', '.join(sorted(group.model_fields))}"


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A worked question: what is asked, the steps (one sentence each), the answer."""

    question: str
    steps: tuple[str, ...]
    answer: str

    def render(self) -> str:
        """As it stands in a prompt."""
        return f"Question: {self.question}\nAnswer: {' '.join(self.steps)} So the answer is {self.answer}."


class SeakrSettings(Settings):
    """SeaKR (paper's values as defaults)."""

    estimator: str = Field(default="gram", description="Name of the uncertainty estimator.")
    allow_fallback: bool = Field(
        default=True, description="Use the next-best estimator where a capability is missing, and say so."
    )
    threshold: float | None = Field(
        default=None,
        description="Retrieve above it; None takes the calibrated one. Without either, uncertainty decides nothing: "
        "passages are retrieved always, and nothing is sampled to find out. The paper's is -6 (gram, k = 20), for "
        "Llama 2 7B.",
    )
    form: Literal["paper", "published_code"] = Field(
        default="paper",
        description="Where paper and published code differ: passages in the prompts (gate: none, re-ranking: one; the "
        "code adds those kept already), how the answer is asked for, words left out of the query, DRAGIN's stop words, "
        "and what the limit of passages ends. docs/seakr.md has the table.",
    )
    gate: Literal["uncertainty", "flare", "dragin", "always"] = Field(
        default="uncertainty",
        description="Retrieve when the estimator says so, when a token is improbable (FLARE), when an uncertain word "
        "is attended to (DRAGIN, needs attention weights), or always.",
    )
    flare_threshold: float = Field(
        default=0.8, ge=0, le=1, description="FLARE: retrieve if a token has p at most this."
    )
    flare_mask: float = Field(
        default=0.4, ge=0, le=1, description="FLARE: tokens of p at most this are left out of the query."
    )
    dragin_threshold: float = Field(default=1.0, gt=0, description="DRAGIN: retrieve if a word's value is above this.")
    dragin_words: int = Field(default=25, ge=1, description="DRAGIN: words of the query.")
    meanings: Literal["auto", "judge", "critic", "embedder"] = Field(
        default="auto",
        description="Who compares what samples mean: a judge of entailment, the shipped critic, or an embedder; auto "
        "takes the first there is of judge, embedder, critic. Claim-conditioned probability needs judge or critic.",
    )
    samples: int = Field(default=20, ge=2, le=128, description="Sampled continuations per decision (k).")
    alpha: float = Field(default=1e-3, gt=0, description="Regulariser of the Gram determinant.")
    layer: int | None = Field(default=None, description="Decoder layer; None is the middle one.")
    hidden: Literal["mlp", "residual"] = Field(default="mlp", description="Which vector of the layer.")
    position: Literal["eos", "last"] = Field(
        default="eos",
        description="State at an end-of-sequence token put behind each sample (paper), or at its last token: for "
        "models without such a token.",
    )
    temperature: float = Field(default=1.0, gt=0)
    top_k_sampling: int = Field(default=50, ge=0)
    top_p: float = Field(default=0.9, gt=0, le=1)
    max_step_tokens: int = Field(default=100, ge=1)
    rerank_passages: int = Field(default=3, ge=1, description="Passages compared at each retrieval (N).")
    max_steps: int = Field(default=8, ge=1)
    max_passages: int = Field(
        default=8, ge=1, description="Passages kept at most; at this limit the steps end (paper)."
    )
    query_token_probability: float = Field(
        default=0.9, ge=0, le=1, description="Words below it are left out of the query."
    )
    max_query_tokens: int = Field(default=64, ge=1)
    multi_hop: bool = Field(
        default=True, description="Step by step (complex questions) or at most one retrieval (simple ones)."
    )
    reasoning_uncertainty: Literal["paper", "published_code"] | None = Field(
        default=None,
        description="Average over rationales (paper), or the answer's own only (published code); None is `form`'s.",
    )
    task: str = Field(default="default", description="Which demonstrations: default, 2wiki, hotpotqa, iirc, simple.")
    demonstrations: tuple[Demonstration, ...] = Field(default=(), description="Your own, instead of the task's.")

    @property
    def published(self) -> bool:
        """Whether it goes as the published code does."""
        return self.form == "published_code"

    @property
    def measures_answer(self) -> bool:
        """Whether an answer's uncertainty is its own, not the mean over its rationales (published code)."""
        return (self.reasoning_uncertainty or self.form) == "published_code"


class ReclaimSettings(Settings):
    """ReClaim."""

    mode: Literal["sentence", "span"] = Field(default="sentence", description="What may be quoted.")
    generation: Literal["interleaved", "unified"] = "interleaved"
    min_pairs: int = Field(default=0, ge=0)
    max_pairs: int = Field(default=5, ge=1)
    min_sentences: int = Field(default=1, ge=1, description="Sentences per reference.")
    max_sentences: int = Field(default=3, ge=1)
    reuse: bool = Field(default=True, description="The same sentence may be cited in more than one reference.")
    max_reference_tokens: int = Field(
        default=256,
        ge=8,
        description="Of a reference that it cuts off the whole sentences stay; a longer one is not quoted.",
    )
    max_claim_tokens: int = Field(default=96, ge=1)
    regenerate: int = Field(default=2, ge=0, description="Attempts to repair a quote of a model without grammars.")
    demonstrations: int = Field(
        default=0,
        ge=0,
        le=3,
        description="Worked answers shown to the models: 3 (paper) for models that were not trained on the form, 0 for "
        "those that were (`selfreflect train reclaim`).",
    )
    isolate_claims: bool = Field(
        default=False,
        description="Models without grammars: have each claim written anew from its quote alone, without question and "
        "passages (as the paper's claim model), at one more call for each.",
    )
    fuzzy_threshold: float = Field(
        default=0.85, gt=0, le=1, description="Similarity at which a free quote still counts."
    )

    @model_validator(mode="after")
    def _consistent(self) -> ReclaimSettings:
        if self.min_pairs > self.max_pairs or self.min_sentences > self.max_sentences:
            raise ValueError("a minimum is above its maximum")
        if self.generation == "unified" and not self.reuse and (self.mode != "sentence" or self.max_sentences > 1):
            raise ValueError("unified generation without reuse quotes single sentences: max_sentences=1")
        return self


class SelfRagSettings(Settings):
    """Self-RAG (paper's values as defaults)."""

    critic: Literal["auto", "tokens", "prompted"] = Field(
        default="auto",
        description="Who judges: the model's reflection tokens where it has them, else a prompted critic (auto); the "
        "tokens or an error; or the prompted critic whatever the model has.",
    )
    form: Literal["long", "short"] = Field(
        default="long",
        description="An answer written segment by segment under beam search, or in one go from one retrieval: the best "
        "of as many as there are passages.",
    )
    mode: Literal["adaptive", "always", "never"] = Field(
        default="adaptive", description="Retrieve when the model asks for it, for every segment, or not at all."
    )
    retrieval_threshold: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="δ: retrieve if P(retrieve) against P(do not) is above it (eq. 8); 0 always does, as where "
        "citations are required.",
    )
    retrieve_again: bool = Field(
        default=True,
        description="Query anew for each later segment, with the question and the segment before; otherwise the first "
        "passages serve for all.",
    )
    closed_set: bool = Field(
        default=False,
        description="Short form: answers are of a closed set (multiple choice, true or false), and the scores of those "
        "that are the same add up.",
    )
    beam_width: int = Field(default=2, ge=1, le=64, description="Paths kept at each step (B).")
    max_depth: int = Field(default=7, ge=1, le=64, description="Segments of an answer at most.")
    weight_relevance: float = Field(default=1.0, description="Of the passage's relevance in a segment's score.")
    weight_support: float = Field(
        default=1.0, description="Of how far the passage supports the segment: more gives precision."
    )
    weight_usefulness: float = Field(default=0.5, description="Of the answer's use for the question.")
    hard_constraint: bool = Field(
        default=True, description="Drop a segment that its passage contradicts or does not support, while searching."
    )
    scores: Literal["published", "plain"] = Field(
        default="published",
        description="Partial support counts half and use is a mean rating (published code), or the share of the best "
        "verdict alone (the paper's plain form).",
    )
    sequence: Literal["published", "paper", "none"] = Field(
        default="published",
        description="How a segment's own probability counts: exp(mean log p) as in the published code, log p as the "
        "paper writes it, or not at all.",
    )
    compare: Literal["mean", "sum"] = Field(
        default="mean",
        description="Paths by their mean score a segment, which is fair to short answers, or by the sum. The paper's "
        "own form is sequence='paper' with compare='sum'.",
    )
    max_segment_tokens: int = Field(
        default=100, ge=1, description="Tokens of a segment; what is cut off by it is left out."
    )
    votes: int = Field(
        default=3, ge=1, le=64, description="Prompted critic of a model without log-probabilities: samples a question."
    )

    @model_validator(mode="after")
    def _consistent(self) -> SelfRagSettings:
        if self.closed_set and self.form != "short":
            raise ValueError("closed_set adds up whole answers, which the long form does not write: form='short'")
        return self


class ResearchSettings(Settings):
    """ReSearch (paper's values as defaults)."""

    closed_book: bool = Field(
        default=False,
        description="Answer from the model's own knowledge, each claim judged by the model's self-consistency (the "
        "paper's form); otherwise from retrieved passages, each claim judged by what they say (ours).",
    )
    prompts: Literal["neutral", "biography"] = Field(
        default="neutral",
        description="biography: the paper's own prompts; the question is then the name of the person.",
    )
    rounds: int = Field(default=3, ge=1, description="Rounds of writing and judging (K); 1 is the paper's wide search.")
    samples: int = Field(default=16, ge=1, description="Candidate answers written in a round (J).")
    max_tokens: int = Field(default=256, ge=1, description="Tokens of a candidate answer.")
    max_sentences: int = Field(
        default=4,
        ge=1,
        description="Sentences a candidate is asked to have at most (neutral prompts; the paper's say 4).",
    )
    temperature: float = Field(default=1.0, gt=0)
    safe_prompt: bool = Field(default=False, description="Tell the model not to answer what it does not know.")
    splitter: Literal["model", "sentences"] = Field(
        default="model",
        description="Who cuts candidates into claims: the model, each claim understandable by itself, or nobody: a "
        "sentence is a claim.",
    )
    max_sentence_claims: int = Field(default=8, ge=1, description="More claims of one sentence are taken for rambling.")
    evaluation: Literal["verbalised", "logits"] = Field(
        default="verbalised",
        description="Self-evaluation: the percentage that the model states, or the probability that it gives to yes "
        "(needs scores or log-probabilities).",
    )
    self_consistency_samples: int = Field(default=4, ge=1, description="Subsets of sentences a claim is judged by.")
    subset_sentences: int = Field(default=8, ge=1, description="Sentences of earlier candidates in each such subset.")
    quotes: int = Field(default=3, ge=1, description="Sentences of the passages compared for the quote of a claim.")
    max_facts: int = Field(default=20, ge=1, description="Likely claims given to the next round at most, the surest.")
    patience: int | None = Field(
        default=1, ge=1, description="End after so many rounds without growth of the best utility; None: never early."
    )
    min_gain: float = Field(default=0.0, ge=0, description="What the best utility must grow by to count as growing.")
    token_budget: int | None = Field(
        default=None, ge=1, description="No further round begins once the search has read and written so many tokens."
    )
    own_word: bool = Field(
        default=True,
        description="Ask the model whether claims that the passages do not support are true: tells false from "
        "unsupported here. Changes no decision.",
    )


class SelfReflectSettings(Settings):
    """Settings of the engine."""

    target_accuracy: float = Field(
        default=0.5, gt=0, lt=1, description="ρ*: answer only what is right at least this often. Higher answers less."
    )
    pipeline: PipelineName = "composed"
    top_k: int = Field(default=5, ge=1, description="Passages to read.")
    expected_answerable: float | Literal["auto"] = Field(
        default=0.75,
        description="Share of the questions asked that the documents answer, in (0, 1): how likely an answer is before "
        "anything is read. auto estimates it from the questions asked, once there were 20.",
    )
    guarantee: GuaranteeName | None = Field(
        default=None,
        description="What is promised of the claims shown, at the target accuracy ρ*; fitted by `selfreflect calibrate "
        "--guarantee` and read from the calibration file. conformal_factuality: with probability 1-α an answer's "
        "claims are right to at least ρ*; conformal_risk_control: ρ* of an answer's claims are right on average; "
        "learn_then_test: the same, with probability 1-α over the calibration.",
    )
    guarantee_alpha: float = Field(
        default=0.1, gt=0, lt=1, description="α: the probability that the guarantee may fail."
    )
    witnesses: Literal["auto", "judge"] = Field(
        default="auto",
        description="Who says how far a model's claims are right: the embedded reader and critic where they can judge "
        "and the model where they cannot (auto); or only how far quotes support claims, by the engine's judge or the "
        "model itself, as ReClaim was published (judge): whether a claim answers the question, nobody asks then.",
    )
    rerank: Literal["auto", "none", "reading", "critic", "uncertainty"] = Field(
        default="auto",
        description="Composed pipeline: by the critic, else by the reader, else by the uncertainty of a model that "
        "shows hidden states (auto), which costs (candidates + 1) · (samples + 1) generations; or as named.",
    )
    candidates: int | None = Field(
        default=None, ge=1, description="Passages to retrieve for re-ranking; None is twice top_k."
    )
    max_claims: int = Field(default=3, ge=1, description="Claims of an answer of the composed pipeline at most.")
    on_abstain: Literal["say", "show", "raise", "fallback"] = Field(
        default="say",
        description="say why; also show the nearest passages; raise AbstainedError; or fall back to the model's own "
        "knowledge, marked as such (needs a language model).",
    )
    unsupported: Literal["drop", "flag"] = Field(
        default="drop", description="Claims below target: left out, or shown with a mark."
    )
    allow_uncited: bool = Field(
        default=False,
        description="Composed pipeline: where calibrations of gate and answer say that the model knows by itself, show "
        "its answer from memory, which has no quote, marked as such. Otherwise passages are always retrieved.",
    )
    second_reading: bool = Field(
        default=True,
        description="Composed pipeline: where nothing that the model quoted is sure enough, ask it once more for a "
        "short answer from the same passages, cited by the sentences that hold it. One or two calls, only then.",
    )
    on_overflow: Literal["drop", "raise"] = Field(
        default="drop",
        description="Prompt longer than the model's context: leave out the lowest-ranked passages, or raise.",
    )
    abstain_text: str | None = Field(
        default=None,
        description="What to say instead of an answer, in any language; {question} and {reason} (a sentence in "
        "English) are filled in. None is our own words. Confidence and other figures are in the answer's fields.",
    )
    deadline: float | None = Field(
        default=None,
        gt=0,
        description="Seconds from asking a question to its answer (those of a batch are asked at the same time). "
        "What is not done then is given up, and the engine ends with what it has or abstains.",
    )
    max_calls: int | None = Field(
        default=None, ge=1, description="Requests to language models for a question at most; then as at the deadline."
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Tokens that models read and write for a question: once so many are spent, nothing more is asked.",
    )
    where: dict[str, Any] | None = Field(default=None, description="Metadata filter for every retrieval.")
    seed: int | None = Field(default=0, description="Of all sampling; None for a fresh one each time.")
    calibration: Path | None = Field(default=None, description="File written by `selfreflect calibrate`.")
    seakr: SeakrSettings = Field(default_factory=SeakrSettings)
    reclaim: ReclaimSettings = Field(default_factory=ReclaimSettings)
    self_rag: SelfRagSettings = Field(default_factory=SelfRagSettings)
    research: ResearchSettings = Field(default_factory=ResearchSettings)

    @field_validator("expected_answerable")
    @classmethod
    def _is_share(cls, value: float | str) -> float | str:
        if isinstance(value, float) and not 0 < value < 1:
            raise ValueError("must be above 0 and below 1, or 'auto'")
        return value

    @field_validator("abstain_text")
    @classmethod
    def _fill_in(cls, text: str | None) -> str | None:
        """Refuse a template that could not be filled in when it is needed."""
        for _, name, form, conversion in string.Formatter().parse(text or ""):
            if name is not None and (name not in ("question", "reason") or form or conversion):
                raise ValueError(
                    f"only {{question}} and {{reason}} can be filled in, not {{{name}}} (write {{{{ for {{)"
                )
        return text
