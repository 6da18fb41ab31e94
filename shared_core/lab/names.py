"""Names that exist nowhere else, and near-duplicates of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from shared_core.errors import InputError
from shared_core.lab.dice import Dice
from shared_core.lab.schema import EntityType

_ONSETS = (
    "b br d dr f fl g gr h j k kl kr l m n p pl pr r s sh sk sl st str t th tr v w z"
).split()  # fmt: skip
_VOWELS = "a e i o u a e i o ai ea oo".split()
_MIDDLES = "b d g k l m n p r s t v z ld lm lv mb nd ng nt rd rk rm rn rv sk st th".split()
_CODAS = ["", "", "l", "n", "r", "s", "t", "m", "ck", "nd", "rn", "sk", "th"]

WOMEN = (
    "Adela Alma Anneke Berit Brona Celia Dagny Delia Edda Elin Enna Fenja Greta Hedda Idalia Ilka Isaura Jorun Karin "
    "Katla Leonie Lisbet Malva Maren Merle Nadja Odile Petra Ragna Rhoda Runa Selma Signe Thea Tilda Ursel Vanja Wanda "
    "Ylva Zora"
).split()
MEN = (
    "Aldo Anton Arvid Bastian Birger Casper Detlev Edvin Egon Emil Falk Gerold Gregor Halvard Henrik Ivo Jasper Joris "
    "Kaspar Knut Lennart Lorenz Magnus Matthis Nils Oskar Ottmar Pavel Quirin Ruben Rurik Sander Sixten Tamas Theo "
    "Ulrik Viggo Volker Wenzel Yorick"
).split()
_ADJECTIVES = (
    "Absent Bitter Borrowed Broken Careful Crooked Distant Eager Empty Faithful Final Forgotten Frozen Gentle Hidden "
    "Hollow Honest Hungry Idle Jealous Lasting Late Lonely Lost Narrow Nameless Open Patient Quiet Restless Sealed "
    "Second Secret Silent Sleeping Sudden Tender Unfinished Unwritten Veiled Wandering Wooden"
).split()
_NOUNS = (
    "Almanac Anchor Answer Bargain Beacon Bridge Candle Cellar Chapel Compass Courtyard Debt Doorway Echo Ferry Garden "
    "Ghost Guest Harbour Harvest Heir Hour Island Journey Key Ladder Lantern Ledger Letter Map Meadow Mill Mirror "
    "Orchard Passage Pilgrim Promise Quarry Rider River Shadow Shore Song Staircase Stranger Summer Swallow Thief "
    "Tower Traveller Valley Vessel Voice Wager Well Widow Window Winter Witness"
).split()
_PROUD = (
    "Able Ancient Arctic Bold Brave Bright Daring Eastern Fearless Free Gallant Glad Golden Grand Great Happy Laughing "
    "Loyal Merry Mighty Noble Northern Proud Rapid Royal Southern Stout Swift True Valiant Western Young"
).split()
_ANIMALS = (
    "Albatross Bear Bittern Cormorant Crane Curlew Dolphin Eagle Falcon Fox Gannet Gull Hart Hawk Heron Kestrel Kite "
    "Lapwing Lark Lynx Marten Osprey Otter Owl Pelican Petrel Plover Raven Seal Stag Stork Swan Tern Wolf Wren"
).split()
BODIES = "Academy Bureau Company Foundry Guild Institute League Society Trust Union Works Yard".split()
AFFAIRS = "Battle Congress Council Fair Feast March Parley Rally Regatta Revolt Siege Strike Trial Truce".split()
_PEAKS = ("Mount {}", "{} Peak", "{} Horn", "{} Top")
_LANDS = ("ia", "mark", "land", "onia", "avia")
_TOWNS = ("", "", "ane", "by", "dal", "holm", "mouth", "ow", "vik", "um")

ARTICLED: frozenset[EntityType] = frozenset({"organisation", "event", "ship"})
"""Types whose names stand with "the" in running text."""


class Namer:
    """Hands out names that differ from each other by more than a letter, unless a near-duplicate is asked for.

    Args:
        dice: what to draw from.
        avoid: names, or words of names, that must not be handed out.
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
        """A new name for a thing of that type, without "the"."""
        return _MAKERS[type](self)

    def stem(self) -> str:
        """A new word, capitalised; InputError when there are no more (after tens of thousands)."""
        return self._new(self._spell)

    def near(self, type: EntityType, name: str) -> str:
        """A new name that a hasty reader takes for ``name``: one letter, one word or a number apart."""
        return self._new(lambda: self._altered(type, name), close=True)

    def person(self, she: bool) -> str:
        """A first and a last name; a person's first name tells what pronoun to use."""
        return f"{self._dice.pick(WOMEN if she else MEN)} {self.stem()}"

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
        word = pick(_ONSETS) + pick(_VOWELS) + pick(_MIDDLES) + pick(_VOWELS) + pick(_CODAS)
        return word.capitalize()

    def _pair(self, first: list[str], second: list[str], form: str) -> str:
        return self._new(lambda: form.format(self._dice.pick(first), self._dice.pick(second)), close=True)

    def _altered(self, type: EntityType, name: str) -> str:
        dice = self._dice
        words = name.split()
        if type == "person" and dice.chance(0.4):
            other = dice.pick(WOMEN if words[0] in WOMEN else MEN)
            return f"{other} {words[1]}"
        if type == "work":
            return dice.pick((f"{name} Again", f"Return to {name}", _swapped(dice, words, _ADJECTIVES), f"{name}s"))
        if type == "ship":
            return dice.pick((f"{name} II", f"{name} III", _swapped(dice, words, _PROUD), f"Little {name}"))
        if type == "event" and dice.chance(0.5):
            return f"{dice.pick(('Second', 'Third', 'Great', 'Little'))} {name}"
        if type == "organisation" and dice.chance(0.4):
            return f"{words[0]} {dice.pick(BODIES)}"
        fixed = {"Mount", "Peak", "Horn", "Top", "of", *BODIES, *AFFAIRS, "Second", "Third", "Great", "Little"}
        places = [i for i, w in enumerate(words) if w not in fixed and not (type == "person" and i == 0)]
        at = dice.pick(places)
        words[at] = _misspelled(dice, words[at])
        return " ".join(words)


def _shortened(word: str) -> set[str]:
    """The word with one letter left out, each: two words a letter apart share one of these (or one is the other's)."""
    return {word[:i] + word[i + 1 :] for i in range(len(word))}


def _misspelled(dice: Dice, word: str) -> str:
    at = dice.between(2, len(word) - 1)
    letters = "aeiou" if word[at] in "aeiou" else "bdfgklmnprstvz"
    return word[:at] + dice.pick(letters) + word[at + 1 :]


def _swapped(dice: Dice, words: list[str], pool: list[str]) -> str:
    """A title with another first adjective."""
    at = 1 if words[0] == "The" and len(words) > 2 else 0
    return " ".join([*words[:at], dice.pick(pool), *words[at + 1 :]])


_MAKERS: Mapping[EntityType, Callable[[Namer], str]] = MappingProxyType(
    {
        "person": lambda n: n.person(n._dice.chance(0.5)),
        "city": lambda n: n._new(lambda: n._spell() + n._dice.pick(_TOWNS)),
        "country": lambda n: n._new(lambda: n._spell() + n._dice.pick(_LANDS)),
        "work": lambda n: n._pair(_ADJECTIVES, _NOUNS, "The {} {}"),
        "organisation": lambda n: f"{n.stem()} {n._dice.pick(BODIES)}",
        "event": lambda n: f"{n._dice.pick(AFFAIRS)} of {n.stem()}",
        "ship": lambda n: n._pair(_PROUD, _ANIMALS, "{} {}"),
        "mountain": lambda n: n._dice.pick(_PEAKS).format(n.stem()),
    }
)


def phrase(type: EntityType, name: str) -> str:
    """The name as it stands in running text."""
    return f"the {name}" if type in ARTICLED else name


def aliases(type: EntityType, name: str) -> tuple[str, ...]:
    """Other forms of the name that mean the same thing."""
    if type in ARTICLED:
        return (name,)
    return (name.removeprefix("The "),) if name.startswith("The ") else ()
