"""A small fictional world with known ground truth, and the model that was trained on half of its facts."""

from shared_core.lab.setup import load_lab_model
from shared_core.lab.world import World

__all__ = ["World", "load_lab_model"]
