"""The papers' claims, measured on the closed world with the lab's model."""
