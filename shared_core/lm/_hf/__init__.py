"""Internals of ``TransformersLM``: trees, caches, sampling, grammars, loading.

Most need torch, which is slow to import: ``lm/transformers.py`` imports them inside functions only.
"""
