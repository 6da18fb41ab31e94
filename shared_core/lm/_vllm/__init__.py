"""Internals of the vLLM backend."""
