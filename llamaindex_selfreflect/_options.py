"""Keyword arguments of the query engines, written down once (PEP 692) for type checkers, editors and our own errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar

from llama_index.core.callbacks import CallbackManager
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts import BasePromptTemplate

from shared_core.calibration.stack import AnyCalibration
from shared_core.facades.arguments import unknown_argument
from shared_core.reading.base import Reader, SupportScorer
from shared_core.retrieval.base import Embedder
from shared_core.settings import AbstainPolicy, GuaranteeName, PipelineName, SelfReflectSettings

F = TypeVar("F", bound=Callable[..., object])


class CoreOptions(TypedDict, total=False):
    """Options that LlamaIndex's own query engines do not have; see ``SelfReflectQueryEngine``."""

    settings: SelfReflectSettings | Mapping[str, Any] | None
    target_accuracy: float | None
    pipeline: PipelineName | None
    on_abstain: AbstainPolicy | None
    guarantee: GuaranteeName | None
    abstain_text: str | None
    deadline: float | None
    style: str | None
    condense: bool | str | BasePromptTemplate | None
    markers: Literal["numbers", "ids"] | None
    reader: Reader | None
    judge: SupportScorer | None
    embedder: Embedder | None
    models: Mapping[str, object] | None
    calibrations: Mapping[str, AnyCalibration] | None


class CallOptions(TypedDict, total=False):
    """Settings that one call may change; ``where`` and ``top_k`` as of ``SelfReflectSettings``."""

    target_accuracy: float | None
    top_k: int | None
    where: dict[str, Any] | None
    deadline: float | None
    on_abstain: AbstainPolicy | None


class KeywordOptions(CoreOptions, total=False):
    """Options that ``CitationQueryEngine.from_args`` does not take by position."""

    callback_manager: CallbackManager | None
    verbose: bool


class EngineOptions(KeywordOptions, total=False):
    """All options of a query engine."""

    llm: object
    node_postprocessors: Sequence[BaseNodePostprocessor] | None
    streaming: bool


class CitationOptions(KeywordOptions, total=False):
    """Options of ``SelfReflectCitationQueryEngine.from_args``.

    Any other name reaches ``index.as_retriever``; the usual ones are listed for type checkers.
    """

    filters: object
    vector_store_query_mode: object
    doc_ids: list[str] | None
    node_ids: list[str] | None


_DEFAULTS = {"streaming": False, "verbose": False}


def require_known(options: Mapping[str, object], owner: str, *own: str, listed: type = EngineOptions) -> None:
    """Raise ArgumentError for the first option that is not ``listed``.

    Its hint names the nearest one of these and of ``own``, the further arguments of ``owner``.
    """
    known = listed.__annotations__.keys()
    for name in options:
        if name not in known:
            raise unknown_argument(name, {*known, *own}, owner)


def spells_out(options: type) -> Callable[[F], F]:
    """Decorate a function that takes ``**options`` so that ``help`` and ``inspect.signature`` list each of them."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        listed = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(name), annotation=kind)
            for name, kind in options.__annotations__.items()
        ]
        vars(function)["__signature__"] = signature.replace(parameters=[*named, *listed])
        return function

    return decorate
