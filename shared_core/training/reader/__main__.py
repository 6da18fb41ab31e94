"""``python -m shared_core.training.reader``."""

from shared_core.training.reader.build import main

if __name__ == "__main__":
    main()
