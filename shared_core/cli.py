"""The command line: ``selfreflect ask | index | eval | calibrate | train | doctor``."""

from __future__ import annotations

import os

import typer

from shared_core import __version__
from shared_core.commands.ask import ask_command
from shared_core.commands.calibrate import calibrate_command
from shared_core.commands.doctor import doctor_command
from shared_core.commands.eval import eval_command
from shared_core.commands.index import index_command
from shared_core.commands.train import train_app

app = typer.Typer(
    name="selfreflect",
    help="RAG answers you can stand behind: verbatim quotes, calibrated support, abstention.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("ask")(ask_command)
app.command("index")(index_command)
app.command("eval")(eval_command)
app.command("calibrate")(calibrate_command)
app.command("doctor")(doctor_command)
app.add_typer(train_app, name="train")


def _version(value: bool) -> None:
    if value:
        typer.echo(f"selfreflect {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    # Libraries print progress bars and warnings of their own over ours.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def main() -> None:
    """Entry point of the ``selfreflect`` command."""
    app()


if __name__ == "__main__":
    main()
