"""The closed world on which the pipelines are measured: everything about it is known, and nothing is real."""

from shared_core.lab.checkpoint import lab_card, load_lab_model
from shared_core.lab.facts import Entity, Fact, Split, Tier
from shared_core.lab.questions import Question, QuestionKind
from shared_core.lab.world import World

__all__ = ["Entity", "Fact", "Question", "QuestionKind", "Split", "Tier", "World", "lab_card", "load_lab_model"]
