"""Loaders: one module for each kind of file; each returns the file's text with its structure (``extracted``)."""
