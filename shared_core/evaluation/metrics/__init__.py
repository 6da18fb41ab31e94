"""Metrics of answers, citations and confidences."""
