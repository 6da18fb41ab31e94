"""LangChain plugin: translation only, no policy."""
