"""The types of things there are in the lab's world, and what can be known of each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from shared_core.lab.schema.base import Attribute, Contest, EntityType, Kind, Presumption, Unstated, ValueSet
from shared_core.lab.schema.made import EVENT, ORGANISATION, SHIP, WORK
from shared_core.lab.schema.person import PERSON
from shared_core.lab.schema.places import CITY, COUNTRY, MOUNTAIN

__all__ = [
    "ATTRIBUTES", "KINDS", "Attribute", "Contest", "EntityType", "Kind", "Presumption", "Unstated", "ValueSet",
]  # fmt: skip

KINDS: Mapping[EntityType, Kind] = MappingProxyType(
    {kind.type: kind for kind in (PERSON, CITY, COUNTRY, WORK, ORGANISATION, EVENT, SHIP, MOUNTAIN)}
)
"""Every type of thing, by name."""

ATTRIBUTES: Mapping[str, Attribute] = MappingProxyType({a.key: a for k in KINDS.values() for a in k.attributes})
"""Every attribute by its key (``person.birthplace``)."""
