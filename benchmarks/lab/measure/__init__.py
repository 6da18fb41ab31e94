"""The papers' claims, measured on the closed world with the lab's model."""

from benchmarks.lab.measure.setting import Counts, Figures, Lab

__all__ = ["Counts", "Figures", "Lab"]
