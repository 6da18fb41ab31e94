"""Turns of a conversation, and the question in it: the user's last message."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from shared_core.errors import QuestionError
from shared_core.types import Answer, Decision

Role = Literal["user", "assistant", "system", "tool"]
Condense = bool | Literal["auto"]
"""How follow-ups become full questions: ``auto``: those that are recognised, by rule or with the model; ``True``: every
question with a history, with the model; ``False``: none, the question is asked as it is."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation.

    >>> Turn("user", "Who founded the Tide Museum?").others
    0

    Attributes:
        others: number of other parts (images, sound, files), which are not read.
        abstained: whether it is known to be an abstention of ours.
    """

    role: Role
    text: str
    others: int = 0
    abstained: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the conversation before it.

    >>> Asked("And when was it closed?", history=(Turn("user", "Who founded the Tide Museum?"),)).condense
    'auto'

    Attributes:
        question: in the user's words.
        note: trace entry about unread parts of the input; ``None`` if all of it was read.
        history: earlier messages, oldest first.
        condensed: the full question, where another step wrote it; it is checked like a model's.
        prompt: template for the model that condenses, with ``{chat_history}`` and ``{question}``; by default our own.
    """

    question: str
    note: Decision | None = None
    history: tuple[Turn, ...] = ()
    condense: Condense = "auto"
    condensed: str = ""
    prompt: str = ""

    def tell(self, answer: Answer) -> Answer:
        """Put the note at the head of the answer's trace."""
        return answer if self.note is None else dataclasses.replace(answer, trace=(self.note, *answer.trace))


def find_question(turns: Sequence[Turn]) -> Asked:
    """Return the user's last message as the question, and what was said before it as its history.

    Messages after it (a tool's result, an assistant's call) and parts that are no text are not read. QuestionError if
    there is no message of the user, or the last one has no text.
    """
    place = next((i for i in reversed(range(len(turns))) if turns[i].role == "user"), None)
    if place is None:
        found = ", ".join(f"{t.role}'s" for t in turns[-3:]) or "none"
        raise QuestionError(
            f"The messages hold no question: none of them is the user's (the last: {found}).",
            hint="The question is the last message of the user (role user or human); an assistant's asks nothing.",
        )
    last = turns[place]
    if not last.text.strip():
        raise QuestionError("The user's last message has no text.", hint="Ask in words; images are not read.")
    return Asked(last.text, _note(turns[place + 1 :], last.others), tuple(turns[:place]))


def _note(unread: Sequence[Turn], others: int) -> Decision | None:
    if not unread and not others:
        return None
    parts = [f"{len(unread)} later messages"] * bool(unread) + [f"{others} parts that are no text"] * bool(others)
    reason = f"the question is the text of the user's last message; {' and '.join(parts)} are not read"
    return Decision("history", "not read", reason, {"messages": len(unread), "other_parts": others})
