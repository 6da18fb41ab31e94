"""Make follow-ups full questions before the engine sees them, with a runnable or prompt of the user's."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from langchain_core.prompts import BasePromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_selfreflect._question import messages_of
from shared_core.conversation.condense import check_template
from shared_core.conversation.recognise import recognise
from shared_core.conversation.turns import Asked
from shared_core.errors import InputError, SettingsError

Condenser = bool | Literal["auto"] | str | Runnable[Any, Any]
"""``auto``, ``True``, ``False``, a template with ``{chat_history}`` and ``{question}``, a prompt of LangChain, or a
runnable from ``{"chat_history": messages, "input": question, "question": question}`` to a text or message."""


class Condensing:
    """Prepares questions as a chain's ``condense`` says.

    >>> Condensing("auto", None).prepare(Asked("Why?"), None).condense
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
            self._mode, self._runnable = True, given | llm
        elif isinstance(given, Runnable):
            self._mode, self._runnable = True, given
        else:
            raise InputError(
                f"condense cannot be a {type(given).__name__}.",
                hint="Give 'auto', True, False, a template, a prompt, or a runnable that writes the full question.",
            )

    def prepare(self, asked: Asked, config: RunnableConfig | None) -> Asked:
        """Return the question with how it is to be condensed; a runnable of the user's is asked here."""
        if self._runnable is None or not _wants(asked):
            return self._marked(asked)
        return self._marked(asked, self._runnable.invoke(_input(asked), config))

    async def aprepare(self, asked: Asked, config: RunnableConfig | None) -> Asked:
        """``prepare`` without blocking the event loop."""
        if self._runnable is None or not _wants(asked):
            return self._marked(asked)
        return self._marked(asked, await self._runnable.ainvoke(_input(asked), config))

    def _marked(self, asked: Asked, written: object = "") -> Asked:
        text = written.text if isinstance(written, BaseMessage) else written
        if not isinstance(text, str):
            raise InputError(
                f"condense gave a {type(text).__name__}, not a question.", hint="It must end in a text or a message."
            )
        # without a text the engine goes on by rule; its own model is not asked in the runnable's stead
        mode: bool | Literal["auto"] = "auto" if self._runnable is not None else self._mode
        mode = True if text else mode
        return dataclasses.replace(asked, condense=mode, prompt=self._template, condensed=str(text))


def _wants(asked: Asked) -> bool:
    return bool(asked.history) and recognise(asked.question).kind not in ("nothing", "about_answer")


def _input(asked: Asked) -> dict[str, Any]:
    return {"chat_history": messages_of(asked.history), "input": asked.question, "question": asked.question}
