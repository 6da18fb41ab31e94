"""The maintainers' script that makes the embedded reader's weights: ``python -m benchmarks.reader``."""
