"""The pipelines, as flows."""
