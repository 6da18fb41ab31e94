"""Train and measure selfreflect-small, an adapter over SmolLM2-135M-Instruct."""
