"""Training rows and recipes."""
