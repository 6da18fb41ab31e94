"""``python -m shared_core.cli``."""

from shared_core.cli.commands import main

main()
