"""Training of the embedded reader and critic: ``python -m benchmarks.reader``."""
