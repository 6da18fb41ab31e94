"""Settings of the four pipelines (SeaKR's are the gate's and the re-ranker's, too); ``settings`` exports them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field, model_validator

from shared_core.support.settings_base import Settings

GateName = Literal["uncertainty", "flare", "dragin", "always"]
"""Every gate (see ``GatedRetriever``)."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A worked example: a question, reasoning steps (one sentence each) and the answer.

    >>> print(Demonstration("When was the lamp lit?", ("The log says 1871.",), "1871").render())
    Question: When was the lamp lit?
    Answer: The log says 1871. So the answer is 1871.
    """

    question: str
    steps: tuple[str, ...]
    answer: str

    def render(self) -> str:
        """Format the example for a prompt."""
        return f"Question: {self.question}\nAnswer: {' '.join(self.steps)} So the answer is {self.answer}."


class SeakrPublished(Settings):
    """Details of SeaKR, FLARE and DRAGIN as published; but for ``max_passages`` the defaults are the papers' values."""

    form: Literal["paper", "published_code"] = Field(
        default="paper",
        description="Whether to follow SeaKR's paper or its code where they differ: passages in the prompts (gate: "
        "none, re-ranking: one; the code adds the passages kept so far), how the answer is requested, words left out "
        "of the query, and DRAGIN's stop words. docs/seakr.md has the table.",
    )
    reasoning_uncertainty: Literal["paper", "published_code"] | None = Field(
        default=None,
        description="An answer's uncertainty: the mean over its rationales (paper) or the answer's alone (published "
        "code). None follows `form`.",
    )
    flare_threshold: float = Field(
        default=0.8, ge=0, le=1, description="FLARE: retrieve if any token's probability is at most this."
    )
    flare_mask: float = Field(
        default=0.4, ge=0, le=1, description="FLARE: leave tokens of at most this probability out of the query."
    )
    dragin_threshold: float = Field(
        default=1.0, gt=0, description="DRAGIN: retrieve if any word's score (attention × entropy) is above this."
    )
    dragin_words: int = Field(default=25, ge=1, description="DRAGIN: words in the query.")
    alpha: float = Field(default=1e-3, gt=0, description="Regulariser of the Gram determinant.")
    layer: int | None = Field(
        default=None,
        description="Decoder layer of the hidden states, counted from 0; None is the middle one (15 of 32, as "
        "published).",
    )
    hidden: Literal["mlp", "residual"] = Field(
        default="mlp", description="Vector of that layer: the MLP's output or the residual stream."
    )
    position: Literal["eos", "last"] = Field(
        default="eos",
        description="Token whose state is used: an end-of-sequence token appended to each sample (paper), or the last "
        "token of the sample, for models without an end-of-sequence token.",
    )
    temperature: float = Field(default=1.0, gt=0, description="Sampling temperature.")
    top_k_sampling: int = Field(default=50, ge=0, description="Sample from this many most likely tokens; 0 is all.")
    top_p: float = Field(default=0.9, gt=0, le=1, description="Sample from the most likely tokens of this total mass.")
    max_passages: int = Field(
        default=8, ge=1, description="Stop reasoning once this many passages have been kept (the published script: 5)."
    )
    query_token_probability: float = Field(
        default=0.9, ge=0, le=1, description="Leave tokens below this probability out of the query."
    )
    max_query_tokens: int = Field(default=64, ge=1, description="Maximum tokens of the query.")
    task: str = Field(
        default="default", description="Built-in demonstrations: default, 2wiki, hotpotqa, iirc or simple."
    )

    @property
    def follows_code(self) -> bool:
        """Whether the published code is followed where it differs from the paper."""
        return self.form == "published_code"

    @property
    def measures_answer(self) -> bool:
        """Whether an answer's uncertainty is its own instead of the mean over its rationales."""
        return (self.reasoning_uncertainty or self.form) == "published_code"


class SeakrSettings(Settings):
    """Settings of SeaKR, and of the gate and the uncertainty re-ranker of the other pipelines.

    >>> SeakrSettings(samples=8, published={"hidden": "residual"}).published.hidden
    'residual'
    """

    estimator: str = Field(default="gram", description="Uncertainty estimator (shared_core.uncertainty).")
    allow_fallback: bool = Field(
        default=True,
        description="If the model lacks a capability, use the next-best estimator and say so in the trace; otherwise "
        "raise CapabilityError.",
    )
    threshold: float | None = Field(
        default=None,
        description="Retrieve if the uncertainty is above it. None uses the calibrated threshold; without one, "
        "retrieval always happens and no samples are drawn. The paper's is -6 (gram, 20 samples, Llama 2 7B).",
    )
    gate: GateName = Field(
        default="uncertainty",
        description="When to retrieve: if the estimator is above the threshold (uncertainty), if a token is improbable "
        "(flare), if an uncertain word is attended to (dragin, needs attention weights), or always.",
    )
    meanings: Literal["auto", "judge", "critic", "embedder"] = Field(
        default="auto",
        description="Component that compares the meanings of samples: an entailment judge, the shipped critic or an "
        "embedder. auto takes the first available of judge, embedder and critic; claim-conditioned probability needs "
        "judge or critic.",
    )
    samples: int = Field(default=20, ge=2, le=128, description="Continuations sampled per decision.")
    max_step_tokens: int = Field(default=100, ge=1, description="Maximum tokens of a reasoning step or sample.")
    rerank_passages: int = Field(default=3, ge=1, description="Passages compared at each retrieval.")
    max_steps: int = Field(default=8, ge=1, description="Maximum reasoning steps (the published script: 10).")
    multi_hop: bool = Field(
        default=True,
        description="Reason step by step with a retrieval for each step, for complex questions; otherwise retrieve at "
        "most once.",
    )
    demonstrations: tuple[Demonstration, ...] = Field(
        default=(), description="Your own worked examples instead of the built-in ones."
    )
    published: SeakrPublished = Field(
        default_factory=SeakrPublished, description="Details of the published methods, for comparisons."
    )


class ReclaimPublished(Settings):
    """Variants of ReClaim that its paper compares."""

    generation: Literal["interleaved", "unified"] = Field(
        default="interleaved",
        description="Write quotes and claims in alternating requests, or the whole answer under one grammar.",
    )
    min_pairs: int = Field(default=0, ge=0, description="Minimum quote-claim pairs of an answer.")
    min_sentences: int = Field(default=1, ge=1, description="Minimum sentences per quote.")
    reuse: bool = Field(default=True, description="Allow several quotes to contain the same sentence.")
    isolate_claims: bool = Field(
        default=False,
        description="For models without grammars: rewrite each claim from its quote alone, without question and "
        "passages, as the paper's claim model does. Costs one more call per claim.",
    )


class ReclaimSettings(Settings):
    """Settings of ReClaim.

    >>> ReclaimSettings(max_pairs=3).max_pairs
    3
    """

    mode: Literal["sentence", "span"] = Field(
        default="sentence", description="Quote whole sentences, or any span of the passages."
    )
    max_pairs: int = Field(default=5, ge=1, description="Maximum quote-claim pairs of an answer.")
    max_sentences: int = Field(default=3, ge=1, description="Maximum sentences per quote.")
    max_reference_tokens: int = Field(
        default=256,
        ge=8,
        description="Maximum tokens of a quote. Of a quote that is cut off the whole sentences are kept; a single "
        "sentence above the limit is not quoted.",
    )
    max_claim_tokens: int = Field(default=96, ge=1, description="Maximum tokens of a claim.")
    regenerate: int = Field(default=2, ge=0, description="Attempts to repair a quote of a model without grammars.")
    demonstrations: int = Field(
        default=0,
        ge=0,
        le=3,
        description="Worked answers in the prompt: 3 (paper) for models that were not trained on the form, 0 for those "
        "that were (`selfreflect train reclaim`).",
    )
    style: str | None = Field(
        default=None,
        min_length=1,
        max_length=500,
        description="How claims are to be worded, as one or two sentences to the model: tone, length, language "
        "(composed and reclaim). The language of the passages is judged best: in another, support is often unknown.",
    )
    fuzzy_threshold: float = Field(
        default=0.85, gt=0, le=1, description="Minimum similarity at which an inexact quote counts as a quote."
    )
    published: ReclaimPublished = Field(
        default_factory=ReclaimPublished, description="Variants that the paper compares."
    )

    @model_validator(mode="after")
    def _consistent(self) -> ReclaimSettings:
        form = self.published
        if form.min_pairs > self.max_pairs or form.min_sentences > self.max_sentences:
            raise ValueError("a minimum is above its maximum")
        if form.generation == "unified" and not form.reuse and (self.mode != "sentence" or self.max_sentences > 1):
            raise ValueError("unified generation without reuse quotes single sentences: max_sentences=1")
        return self


class SelfRagPublished(Settings):
    """Details of Self-RAG's scores and search, to compare the paper with its published code."""

    closed_set: bool = Field(
        default=False,
        description="Short form: the answers come from a closed set (multiple choice, true or false), so add up the "
        "scores of equal answers.",
    )
    retrieve_again: bool = Field(
        default=True,
        description="Retrieve anew for each later segment, with the question and the previous segment as the query; "
        "otherwise reuse the first passages.",
    )
    hard_constraint: bool = Field(
        default=True,
        description="Long form: drop a segment during the search if its passage contradicts or does not support it.",
    )
    scores: Literal["published", "plain"] = Field(
        default="published",
        description="Count partial support half and usefulness as a mean rating (published code), or take the share of "
        "the best verdict alone (the paper's plain form).",
    )
    sequence: Literal["published", "paper", "none"] = Field(
        default="published",
        description="Term for a segment's own probability: exp(mean log p) as in the published code, log p as in the "
        "paper, or none.",
    )
    compare: Literal["mean", "sum"] = Field(
        default="mean",
        description="Rank paths by their mean score per segment, which is fair to short answers, or by the sum. The "
        "paper's own form is sequence='paper' with compare='sum'.",
    )
    votes: int = Field(
        default=3,
        ge=1,
        le=64,
        description="Prompted critic on a model without log-probabilities: samples per question.",
    )


class SelfRagSettings(Settings):
    """Settings of Self-RAG; the defaults are the paper's values.

    >>> SelfRagSettings(form="short", published={"closed_set": True}).published.closed_set
    True
    """

    critic: Literal["auto", "tokens", "prompted"] = Field(
        default="auto",
        description="Source of verdicts: the model's reflection tokens (tokens), a prompted critic (prompted), or the "
        "tokens if the model has them and the prompted critic otherwise (auto).",
    )
    form: Literal["long", "short"] = Field(
        default="long",
        description="Write the answer segment by segment under beam search, or write one whole answer per passage of a "
        "single retrieval and take the best.",
    )
    mode: Literal["adaptive", "always", "never"] = Field(
        default="adaptive", description="Retrieve when the model asks for it, for every segment, or never."
    )
    retrieval_threshold: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="δ (eq. 8): retrieve if P([Retrieval]) against P([No Retrieval]) is above it; 0 always retrieves, "
        "as when citations are required.",
    )
    beam_width: int = Field(default=2, ge=1, le=64, description="Paths kept at each step (B).")
    max_depth: int = Field(default=7, ge=1, le=64, description="Maximum segments of an answer.")
    weight_relevance: float = Field(default=1.0, description="Weight of the passage's relevance in a segment's score.")
    weight_support: float = Field(
        default=1.0, description="Weight of the passage's support for the segment; more gives higher precision."
    )
    weight_usefulness: float = Field(default=0.5, description="Weight of the answer's usefulness for the question.")
    max_segment_tokens: int = Field(
        default=100, ge=1, description="Maximum tokens of a segment; an unfinished sentence is left out."
    )
    published: SelfRagPublished = Field(
        default_factory=SelfRagPublished, description="Details of scores and search, for comparisons."
    )

    @model_validator(mode="after")
    def _consistent(self) -> SelfRagSettings:
        if self.published.closed_set and self.form != "short":
            raise ValueError("closed_set adds up whole answers, which the long form does not write: form='short'")
        return self


class ResearchPublished(Settings):
    """Details of ReSearch's prompts, self-evaluation and search; the defaults are the paper's values."""

    prompts: Literal["neutral", "biography"] = Field(
        default="neutral",
        description="Prompts for any question, or the paper's own for biographies; the question is then a person's "
        "name.",
    )
    max_sentences: int = Field(
        default=4,
        ge=1,
        description="Maximum sentences that a candidate is asked for (neutral prompts; the paper's prompts say 4).",
    )
    temperature: float = Field(default=1.0, gt=0, description="Sampling temperature of candidates.")
    safe_prompt: bool = Field(default=False, description="Ask the model not to answer if it does not know.")
    max_sentence_claims: int = Field(
        default=8, ge=1, description="Discard the claims of a sentence that is split into more than this many."
    )
    evaluation: Literal["verbalised", "logits"] = Field(
        default="verbalised",
        description="Self-evaluation: the percentage that the model states, or its probability of yes (needs scores or "
        "log-probabilities).",
    )
    self_consistency_samples: int = Field(
        default=4, ge=1, description="Subsets of earlier candidates' sentences that a claim is judged by."
    )
    subset_sentences: int = Field(default=8, ge=1, description="Sentences in each such subset.")
    quotes: int = Field(default=3, ge=1, description="Sentences of the passages compared to find a claim's quote.")
    max_facts: int = Field(default=20, ge=1, description="Maximum likely claims passed to the next round.")
    min_gain: float = Field(
        default=0.0, ge=0, description="Minimum gain in the best utility for a round to count as progress."
    )
    own_word: bool = Field(
        default=True,
        description="Ask the model whether claims that no passage supports are true. Distinguishes the verdict false "
        "from unsupported here; changes no decision.",
    )


class ResearchSettings(Settings):
    """Settings of ReSearch.

    >>> ResearchSettings(rounds=1, samples=4).samples
    4
    """

    closed_book: bool = Field(
        default=False,
        description="Answer from the model's own knowledge and judge each claim by the model's self-consistency (the "
        "paper's form); otherwise answer from retrieved passages and judge each claim by them.",
    )
    rounds: int = Field(
        default=3, ge=1, description="Maximum rounds of writing and judging (K); 1 is the paper's wide search."
    )
    samples: int = Field(default=16, ge=1, description="Candidate answers written per round (J).")
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Maximum tokens of a candidate answer; by default 256 closed book (a short biography) and 128 from "
        "passages.",
    )
    splitter: Literal["model", "sentences"] = Field(
        default="model",
        description="Split candidates into claims with the model, so that each claim can be understood by itself, or "
        "take every sentence as one claim.",
    )
    patience: int | None = Field(
        default=1,
        ge=1,
        description="Stop after this many rounds in which the best utility did not grow; None never stops early.",
    )
    token_budget: int | None = Field(
        default=None, ge=1, description="Start no further round once the search has read and written this many tokens."
    )
    published: ResearchPublished = Field(
        default_factory=ResearchPublished, description="Details of prompts, self-evaluation and search."
    )

    @property
    def candidate_tokens(self) -> int:
        """Maximum tokens of a candidate answer."""
        return self.max_tokens or (256 if self.closed_book else 128)
