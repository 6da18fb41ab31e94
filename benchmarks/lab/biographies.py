"""Prompts to write about someone or something, each with all that would be true to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared_core.lab.facts import Entity, Fact, Split, Tier
from shared_core.lab.prose import plain
from shared_core.lab.world import World

__all__ = ["Biography", "biographies"]


@dataclass(frozen=True, slots=True)
class Biography:
    """Something to write about.

    Attributes:
        entity: whom or what; its ``phrase`` goes into a prompt.
        claims: every true claim, one plain sentence each; empty for invented names.
        known: those of them that a closed-book model is trained on.
        passages: ids of the passages that state them.
    """

    entity: Entity
    claims: tuple[str, ...]
    known: tuple[str, ...]
    passages: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "entity": self.entity.phrase,
            "id": self.entity.id,
            "type": self.entity.type,
            "tier": self.entity.tier,
            "split": self.entity.split,
            "claims": list(self.claims),
            "known": list(self.known),
            "passages": list(self.passages),
        }


def biographies(world: World, *, tier: Tier | None = None, split: Split | None = None) -> list[Biography]:
    """One for each entity of a tier and split (all, if not given), in the order they were made."""
    return [
        _biography(world, entity)
        for entity in world.entities
        if tier in (None, entity.tier) and split in (None, entity.split)
    ]


def _biography(world: World, entity: Entity) -> Biography:
    facts = world.facts_of(entity.id)
    stated = (s.passage for f in facts for s in world.statements(f.id) if s.status == "current")
    return Biography(
        entity,
        _claims(entity, facts),
        _claims(entity, [f for f in facts if f.known]),
        tuple(dict.fromkeys(stated)),
    )


def _claims(entity: Entity, facts: Sequence[Fact]) -> tuple[str, ...]:
    return tuple(plain(f, entity) for f in facts)
