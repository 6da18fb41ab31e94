"""Baseline: the engine's own model without the engine, with passages or without."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from shared_core.errors import ContextOverflowError, SettingsError
from shared_core.lm.base import Generation, Prompt, SamplingParams
from shared_core.pipelines.decision.reasons import NOT_KNOWN
from shared_core.pipelines.evidence import ours, theirs
from shared_core.pipelines.reclaim.prompts import numbered_passages
from shared_core.runtime import flow as flows
from shared_core.runtime.budget import Meter
from shared_core.runtime.flow import Flow, Generate, Retrieve
from shared_core.types import Answer, Passage

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine

_EVERY = frozenset({"seed", "deadline", "max_calls", "max_tokens"})
SETTINGS: Mapping[str, frozenset[str]] = {"plain": _EVERY | {"top_k", "where", "on_overflow"}, "closed-book": _EVERY}
"""Settings that affect each baseline, by its name."""
MAX_TOKENS = 256
_STOP = "\nQuestion:"
_DECLINES = ("i do not know", "i don't know", "i don’t know", "i cannot answer", "i can't answer", "i can’t answer")
_FROM_PASSAGES = (
    "Answer the question briefly from the passages below. If they do not answer it, say: I do not know.\n\n"
)
_FROM_MEMORY = "Answer the question briefly from what you know. If you do not know, say: I do not know.\n\n"


class Plain:
    """Plain chain over an engine's model: always retrieve, one prompt, one greedy answer, no checks.

    Answers have no claims, no quotes and an unknown confidence. An answer is an abstention if the model says that it
    does not know, or says nothing::

        compare({"ours": engine, "plain": Plain(engine)}, questions)

    Args:
        engine: source of the model, retriever, ``top_k``, filter, budgets and deadline.
        retrieve: ``False`` asks the model without passages ("closed-book").

    Raises:
        SettingsError: the engine has no language model.
    """

    def __init__(self, engine: SelfReflectEngine, *, retrieve: bool = True) -> None:
        self.engine = engine
        self.retrieve = retrieve
        self.name = "plain" if retrieve else "closed-book"
        if not engine.context.has_model("default"):
            raise SettingsError(
                f"{self.name} needs a language model, and there is none.", hint="Give --model or --base-url (lm=…)."
            )
        self.prompt = plain_prompt if retrieve else memory_prompt

    def answer_many(self, questions: Sequence[str], /) -> list[Answer | Exception]:
        """Return an ``Answer``, or an error in its place, for each question in order."""
        settings, resources = self.engine.settings, self.engine.resources
        return flows.run_many([self._metered(q) for q in questions], resources, deadline=settings.deadline)

    def _metered(self, question: str) -> Flow[Answer]:
        meter = Meter(self.engine.settings)
        answer = yield from meter.watch(self._answer(question))
        return dataclasses.replace(answer, usage=meter.usage)

    def _answer(self, question: str) -> Flow[Answer]:
        settings = self.engine.settings
        found: tuple[Passage, ...] = ()
        if self.retrieve:
            found = yield Retrieve(question, settings.top_k, settings.where)
        read = found
        while True:
            params = SamplingParams(max_tokens=MAX_TOKENS, stop=(_STOP,), seed=settings.seed)
            try:
                written: Generation = yield Generate(self.prompt(question, read), params)
                break
            except ContextOverflowError:
                if settings.on_overflow == "raise" or not read:
                    raise
                read = read[:-1]
        text = written.text.strip()
        said = bool(text) and not declines(text)
        return Answer(question, text, (), read, not said, "" if said else NOT_KNOWN, metadata={"pipeline": self.name})


def declines(text: str) -> bool:
    """Return whether a reply begins by saying that it does not know."""
    return " ".join(text.lower().split()).lstrip("\"'“‘*").startswith(_DECLINES)


def plain_prompt(question: str, passages: Sequence[Passage]) -> Prompt:
    """Build a prompt of task, numbered passages and question."""
    prompt = ours(_FROM_PASSAGES) + numbered_passages(passages)
    return prompt + ours("Question: ") + theirs(question) + ours("\nAnswer:")


def memory_prompt(question: str, passages: Sequence[Passage]) -> Prompt:
    """Build a prompt of task and question only."""
    return ours(f"{_FROM_MEMORY}Question: ") + theirs(question) + ours("\nAnswer:")
