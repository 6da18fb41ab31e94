"""LangChain's retrievers as ours."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import get_executor_for_config
from langchain_core.vectorstores import VectorStoreRetriever

from langchain_selfreflect._caller import Caller, caller_of
from langchain_selfreflect._question import messages_of
from langchain_selfreflect.documents import to_passages
from shared_core.errors import InputError
from shared_core.facades.arguments import READ_ALL, no_retriever, unreachable_filter
from shared_core.retrieval.base import Retriever
from shared_core.settings import SelfReflectSettings
from shared_core.support.threads import in_thread
from shared_core.types import Passage

_STORE_DEFAULT = 4  # of LangChain's vector stores


class LangChainRetriever:
    """Adapter of a LangChain retriever (or any runnable from text to documents) to our interface.

    The number of passages is passed on where the retriever takes one, and holds in any case. Callbacks of the run on
    whose behalf it is called are passed down.

    Args:
        runnable: a ``BaseRetriever``, or a chain that ends in documents.

    Raises:
        InputError: it is no runnable.
    """

    def __init__(self, runnable: Runnable[str, Any]) -> None:
        if not isinstance(runnable, Runnable):
            raise InputError(f"A {type(runnable).__name__} is no LangChain retriever.", hint="Give a BaseRetriever.")
        self.runnable = runnable
        self._takes_k = takes_k(runnable)
        self._takes_history = takes_history(runnable)

    def retrieve(self, query: str, k: int = 5) -> list[Passage]:
        """Return the ``k`` best passages, or as many as the retriever returns."""
        caller = caller_of(query)
        found = self.runnable.invoke(self._input(query, caller), caller.config, **self._keywords(k))
        return self._passages(found, k, caller)

    async def aretrieve(self, query: str, k: int = 5) -> list[Passage]:
        """``retrieve`` with the retriever's own async method; without one, in a thread that no event loop waits for."""
        caller = caller_of(query)
        async with caller.slot():
            if _is_sync(self.runnable):
                found = await in_thread(
                    self.runnable.invoke, self._input(query, caller), caller.config, **self._keywords(k)
                )
            else:
                found = await self.runnable.ainvoke(self._input(query, caller), caller.config, **self._keywords(k))
        return self._passages(found, k, caller)

    def retrieve_many(self, queries: Sequence[str], k: int = 5) -> list[list[Passage] | Exception]:
        """``retrieve`` for many queries at once, each in a thread; one that fails gives its error."""

        def found(query: str) -> list[Passage] | Exception:
            try:
                return self.retrieve(query, k)
            except Exception as error:
                return error

        with get_executor_for_config(caller_of(queries[0] if queries else "").config) as executor:
            return list(executor.map(found, queries))

    def _input(self, query: str, caller: Caller) -> Any:
        if not self._takes_history:
            return str(query)
        return {"input": str(query), "chat_history": messages_of(caller.history)}

    def _keywords(self, k: int) -> dict[str, Any]:
        return {"k": k} if self._takes_k else {}

    def _passages(self, found: Any, k: int, caller: Caller) -> list[Passage]:
        if not isinstance(found, (list, tuple)):
            hint = "Give the retriever itself, without the step that formats its documents."
            if found is None:
                hint = "It returns an empty list where it finds nothing: look for a missing return."
            raise InputError(f"The retriever gave {_named(found)}, not a list of documents.", hint=hint)
        return [p for p in to_passages(found, caller.documents) if p.text.strip()][:k]


def _named(found: object) -> str:
    return "None" if found is None else f"a {type(found).__name__}"


def takes_history(retriever: Runnable[Any, Any]) -> bool:
    """Whether it takes a question with its conversation, as ``create_history_aware_retriever`` makes them."""
    if isinstance(retriever, BaseRetriever):
        return False
    try:
        fields: dict[str, Any] = getattr(retriever.get_input_schema(), "model_fields", {})
    except (AttributeError, TypeError, ValueError):  # a runnable without a schema
        return False
    return {"input", "chat_history"} <= fields.keys()


def _is_sync(retriever: object) -> bool:
    """Whether a retriever has no async form of its own, or one that does not take the number of documents."""
    if not isinstance(retriever, BaseRetriever):
        return False
    inherited = type(retriever)._aget_relevant_documents is BaseRetriever._aget_relevant_documents
    return inherited or (takes_k(retriever) and not takes_k(retriever, is_async=True))


def takes_k(retriever: object, *, is_async: bool = False) -> bool:
    """Whether the retriever (or its async method) accepts the number of documents per call."""
    if isinstance(retriever, VectorStoreRetriever):
        return True
    if not isinstance(retriever, BaseRetriever):
        return False
    form = retriever._aget_relevant_documents if is_async else retriever._get_relevant_documents
    return "k" in inspect.signature(form).parameters


def usual_k(retriever: object) -> int | None:
    """Return the number of documents that the retriever is configured for; ``None`` if unknown.

    All it finds are its own choice where it cannot be told a number: an ensemble, a chain, a retriever with retries.
    """
    if isinstance(retriever, VectorStoreRetriever):
        k = retriever.search_kwargs.get("k", _STORE_DEFAULT)
    else:
        k = getattr(retriever, "k", None) or getattr(retriever, "usual_k", None)
    if isinstance(k, int) and not isinstance(k, bool) and k > 0:
        return k
    return READ_ALL if isinstance(retriever, Runnable) and not takes_k(retriever) else None


def as_retriever(retriever: object, settings: SelfReflectSettings) -> Retriever:
    """Return our own retriever unchanged, and wrap one of LangChain.

    Raises:
        InputError: it is neither.
        OptionError: the settings hold a filter, which LangChain's retrievers have no common form for.
    """
    if callable(getattr(retriever, "retrieve", None)) and isinstance(retriever, Retriever):
        return retriever
    if not isinstance(retriever, Runnable):
        raise no_retriever(
            retriever, "Give a BaseRetriever (vectorstore.as_retriever()), or one of shared_core.retrieval."
        )
    if settings.where is not None:
        raise unreachable_filter("Set it in the retriever: vectorstore.as_retriever(search_kwargs={'filter': …}).")
    return LangChainRetriever(retriever)


def with_usual_k(settings: SelfReflectSettings, retriever: object, *, calibrated: bool = False) -> SelfReflectSettings:
    """Take over the retriever's own number of passages unless ``top_k`` was set.

    A calibration, which holds for one ``top_k``, is not given up for a retriever that has no number.
    """
    k = usual_k(retriever)
    if k is None or "top_k" in settings.model_fields_set:
        return settings
    bound = calibrated or settings.calibration is not None
    return settings if k == READ_ALL and bound else settings.replace(top_k=k)
