"""Retrievers of LlamaIndex as the engine wants them, and ours as LlamaIndex wants them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from llamaindex_selfreflect._nodes import NodeBook, as_nodes, node_of
from shared_core.facades.arguments import READ_ALL, check_count, no_retriever, unreachable_filter
from shared_core.retrieval.base import Retriever
from shared_core.settings import SelfReflectSettings
from shared_core.types import Decision, Passage

_WHERE_HINT = "Set it in the retriever: index.as_retriever(filters=MetadataFilters(…))."


@dataclass(frozen=True, slots=True)
class Cut:
    """Nodes cut into smaller ones, and what was left out of them, for the answer's trace."""

    nodes: list[NodeWithScore]
    note: Decision | None = None


Split = Callable[[list[NodeWithScore]], Cut]


class NodeSource:
    """Retriever of one question: the framework's retriever followed by its postprocessors.

    Args:
        retriever: of LlamaIndex.
        postprocessors: applied in order to what it finds.
        bundle: the original query, so that its embedding and images reach the retriever.
        split: splits nodes into smaller ones, which are then all read.
        callback_manager: of the engine; it receives retrieval events that the retriever does not send to it itself.
        book: to enter the nodes in; a new one by default.
    """

    def __init__(
        self,
        retriever: BaseRetriever,
        postprocessors: Sequence[BaseNodePostprocessor] = (),
        *,
        bundle: QueryBundle | None = None,
        split: Split | None = None,
        callback_manager: CallbackManager | None = None,
        book: NodeBook | None = None,
    ) -> None:
        self.book = NodeBook() if book is None else book
        self.notes: list[Decision] = []
        self._retriever = retriever
        self._postprocessors = postprocessors
        self._bundle = bundle
        self._split = split
        self._callbacks = callback_manager

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        """The passages of at most ``k`` nodes, best first: all their pieces, where nodes are cut."""
        bundle = self._query(query)
        return self._passages(self.nodes(bundle), k)

    async def aretrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        """``retrieve`` through the framework's own async methods."""
        bundle = self._query(query)
        return self._passages(await self.anodes(bundle), k)

    def nodes(self, bundle: QueryBundle) -> list[NodeWithScore]:
        """Retrieve nodes and apply the postprocessors."""
        with self._event(bundle) as tell:
            nodes = self._retriever.retrieve(bundle)
            for postprocessor in self._postprocessors:
                nodes = postprocessor.postprocess_nodes(nodes, query_bundle=bundle)
            tell(nodes)
        return nodes

    async def anodes(self, bundle: QueryBundle) -> list[NodeWithScore]:
        """``nodes`` without blocking the event loop."""
        with self._event(bundle) as tell:
            nodes = await self._retriever.aretrieve(bundle)
            for postprocessor in self._postprocessors:
                nodes = await postprocessor.apostprocess_nodes(nodes, query_bundle=bundle)
            tell(nodes)
        return nodes

    def _query(self, query: str) -> QueryBundle:
        if self._bundle is not None and self._bundle.query_str.strip() == query:
            return self._bundle
        return QueryBundle(query)

    def _passages(self, nodes: list[NodeWithScore], k: int) -> list[Passage]:
        if self._split is None:
            return self.book.enter(nodes)[:k]
        whole = NodeBook()
        cut = self._split([whole.node(p.id) for p in whole.enter(nodes)[:k]])
        self.notes += [cut.note] if cut.note is not None else []
        return self.book.enter(cut.nodes)

    @contextmanager
    def _event(self, bundle: QueryBundle) -> Iterator[Callable[[list[NodeWithScore]], None]]:
        if self._callbacks is None or _heard_by(self._callbacks, self._retriever):
            yield lambda nodes: None
            return
        with self._callbacks.event(CBEventType.RETRIEVE, payload={EventPayload.QUERY_STR: bundle.query_str}) as event:
            yield lambda nodes: event.on_end(payload={EventPayload.NODES: nodes})


def _heard_by(manager: CallbackManager, retriever: BaseRetriever) -> bool:
    """Whether the retriever's own events reach the manager's handlers (or there is nobody to reach)."""
    theirs = getattr(getattr(retriever, "callback_manager", None), "handlers", [])
    return all(any(h is t for t in theirs) for h in manager.handlers)


class GivenNodes:
    """Nodes that were retrieved before, for every query the same; InputError if they are none."""

    def __init__(self, nodes: Sequence[NodeWithScore], split: Split | None = None) -> None:
        given = as_nodes(nodes)
        self.book = NodeBook()
        cut = split(given) if split is not None else Cut(given)
        self.notes = [cut.note] if cut.note is not None else []
        self._passages = self.book.enter(cut.nodes)

    def __len__(self) -> int:
        return len(self._passages)

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        """The first ``k`` of them."""
        return self._passages[:k]


class PassageRetriever(BaseRetriever):
    """Adapter of our own retrievers (``shared_core.retrieval``) to LlamaIndex.

    >>> from shared_core import Passage
    >>> from shared_core.retrieval import BM25Retriever
    >>> shelf = BM25Retriever([Passage("lamp", "The lamp of Vessen was lit in 1871.")])
    >>> PassageRetriever(shelf, top_k=1).retrieve("lamp")[0].node.node_id
    'lamp'

    Args:
        retriever: anything with ``retrieve(query, k) -> passages``.
        top_k: passages to ask for, at least 1.
        where: metadata filter in the language of ``shared_core.retrieval``.
        callback_manager: of LlamaIndex.
    """

    def __init__(
        self,
        retriever: Retriever,
        top_k: int = 5,
        *,
        where: dict[str, Any] | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        check_count("top_k", top_k)
        self.retriever = retriever
        self.similarity_top_k = top_k
        self.where = where
        self._where = {} if where is None else {"where": where}
        super().__init__(callback_manager=callback_manager)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self.retriever.retrieve(query_bundle.query_str, k=self.similarity_top_k, **self._where)
        return [node_of(p) for p in found]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        aretrieve = getattr(self.retriever, "aretrieve", None)
        if aretrieve is None:
            return await asyncio.to_thread(self._retrieve, query_bundle)
        found = await aretrieve(query_bundle.query_str, k=self.similarity_top_k, **self._where)
        return [node_of(p) for p in found]


def framework_retriever(retriever: object, settings: SelfReflectSettings) -> BaseRetriever:
    """Return a retriever of LlamaIndex: the given one, or an adapter of ours.

    Raises:
        InputError: it is no retriever.
        OptionError: ``settings.where`` is set, which a retriever of LlamaIndex cannot be told.
    """
    if isinstance(retriever, BaseRetriever):
        if settings.where is not None:
            raise unreachable_filter(_WHERE_HINT)
        return retriever
    if callable(getattr(retriever, "as_retriever", None)):
        raise no_retriever(retriever, "It is an index: give index.as_retriever(…).")
    if isinstance(retriever, Retriever):
        return PassageRetriever(retriever, settings.top_k, where=settings.where)
    raise no_retriever(retriever, "Give a BaseRetriever (index.as_retriever(…)), or one of shared_core.retrieval.")


def narrowed(retriever: BaseRetriever, given: Mapping[str, Any]) -> BaseRetriever:
    """Return the retriever for one call with ``top_k`` and ``where``: an adapter of ours with these.

    Raises:
        OptionError: ``where`` is given, which a retriever of LlamaIndex cannot be told.
    """
    if isinstance(retriever, PassageRetriever):
        top_k = given.get("top_k", retriever.similarity_top_k)
        where = given.get("where", retriever.where)
        return PassageRetriever(retriever.retriever, top_k, where=where, callback_manager=retriever.callback_manager)
    if "where" in given:
        raise unreachable_filter(_WHERE_HINT)
    return retriever


def fit_settings(settings: SelfReflectSettings, retriever: BaseRetriever) -> SelfReflectSettings:
    """Adjust the settings to an engine over ``retriever``, which applies ``where`` itself.

    In LlamaIndex the retriever says how many nodes there are to read (``similarity_top_k``); all of them are read,
    unless the settings were made with a ``top_k`` of their own.
    """
    chosen = "top_k" in settings.model_fields_set
    width: object = settings.top_k if chosen else getattr(retriever, "similarity_top_k", None)
    known = isinstance(width, int) and not isinstance(width, bool) and width > 0
    return settings.replace(top_k=width if known else READ_ALL, where=None)
