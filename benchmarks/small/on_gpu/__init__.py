"""Train the adapter on a machine with a GPU, numpy and torch, and nothing else of the project."""
