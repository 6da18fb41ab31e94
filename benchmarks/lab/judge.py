"""Judge whether sentences are true in the world, for all claims in the documents' own wordings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from shared_core.lab.facts import KINDS, WORDS, Attribute, Entity, EntityType, is_entity_type
from shared_core.lab.prose import LEADS
from shared_core.lab.world import World

_PRONOUNS = frozenset({"she", "he", "it", "her", "his", "its"})
_NAME = re.compile(r"(?:the )?[A-Z][\w-]*(?: (?:of|to|[A-Z][\w-]*))*")
_NUMBERS = {"year": re.compile(r"\d{3,4}"), "metres": re.compile(r"\d+ metres"), "participants": re.compile(r"\d+")}
_FIELDS = {"{s}": r"(?P<s>.+?)", "{p}": r"(?P<p>.+?)", "{own}": r"(?:her|his|its)", "{v}": r"(?P<v>.+?)",
           "{va}": r"an? (?P<v>.+?)"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim that was understood, with its truth.

    Attributes:
        attribute: key of the attribute that it states.
        subject: id of the entity it is about; empty if the name belongs to nobody.
        value: the value as stated.
        true: whether it is true.
    """

    attribute: str
    subject: str
    value: str
    true: bool


class TruthJudge:
    """A parser of claims, by the documents' own templates, that looks them up among the facts.

    Args:
        world: the world that decides what is true.
    """

    def __init__(self, world: World) -> None:
        self.world = world

    def judge(self, claim: str, about: Entity | None = None) -> tuple[Judged, ...]:
        """Parse and judge a claim; empty if it is not understood.

        A sentence that joins two claims gives both. A claim about a name that belongs to nobody is false.

        Args:
            claim: one sentence.
            about: the entity that pronouns refer to.
        """
        text = " ".join(claim.split())
        for lead in LEADS:
            text = text.removeprefix(lead)
        whole = self._read(text, about)
        return (whole,) if whole is not None else self._halves(text, about)

    def true(self, claim: str, about: Entity | None = None) -> bool | None:
        """Return whether all of the claim is true; ``None`` if it is not understood."""
        found = self.judge(claim, about)
        return all(j.true for j in found) if found else None

    # --- parsing -----------------------------------------------------------------------------------------------

    def _halves(self, text: str, about: Entity | None) -> tuple[Judged, ...]:
        """Parse two claims of one subject that are joined by "and"."""
        found: list[tuple[Judged, Judged]] = []
        for match in re.finditer(" and ", text):
            for name, first in self._matches(f"{text[: match.start()]}.", about):
                second = self._read(f"{name} {text[match.end() :]}", about)
                if second is not None and second.subject == first.subject:
                    found.append((first, second))
        return max(found, key=lambda pair: (sum(j.true for j in pair), bool(pair[0].subject)), default=())

    def _read(self, text: str, about: Entity | None) -> Judged | None:
        """Parse one claim. Of several parses a true one is preferred, then one whose subject exists."""
        found = [judged for _, judged in self._matches(text, about)]
        return max(found, key=lambda j: (j.true, bool(j.subject)), default=None)

    def _matches(self, text: str, about: Entity | None) -> list[tuple[str, Judged]]:
        """Return all parses of a claim, each with the words that name its subject."""
        found = []
        for pattern, attribute in self._patterns:
            match = pattern.fullmatch(text)
            if match is not None and self._is_value(attribute, match["v"]):
                name = _subject(match)
                subject = None if name is None else self._resolve(name, attribute, about)
                if name is not None and subject is not None:
                    found.append((name, self._compare(attribute, subject, match["v"])))
        return found

    def _resolve(self, name: str, attribute: Attribute, about: Entity | None) -> str | None:
        """Return the id of the entity with that name, empty for nobody's name; ``None`` if it is not a name."""
        noun = KINDS[attribute.subject].noun
        if name.lower() in _PRONOUNS or (noun and name.lower() == f"the {noun}"):
            return about.id if about is not None and about.type == attribute.subject else None
        known = self._named[attribute.subject].get(name.lower())
        return known if known is not None else "" if _NAME.fullmatch(name) else None

    def _is_value(self, attribute: Attribute, value: str) -> bool:
        """Return whether the words can be a value of the attribute; else the sentence is no claim about it."""
        if attribute.value in _NUMBERS:
            return _NUMBERS[attribute.value].fullmatch(value) is not None
        known = value.lower() in self._values[attribute.key]
        return known or (attribute.value in KINDS and _NAME.fullmatch(value) is not None)

    def _compare(self, attribute: Attribute, subject: str, value: str) -> Judged:
        true = value.lower() in self._facts.get(f"{subject}.{attribute.name}", ())
        return Judged(attribute.key, subject, value, true)

    # --- look-up tables ----------------------------------------------------------------------------------------

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
    """Return the subject's name without its possessive ending; ``None`` if a possessive has no ending."""
    named = match.groupdict()
    whose = named.get("p")
    if whose is None or whose.lower() in _PRONOUNS:
        return named.get("s") or whose
    return next((whose.removesuffix(end) for end in ("'s", "'") if whose.endswith(end)), None)


def _pattern(template: str) -> re.Pattern[str]:
    pieces = re.split(r"(\{\w+\})", template)
    return re.compile("".join(_FIELDS.get(p, re.escape(p)) for p in pieces), re.IGNORECASE)
