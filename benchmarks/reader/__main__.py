"""``python -m benchmarks.reader``."""

from benchmarks.reader.build import main

if __name__ == "__main__":
    main()
