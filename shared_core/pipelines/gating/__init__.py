"""Retrieve only when unsure: which estimator and threshold, what to measure, what to search for."""
