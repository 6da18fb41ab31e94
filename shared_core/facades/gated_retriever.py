"""``GatedRetriever``: retrieves only if the model is uncertain about its own answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Self, get_args

from shared_core.calibration.stack import AnyCalibration
from shared_core.errors import QuestionError, SettingsError
from shared_core.facades.arguments import check_count
from shared_core.facades.assembly import Parts, compares_meanings, load, require_retriever
from shared_core.lm.base import LanguageModel
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.gating.query import GatedResult as GatedResult
from shared_core.pipelines.gating.query import gated_retrieval
from shared_core.reading.base import SupportScorer
from shared_core.retrieval.base import Embedder, Retriever
from shared_core.runtime import flow as flows
from shared_core.runtime.budget import Meter
from shared_core.runtime.flow import Embed, Flow, LeafRequest, Retrieve
from shared_core.settings import GateName, SelfReflectSettings
from shared_core.types import Passage

GATES: tuple[str, ...] = get_args(GateName)


def usual_gate(lm: LanguageModel | None) -> GateName:
    """Return the default gate: ``always`` without a model, since nothing can be measured."""
    return "always" if lm is None else "uncertainty"


class GatedRetriever:
    """Retrieves only if a language model needs passages (SeaKR, FLARE, DRAGIN).

    >>> from shared_core import Passage
    >>> from shared_core.retrieval import BM25Retriever
    >>> lamp = Passage("lamp", "The lamp of Vessen was lit in 1871.")
    >>> gated = GatedRetriever(BM25Retriever([lamp]), gate="always")
    >>> gated.ask("lamp of Vessen").retrieved
    True

    Args:
        retriever: anything with ``retrieve(query, k)``.
        lm: a language model backend; not needed for ``always``.
        settings: ``settings.seakr`` configures the estimator; ``settings.calibration`` may contain the threshold.
        gate: ``uncertainty``: retrieve if the estimator is above its threshold; ``flare``: if a token of the draft
            is improbable; ``dragin``: if a word of it is uncertain and attended to (both write one greedy sentence
            and draw no samples); ``always``.
        judge, embedder: for estimators that compare meanings.
        calibrations: by purpose; read from ``settings.calibration`` if not given.

    Attributes:
        settings, gate: as given; the settings name the gate too.

    The settings' ``deadline`` raises ``DeadlineError`` when it passes; a gate whose budget (``max_calls``,
    ``max_tokens``) is too small to measure the uncertainty retrieves.

    Raises:
        SettingsError: unknown gate, or one that needs a model and there is none.
        InputError: ``retriever`` cannot retrieve.
    """

    def __init__(
        self,
        retriever: Retriever,
        lm: LanguageModel | None = None,
        settings: SelfReflectSettings | None = None,
        *,
        gate: GateName = "uncertainty",
        judge: SupportScorer | None = None,
        embedder: Embedder | None = None,
        calibrations: Mapping[str, AnyCalibration] | None = None,
    ) -> None:
        if gate not in GATES:
            raise SettingsError(f"There is no gate {gate!r}.", hint=f"There are: {', '.join(GATES)}.")
        if gate != "always" and lm is None:
            raise SettingsError(f"The gate {gate!r} needs a language model.", hint="Give one: lm=…, or gate='always'.")
        require_retriever(retriever)
        parts = Parts.of(
            settings, retriever=retriever, lm=lm, judge=judge, embedder=embedder, calibrations=calibrations
        )
        self.gate: GateName = gate
        self.settings = parts.settings.replace(seakr=parts.settings.seakr.replace(gate=gate))
        self._resources, self._context = parts.resources, parts.context

    def over(self, retriever: Retriever) -> Self:
        """Return the same gate over another retriever; model and parts are shared, nothing is loaded again."""
        require_retriever(retriever)
        other = copy(self)
        other._resources = dataclasses.replace(self._resources, retriever=retriever)
        return other

    def warm_up(self) -> Self:
        """Send one query to the retriever, and load the embedder if the gate compares meanings.

        A language model is asked at most for its abilities.
        """
        flows.run(self._context.learn(), self._resources)
        wanted: list[LeafRequest] = [Retrieve("ready?", 1, self.settings.where)]
        if compares_meanings(self.settings, self._context) and self.gate == "uncertainty":
            wanted.append(Embed(("Ready.",)))
        load(wanted, self._resources)
        return self

    def ask(self, query: str, k: int = 5) -> GatedResult:
        """Decide, and return the decision with the passages; QuestionError for an empty query."""
        return flows.run(self._flow(query, k), self._resources, deadline=self.settings.deadline)

    async def aask(self, query: str, k: int = 5) -> GatedResult:
        """``ask`` without blocking the event loop."""
        return await flows.arun(self._flow(query, k), self._resources, deadline=self.settings.deadline)

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        """Return the passages only: none if the model knows."""
        return self.ask(query, k).passages

    async def aretrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        """``retrieve`` without blocking the event loop."""
        return (await self.aask(query, k)).passages

    def _flow(self, query: str, k: int) -> Flow[GatedResult]:
        if not isinstance(query, str) or not query.strip():
            raise QuestionError(f"A query must be non-empty text, not {query!r}.")
        check_count("k", k)
        return Meter(self.settings).watch(self._decide(query.strip(), k))

    def _decide(self, query: str, k: int) -> Flow[GatedResult]:
        yield from self._context.learn()
        return (yield from gated_retrieval(query, k, QuestionRun(self.settings, self._context)))
