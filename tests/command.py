"""The command line, run in this process."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner, Result

from shared_core.cli import app


def selfreflect(*words: object, **more: Any) -> Result:
    """Run ``selfreflect`` with these words, each written as text; ``more`` as for ``CliRunner.invoke``."""
    return CliRunner().invoke(app, [*map(str, words)], **more)


def succeeds(*words: object, **more: Any) -> Result:
    """Run ``selfreflect``, which must leave with 0."""
    result = selfreflect(*words, **more)
    assert result.exit_code == 0, result.output
    return result
