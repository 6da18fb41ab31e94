"""Internals of ``OpenAICompatibleLM``: HTTP, probing, prompts, requests, replies."""
