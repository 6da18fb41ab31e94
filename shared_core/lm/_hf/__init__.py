"""Internals of ``TransformersLM``: trees, caches, sampling, grammars, loading."""
