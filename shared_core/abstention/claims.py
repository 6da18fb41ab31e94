"""Claims of an answer, what is known about each, and self-consistency estimates of their truth.

The bookkeeping of ReSearch (Piché et al., Algorithm 1 and section 4): split answers sentence by sentence, score each
claim once however many answers make it, average verbalised probabilities over random subsets of earlier sentences.
The calls to a model are the pipeline's.
"""

from __future__ import annotations

import math
import random
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from shared_core.abstention.utility import exact, read_level, read_probability
from shared_core.citation.sentences import split_sentences
from shared_core.errors import InputError
from shared_core.support.regex import lazy_regex

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClaimSpan:
    """A claim at its place in an answer: ``answer[start:end] == text``.

    >>> split_claims("Mira Dorn built it. It is red.")[1]
    ClaimSpan(text='It is red.', start=20, end=30)
    """

    text: str
    start: int
    end: int


def split_claims(text: str) -> list[ClaimSpan]:
    """The claims of an answer: its sentences, without those of no letter or digit; InputError if it is no string."""
    if not isinstance(text, str):
        raise InputError(f"An answer to split into claims must be text, not {type(text).__name__}.")
    spans = (ClaimSpan(text[a:b], a, b) for a, b in split_sentences(text))
    return [s for s in spans if any(c.isalnum() for c in s.text)]


def claim_key(text: str) -> str:
    """Reduce a claim to a key that equal wordings share: compatibility form, case, spaces, final stops."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).strip(" .!;,。")


def unique_claims(claims: Iterable[str]) -> list[str]:
    """The claims without repetitions (by ``claim_key``), in order of first occurrence; empty ones dropped."""
    seen: dict[str, str] = {}
    for claim in claims:
        seen.setdefault(claim_key(claim), claim)
    seen.pop("", None)
    return list(seen.values())


@dataclass(slots=True)
class ClaimCache:
    """Claim → probability, so that a claim made by many answers is scored once (Algorithm 1; Figure 7b).

    A claim whose probability could not be told is kept as ``None``: it is not asked again, and never counts as likely.

    Attributes:
        hits: look-ups of ``missing`` that were answered from the cache.
        misses: look-ups of ``missing`` that were not: the claims that had to be scored.

    >>> cache = ClaimCache()
    >>> cache.add("Mira Dorn built the bridge.", 0.9)
    >>> cache.missing(["Mira Dorn built the bridge.", "It is red."])
    ['It is red.']
    >>> cache.likely(target_accuracy=0.7)
    ['Mira Dorn built the bridge.']
    """

    hits: int = 0
    misses: int = 0
    _claims: dict[str, tuple[str, float | None]] = field(default_factory=dict, repr=False)

    def missing(self, claims: Iterable[str]) -> list[str]:
        """The distinct claims that have no entry yet, in order; counts hits and misses."""
        asked = [c for c in claims if claim_key(c)]
        new = [c for c in unique_claims(asked) if claim_key(c) not in self._claims]
        self.misses += len(new)
        self.hits += len(asked) - len(new)
        return new

    def add(self, claim: str, probability: float | None) -> None:
        """Remember the probability of a claim (``None`` or NaN: unknown); InputError outside [0, 1]."""
        known = read_probability(probability)
        key = claim_key(claim)
        if not key:
            raise InputError("A claim needs text.")
        self._claims.setdefault(key, (claim, None if known is None else float(known)))

    def forget(self, claims: Iterable[str]) -> None:
        """Know nothing of these claims any more, so that they are asked again."""
        for claim in claims:
            self._claims.pop(claim_key(claim), None)

    def get(self, claim: str) -> float | None:
        """Its probability, ``None`` if unknown or not scored."""
        return self._claims.get(claim_key(claim), (claim, None))[1]

    def probabilities(self, claims: Iterable[str]) -> list[float | None]:
        """The probability of each, ``None`` where unknown or not scored."""
        return [self.get(c) for c in claims]

    def likely(self, target_accuracy: float) -> list[str]:
        """The claims with p > ρ*, in the order they came: what the next round is written with.

        Raises SettingsError if ρ* is not in (0, 1).
        """
        rho = read_level(target_accuracy, "target_accuracy")
        return [c for c, p in self._claims.values() if p is not None and exact(p) > rho]

    def __len__(self) -> int:
        return len(self._claims)


_SCALE = lazy_regex(r"(?<=\d)\s*(?:/|\bout\s+of\b)\s*100\b(?![.,]?\d)", re.IGNORECASE)
_NUMBER = lazy_regex(r"[-−+]?\d+(?:[.,/:]\d+)*")


def parse_probability(text: str) -> float | None:
    """The probability, over 100, that a reply states as an integer: ``85``, ``85%``, ``85/100``, ``85 out of 100``.

    ``None`` (missing, never a default) for no number, several different ones, or one that is no such integer.
    """
    numbers = {m.group() for m in _NUMBER.finditer(_SCALE.sub("", unicodedata.normalize("NFKC", text)))}
    if len(numbers) != 1:
        return None
    number = numbers.pop()
    if not number.isdecimal() or int(number) > 100:
        return None
    return int(number) / 100


@dataclass(frozen=True, slots=True)
class SelfConsistency:
    """Mean of several verbalised probabilities of one claim.

    Attributes:
        probability: mean of the parsed ones, ``None`` if there was none.
        parsed: how many there were.
        missing: how many replies had none.

    >>> self_consistency(["50", "100", "no idea"])
    SelfConsistency(probability=0.75, parsed=2, missing=1)
    """

    probability: float | None
    parsed: int
    missing: int


def self_consistency(replies: Iterable[str | float | None]) -> SelfConsistency:
    """p(c): the mean of what was said about a claim, each time before another subset of sources.

    Replies are texts (read by ``parse_probability``) or probabilities in [0, 1] (InputError beyond it); ``None`` and
    NaN are missing.
    """
    values = [parse_probability(r) if isinstance(r, str) else r for r in replies]
    known = [float(p) for p in map(read_probability, values) if p is not None]
    mean = math.fsum(known) / len(known) if known else None
    return SelfConsistency(mean, len(known), len(values) - len(known))


def random_subsets(items: Sequence[T], count: int, size: int, seed: int | None = 0) -> list[list[T]]:
    """Random subsets A_k to judge a claim by, each without repetition and in the order of ``items``.

    ``size`` is that of each, all items where there are not more; the same seed gives the same subsets, ``None`` others
    each time. InputError for a count or size below 0.
    """
    if count < 0 or size < 0:
        raise InputError(f"count and size must not be negative, not {count!r} and {size!r}.")
    rng = random.Random(seed)
    size = min(size, len(items))
    return [[items[i] for i in sorted(rng.sample(range(len(items)), size))] for _ in range(count)]
