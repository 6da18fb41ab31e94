"""Fits of calibrations on labelled questions."""
