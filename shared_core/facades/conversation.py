"""Find the question of a conversation: the user's last message. Anything else in the input is recorded in the trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from shared_core.errors import QuestionError
from shared_core.types import Answer, Decision

Role = Literal["user", "assistant", "system", "tool"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation.

    Attributes:
        role: role of the author.
        text: the text.
        others: number of other parts (images, sound, files), which are not read.
    """

    role: Role
    text: str
    others: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """The question of a conversation.

    Attributes:
        question: in the user's words.
        note: trace entry about unread parts of the input; ``None`` if all of it was read.
    """

    question: str
    note: Decision | None = None

    def tell(self, answer: Answer) -> Answer:
        """Put the note at the head of the answer's trace."""
        return answer if self.note is None else dataclasses.replace(answer, trace=(self.note, *answer.trace))


def find_question(turns: Sequence[Turn]) -> Asked:
    """Return the user's last message as the question.

    Earlier and later messages (a tool's result, an assistant's call) are not read, so a follow-up question must be
    condensed into a full question first.

    Raises:
        QuestionError: there is no message of the user, or the last one has no text.
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
    return Asked(last.text, _note([t for i, t in enumerate(turns) if i != place], last.others))


def _note(unread: Sequence[Turn], others: int) -> Decision | None:
    if not unread and not others:
        return None
    parts = [f"{len(unread)} other messages"] * bool(unread) + [f"{others} parts that are no text"] * bool(others)
    reason = f"the question is the text of the user's last message; {' and '.join(parts)} are not read"
    return Decision("history", "not read", reason, {"messages": len(unread), "other_parts": others})
