"""Tell which of two things is more by the numbers that the evidence gives for them: "A weighs 310 g, B 280 g"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared_core.citation.facts.attached import parts_of
from shared_core.citation.facts.negations import is_denied
from shared_core.citation.facts.quantities import UNITS, Quantity, quantities_of
from shared_core.citation.facts.tokens import Sentence, content_keys, telling_keys, tokens_of
from shared_core.support.regex import lazy_regex

__all__ = ["measured_more"]

_MONEY = ("dollar", "euro", "sterling", "yen", "money", "currency")
_LENGTHS, _AMOUNTS = ("length",), ("mass", "length", "area", "volume", "data")
_WORDS: dict[str, tuple[int, tuple[str, ...]]] = {
    "heavier": (1, ("mass",)), "lighter": (-1, ("mass",)), "taller": (1, _LENGTHS), "deeper": (1, _LENGTHS),
    "wider": (1, _LENGTHS), "narrower": (-1, _LENGTHS), "shallower": (-1, _LENGTHS), "higher": (1, _LENGTHS),
    "longer": (1, ("length", "time")), "shorter": (-1, ("length", "time")), "warmer": (1, ("temperature",)),
    "hotter": (1, ("temperature",)), "colder": (-1, ("temperature",)), "cooler": (-1, ("temperature",)),
    "larger": (1, ("area", "volume", "data")), "bigger": (1, ("area", "volume", "data")),
    "smaller": (-1, ("area", "volume", "data")), "cheaper": (-1, _MONEY), "dearer": (1, _MONEY),
    "more expensive": (1, _MONEY), "less expensive": (-1, _MONEY), "costs more": (1, _MONEY),
    "costs less": (-1, _MONEY), "weighs more": (1, ("mass",)), "weighs less": (-1, ("mass",)),
    "lasts longer": (1, ("time",)), "takes longer": (1, ("time",)),
}  # fmt: skip
_COMPARES = lazy_regex(rf"\b(?:is |are )?({'|'.join(sorted(_WORDS, key=len, reverse=True))}) than\b", re.IGNORECASE)


def measured_more(claim: Sentence, sentences: Sequence[Sentence]) -> bool | None:
    """Whether "B is lighter than A" agrees with the numbers of a sentence; ``None`` where it does not give both.

    >>> from shared_core.citation.facts.tokens import sentences_of
    >>> held = sentences_of("The Alto weighs 2.1 kg, the Brio weighs 1.8 kg.")
    >>> [measured_more(sentences_of(f"The Brio is {word} than the Alto.")[0], held) for word in ("lighter", "heavier")]
    [True, False]
    """
    match = _COMPARES.search(claim.text)
    if match is None or is_denied(claim) or quantities_of(claim.text):
        return None
    sign, kinds = _WORDS[match[1].lower()]
    subject, other = (_names(part) for part in (claim.text[: match.start()], claim.text[match.end() :]))
    subject, other = subject - other, other - subject
    for held in sentences if subject and other else ():
        values = _values(held, subject, other, kinds)
        if values is not None and values[0] != values[1]:
            return (values[0] - values[1]) * sign > 0
    return None


def _names(text: str) -> frozenset[str]:
    return frozenset(telling_keys(tokens_of(text)))


def _values(
    held: Sentence, subject: frozenset[str], other: frozenset[str], kinds: tuple[str, ...]
) -> tuple[float, float] | None:
    """Return the numbers that the sentence gives for the two things, in one unit, if it gives each one."""
    numbers = [q for q in quantities_of(held.text) if q.unit and not q.ordinal]
    parts = parts_of(held.text, numbers) if len(numbers) == 2 and not is_denied(held) else None
    if parts is None or any(UNITS[q.unit].dimension not in kinds or q.hedge or len(q.values) != 1 for q in numbers):
        return None
    words = [content_keys(tokens_of(held.text[a:b])) | _names(held.text[a:b]) for a, b in parts]
    for first, second in ((0, 1), (1, 0)):
        if (
            subject <= words[first]
            and other <= words[second]
            and not subject <= words[second]
            and not other <= words[first]
        ):
            return _base(numbers[first]), _base(numbers[second])
    return None


def _base(quantity: Quantity) -> float:
    return UNITS[quantity.unit].base(min(quantity.values))
