"""A row of the lab's training: a pipeline's prompt and its continuation, of which parts are learned."""

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
    """A part of the continuation of a prompt.

    Attributes:
        text: trusted if it consists of control tokens (Self-RAG's verdicts), untrusted if it is prose.
        learned: whether it counts in the loss; passages inside an output, and sentences to be judged, do not.
    """

    text: Prompt
    learned: bool = True


@dataclass(frozen=True, slots=True)
class LabRow:
    """A training row.

    Attributes:
        family: family of rows, by which losses are logged.
        prompt: the prompt as a pipeline sends it.
        pieces: the continuation, in order.
        ends: whether the model learns to stop after it.
        source: id of the fact, question or entity it was made from.
    """

    family: str
    prompt: Prompt
    pieces: tuple[Piece, ...]
    ends: bool = True
    source: str = ""

    @property
    def completion(self) -> str:
        """The continuation as text."""
        return "".join(p.text.text for p in self.pieces)

    def encode(self, encoder: Encoder) -> tuple[list[int], list[int]]:
        """Return token ids and labels like ``TrainingRow.encode``: -100 on everything that is not learned."""
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
    """Make a row of a prompt and the text to follow it; an empty text teaches to stop there."""
    pieces = (Piece(Prompt.untrusted(text)),) if text else ()
    return LabRow(family, prompt, pieces, ends, source)


def from_training_row(family: str, row: TrainingRow) -> LabRow:
    """Convert a row of the product's own training."""
    return reply(family, row.prompt, row.completion, ends=row.ends, source=row.source)
