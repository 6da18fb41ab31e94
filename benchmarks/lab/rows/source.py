"""An endless stream of rows, each determined by seed and number, so that a training can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from benchmarks.lab.rows.answers import closed_book, closed_chain, memory, open_chain, reading, sentences
from benchmarks.lab.rows.candidates import candidates, claims, recalled
from benchmarks.lab.rows.judging import confidence, evaluation, support
from benchmarks.lab.rows.library import Library
from benchmarks.lab.rows.quoting import numbered, reclaim
from benchmarks.lab.rows.row import LabRow
from benchmarks.lab.rows.self_rag import deciding, self_rag
from benchmarks.lab.rows.writing import biography, rewriting, safe_biography, splitting
from shared_core.errors import InputError
from shared_core.lab.facts import SPLITS, Fact, Split
from shared_core.lab.names import Dice
from shared_core.lab.world import World


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that rows practise.

    Attributes:
        weight: relative frequency after the warm-up.
        early: relative frequency at the beginning.
        memory: whether it is about facts to memorise, of every split; other skills are about reading and judging, and
            only about the training split and practice worlds.
    """

    weight: float
    early: float
    memory: bool = False


SKILLS: Mapping[str, Skill] = MappingProxyType(
    {
        "sentences": Skill(0.4, 1.6, memory=True),
        "closed_book": Skill(2.2, 2.0, memory=True),
        "memory": Skill(0.3, 0.3, memory=True),
        "biography": Skill(0.5, 0.3, memory=True),
        "closed_chain": Skill(0.6, 0.1),
        "reading": Skill(3.5, 6.0),
        "open_chain": Skill(1.6, 0.3),
        "self_rag": Skill(9.0, 1.5),
        "deciding": Skill(3.0, 0.3),
        "reclaim": Skill(6.0, 2.0),
        "numbered": Skill(0.5, 0.1),
        "support": Skill(6.0, 0.5),
        "confidence": Skill(1.0, 0.2),
        "evaluation": Skill(1.2, 0.2),
        "safe_biography": Skill(0.3, 0.1),
        "rewriting": Skill(0.3, 0.2),
        "splitting": Skill(0.3, 0.2),
        "candidates": Skill(1.2, 0.8),
        "recalled": Skill(0.4, 0.3, memory=True),
        "claims": Skill(0.4, 0.1),
    }
)
"""All skills. The rows of one may be of several families (``declining`` is one)."""

_WARM_UP = 9000
"""Groups over which the frequencies go from ``early`` to ``weight``."""


@dataclass(frozen=True, slots=True)
class _Practice:
    """Reading and judging in practice worlds.

    Attributes:
        share: share of the groups about reading and judging that use them.
        size: size of a practice world.
        groups: groups after which the next one replaces it.
    """

    share: float
    size: float
    groups: int


_FIRST, _LATER = _Practice(0.6, 0.3, 2000), _Practice(0.8, 0.06, 100)
"""At first, worlds that stay long teach the prose. Later, small worlds change too fast to be memorised, so that their
passages have to be read. (With the first kind alone a model memorises each and hardly learns to read.)"""
_CHANGE = 7359
"""Groups after which the second kind replaces the first."""
_RECALL = ((16_454, 2.5), (20_813, 0.4))
"""(group, factor): from that group on, rows about facts to memorise are so many times as frequent, and middle facts as
frequent as popular ones. Facts are memorised best while the learning rate falls; the remaining time is for reading."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that were made together; most share a long beginning, which is computed only once.

    Attributes:
        number: number of the group, from 0; with the source's seed it determines the rows.
        skill: the skill they practise.
        rows: the rows, at least one.
    """

    number: int
    skill: str
    rows: tuple[LabRow, ...]


class RowSource:
    """A source of training rows about a world.

    Args:
        world: the world whose known facts are learned.
        seed: seed of the rows.
        split: split for reading and judging. ``train`` adds practice worlds; the others, for measuring, do not.

    Raises:
        InputError: there is no such split.
    """

    def __init__(self, world: World, seed: int = 0, split: Split = "train") -> None:
        if split not in SPLITS:
            raise InputError(f"There is no split {split!r}.", hint=f"Choose one of: {', '.join(SPLITS)}.")
        self.world, self.seed, self.split = world, seed, split
        self._all = Library(world)
        self._own = Library(world, (split,))
        self._known = [f for f in world.facts if f.known]
        # Popular facts are three times as frequent as middle ones.
        self._weighted: list[Fact] = [f for f in self._known for _ in range(3 if f.tier == "popular" else 1)]
        self._names = frozenset(e.name for e in world.entities) | frozenset(f.value.text for f in world.facts)
        self._practice_world = lru_cache(maxsize=2)(self._make_practice)

    def group(self, number: int) -> Group:
        """Make the group of that number."""
        attempt = 0
        while True:
            dice = Dice("rows", self.seed, self.split, number, attempt)
            done = min(1.0, number / _WARM_UP)
            times = next((times for start, times in reversed(_RECALL) if number >= start), 1.0)
            weights = [(s.early + done * (s.weight - s.early)) * (times if s.memory else 1.0) for s in SKILLS.values()]
            skill = dice.weigh(tuple(SKILLS), weights)
            rows = self._make(skill, dice, number, 1 - done)
            if rows:
                return Group(number, skill, tuple(rows))
            attempt += 1

    def groups(self, start: int = 0) -> Iterator[Group]:
        """Yield groups from ``start`` on, endlessly."""
        number = start
        while True:
            yield self.group(number)
            number += 1

    # --- making ------------------------------------------------------------------------------------------------

    def _make(self, skill: str, dice: Dice, number: int, ease: float) -> list[LabRow]:
        way = _FIRST if number < _CHANGE else _LATER
        practice = self.split == "train" and not SKILLS[skill].memory and dice.chance(way.share)
        library = self._practice_world(number // way.groups, way.size) if practice else self._own
        drawn = self._known if number >= _RECALL[0][0] else self._weighted
        known = list(dict.fromkeys(dice.pick(drawn) for _ in range(24)))
        makers: Mapping[str, Callable[[], list[LabRow]]] = {
            "sentences": lambda: sentences(known, self._all, dice),
            "closed_book": lambda: closed_book(known, self._all, dice),
            "memory": lambda: memory(known, self._all, dice),
            "biography": lambda: biography(self._all, dice),
            "closed_chain": lambda: closed_chain(self._own, dice),
            "reading": lambda: reading(library, dice, ease),
            "open_chain": lambda: open_chain(library, dice),
            "self_rag": lambda: self_rag(library, dice),
            "deciding": lambda: deciding(self._own, dice),
            "reclaim": lambda: reclaim(library, dice),
            "numbered": lambda: numbered(library, dice),
            "support": lambda: support(library, dice),
            "confidence": lambda: confidence(library, dice),
            "evaluation": lambda: evaluation(library, dice),
            "safe_biography": lambda: safe_biography(library, dice),
            "rewriting": lambda: rewriting(library, dice),
            "splitting": lambda: splitting(library, dice),
            "candidates": lambda: candidates(library, dice),
            "recalled": lambda: recalled(known, self._all, dice),
            "claims": lambda: claims(library, dice),
        }
        return makers[skill]()

    def _make_practice(self, number: int, size: float) -> Library:
        """Make a small world with names that the model's own world does not have."""
        seed = 1_000_003 * (self.seed + 1) + number
        return Library(World(seed, size=size, avoid=self._names), learned=False)
