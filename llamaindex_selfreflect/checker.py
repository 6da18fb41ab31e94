"""``SelfReflectChecker``: an evaluator that says which claims of a response its contexts support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation import BaseEvaluator, EvaluationResult
from llama_index.core.prompts.mixin import PromptDictType
from pydantic import ConfigDict, Field

from llamaindex_selfreflect._events import SelfReflectAnswerEvent, SelfReflectDecisionEvent, dispatcher
from llamaindex_selfreflect._nodes import NodeBook
from llamaindex_selfreflect._response import atext_of, text_of
from llamaindex_selfreflect._sources import NodeSource, fit_settings, framework_retriever
from llamaindex_selfreflect.llm import as_language_model
from shared_core.calibration.stack import AnyCalibration
from shared_core.errors import InputError
from shared_core.facades.arguments import as_settings, in_words_of
from shared_core.facades.checker import ABSTENTION
from shared_core.facades.checker import SelfReflectChecker as CoreChecker
from shared_core.pipelines.decision.reasons import DECLINES
from shared_core.pipelines.decision.wording import source_of
from shared_core.pipelines.evidence import cited_spans, quote_of
from shared_core.pipelines.necessity import describe_necessity
from shared_core.reading.base import SupportScorer
from shared_core.retrieval.base import Retriever
from shared_core.settings import SelfReflectSettings
from shared_core.support.sanitize import to_printable_line
from shared_core.types import Answer, Claim, Decided, Event, Finished, Passage

ScoreKind = Literal["weakest", "share"]


class SelfReflectEvaluation(EvaluationResult):
    """An ``EvaluationResult`` with the whole check.

    >>> SelfReflectEvaluation(passing=True, score=0.9).answer is None
    True
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    answer: Answer | None = Field(
        default=None, description="Claims with ranges in the response, support, verdict and verbatim evidence."
    )


class SelfReflectChecker(BaseEvaluator):
    """Checks a response claim by claim against its contexts; needs no language model.

    >>> contexts = ["The lamp of Vessen was lit in 1871."]
    >>> result = SelfReflectChecker().evaluate(response="The lamp was lit in 1871. The sea is warm.", contexts=contexts)
    >>> result.passing, [claim.verdict for claim in result.answer.claims]
    (False, ['supported', 'unsupported'])

    ``passing``: every claim is supported. ``score``: the support of the weakest claim, or the share of claims that are
    supported; ``None`` where that is unknown. ``feedback``: the claims that are not supported, each with the sentence
    that contradicts it, or the nearest one. ``answer``: all of it (``SelfReflectEngine.check``). A response without
    text is an invalid result. One of our own abstentions claims nothing: it passes, without a score.

    Args:
        retriever: of LlamaIndex or ours; finds contexts for each claim where none are given.
        llm: of LlamaIndex, or one of our backends: asked about what judge and critic cannot judge (other languages).
        settings: of the check; ``target_accuracy`` is the support above which a claim counts as supported.
        target_accuracy: shortcut for the setting of that name.
        score: ``weakest`` or ``share``.
        judge: scores how far contexts support a claim; without one the shipped critic does.
        critic: in place of the shipped one.
        models: further language models by role (``judge``).
        calibrations: by purpose; ``support`` is applied.
        necessary: also ask whether ``llm`` states each claim because of what it cites: ``answer.claims[i].necessity``,
            and a line of the feedback for those that it states as surely without. Needs a model that scores given
            texts (one of ``shared_core.lm``): CapabilityError otherwise, when made.

    Raises:
        InputError: ``retriever`` is no retriever, ``llm`` no language model, or ``score`` none of the two; when made.
            There are neither contexts nor a retriever; when asked.
        SettingsError: ``settings.where`` with a retriever of LlamaIndex.
    """

    def __init__(
        self,
        retriever: BaseRetriever | Retriever | None = None,
        *,
        llm: object = None,
        settings: SelfReflectSettings | Mapping[str, Any] | None = None,
        target_accuracy: float | None = None,
        score: ScoreKind = "weakest",
        judge: SupportScorer | None = None,
        critic: SupportScorer | None = None,
        models: Mapping[str, object] | None = None,
        calibrations: Mapping[str, AnyCalibration] | None = None,
        necessary: bool = False,
    ) -> None:
        if score not in ("weakest", "share"):
            raise InputError(f"There is no score={score!r}.", hint="There are: weakest, share.")
        shortcut = {} if target_accuracy is None else {"target_accuracy": target_accuracy}
        self.settings = as_settings(settings).replace(**shortcut)
        self.score: ScoreKind = score
        self._retriever = framework_retriever(retriever, self.settings) if retriever is not None else None
        self._given: dict[str, Any] = {
            "lm": as_language_model(llm),
            "judge": judge,
            "critic": critic,
            "models": {role: as_language_model(model) for role, model in (models or {}).items()},
            "calibrations": calibrations,
            "necessary": necessary,
        }
        self._made: CoreChecker | None = None
        self._core()  # what cannot work is refused now

    def _core(self) -> CoreChecker:
        made = self._made
        if made is None:
            with in_words_of(self, lm="llm"):
                made = self._made = CoreChecker(settings=self.settings, **self._given)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Without what is made of the parameters, which holds locks and is made again."""
        return {**self.__dict__, "_made": None}

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts_dict: PromptDictType) -> None:
        pass  # the critic is not prompted, and the model's format is the core's

    # --- LlamaIndex's doors ------------------------------------------------------------------------------------

    def evaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> SelfReflectEvaluation:
        """Check a response against contexts, or against retrieved nodes if ``contexts`` is ``None``.

        Further keywords, which evaluators that run together are all given, are ignored.
        """
        return self._evaluate(query, response, None if contexts is None else _passages(contexts))

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> SelfReflectEvaluation:
        """``evaluate`` without blocking the event loop."""
        return await self._aevaluate(query, response, None if contexts is None else _passages(contexts))

    def evaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> SelfReflectEvaluation:
        """Check a response against its source nodes: ids and offsets of ``answer`` are those of the nodes."""
        return self._evaluate(query, text_of(response), _nodes(response))

    async def aevaluate_response(
        self, query: str | None = None, response: Response | None = None, **kwargs: Any
    ) -> SelfReflectEvaluation:
        """``evaluate_response`` without blocking the event loop."""
        return await self._aevaluate(query, await atext_of(response), _nodes(response))

    # --- one response ------------------------------------------------------------------------------------------

    @dispatcher.span
    def _evaluate(
        self, query: str | None, response: str | None, passages: list[Passage] | None, book: NodeBook | None = None
    ) -> SelfReflectEvaluation:
        """Check against these passages, or against retrieved nodes, which are entered in ``book``."""
        if not (response or "").strip():
            return _invalid(query, response, passages)
        checked: Answer | None = None
        for event in self._checker(passages, book).stream(response or "", query or "", passages):
            checked = _tell(event) or checked
        return self._result(query, checked)

    @dispatcher.span
    async def _aevaluate(
        self, query: str | None, response: str | None, passages: list[Passage] | None, book: NodeBook | None = None
    ) -> SelfReflectEvaluation:
        if not (response or "").strip():
            return _invalid(query, response, passages)
        checked: Answer | None = None
        async for event in self._checker(passages, book).astream(response or "", query or "", passages):
            checked = _tell(event) or checked
        return self._result(query, checked)

    def _checker(self, passages: list[Passage] | None, book: NodeBook | None) -> CoreChecker:
        if passages is not None or self._retriever is None:
            return self._core()
        source = NodeSource(self._retriever, book=book)
        return self._core().with_retriever(source, fit_settings(self.settings, self._retriever))

    def _result(self, query: str | None, checked: Answer | None) -> SelfReflectEvaluation:
        assert checked is not None, "the stream of a check ends with Finished"
        share: float | None = checked.metadata["shares"]["supported"]
        return SelfReflectEvaluation(
            query=query,
            response=checked.text,
            contexts=[p.text for p in checked.passages],
            passing=checked.metadata["passing"],
            score=share if self.score == "share" else checked.confidence,
            feedback=feedback(checked),
            answer=checked,
        )


def feedback(checked: Answer) -> str:
    """The claims that are not supported, a line each, with the sentence that contradicts them or the nearest one."""
    failing = [c for c in checked.claims if c.status == "flagged"]
    if not checked.claims:
        if checked.reason == ABSTENTION:
            return "The response is an abstention: it makes no claim."
        if checked.reason == DECLINES:
            return "The response declines to answer: it makes no claim."
        return "The response states nothing that could be checked."
    head = f"{len(failing)} of {len(checked.claims)} claims are not supported by the contexts."
    if not failing:
        head = f"All {len(checked.claims)} claims are supported by the contexts."
    unneeded = [
        f"- {describe_necessity(c.necessity)}: “{to_printable_line(c.text)}”"
        for c in checked.claims
        if c.necessity is not None and not c.necessity.necessary
    ]
    return "\n".join([head, *(_line(claim, checked) for claim in failing), *unneeded])


def _line(claim: Claim, checked: Answer) -> str:
    support = "" if claim.support is None else f" ({claim.support:.2f})"
    line = f"- {claim.verdict}{support}: “{to_printable_line(claim.text)}”"
    spans = cited_spans(claim)
    if not spans:
        return line
    quote = to_printable_line(quote_of(claim))
    how = "contradicted by" if claim.verdict == "contradicted" else "nearest"
    return f"{line}; {how} “{quote}” ({source_of(checked.passage(spans[0].passage_id))})"


def _tell(event: Event) -> Answer | None:
    if isinstance(event, Decided):
        dispatcher.event(SelfReflectDecisionEvent.of(event.decision))
    if not isinstance(event, Finished):
        return None
    dispatcher.event(SelfReflectAnswerEvent.of(event.answer))
    return event.answer


def _invalid(query: str | None, response: str | None, passages: list[Passage] | None) -> SelfReflectEvaluation:
    return SelfReflectEvaluation(
        query=query,
        response=response,
        contexts=None if passages is None else [p.text for p in passages],
        invalid_result=True,
        invalid_reason="The response has no text to check.",
    )


def _passages(contexts: Sequence[str]) -> list[Passage]:
    if isinstance(contexts, str):
        raise InputError("contexts must be a list of texts, not one text.", hint="contexts=[…]")
    return [Passage(f"context {i}", text) for i, text in enumerate(contexts, 1)]


def _nodes(response: Response | None) -> list[Passage] | None:
    """The source nodes as passages; ``None``, so that contexts are retrieved, where there is no response."""
    if response is None:
        return None
    return NodeBook().enter(response.source_nodes)
