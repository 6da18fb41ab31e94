"""Readers and support scorers: what judges passages without writing."""
