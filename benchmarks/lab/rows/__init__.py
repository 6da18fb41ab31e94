"""Training rows of the lab's model, in every format that the pipelines use and with their own prompts."""

from benchmarks.lab.rows.row import LabRow, Piece
from benchmarks.lab.rows.source import SKILLS, Group, RowSource, Skill

__all__ = ["SKILLS", "Group", "LabRow", "Piece", "RowSource", "Skill"]
