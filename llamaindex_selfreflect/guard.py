"""``SelfReflectGuard``: what a workflow or agent answers, with unsupported claims marked, removed or withheld."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.chat_engine.types import AGENT_CHAT_RESPONSE_TYPE
from llama_index.core.schema import NodeWithScore

from llamaindex_selfreflect._nodes import NodeBook, as_nodes
from llamaindex_selfreflect._response import SelfReflectResponse, atext_of, respond, text_of
from llamaindex_selfreflect.checker import SelfReflectChecker, SelfReflectEvaluation
from shared_core.calibration.stack import AnyCalibration
from shared_core.errors import InputError
from shared_core.pipelines.decision.wording import OnUnsupported, treat_unsupported
from shared_core.reading.base import SupportScorer
from shared_core.retrieval.base import Retriever
from shared_core.settings import SelfReflectSettings

AnyResponse = RESPONSE_TYPE | AGENT_CHAT_RESPONSE_TYPE | str
_RESPONSES = (*get_args(RESPONSE_TYPE), *get_args(AGENT_CHAT_RESPONSE_TYPE))


class SelfReflectGuard:
    """Checks a response against its source nodes, or given ones, and treats what they do not support.

    >>> from llama_index.core.schema import NodeWithScore, TextNode
    >>> lamp = [NodeWithScore(node=TextNode(text="The lamp of Vessen was lit in 1871."))]
    >>> str(SelfReflectGuard("flag").check("The lamp was lit in 1871. The sea is warm.", nodes=lamp))
    'The lamp was lit in 1871. The sea is warm. (unsupported)'

    A step of a workflow calls ``await guard.acheck(response)``. An abstention of ours passes unchanged. The result has
    ``source_nodes``, ``citations`` and ``metadata`` as the responses of ``SelfReflectQueryEngine`` do.

    Args:
        on_unsupported: keep unsupported claims (``pass``), mark them (``flag``), remove them (``strip``), or withhold
            the whole response (``refuse``).
        retriever: for responses without nodes.
        llm, settings, target_accuracy, judge, critic, models, calibrations: as for ``SelfReflectChecker``.

    Raises:
        InputError, SettingsError: as ``SelfReflectChecker``; when made and when asked. Not a response; when asked.
        AbstainedError: the response is refused and ``settings.on_abstain="raise"``; when asked.
    """

    def __init__(
        self,
        on_unsupported: OnUnsupported = "flag",
        *,
        retriever: BaseRetriever | Retriever | None = None,
        llm: object = None,
        settings: SelfReflectSettings | Mapping[str, Any] | None = None,
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
        self, response: AnyResponse, query: str = "", nodes: Sequence[NodeWithScore] | None = None
    ) -> SelfReflectResponse:
        """Check a response or a text; ``nodes`` replace its own source nodes. A stream is read to its end."""
        found, book = _nodes_of(response, nodes), NodeBook()
        passages = None if found is None else book.enter(found)
        return self._treated(self.checker._evaluate(query, text_of(response), passages, book), book, found)

    async def acheck(
        self, response: AnyResponse, query: str = "", nodes: Sequence[NodeWithScore] | None = None
    ) -> SelfReflectResponse:
        """``check`` without blocking the event loop."""
        found, book = _nodes_of(response, nodes), NodeBook()
        passages = None if found is None else book.enter(found)
        checked = await self.checker._aevaluate(query, await atext_of(response), passages, book)
        return self._treated(checked, book, found)

    def _treated(
        self, evaluation: SelfReflectEvaluation, book: NodeBook, nodes: list[NodeWithScore] | None
    ) -> SelfReflectResponse:
        if evaluation.answer is None:  # a response without text
            return SelfReflectResponse(evaluation.response, nodes or [])
        return respond(treat_unsupported(evaluation.answer, self.on_unsupported, self.checker.settings), book)


def _nodes_of(response: AnyResponse, nodes: Sequence[NodeWithScore] | None) -> list[NodeWithScore] | None:
    """Return the nodes to check against; ``None`` where there are none, so that they are retrieved.

    Raises:
        InputError: the response is neither text nor a response of LlamaIndex, or the nodes are none.
    """
    if not isinstance(response, (str, *_RESPONSES)):
        raise InputError(
            f"A guard checks a text or a response, not a {type(response).__name__}.",
            hint="check('…'), or what a query engine or a chat engine returns.",
        )
    if nodes is not None:
        return as_nodes(nodes)
    return (None if isinstance(response, str) else list(response.source_nodes)) or None
