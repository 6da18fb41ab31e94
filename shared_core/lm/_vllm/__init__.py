"""What the vLLM backend is made of."""
