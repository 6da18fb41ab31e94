"""What stands behind ``TransformersLM``: trees, caches, sampling, grammars."""
