"""Figures of a question's form and of its words that passages lack, for probabilities."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared_core.reading.features import Words, content_of, is_among

_LINK = re.compile(
    r"\b(?:of|who|whom|whose|which|that|where|and|or|than|same|both|also|either|between)\b|['’]s\b", re.IGNORECASE
)
_MOST_LINKS = 6


class Shape(NamedTuple):
    """A question's form.

    Attributes:
        words: their number.
        links: words that relate one thing to another ("the mother of the director of", "who", "'s", "or"), at most 6:
            questions that take several steps have more.
    """

    words: int
    links: int


def shape_of(question: str, words: Words) -> Shape:
    """The form of a question with these words."""
    return Shape(len(words), min(len(_LINK.findall(question)), _MOST_LINKS))


class Lacking(NamedTuple):
    """The rarest content word of a question that a passage and its title lack, as its rarity (0 to 1.2; 0 for none).

    Attributes:
        elsewhere: of the words that another passage read with it holds: it may be about something else.
        nowhere: of the words that none of them holds: said in other words, or not treated at all.
    """

    elsewhere: float
    nowhere: float


def lacking(question: Words, passages: Sequence[NDArray[np.int64]]) -> list[Lacking]:
    """Compute what each passage lacks; ``passages`` holds the stem codes of each, with its title's."""
    stems, rarity = content_of(question)
    held = np.array([is_among(stems, codes) for codes in passages])
    held = held.reshape(len(passages), len(stems))
    anywhere = held.any(axis=0)
    return [
        Lacking(float(rarity[~mine & anywhere].max(initial=0.0)), float(rarity[~anywhere].max(initial=0.0)))
        for mine in held
    ]
