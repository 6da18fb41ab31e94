"""The command line, also ``python -m shared_core.cli``: `selfreflect ask`, `check`, `index`, `eval`, `calibrate`, …"""

from __future__ import annotations

import codecs
import io
import json
import os
import sys

import typer

from shared_core import __version__
from shared_core.cli.ask import ask_command
from shared_core.cli.calibrate import calibrate_app
from shared_core.cli.check import check_command
from shared_core.cli.common import ANSWERED, BAD_INPUT, FAILED, INTERRUPTED, of_system, renamed
from shared_core.cli.console import show_error
from shared_core.cli.doctor import doctor_command
from shared_core.cli.eval import eval_app
from shared_core.cli.eval_compare import eval_merge_command
from shared_core.cli.index import index_command
from shared_core.cli.lab import lab_app
from shared_core.cli.research_data import research_data_command
from shared_core.cli.serve import mcp_command, serve_command
from shared_core.cli.train import critic_command, generator_command, reclaim_command, research_command
from shared_core.cli.train_rows import reclaim_answers_command, reclaim_rows_command, self_rag_rows_command
from shared_core.errors import InputError

app = typer.Typer(
    name="selfreflect",
    help="RAG answers you can stand behind: verbatim quotes, calibrated support, abstention.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("ask")(ask_command)
app.command("check")(check_command)
app.command("index")(index_command)
app.command("mcp")(mcp_command)
app.add_typer(eval_app, name="eval")
app.command("eval-merge", hidden=True)(renamed(eval_merge_command, "eval-merge", "eval merge"))
app.add_typer(calibrate_app, name="calibrate")
app.command("research-data", hidden=True)(renamed(research_data_command, "research-data", "train research-data"))
app.command("serve")(serve_command)
app.command("doctor")(doctor_command)
train_app = typer.Typer(help="Make training rows, and train models on them.", no_args_is_help=True)
train_app.command("reclaim-rows")(reclaim_rows_command)
train_app.command("reclaim-answers")(reclaim_answers_command)
train_app.command("reclaim")(reclaim_command)
train_app.command("research-data")(research_data_command)
train_app.command("research")(research_command)
self_rag_app = typer.Typer(help="Self-RAG's rows, critic and generator.", no_args_is_help=True)
self_rag_app.command("rows")(self_rag_rows_command)
self_rag_app.command("critic")(critic_command)
self_rag_app.command("generator")(generator_command)
train_app.add_typer(self_rag_app, name="self-rag")
app.add_typer(train_app, name="train")
app.add_typer(lab_app, name="lab")


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
    """Run the ``selfreflect`` command; it always ends with one of the documented exit codes."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # in encodings other than UTF-8, quotation marks cannot be written
        codecs.register_error("as_json", _as_json)
        sys.stdout.reconfigure(errors="as_json")
    try:
        code = app(standalone_mode=False)
        print(end="", flush=True)  # at the interpreter's end it would be too late to say that it failed
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # that is: the reader of a pipe has closed it
            show_error(of_system(error))
        code = FAILED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        # Usage errors of typer; their class has moved between packages, their method has not.
        say = getattr(error, "format_message", None)
        if say is None and type(error).__name__ != "Abort":
            raise
        message = say() if say else "Aborted."
        if message:  # empty where the help was printed instead
            show_error(InputError(message, hint=_usage_hint(error)))
        code = BAD_INPUT
    sys.exit(code if isinstance(code, int) else ANSWERED)


def _as_json(error: UnicodeError) -> tuple[str, int]:
    """Write what an encoding lacks as JSON does (``\\u201c``), so that printed JSON stays valid."""
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _usage_hint(error: Exception) -> str:
    path = getattr(getattr(error, "ctx", None), "command_path", "") or "selfreflect"
    return f"{path} --help lists what there is."


if __name__ == "__main__":
    main()
