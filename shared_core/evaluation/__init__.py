"""Metrics, benchmark runner, report."""
