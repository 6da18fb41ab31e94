"""The workbench of the closed-world lab: training rows and training of its model, and everything measured on it."""
