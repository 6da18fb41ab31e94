"""Find the sampling options that a chat model accepts, and pass them to it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from typing import Any

from langchain_core.caches import BaseCache
from langchain_core.globals import get_llm_cache
from langchain_core.language_models import LLM, BaseChatModel, SimpleChatModel
from langchain_core.language_models.llms import BaseLLM
from langchain_core.runnables import Runnable, RunnableSerializable, RunnableWithFallbacks

_LOG = logging.getLogger(__name__)
_INNER = ("bound", "runnable", "default")
"""Where ``bind``, ``with_retry``, ``with_fallbacks`` and ``configurable_fields`` hold what they wrap."""
NAMES: Mapping[str, tuple[str, ...]] = {
    "temperature": ("temperature",),
    "max_tokens": (
        "max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "num_predict",
        "max_tokens_to_sample",
    ),
    "top_p": ("top_p",),
    "top_k": ("top_k",),
    "seed": ("seed",),
    "stop": ("stop",),
    "logprobs": ("logprobs", "top_logprobs"),
}  # fmt: skip
"""What providers' classes call each option."""


class Options:
    """Sampling options of one chat model.

    An option that the model's class has a field for is set on a copy of the model: that is what every provider's class
    reads, while keywords at call time are not taken by all of them. A model behind a wrapper (``bind``, ``with_retry``)
    cannot be copied, and one that names the option in ``_generate`` expects it there: these get it as a keyword.
    """

    def __init__(self, runnable: Runnable[Any, Any]) -> None:
        self._runnable = runnable
        self._inner = innermost(runnable)
        self._fields = self._find_fields()
        self._warned: set[str] = set()

    def declares(self, option: str) -> bool:
        """Whether the model's class declares the option."""
        return option in self._fields

    def apply(self, options: Mapping[str, Any]) -> tuple[Runnable[Any, Any], dict[str, Any]]:
        """Return the model and the keyword arguments to call it with; options that it lacks are left out."""
        copied: dict[str, Any] = {}
        keywords: dict[str, Any] = {}
        for option, value in options.items():
            if option in ("stop", "logprobs"):
                keywords[option] = value
            elif option in self._fields:
                name, by_field = self._fields[option]
                (copied if by_field and self._runnable is self._inner else keywords)[name] = value
        model = self._runnable
        if copied and isinstance(model, (BaseChatModel, BaseLLM)):
            model = model.model_copy(update=copied)
        return model, keywords

    def warn_without(self, option: str, consequence: str) -> None:
        """Warn once that the model does not accept the option."""
        if option not in self._fields and option not in self._warned:
            self._warned.add(option)
            _LOG.warning("%s takes no %s: %s", type(self._inner).__name__, option, consequence)

    def _find_fields(self) -> dict[str, tuple[str, bool]]:
        inner = self._inner
        if not isinstance(inner, (BaseChatModel, BaseLLM)):
            return {}
        fields = type(inner).model_fields
        parameters = set(inspect.signature(inner._generate).parameters)
        found: dict[str, tuple[str, bool]] = {}
        for option, names in NAMES.items():
            for name in names:
                if option != "stop" and (name in fields or name in parameters):
                    found.setdefault(option, (name, name in fields))
        return found


def innermost(runnable: Any) -> Any:
    """Unwrap the model inside ``bind``, ``with_retry``, ``with_fallbacks``, ``configurable_fields``."""
    for _ in range(16):
        inner = next(
            (i for i in (getattr(runnable, n, None) for n in _INNER) if isinstance(i, Runnable)),
            None,
        )  # fmt: skip
        if isinstance(runnable, (BaseChatModel, BaseLLM)) or inner is None:
            break
        runnable = inner
    return runnable


def is_sync(runnable: Any) -> bool:
    """Whether a model has no async form of its own.

    LangChain then runs the sync one in the event loop's threads: the loop waits for them at its end, however long the
    model hangs, and has only a few for all of the program.
    """
    inner = innermost(runnable)
    if hasattr(runnable, "fallbacks") and not all(map(is_sync, runnable.fallbacks)):
        return False
    made = type(inner)
    if isinstance(inner, BaseChatModel):
        inherited = (BaseChatModel._agenerate, SimpleChatModel._agenerate)
        return made._agenerate in inherited and made._astream is BaseChatModel._astream
    if isinstance(inner, LLM) and made._agenerate is LLM._agenerate:
        return made._acall is LLM._acall
    return isinstance(inner, BaseLLM) and made._agenerate is BaseLLM._agenerate


def without_cache(runnable: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return the model, or a copy of it, that answers each call anew: from a cache all samples would be the first."""
    if isinstance(runnable, (BaseChatModel, BaseLLM)):
        cached = isinstance(runnable.cache, BaseCache) or (runnable.cache is not False and get_llm_cache() is not None)
        return runnable.model_copy(update={"cache": False}) if cached else runnable
    if not isinstance(runnable, RunnableSerializable):
        return runnable
    held = {name: i for name in _INNER if isinstance(i := getattr(runnable, name, None), Runnable)}
    anew = {name: without_cache(inner) for name, inner in held.items()}
    update: dict[str, Any] = {name: inner for name, inner in anew.items() if inner is not held[name]}
    if isinstance(runnable, RunnableWithFallbacks):
        others = [without_cache(other) for other in runnable.fallbacks]
        update |= {"fallbacks": others} if any(a is not b for a, b in zip(others, runnable.fallbacks)) else {}
    return runnable.model_copy(update=update) if update else runnable
