"""A small fictional world with known ground truth, and the model that was trained on half of its facts."""

from shared_core.lab.facts import Entity, Fact, Split, Tier
from shared_core.lab.questions import Question, QuestionKind
from shared_core.lab.setup import load_lab_model
from shared_core.lab.world import World

__all__ = ["Entity", "Fact", "Question", "QuestionKind", "Split", "Tier", "World", "load_lab_model"]
