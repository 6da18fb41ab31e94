"""Plumbing that knows no domain: files, logs, pickling, threads."""
