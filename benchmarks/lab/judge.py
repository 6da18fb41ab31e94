"""Whether a sentence is true in the world: every claim that is put as the documents put it can be judged."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from shared_core.lab.facts import Entity
from shared_core.lab.prose import LEADS
from shared_core.lab.schema import KINDS, WORDS, Attribute, EntityType, is_entity_type
from shared_core.lab.world import World

__all__ = ["Judged", "TruthJudge"]

_PRONOUNS = frozenset({"she", "he", "it", "her", "his", "its"})
_NAME = re.compile(r"(?:the )?[A-Z][\w-]*(?: (?:of|to|[A-Z][\w-]*))*")
_NUMBERS = {
    "year": re.compile(r"\d{3,4}"),
    "metres": re.compile(r"\d+ metres"),
    "participants": re.compile(r"\d+"),
}
_FIELDS = {"{s}": r"(?P<s>.+?)", "{p}": r"(?P<p>.+?)", "{own}": r"(?:her|his|its)", "{v}": r"(?P<v>.+?)",
           "{va}": r"an? (?P<v>.+?)"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """One claim as read.

    Attributes:
        attribute: key of what it says.
        subject: id of whom or what it says it of; empty where nobody has that name.
        value: as said.
        true: whether it is so.
    """

    attribute: str
    subject: str
    value: str
    true: bool


class TruthJudge:
    """Reads claims with the templates the documents are written with, and looks them up among the facts.

    Args:
        world: in which claims are true or false.
    """

    def __init__(self, world: World) -> None:
        self.world = world

    def judge(self, claim: str, about: Entity | None = None) -> tuple[Judged, ...]:
        """What the claim says, judged; empty where it says nothing that is understood.

        A sentence that joins two claims gives both. A claim about a name that nobody has is false.

        Args:
            claim: one sentence.
            about: whom or what pronouns mean.
        """
        text = " ".join(claim.split())
        for lead in LEADS:
            text = text.removeprefix(lead)
        whole = self._read(text, about)
        return (whole,) if whole is not None else self._halves(text, about)

    def true(self, claim: str, about: Entity | None = None) -> bool | None:
        """Whether all that the claim says is so; ``None`` where it is not understood."""
        found = self.judge(claim, about)
        return all(j.true for j in found) if found else None

    # --- reading -----------------------------------------------------------------------------------------------

    def _halves(self, text: str, about: Entity | None) -> tuple[Judged, ...]:
        """Two claims of one subject, joined by "and"."""
        found: list[tuple[Judged, Judged]] = []
        for match in re.finditer(" and ", text):
            for name, first in self._matches(f"{text[: match.start()]}.", about):
                second = self._read(f"{name} {text[match.end() :]}", about)
                if second is not None and second.subject == first.subject:
                    found.append((first, second))
        return max(found, key=lambda pair: (sum(j.true for j in pair), bool(pair[0].subject)), default=())

    def _read(self, text: str, about: Entity | None) -> Judged | None:
        """One claim: true if any way to read it is, else one whose subject is known, if there is one."""
        found = [judged for _, judged in self._matches(text, about)]
        return max(found, key=lambda j: (j.true, bool(j.subject)), default=None)

    def _matches(self, text: str, about: Entity | None) -> list[tuple[str, Judged]]:
        """Every way to read a claim, with the words that name its subject."""
        found = []
        for pattern, attribute in self._patterns:
            match = pattern.fullmatch(text)
            if match is not None and self._is_value(attribute, match["v"]):
                said = _subject(match)
                subject = None if said is None else self._whom(said, attribute, about)
                if said is not None and subject is not None:
                    found.append((said, self._compare(attribute, subject, match["v"])))
        return found

    def _whom(self, said: str, attribute: Attribute, about: Entity | None) -> str | None:
        """The id of whom a name means, empty for a name that nobody has; ``None`` for what is no name."""
        noun = KINDS[attribute.subject].noun
        if said.lower() in _PRONOUNS or (noun and said.lower() == f"the {noun}"):
            return about.id if about is not None and about.type == attribute.subject else None
        known = self._named[attribute.subject].get(said.lower())
        return known if known is not None else "" if _NAME.fullmatch(said) else None

    def _is_value(self, attribute: Attribute, value: str) -> bool:
        """Whether the value is of the right sort, so that the sentence is a claim of this attribute at all."""
        if attribute.value in _NUMBERS:
            return _NUMBERS[attribute.value].fullmatch(value) is not None
        known = value.lower() in self._values[attribute.key]
        return known or (attribute.value in KINDS and _NAME.fullmatch(value) is not None)

    def _compare(self, attribute: Attribute, subject: str, value: str) -> Judged:
        true = value.lower() in self._facts.get(f"{subject}.{attribute.name}", ())
        return Judged(attribute.key, subject, value, true)

    # --- what it knows -----------------------------------------------------------------------------------------

    @cached_property
    def _patterns(self) -> Sequence[tuple[re.Pattern[str], Attribute]]:
        return [(_pattern(t), a) for kind in KINDS.values() for a in kind.attributes for t in a.sentences]

    @cached_property
    def _named(self) -> Mapping[EntityType, Mapping[str, str]]:
        found: dict[EntityType, dict[str, str]] = {type: {} for type in KINDS}
        for entity in self.world.entities:
            if entity.tier != "invented":
                for name in (entity.name, entity.phrase):
                    found[entity.type][name.lower()] = entity.id
        return found

    @cached_property
    def _facts(self) -> Mapping[str, frozenset[str]]:
        return {f.id: frozenset(a.lower() for a in f.value.answers) for f in self.world.facts}

    @cached_property
    def _values(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, set[str]] = {
            a.key: set() if is_entity_type(a.value) else set(WORDS.get(a.value, ()))
            for kind in KINDS.values()
            for a in kind.attributes
        }
        for fact in self.world.facts:
            for value in (fact.value, fact.former, fact.false):
                found[fact.attribute] |= {a.lower() for a in value.answers} if value is not None else set()
        return {key: frozenset(values) for key, values in found.items()}


def _subject(match: re.Match[str]) -> str | None:
    """The words that name the subject, without what makes them possessive; ``None`` if that is missing."""
    named = match.groupdict()
    whose = named.get("p")
    if whose is None or whose.lower() in _PRONOUNS:
        return named.get("s") or whose
    return next((whose.removesuffix(end) for end in ("'s", "'") if whose.endswith(end)), None)


def _pattern(template: str) -> re.Pattern[str]:
    pieces = re.split(r"(\{\w+\})", template)
    return re.compile("".join(_FIELDS.get(p, re.escape(p)) for p in pieces), re.IGNORECASE)
