"""Random choices that are the same in every process and every version of Python."""

from __future__ import annotations

import random
from collections.abc import MutableSequence, Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """A random generator that is seeded by a name.

    Only ``random.Random.random`` is used, whose sequence Python promises to keep for a seed; ``choice``, ``shuffle``
    and ``sample`` have changed between versions.

    Args:
        name: parts of the name; other names give unrelated streams.

    >>> Dice("world", 0).between(1, 6) == Dice("world", 0).between(1, 6)
    True
    """

    def __init__(self, *name: str | int) -> None:
        self._random = random.Random("/".join(map(str, name)))

    def below(self, n: int) -> int:
        """Draw a whole number in [0, n)."""
        return int(self._random.random() * n)

    def between(self, low: int, high: int) -> int:
        """Draw a whole number in [low, high], both included."""
        return low + self.below(high - low + 1)

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        """Draw one of the items, all equally likely."""
        return items[self.below(len(items))]

    def weigh(self, items: Sequence[T], weights: Sequence[float]) -> T:
        """Draw one of the items in proportion to its weight (weights are not negative, and not all zero)."""
        left = self._random.random() * sum(weights)
        for item, weight in zip(items, weights):
            left -= weight
            if left < 0:
                return item
        return next(item for item, weight in zip(reversed(items), reversed(weights)) if weight)

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Shuffle the items in place."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order."""
        found = list(items)
        self.shuffle(found)
        return found

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Draw up to ``count`` items without replacement, in random order."""
        return self.shuffled(items)[:count]
