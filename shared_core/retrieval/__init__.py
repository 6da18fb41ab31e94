"""Retrievers, embedding and document loading."""
