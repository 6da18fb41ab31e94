"""Command line, one file per command; ``shared_core.cli.__main__`` assembles them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from shared_core.support.moved import lazy_names

if TYPE_CHECKING:
    from shared_core.cli.__main__ import app

__all__ = ["app", "main"]

__getattr__, __dir__ = lazy_names(__name__, ["app"], {"app": "__main__"})


def main() -> None:
    """Run the ``selfreflect`` command; Ctrl-C ends it without a traceback while its modules are being imported, too."""
    try:
        from shared_core.cli import __main__ as command
    except KeyboardInterrupt:
        sys.exit(130)
    command.main()
