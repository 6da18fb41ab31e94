"""LlamaIndex plugin: translation only, no policy."""
