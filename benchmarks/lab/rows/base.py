"""A row of the lab's training: a prompt as a pipeline sends it, and what follows, learned or only read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared_core.errors import InputError
from shared_core.lm.base import Prompt
from shared_core.training.rows import IGNORED, TrainingRow

if TYPE_CHECKING:
    from shared_core.lm.encoding import Encoder

__all__ = ["IGNORED", "LabRow", "Piece", "from_training_row", "reply"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of what follows a prompt.

    Attributes:
        text: trusted where it is made of control tokens (Self-RAG's verdicts), untrusted where it is prose.
        learned: whether it counts in the loss; passages put into an output, and sentences given for a verdict, do not.
    """

    text: Prompt
    learned: bool = True


@dataclass(frozen=True, slots=True)
class LabRow:
    """One thing to learn.

    Attributes:
        family: which skill it is of; losses are told by it.
        prompt: as the pipeline sends it.
        pieces: what follows, in order.
        ends: the model must end here.
        source: what it was made from: ids of facts, a question or an entity.
    """

    family: str
    prompt: Prompt
    pieces: tuple[Piece, ...]
    ends: bool = True
    source: str = ""

    @property
    def completion(self) -> str:
        """What follows the prompt, as text."""
        return "".join(p.text.text for p in self.pieces)

    def encode(self, encoder: Encoder) -> tuple[list[int], list[int]]:
        """Token ids and labels, as ``TrainingRow.encode`` gives them: -100 on all that is not learned."""
        ids = encoder.encode(self.prompt)
        labels = [IGNORED] * len(ids)
        for piece in self.pieces:
            more = encoder.encode_continuation(piece.text)
            ids += more
            labels += more if piece.learned else [IGNORED] * len(more)
        if self.ends:
            end = encoder.tokenizer.eos_token_id
            if end is None:
                raise InputError("The tokenizer has no EOS token, and a row has to end with it.")
            ids.append(int(end))
            labels.append(int(end))
        return ids, labels


def reply(family: str, prompt: Prompt, text: str, *, ends: bool = True, source: str = "") -> LabRow:
    """A row of a prompt and the text that should follow directly; an empty one teaches to end there."""
    pieces = (Piece(Prompt.untrusted(text)),) if text else ()
    return LabRow(family, prompt, pieces, ends, source)


def from_training_row(family: str, row: TrainingRow) -> LabRow:
    """A row of the product's own training."""
    return reply(family, row.prompt, row.completion, ends=row.ends, source=row.source)
