"""Run ``benchmarks.reader.build``."""

from benchmarks.reader.build import main

if __name__ == "__main__":
    main()
