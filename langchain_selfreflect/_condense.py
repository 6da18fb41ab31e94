"""Make follow-ups full questions before the engine sees them, with a runnable or prompt of the user's."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from langchain_core.prompts import BasePromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.utils import gather_with_concurrency

from langchain_selfreflect._question import messages_of
from langchain_selfreflect.lm import LangChainLM, inner_config
from shared_core.conversation.condense import check_template
from shared_core.conversation.recognise import recognise
from shared_core.conversation.turns import Asked
from shared_core.errors import InputError, SettingsError
from shared_core.lm.chat import Secrets, provider_error
from shared_core.lm.chat.read import Kept
from shared_core.lm.chat.thoughts import find_thoughts

Condenser = bool | Literal["auto"] | str | Runnable[Any, Any]
"""``auto``, ``True``, ``False``, a template with ``{chat_history}`` and ``{question}``, a prompt of LangChain, or a
runnable from ``{"chat_history": messages, "input": question, "question": question}`` to a text or message."""


class Condensing:
    """Prepares questions as a chain's ``condense`` says.

    >>> Condensing("auto", None).prepare(Asked("Why?"), RunnableConfig()).condense
    'auto'

    Args:
        given: the chain's ``condense``.
        llm: the chain's model, for a prompt of LangChain.

    Raises:
        SettingsError: a template has other fields, or a prompt of LangChain has no chat model to go to.
    """

    def __init__(self, given: Condenser, llm: object) -> None:
        self._mode: bool | Literal["auto"] = "auto"
        self._template = ""
        self._runnable: Runnable[Any, Any] | None = None
        self._model: Runnable[Any, Any] | None = None  # the chain's, where a prompt goes to it
        if isinstance(given, bool) or given == "auto":
            self._mode = given if isinstance(given, bool) else "auto"
            if given is True and llm is None:
                raise SettingsError("condense=True needs a language model.", hint="Give llm=…, or condense='auto'.")
        elif isinstance(given, str):
            self._mode, self._template = True, check_template(given)
            if llm is None:
                raise SettingsError("A template for condensing needs a language model.", hint="Give llm=….")
        elif isinstance(given, BasePromptTemplate):
            if not isinstance(llm, Runnable):
                raise SettingsError(
                    "A prompt of LangChain for condensing needs a LangChain chat model.",
                    hint="Give llm=…, or a template as text with {chat_history} and {question}.",
                )
            self._mode, self._runnable, self._model = True, given | llm, llm
        elif isinstance(given, Runnable):
            self._mode, self._runnable = True, given
        else:
            raise InputError(
                f"condense cannot be a {type(given).__name__}.",
                hint="Give 'auto', True, False, a template, a prompt, or a runnable that writes the full question.",
            )

    def prepare(self, asked: Asked, config: RunnableConfig) -> Asked:
        """Return the question with how it is to be condensed; a runnable of the user's is asked here.

        Raises:
            LanguageModelError: the chain's model failed, as a prompt's; a runnable's own errors are raised as they are.
            InputError: a runnable gave no text.
        """
        if self._runnable is None or not _wants(asked):
            return self._marked(asked)
        with self._errors_of_the_model():
            written = self._runnable.invoke(_input(asked), inner_config(config))
        return self._marked(asked, written)

    async def aprepare(self, asked: Asked, config: RunnableConfig) -> Asked:
        """``prepare`` without blocking the event loop."""
        if self._runnable is None or not _wants(asked):
            return self._marked(asked)
        with self._errors_of_the_model():
            written = await self._runnable.ainvoke(_input(asked), inner_config(config))
        return self._marked(asked, written)

    def prepare_all(self, asked: Sequence[Asked], configs: Sequence[RunnableConfig]) -> list[Asked | Exception]:
        """``prepare`` many questions; one that fails gives its error."""
        found: list[Asked | Exception] = []
        for one, config in zip(asked, configs, strict=True):
            try:
                found.append(self.prepare(one, config))
            except Exception as error:
                found.append(error)
        return found

    async def aprepare_all(self, asked: Sequence[Asked], configs: Sequence[RunnableConfig]) -> list[Asked | Exception]:
        """``prepare_all``, as many at once as the run's config allows."""

        async def prepared(one: Asked, config: RunnableConfig) -> Asked | Exception:
            try:
                return await self.aprepare(one, config)
            except Exception as error:
                return error

        limit = (configs[0].get("max_concurrency") or None) if configs else None
        return await gather_with_concurrency(limit, *(prepared(a, c) for a, c in zip(asked, configs, strict=True)))

    @contextlib.contextmanager
    def _errors_of_the_model(self) -> Iterator[None]:
        """Convert what the chain's model raises as everywhere else."""
        try:
            yield
        except Exception as error:
            if self._model is None:
                raise
            model = LangChainLM(self._model)
            failed = provider_error(
                error, f"The language model {model.name!r} (condense)", Secrets.of(*model.clients())
            )  # fmt: skip
            raise failed from failed.__cause__  # not from what it was made of, which may hold secrets

    def _marked(self, asked: Asked, written: object = "") -> Asked:
        text: object = str(written.text) if isinstance(written, BaseMessage) else written
        if not isinstance(text, str):
            raise InputError(
                f"condense gave a {type(text).__name__}, not a question.", hint="It must end in a text or a message."
            )
        text = Kept.all_of(text).without(find_thoughts(text).stretches).text.strip()
        # without a text the engine goes on by rule; its own model is not asked in the runnable's stead
        mode: bool | Literal["auto"] = "auto" if self._runnable is not None else self._mode
        mode = True if text else mode
        return dataclasses.replace(asked, condense=mode, prompt=self._template, condensed=text)


def _wants(asked: Asked) -> bool:
    return bool(asked.history) and recognise(asked.question).kind not in ("nothing", "about_answer")


def _input(asked: Asked) -> dict[str, Any]:
    return {"chat_history": messages_of(asked.history), "input": asked.question, "question": asked.question}
