"""Random choices that are the same everywhere, invented names, and near-duplicates of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from shared_core.errors import InputError
from shared_core.lab.facts import NAME_PARTS, EntityType

ARTICLED: frozenset[EntityType] = frozenset({"organisation", "event", "ship"})
"""Types whose names take "the" in running text."""
_MOUNTAINS = ("Mount", "Peak", "Horn", "Top")
_EVENTS = ("Second", "Third", "Great", "Little")


class Namer:
    """A generator of names that differ by more than one letter, unless a near-duplicate is requested.

    Args:
        avoid: names, or words of names, that must not be generated.
    """

    def __init__(self, dice: Dice, avoid: Collection[str] = ()) -> None:
        self._dice = dice
        self._taken: set[str] = set()
        self._near: set[str] = set()
        for name in avoid:
            self._take(name.lower())
            for word in name.lower().split():
                self._take(word)

    def name(self, type: EntityType) -> str:
        """Return a new name for an entity of that type, without "the"."""
        return _MAKERS[type](self)

    def stem(self) -> str:
        """Return a new capitalised word; InputError if there are no more (after tens of thousands)."""
        return self._new(self._spell)

    def near(self, type: EntityType, name: str) -> str:
        """Return a new name that is easily mistaken for ``name``: one letter, one word or a number apart."""
        return self._new(lambda: self._altered(type, name), close=True)

    # --- parts -------------------------------------------------------------------------------------------------

    def _new(self, make: Callable[[], str], close: bool = False) -> str:
        for _ in range(4000):
            name = make()
            if self._free(name.lower(), close):
                self._take(name.lower())
                return name
        raise InputError("The lab has no names left for a world of this size.", hint="Make a smaller world.")

    def _free(self, name: str, close: bool) -> bool:
        if name in self._taken:
            return False
        return close or (name not in self._near and not _shortened(name) & (self._near | self._taken))

    def _take(self, name: str) -> None:
        self._taken.add(name)
        self._near |= _shortened(name)

    def _spell(self) -> str:
        pick = self._dice.pick
        parts = (NAME_PARTS.onsets, NAME_PARTS.vowels, NAME_PARTS.middles, NAME_PARTS.vowels, NAME_PARTS.codas)
        return "".join(pick(some) for some in parts).capitalize()

    def _pair(self, first: Sequence[str], second: Sequence[str], form: str) -> str:
        return self._new(lambda: form.format(self._dice.pick(first), self._dice.pick(second)), close=True)

    def _altered(self, type: EntityType, name: str) -> str:
        dice = self._dice
        words = name.split()
        if type == "person" and dice.chance(0.4):
            other = dice.pick(NAME_PARTS.women if words[0] in NAME_PARTS.women else NAME_PARTS.men)
            return f"{other} {words[1]}"
        if type == "work":
            other = _swapped(dice, words, NAME_PARTS.adjectives)
            return dice.pick((f"{name} Again", f"Return to {name}", other, f"{name}s"))
        if type == "ship":
            return dice.pick((f"{name} II", f"{name} III", _swapped(dice, words, NAME_PARTS.proud), f"Little {name}"))
        if type == "event" and dice.chance(0.5):
            return f"{dice.pick(_EVENTS)} {name}"
        if type == "organisation" and dice.chance(0.4):
            return f"{words[0]} {dice.pick(NAME_PARTS.bodies)}"
        fixed = {"of", *_MOUNTAINS, *_EVENTS, *NAME_PARTS.bodies, *NAME_PARTS.affairs}
        places = [i for i, w in enumerate(words) if w not in fixed and not (type == "person" and i == 0)]
        at = dice.pick(places)
        words[at] = _misspelled(dice, words[at])
        return " ".join(words)


def _shortened(word: str) -> set[str]:
    """Return the word with each of its letters left out: words one letter apart share one of these, or are one."""
    return {word[:i] + word[i + 1 :] for i in range(len(word))}


def _misspelled(dice: Dice, word: str) -> str:
    at = dice.between(2, len(word) - 1)
    letters = "aeiou" if word[at] in "aeiou" else "bdfgklmnprstvz"
    return word[:at] + dice.pick(letters) + word[at + 1 :]


def _swapped(dice: Dice, words: Sequence[str], pool: Sequence[str]) -> str:
    """Replace the first adjective of a title."""
    at = 1 if words[0] == "The" and len(words) > 2 else 0
    return " ".join([*words[:at], dice.pick(pool), *words[at + 1 :]])


_MAKERS: Mapping[EntityType, Callable[[Namer], str]] = MappingProxyType(
    {
        "person": lambda n: f"{n._dice.pick(NAME_PARTS.women if n._dice.chance(0.5) else NAME_PARTS.men)} {n.stem()}",
        "city": lambda n: n._new(lambda: n._spell() + n._dice.pick(NAME_PARTS.towns)),
        "country": lambda n: n._new(lambda: n._spell() + n._dice.pick(NAME_PARTS.lands)),
        "work": lambda n: n._pair(NAME_PARTS.adjectives, NAME_PARTS.nouns, "The {} {}"),
        "organisation": lambda n: f"{n.stem()} {n._dice.pick(NAME_PARTS.bodies)}",
        "event": lambda n: f"{n._dice.pick(NAME_PARTS.affairs)} of {n.stem()}",
        "ship": lambda n: n._pair(NAME_PARTS.proud, NAME_PARTS.animals, "{} {}"),
        "mountain": lambda n: n._dice.pick(NAME_PARTS.peaks).format(n.stem()),
    }
)


def phrase(type: EntityType, name: str) -> str:
    """Return the name as running text has it."""
    return f"the {name}" if type in ARTICLED else name


def aliases(type: EntityType, name: str) -> tuple[str, ...]:
    """Return other forms of the name."""
    if type in ARTICLED:
        return (name,)
    return (name.removeprefix("The "),) if name.startswith("The ") else ()


T = TypeVar("T")


class Dice:
    """A random generator that is seeded by a name (its parts); other names give unrelated streams.

    Only ``random.Random.random`` is used, whose sequence Python promises to keep for a seed; ``choice``, ``shuffle``
    and ``sample`` have changed between versions.

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

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order."""
        found = list(items)
        for last in range(len(found) - 1, 0, -1):
            other = self.below(last + 1)
            found[last], found[other] = found[other], found[last]
        return found

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Draw up to ``count`` items without replacement, in random order."""
        return self.shuffled(items)[:count]
