"""``SelfReflectGuard``: what a workflow or agent answers, with unsupported claims marked, removed or withheld."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import Response
from llama_index.core.schema import NodeWithScore

from llamaindex_selfreflect._nodes import NodeBook
from llamaindex_selfreflect._response import SelfReflectResponse, respond
from llamaindex_selfreflect.checker import SelfReflectChecker, SelfReflectEvaluation
from shared_core.calibration.stack import AnyCalibration
from shared_core.pipelines.decision.wording import OnUnsupported, treat_unsupported
from shared_core.reading.base import SupportScorer
from shared_core.retrieval.base import Retriever
from shared_core.settings import SelfReflectSettings


class SelfReflectGuard:
    """Checks a response against its source nodes, or given ones, and treats what they do not support.

    >>> from llama_index.core.schema import NodeWithScore, TextNode
    >>> lamp = [NodeWithScore(node=TextNode(text="The lamp of Vessen was lit in 1871."))]
    >>> str(SelfReflectGuard("flag").check("The lamp was lit in 1871. The sea is warm.", nodes=lamp))
    'The lamp was lit in 1871. The sea is warm. (unsupported)'

    A step of a workflow calls ``await guard.acheck(response)``. An abstention of ours passes unchanged.

    Args:
        on_unsupported: keep unsupported claims (``pass``), mark them (``flag``), remove them (``strip``), or withhold
            the whole response (``refuse``).
        retriever: for responses without nodes.
        llm, settings, target_accuracy, judge, critic, models, calibrations: as for ``SelfReflectChecker``.

    Raises:
        InputError, SettingsError: as ``SelfReflectChecker``; when made and when asked.
        AbstainedError: the response is refused and ``settings.on_abstain="raise"``; when asked.
    """

    def __init__(
        self,
        on_unsupported: OnUnsupported = "flag",
        *,
        retriever: BaseRetriever | Retriever | None = None,
        llm: object = None,
        settings: SelfReflectSettings | None = None,
        target_accuracy: float | None = None,
        judge: SupportScorer | None = None,
        critic: SupportScorer | None = None,
        models: Mapping[str, object] | None = None,
        calibrations: Mapping[str, AnyCalibration] | None = None,
    ) -> None:
        self.on_unsupported = on_unsupported
        self.checker = SelfReflectChecker(
            retriever,
            llm=llm,
            settings=settings,
            target_accuracy=target_accuracy,
            judge=judge,
            critic=critic,
            models=models,
            calibrations=calibrations,
        )

    def check(
        self, response: Response | str, query: str = "", nodes: Sequence[NodeWithScore] | None = None
    ) -> SelfReflectResponse:
        """Check a response; ``nodes`` replace its own source nodes."""
        given = _as_response(response, nodes)
        if given is None:
            return self._treated(self.checker.evaluate(query, str(response)), [])
        return self._treated(self.checker.evaluate_response(query, given), given.source_nodes)

    async def acheck(
        self, response: Response | str, query: str = "", nodes: Sequence[NodeWithScore] | None = None
    ) -> SelfReflectResponse:
        """``check`` without blocking the event loop."""
        given = _as_response(response, nodes)
        if given is None:
            return self._treated(await self.checker.aevaluate(query, str(response)), [])
        return self._treated(await self.checker.aevaluate_response(query, given), given.source_nodes)

    def _treated(self, evaluation: SelfReflectEvaluation, nodes: Sequence[NodeWithScore]) -> SelfReflectResponse:
        if evaluation.answer is None:  # a response without text
            return SelfReflectResponse(evaluation.response, list(nodes))
        answer = treat_unsupported(evaluation.answer, self.on_unsupported, self.checker.settings)
        book = NodeBook()
        book.enter(list(nodes))
        return respond(answer, book) if nodes else SelfReflectResponse(answer.text, [], {}, answer)


def _as_response(response: Response | str, nodes: Sequence[NodeWithScore] | None) -> Response | None:
    """Return the response with its nodes; ``None`` for one without any, whose contexts are retrieved."""
    if isinstance(response, Response):
        found = list(nodes) if nodes is not None else list(response.source_nodes)
        text = response.response
    else:
        found, text = list(nodes or []), str(response)
    return Response(text, found) if found or nodes is not None else None
