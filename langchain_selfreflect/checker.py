"""``SelfReflectChecker``: a runnable behind any chain that checks what the chain answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, message_chunk_to_message
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableSerializable
from pydantic import ConfigDict, Field, PrivateAttr

from langchain_selfreflect import _events, _messages
from langchain_selfreflect._caller import Caller, enter
from langchain_selfreflect._fields import (
    AnyModel,
    AnyRetriever,
    Figure,
    Logprobs,
    Made,
    OurJudge,
    ReflectSettings,
    Strict,
)
from langchain_selfreflect._retrieval import as_retriever, with_usual_k
from langchain_selfreflect.documents import to_passages
from langchain_selfreflect.lm import as_language_model
from shared_core.errors import InputError
from shared_core.facades.arguments import in_words_of
from shared_core.facades.checker import SelfReflectChecker as CoreChecker
from shared_core.lm.chat import LogprobsMode
from shared_core.pipelines.decision.wording import OnUnsupported, treat_unsupported
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Finished, Passage

Checkable = str | BaseMessage | Mapping[str, Any]
_ANSWERS = ("answer", "output", "result", "response")
_QUESTIONS = ("question", "input", "query")
_CONTEXTS = ("context", "documents", "source_documents")


@dataclass(frozen=True, slots=True)
class _Given:
    """Take the text to check out of a chain's output; ``key`` is the answer's key in a dict."""

    answer: str | BaseMessage
    question: str = ""
    passages: list[Passage] | None = None
    key: str = ""

    @property
    def text(self) -> str:
        """The answer's text; empty for a message without text (tool calls)."""
        return self.answer if isinstance(self.answer, str) else str(self.answer.text)


class SelfReflectChecker(Strict, RunnableSerializable[Checkable, Any]):
    """Checks the answer of a chain, claim by claim, against the chain's documents or retrieved ones.

    Needs no language model: ``chain | SelfReflectChecker(retriever=…, on_unsupported="flag") | StrOutputParser()``.

    >>> documents = ["The lamp of Vessen was lit in 1871."]
    >>> checker = SelfReflectChecker(on_unsupported="flag")
    >>> checker.invoke({"answer": "The lamp was lit in 1871. The sea is warm.", "context": documents})["answer"]
    'The lamp was lit in 1871. The sea is warm. (unsupported)'

    The input is a text, a message, or a dict with the answer (``answer``, ``output``, ``result``, ``response``), and if
    there are any the question (``question``, ``input``, ``query``) and the documents it was written from (``context``,
    ``documents``, ``source_documents``), as from retrieval chains. Claims are checked against these documents if
    there are any, and otherwise against documents retrieved for each claim.

    A text or message gives an ``AIMessage`` whose ``response_metadata["selfreflect"]`` is the whole check: claims with
    ranges in the text, support, verdict and verbatim evidence. Supported claims have ``Citation`` annotations. A dict
    gives a dict with the answer replaced (a text by a text) and the check under ``selfreflect``. Output
    without text (tool calls) passes unchanged. ``target_accuracy``, ``top_k``, ``where``, ``deadline`` and
    ``on_abstain`` can be given per call as for ``SelfReflectChain``; other keywords have no effect.

    Raises:
        SettingsError: an argument is unknown or wrong; on creation.
        InputError: ``retriever`` cannot retrieve, or ``llm`` is not a language model; on creation. The input has
            no answer, or there is nothing to check it against; when asked.
        AbstainedError: the answer is refused and ``settings.on_abstain="raise"``; when asked.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    retriever: AnyRetriever | None = Field(
        default=None, description="A LangChain retriever (or runnable from text to documents), or one of ours."
    )
    on_unsupported: OnUnsupported = Field(
        default="pass",
        description="Unsupported claims: keep (pass), mark (flag) or remove them (strip), or withhold the whole answer "
        "(refuse).",
    )
    llm: AnyModel | None = Field(default=None, description="Judges claims that judge and critic cannot judge.")
    settings: ReflectSettings = Field(default_factory=SelfReflectSettings)
    target_accuracy: Figure | None = Field(default=None, description="Shortcut for the setting of that name.")
    answer_key: str | None = Field(
        default=None, description="Key of the answer in a dict; by default one of the usual keys."
    )
    question_key: str | None = Field(default=None, description="Key of the question.")
    context_key: str | None = Field(default=None, description="Key of the documents.")
    logprobs: Logprobs = Field(default="auto", description="See LangChainLM.")
    models: dict[str, AnyModel] = Field(default_factory=dict, description="Further models by role (judge).")
    judge: OurJudge | None = Field(
        default=None, description="Scores how far passages support a claim; without one the critic does."
    )
    critic: OurJudge | None = Field(default=None, description="In place of the shipped critic.")
    necessary: bool = Field(
        default=False,
        description="Also ask whether llm states each claim because of what it cites (necessity of each claim: its "
        "log-probabilities with all passages, without the cited sentences, with them alone). Needs a model that scores "
        "given texts.",
    )

    _made: Made[CoreChecker] = PrivateAttr(default_factory=Made)

    def model_post_init(self, context: Any, /) -> None:
        """Refuse a configuration that cannot work, without calling a model."""
        self._make(probe=False)

    @property
    def checker(self) -> CoreChecker:
        """The core's checker, built from the current fields."""
        return self._made.get(self, self._make)

    def _checker_of(self, caller: Caller) -> CoreChecker:
        """Return the core's checker with the settings of one call."""
        if not caller.options:
            return self.checker
        settings = self.checker.settings.replace(**caller.options)
        retriever = None if self.retriever is None else as_retriever(self.retriever, settings)
        return self.checker.with_retriever(retriever, settings)

    def _make(self, *, probe: bool = True) -> CoreChecker:
        with in_words_of(self, lm="llm"):
            settings = self.settings if self.retriever is None else with_usual_k(self.settings, self.retriever)
            if self.target_accuracy is not None:
                settings = settings.replace(target_accuracy=self.target_accuracy)
            mode: LogprobsMode = self.logprobs if probe else False
            models = {role: as_language_model(m, logprobs=mode) for role, m in self.models.items()}
            return CoreChecker(
                None if self.retriever is None else as_retriever(self.retriever, settings),
                as_language_model(self.llm, logprobs=mode),
                settings,
                judge=self.judge,
                critic=self.critic,
                models={role: m for role, m in models.items() if m is not None},
                necessary=self.necessary,
            )

    # --- one answer --------------------------------------------------------------------------------------------

    def invoke(self, input: Checkable, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Check an answer."""
        return self._call_with_config(self._invoke, input, config, **kwargs)

    async def ainvoke(self, input: Checkable, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """``invoke`` without blocking the event loop."""
        return await self._acall_with_config(self._ainvoke, input, config, **kwargs)

    def _invoke(
        self, input: Checkable, run_manager: CallbackManagerForChainRun, config: RunnableConfig, **options: Any
    ) -> Any:
        given, caller = self._take(input), Caller.of(config, options)
        if not given.text.strip():
            return _untouched(input)
        enter(caller)
        checker, checked = self._checker_of(caller), None
        with closing(cast("Any", checker.stream(given.text, given.question, given.passages))) as events:
            for event in events:
                _events.tell(event, config)
                checked = event.answer if isinstance(event, Finished) else checked
        return self._give(input, given, checked, checker.settings)

    async def _ainvoke(
        self, input: Checkable, run_manager: AsyncCallbackManagerForChainRun, config: RunnableConfig, **options: Any
    ) -> Any:
        given, caller = self._take(input), Caller.of(config, options)
        if not given.text.strip():
            return _untouched(input)
        enter(caller)
        await self._made.aget(self, self._make)
        checker, checked = self._checker_of(caller), None
        async with aclosing(checker.astream(given.text, given.question, given.passages)) as events:
            async for event in events:
                await _events.atell(event, config)
                checked = event.answer if isinstance(event, Finished) else checked
        return self._give(input, given, checked, checker.settings)

    # --- what goes in and comes out ----------------------------------------------------------------------------

    def _take(self, input: Checkable) -> _Given:
        if isinstance(input, (str, BaseMessage)):
            return _Given(input)
        if not isinstance(input, Mapping):
            raise InputError(
                f"The input must be a text, a message or a dict with an answer, not a {type(input).__name__}.",
                hint="Put the checker behind a chain that answers: chain | SelfReflectChecker(…).",
            )
        key = _first(input, self.answer_key, _ANSWERS)
        answer = input.get(key) if key else None
        if key is None or not isinstance(answer, (str, BaseMessage)):
            raise InputError(
                f"The input holds no answer: its keys are {', '.join(map(repr, input)) or 'none'}.",
                hint=f"Use one of {', '.join(_ANSWERS)}, or set answer_key.",
            )
        asked, context = _first(input, self.question_key, _QUESTIONS), _first(input, self.context_key, _CONTEXTS)
        return _Given(
            answer, _question(input[asked]) if asked else "", _passages(input[context]) if context else None, key
        )

    def _give(self, input: Checkable, given: _Given, checked: Answer | None, settings: SelfReflectSettings) -> Any:
        assert checked is not None, "the stream of a check ends with Finished"
        answer = treat_unsupported(checked, self.on_unsupported, settings)
        made = _messages.checked(answer, given.answer if isinstance(given.answer, AIMessage) else None)
        if not given.key:
            return made
        shown: Any = answer.text if isinstance(given.answer, str) else made
        return {**cast("Mapping[str, Any]", input), given.key: shown, _messages.NAMESPACE: answer.to_dict()}


def _untouched(input: Checkable) -> Any:
    """Convert an output without text to the form of checked outputs."""
    if isinstance(input, str):
        return AIMessage(input)
    return message_chunk_to_message(input) if isinstance(input, AIMessageChunk) else input


def _first(input: Mapping[str, Any], named: str | None, usual: Sequence[str]) -> str | None:
    """Return the given key, or the first usual key in the dict; InputError if the given key is missing."""
    if named is None:
        return next((key for key in usual if input.get(key) is not None), None)
    if named not in input:
        raise InputError(
            f"The input has no {named!r}: its keys are {', '.join(map(repr, input)) or 'none'}.",
            hint="Check answer_key, question_key and context_key.",
        )
    return named


def _question(value: object) -> str:
    """Convert a question to text: of a conversation, the user's last message."""
    if isinstance(value, BaseMessage):
        return str(value.text)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return next((str(m.text) for m in reversed(value) if isinstance(m, HumanMessage)), "")
    return value if isinstance(value, str) else ""


def _passages(value: object) -> list[Passage]:
    """Convert a chain's context to passages: documents, texts, or one text joined from them."""
    if isinstance(value, str):
        return [Passage("context", value)]
    items: list[Any] = list(value) if isinstance(value, Sequence) else [value]
    return to_passages(Document(item) if isinstance(item, str) else item for item in items)
