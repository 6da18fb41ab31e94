"""``selfreflect serve``: a page, a JSON API and an OpenAI-compatible endpoint."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from shared_core.cli.common import check_questions_and_docs, read_calibration, reports_errors
from shared_core.cli.console import Verbosity, note
from shared_core.cli.options import AnswerOptions
from shared_core.errors import MissingDependencyError

_LOCAL = ("127.0.0.1", "localhost")


@reports_errors
def serve_command(
    engine: AnswerOptions,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 is every one of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 8000,
    key: Annotated[
        str | None,
        typer.Option(envvar="SELFREFLECT_KEY", help="API key that requests must carry; better in the environment."),
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="Origin whose pages may call the API, repeatable.")
    ] = None,
    max_upload: Annotated[float, typer.Option(min=0, help="Largest upload in MB; 0 takes none.")] = 100.0,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds of a request, waiting included.")] = 60.0,
    parallel: Annotated[int, typer.Option(min=1, help="Questions worked on at the same time.")] = 8,
) -> None:
    """Serve a page to ask and check on, a JSON API, and an OpenAI-compatible /v1/chat/completions.

    Stop it with Ctrl-C or SIGTERM: questions that are being answered are finished first.
    """
    try:
        import python_multipart  # noqa: F401  # FastAPI reads uploads with it
        import uvicorn

        from shared_core.serve import Limits, create_app
    except ModuleNotFoundError as error:
        raise MissingDependencyError(error.name or "fastapi", extra="serve", purpose="The server") from error
    settings = engine.settings()
    check_questions_and_docs([], engine.docs)
    read_calibration(engine.calibration)
    built = engine.build(settings)
    limits = Limits(
        key=key or None, cors=tuple(cors or ()), max_upload=int(max_upload * 1e6), timeout=timeout, parallel=parallel
    )
    local = host in _LOCAL
    if not local and limits.key is None:
        note("warning: anyone who reaches this address can ask and upload; set --key.", style="yellow")
    built.engine.warm_up()
    hosts = _LOCAL if local and limits.key is None else ()
    app = create_app(built.engine, built.index, limits, hosts=hosts)
    note(f"Serving on http://{f'[{host}]' if ':' in host else host}:{port}/ (stop: Ctrl-C)")
    level = logging.INFO if Verbosity.level >= 1 else logging.WARNING
    uvicorn.run(app, host=host, port=port, log_level=level, timeout_graceful_shutdown=int(timeout) + 1)
