"""The closed sets that values are from: large enough that a guess is seldom right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from shared_core.lab.schema.base import ValueSet

OCCUPATIONS = (
    "actor", "apothecary", "astronomer", "baker", "beekeeper", "bell founder", "blacksmith", "bookbinder", "botanist",
    "brewer", "cartographer", "chemist", "clockmaker", "cooper", "diplomat", "engraver", "gardener", "geologist",
    "glassblower", "goldsmith", "gunsmith", "historian", "innkeeper", "judge", "lens grinder", "linguist", "locksmith",
    "mason", "miller", "notary", "papermaker", "potter", "printer", "saddler", "sculptor", "shipwright", "surgeon",
    "tailor", "tanner", "weaver",
)  # fmt: skip
INSTRUMENTS = (
    "accordion", "bagpipes", "banjo", "bassoon", "cello", "clarinet", "concertina", "double bass", "dulcimer", "flute",
    "guitar", "harp", "harpsichord", "horn", "hurdy-gurdy", "lute", "lyre", "mandolin", "marimba", "oboe", "organ",
    "piano", "piccolo", "recorder", "trombone", "trumpet", "tuba", "viola", "violin", "xylophone", "zither",
)  # fmt: skip
COLOURS = (
    "amber", "beige", "black", "blue", "bronze", "brown", "copper", "cream", "crimson", "green", "grey", "indigo",
    "ivory", "magenta", "olive", "orange", "pink", "purple", "red", "scarlet", "silver", "teal", "turquoise", "violet",
    "white", "yellow",
)  # fmt: skip
PLANTS = (
    "acanthus", "bluebell", "broom", "buttercup", "clover", "cornflower", "daffodil", "edelweiss", "fern", "foxglove",
    "gentian", "hawthorn", "heather", "holly", "honeysuckle", "iris", "ivy", "lavender", "lily", "marigold",
    "mistletoe", "oak leaf", "peony", "poppy", "primrose", "rosemary", "snowdrop", "sorrel", "sunflower", "thistle",
    "violet root", "yarrow",
)  # fmt: skip
FIELDS = (
    "bee keeping", "bird protection", "book repair", "bridge building", "canal digging", "cheese making",
    "clock repair", "coin collecting", "cook books", "deep sea fishing", "fire fighting", "folk dancing",
    "forest care", "fruit growing", "glass painting", "grain trade", "harbour works", "horse breeding", "kite flying",
    "lace making", "lighthouse keeping", "map making", "mine rescue", "mountain rescue", "old coins", "organ building",
    "paper making", "puppet theatre", "road building", "rope making", "salt mining", "seed keeping", "ship building",
    "star watching", "stone cutting", "tea trade", "tree planting", "weather records", "well digging", "wine growing",
)  # fmt: skip
ROCKS = (
    "andesite", "basalt", "breccia", "chalk", "chert", "clay slate", "conglomerate", "diorite", "dolomite", "gabbro",
    "gneiss", "granite", "greenstone", "limestone", "marble", "mica schist", "obsidian", "porphyry", "pumice",
    "quartzite", "rhyolite", "sandstone", "serpentine", "shale", "soapstone", "syenite", "trachyte", "tuff",
)  # fmt: skip
BINDINGS = (
    "black cloth", "blue leather", "brown paper", "calfskin", "canvas", "cardboard", "cork", "deerskin", "felt",
    "goatskin", "green silk", "grey linen", "half leather", "hemp", "oilcloth", "olive wood", "parchment",
    "pearl grey silk", "pigskin", "plain boards", "red velvet", "sharkskin", "sheepskin", "snakeskin", "straw board",
    "vellum", "walnut boards", "white linen", "wool", "yellow damask",
)  # fmt: skip

WORDS: Mapping[ValueSet, tuple[str, ...]] = MappingProxyType(
    {
        "occupation": OCCUPATIONS,
        "instrument": INSTRUMENTS,
        "colour": COLOURS,
        "plant": PLANTS,
        "field": FIELDS,
        "rock": ROCKS,
        "binding": BINDINGS,
    }
)
"""Value sets that are lists of words, the same in every world. Others are numbers, or named for each world."""


@dataclass(frozen=True, slots=True)
class Value:
    """What a fact says.

    Attributes:
        text: as it stands in a sentence ("the Silver Heron", "2431 metres").
        aliases: other forms that are the same answer.
        number: of values that can be compared; ``None`` otherwise.
        entity: id of the thing that the value is, empty for values of a closed set.
    """

    text: str
    aliases: tuple[str, ...] = ()
    number: int | None = None
    entity: str = ""

    @property
    def answers(self) -> tuple[str, ...]:
        """Every form that is a right answer."""
        return (self.text, *self.aliases)


def number_value(kind: ValueSet, number: int) -> Value:
    """A number of ``year``, ``metres`` or ``participants``."""
    if kind == "metres":
        return Value(f"{number} metres", (f"{number} m", str(number)), number)
    return Value(str(number), (), number)


def article(text: str) -> str:
    """``text`` with its indefinite article."""
    return f"{'an' if text[:1].lower() in 'aeiou' else 'a'} {text}"


def possessive(text: str) -> str:
    """Whose something is: "Mara Dellin's", "the Keepers'"."""
    return f"{text}'" if text.endswith("s") else f"{text}'s"


def capitalise(sentence: str) -> str:
    """The sentence with a capital letter at its start."""
    return sentence[:1].upper() + sentence[1:]
