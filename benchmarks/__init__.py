"""Benchmarks, one script each, and the packages ``lab`` and ``reader`` that rebuild and measure the shipped weights."""
