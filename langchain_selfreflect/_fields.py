"""Types of fields, and our own errors for wrong arguments: for all pydantic classes of this plug-in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Generic, Self, TypeVar

from langchain_core.runnables import Runnable
from pydantic import BaseModel, BeforeValidator, SkipValidation, ValidationError

from shared_core.errors import SelfReflectError, SettingsError
from shared_core.facades.arguments import as_settings, missing_argument, unknown_argument
from shared_core.facades.reranker import RerankMethod
from shared_core.lm.base import LanguageModel
from shared_core.lm.chat import LogprobsMode
from shared_core.reading.base import Reader, SupportScorer
from shared_core.retrieval.base import Embedder, Retriever
from shared_core.settings import AbstainPolicy, GateName, GuaranteeName, PipelineName, SelfReflectSettings
from shared_core.support.pickling import copied

T = TypeVar("T")

# Types of fields are for editors and mypy; the receiving code checks values at run time.

AnyRetriever = Annotated[Runnable[str, Any] | Retriever, SkipValidation]
"""A retriever of LangChain, a runnable from text to documents, or one of ours."""

AnyModel = Annotated[Runnable[Any, Any] | LanguageModel | str, SkipValidation]
"""A chat model, a runnable around one, the name of one (``openai:gpt-4o``), or a backend of ours."""

Count = Annotated[int, SkipValidation]
Figure = Annotated[float, SkipValidation]
Gate = Annotated[GateName, SkipValidation]
Guarantee = Annotated[GuaranteeName, SkipValidation]
Logprobs = Annotated[LogprobsMode, SkipValidation]
Method = Annotated[RerankMethod, SkipValidation]
Pipeline = Annotated[PipelineName, SkipValidation]
OnAbstain = Annotated[AbstainPolicy, SkipValidation]
OurEmbedder = Annotated[Embedder, SkipValidation]
OurJudge = Annotated[SupportScorer, SkipValidation]
OurReader = Annotated[Reader, SkipValidation]


class Made(Generic[T]):
    """Cache of an object built from a model's fields, until one of them changes; never copied or pickled."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[Any, ...], T] | None = None

    def get(self, owner: BaseModel, make: Callable[[], T]) -> T:
        """Return what ``make`` builds from the current fields."""
        fields = tuple(getattr(owner, name) for name in type(owner).model_fields)
        kept = self._kept
        if kept is not None and all(a is b for a, b in zip(kept[0], fields)):
            return kept[1]
        made = make()
        self._kept = (fields, made)
        return made

    async def aget(self, owner: BaseModel, make: Callable[[], T]) -> T:
        """``get`` in a thread, since ``make`` may read files and probe a chat model."""
        if self._kept is None:
            return await asyncio.to_thread(self.get, owner, make)
        return self.get(owner, make)

    def __deepcopy__(self, memo: object) -> Made[T]:
        return Made()

    def __copy__(self) -> Made[T]:
        return Made()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Made, ())


class Strict:
    """Mixin before a pydantic class: validation errors become our own, worded as in the other plug-in.

    A class builds its parts in ``_make``, which also runs when the object is created, without calling any model, so
    that a configuration that cannot work is refused early.
    """

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise _refusal(type(self), error) from error

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        memo = {} if memo is None else memo
        for value in self.__dict__.values():
            memo[id(value)] = copied(value, memo)
        made: Self = super().__deepcopy__(memo)  # type: ignore[misc]  # pydantic's
        return made


def _refusal(cls: type, error: ValidationError) -> SelfReflectError:
    for found in error.errors():
        ours = found.get("ctx", {}).get("error")
        if isinstance(ours, SelfReflectError):
            return ours
    known = sorted(cls.model_fields) if issubclass(cls, BaseModel) else []
    for found in error.errors():
        if len(found["loc"]) == 1 and found["type"] == "extra_forbidden":
            return unknown_argument(str(found["loc"][0]), known, cls.__name__)
        if len(found["loc"]) == 1 and found["type"] == "missing":
            return missing_argument(str(found["loc"][0]), cls.__name__)
    problems = [f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors()]
    return SettingsError(f"{cls.__name__} cannot be made: " + "; ".join(problems), hint=f"It takes: {', '.join(known)}")


ReflectSettings = Annotated[SelfReflectSettings, BeforeValidator(as_settings)]
"""``SelfReflectSettings``, a dict of their values, or ``None`` for the defaults."""
