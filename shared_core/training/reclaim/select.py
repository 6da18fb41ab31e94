"""Citation selection: a language model names the sentences that support a clause.

It names numbers, so what it selects is verbatim by construction. A reply that is anything but numbers, or none, is
counted as not understood; nothing is read into it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.errors import LanguageModelError
from shared_core.lm.base import Generation, Prompt, SamplingParams
from shared_core.runtime.flow import Flow, Generate, Together
from shared_core.types import Passage, Span

__all__ = ["Selection", "parse_selection", "select_citations", "selection_prompt"]

_TASK = (
    "Which of the numbered sentences support the statement? Reply with their numbers only, for example: S2, S3. Name "
    "as few as together say all of the statement. If they do not say it, reply: NONE\n"
)
_ONE = r"\[?S?\s?\d{1,6}\]?"
_REPLY = re.compile(rf"{_ONE}(?:(?:\s*(?:,|;|\band\b)\s*|\s+){_ONE})*\s*\.?", re.IGNORECASE)
_NONE = re.compile(r"none\s*\.?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Selection:
    """Selection for one clause: its spans, or none, with the ``problem``.

    Attributes:
        spans: the sentences, in the order named.
        problem: ``no sentence selected``, ``reply not understood``, ``unknown sentence`` or ``request failed``.
        detail: the reply, or the error.
    """

    spans: tuple[Span, ...]
    problem: str = ""
    detail: str = ""


def selection_prompt(question: str, clause: str, sentences: Sequence[Span], passages: Sequence[Passage]) -> Prompt:
    """Build the prompt for one clause; sentences are numbered from S1 in the order given."""
    titles = {p.id: p.title for p in passages}
    prompt = Prompt.trusted(_TASK, role="user")
    last = None
    for i, span in enumerate(sentences, 1):
        if span.passage_id != last:
            title = Prompt.untrusted(titles.get(span.passage_id) or "Passage", role="user")
            prompt += Prompt.trusted("\n# ", role="user") + title + Prompt.trusted("\n", role="user")
            last = span.passage_id
        prompt += Prompt.trusted(f"S{i}: ", role="user") + Prompt.untrusted(span.text, role="user")
        prompt += Prompt.trusted("\n", role="user")
    prompt += Prompt.trusted("\nThe question was: ", role="user") + Prompt.untrusted(question, role="user")
    return prompt + Prompt.trusted("\nStatement: ", role="user") + Prompt.untrusted(clause, role="user")


def select_citations(
    question: str,
    clauses: Sequence[tuple[str, Sequence[Span]]],
    passages: Sequence[Passage],
    *,
    seed: int | None = 0,
) -> Flow[list[Selection]]:
    """Ask for a selection for each clause, all at once. Each clause comes with the sentences to choose from."""
    params = SamplingParams(max_tokens=64, seed=seed)
    requests = tuple(
        Generate(selection_prompt(question, clause, sentences, passages), params, model="selection")
        for clause, sentences in clauses
    )
    replies = yield Together(requests, return_errors=True)
    return [_read(reply, sentences) for reply, (_, sentences) in zip(replies, clauses)]


def _read(reply: object, sentences: Sequence[Span]) -> Selection:
    if isinstance(reply, Generation):
        return parse_selection(reply.text, sentences)
    if isinstance(reply, LanguageModelError):
        return Selection((), "request failed", f"{type(reply).__name__}: {reply.message}")
    assert isinstance(reply, Exception)
    raise reply


def parse_selection(reply: str, sentences: Sequence[Span]) -> Selection:
    """Parse the sentence numbers of a reply; a reply with no numbers, unknown numbers or other text is a problem."""
    text = reply.strip()
    if _NONE.fullmatch(text):
        return Selection((), "no sentence selected", text)
    if not _REPLY.fullmatch(text):
        return Selection((), "reply not understood", text)
    numbers = list(dict.fromkeys(map(int, re.findall(r"\d+", text))))
    if not all(1 <= n <= len(sentences) for n in numbers):
        return Selection((), "unknown sentence", text)
    return Selection(tuple(sentences[n - 1] for n in numbers))
