"""``SelfReflectReranker``: re-ranks the passages of any retriever by how much they help to answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, get_args

from shared_core.errors import QuestionError, SettingsError
from shared_core.facades.arguments import check_count
from shared_core.facades.assembly import Parts, compares_meanings, load
from shared_core.lm.base import LanguageModel
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.rerank import Ranked, rerank_by_rating, rerank_by_reading, rerank_by_uncertainty
from shared_core.pipelines.self_rag.choose import require_tokens, rerank_by_relevance
from shared_core.reading.base import Reader, SupportScorer
from shared_core.retrieval.base import Embedder
from shared_core.runtime import flow as flows
from shared_core.runtime.budget import Meter
from shared_core.runtime.flow import Embed, Flow, Read
from shared_core.settings import SelfReflectSettings
from shared_core.types import Passage

RerankMethod = Literal["reading", "critic", "uncertainty", "relevance"]
METHODS: tuple[RerankMethod, ...] = get_args(RerankMethod)
WITH_MODEL = ("uncertainty", "relevance")
"""Methods that need a language model."""


class SelfReflectReranker:
    """Re-ranks passages by how much they help to answer a question.

    >>> from shared_core import Passage
    >>> shelf = [Passage("sea", "The sea is cold."), Passage("lamp", "The lamp of Vessen was lit in 1871.")]
    >>> [found.passage.id for found in SelfReflectReranker().rerank("When was the lamp lit?", shelf, top_n=1)]
    ['lamp']

    Args:
        lm: a language model backend, for methods that need one.
        settings: as for the engine.
        method: ``reading``: by the best quote that the extractive reader finds in each passage; ``critic``: by the
            probability that the passage alone answers (neither needs a model); ``uncertainty``: by the model's
            certainty about its answer given each passage (SeaKR); ``relevance``: by the model's verdict on the
            passage's relevance (Self-RAG), from its reflection tokens if it has them, else from a prompt.
        reader: extractive reader; by default the shipped one, loaded at first use.
        judge, embedder: for estimators that compare meanings.

    Attributes:
        settings, method: as given.

    Raises:
        SettingsError: unknown method, or one that needs a language model and there is none.
        LimitError: while ranking, if the settings' ``deadline``, ``max_calls`` or ``max_tokens`` is reached.
    """

    def __init__(
        self,
        lm: LanguageModel | None = None,
        settings: SelfReflectSettings | None = None,
        *,
        method: RerankMethod = "reading",
        reader: Reader | None = None,
        judge: SupportScorer | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        if method not in METHODS:
            raise SettingsError(f"There is no re-ranking method {method!r}.", hint=f"There are: {', '.join(METHODS)}.")
        if method in WITH_MODEL and lm is None:
            raise SettingsError(f"Re-ranking by {method} needs a language model.", hint="Give one: lm=….")
        parts = Parts.of(settings, lm=lm, reader=reader, judge=judge, embedder=embedder, calibrations={})
        self.settings, self._resources, self._context = parts.settings, parts.resources, parts.context
        self.method: RerankMethod = method

    @property
    def model_name(self) -> str:
        """Name of the language model that ranks; empty if none does."""
        return self._context.model_name("default") if self.method in WITH_MODEL else ""

    def warm_up(self) -> Self:
        """Load models eagerly instead of at the first question, raising what that would raise.

        A language model is asked at most for its abilities.
        """
        flows.run(self._context.learn(), self._resources)
        if self.method not in WITH_MODEL:
            load([Read("Ready?", (Passage("warm-up", "Ready."),), limit=1)], self._resources)
        elif self.method == "uncertainty" and compares_meanings(self.settings, self._context):
            load([Embed(("Ready.",))], self._resources)
        elif self.method == "relevance":
            flows.run(require_tokens(QuestionRun(self.settings, self._context)), self._resources)
        return self

    def rerank(self, question: str, passages: Sequence[Passage], top_n: int | None = None) -> list[Ranked]:
        """Rank passages, best first, at most ``top_n``; QuestionError for an empty question."""
        return flows.run(self._flow(question, passages, top_n), self._resources, deadline=self.settings.deadline)

    async def arerank(self, question: str, passages: Sequence[Passage], top_n: int | None = None) -> list[Ranked]:
        """``rerank`` without blocking the event loop."""
        return await flows.arun(self._flow(question, passages, top_n), self._resources, deadline=self.settings.deadline)

    def _flow(self, question: str, passages: Sequence[Passage], top_n: int | None) -> Flow[list[Ranked]]:
        if not isinstance(question, str) or not question.strip():
            raise QuestionError(f"Re-ranking needs a question, not {question!r}.")
        if top_n is not None:
            check_count("top_n", top_n)
        return Meter(self.settings).watch(self._rank(question.strip(), passages, top_n))

    def _rank(self, question: str, passages: Sequence[Passage], top_n: int | None) -> Flow[list[Ranked]]:
        yield from self._context.learn()
        run = QuestionRun(self.settings, self._context)
        ways = {
            "uncertainty": rerank_by_uncertainty,
            "relevance": rerank_by_relevance,
            "critic": rerank_by_rating,
            "reading": rerank_by_reading,
        }
        ranked = yield from ways[self.method](question, passages, run)
        return ranked[:top_n]
