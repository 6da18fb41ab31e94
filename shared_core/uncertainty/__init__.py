"""Uncertainty estimators over samples, and their calibration."""
