"""What stands behind ``OpenAICompatibleLM``: HTTP, probing, prompts, requests, replies."""
