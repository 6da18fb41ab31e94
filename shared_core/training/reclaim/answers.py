"""Have a model write answers with citation marks, or decline: sources for ReClaim's rows from questions and passages.

The text is not a label yet: ``build_rows`` has sentences selected for each clause, looks them up word for word and has
them judged. Where the passages do not answer, the rows teach to decline.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from shared_core.errors import GenerationError
from shared_core.lm.base import Generation, Prompt, SamplingParams
from shared_core.runtime.flow import Flow, Generate, Retrieve, Together
from shared_core.settings import Settings
from shared_core.types import Passage

__all__ = ["AnswerSettings", "answer_prompt", "write_answer"]

NO_ANSWER = "NO ANSWER"
_NO_ANSWER = re.compile(rf"\W*{NO_ANSWER}\b\W*", re.IGNORECASE)
_EXAMPLE = (
    "Example:\n[1] The harbour of Ostby\nThe harbour wall of Ostby was finished in 1842. It is 300 metres long.\n\n"
    "[2] Ferries\nThe first ferry to Ostby sailed in 1851.\n\n"
    "Question: When was the harbour wall of Ostby finished, and when did the first ferry sail?\n"
    "Answer: The harbour wall was finished in 1842 [1]. The first ferry sailed in 1851 [2].\n\n"
    "Question: Who designed the harbour wall?\nAnswer: NO ANSWER\n\nEnd of the example.\n\n"
)


class AnswerSettings(Settings):
    """Settings of written answers."""

    top_k: int = Field(5, ge=1, description="Passages retrieved for a question.")
    max_sentences: int = Field(3, ge=1)
    max_tokens: int = Field(256, ge=16)
    seed: int | None = 0


def answer_prompt(question: str, passages: Sequence[Passage], most: int) -> Prompt:
    """Build the prompt for an answer with citation marks."""

    def ours(text: str) -> Prompt:
        return Prompt.trusted(text, role="user")

    told = (
        f"Answer the question from the numbered passages alone, in at most {most} short sentences. Behind each "
        "sentence put the number of the passage it rests on, like [2]. If the passages do not answer it, write only: "
        f"{NO_ANSWER}\n\n"
    )
    prompt = ours(told + _EXAMPLE)
    for i, passage in enumerate(passages, 1):
        title = f"{passage.title}\n" if passage.title else ""
        prompt += ours(f"[{i}] ") + Prompt.untrusted(f"{title}{passage.text}", role="user") + ours("\n\n")
    return prompt + ours("Question: ") + Prompt.untrusted(question, role="user") + ours("\nAnswer:")


def write_answer(
    question: str, passages: tuple[Passage, ...] | None, unrelated: str, options: AnswerSettings
) -> Flow[dict[str, Any]]:
    """Have a model answer a question from passages, and perhaps decline on those of an ``unrelated`` question.

    Returns:
        ``sources``: answers as ``read_sources`` reads them, one for the question, and one that declines if the model
        finds no answer in the unrelated passages.

    Raises:
        GenerationError: the reply was cut off before its first sentence ended, or is empty.
        LimitError: a budget does not suffice.
        SelfReflectError: the model or the retriever failed.
    """
    if passages is None:
        passages = yield Retrieve(question, options.top_k)
    shelves = [passages]
    if unrelated:
        others: tuple[Passage, ...] = yield Retrieve(unrelated, options.top_k)
        here = {p.id for p in passages}
        shelves.append(tuple(p for p in others if p.id not in here))
    asked = [s for s in shelves if s]
    params = SamplingParams(max_tokens=options.max_tokens, seed=options.seed)
    requests = tuple(Generate(answer_prompt(question, s, options.max_sentences), params) for s in asked)
    written: list[Generation] = (yield Together(requests)) if requests else []
    found = [_source(question, shelf, generation) for shelf, generation in zip(asked, written)]
    own = found[:1] if passages else []
    return {"sources": [*own, *(s for s in found[len(own) :] if s.get("declines"))]}


def _source(question: str, passages: Sequence[Passage], generation: Generation) -> dict[str, Any]:
    sample = generation.samples[0]
    text = re.sub(r"\s+", " ", sample.text).strip()
    shown = [{"id": p.id, "title": p.title, "text": p.text} for p in passages]
    if _NO_ANSWER.fullmatch(text):
        return {"question": question, "passages": shown, "declines": True}
    if sample.finish_reason == "length":
        text = text[: max(text.rfind(end) for end in (". ", "] ", "! ", "? ")) + 1].strip()
    if not text:
        raise GenerationError("The model wrote no whole sentence.", hint="Raise max_tokens, or use another model.")
    return {"question": question, "passages": shown, "answer": text}
