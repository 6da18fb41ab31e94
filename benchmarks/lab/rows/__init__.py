"""Training rows of the lab's model, in every format that the pipelines use and with their own prompts."""
