"""The texts that the lab's model learns from: every format that the pipelines use, made of their own prompts."""

from benchmarks.lab.rows.base import LabRow, Piece
from benchmarks.lab.rows.source import SKILLS, Group, RowSource, Skill

__all__ = ["SKILLS", "Group", "LabRow", "Piece", "RowSource", "Skill"]
