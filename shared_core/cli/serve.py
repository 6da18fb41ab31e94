"""``selfreflect serve`` and ``selfreflect mcp``: an index behind HTTP, and behind the Model Context Protocol."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer

from shared_core.cli.common import check_calibration, check_questions_and_docs, reports_errors
from shared_core.cli.console import Verbosity, note
from shared_core.cli.options import AnswerOptions
from shared_core.errors import MissingDependencyError, SelfReflectError
from shared_core.types import Answer, Passage

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from shared_core.documents.store import DocumentIndex
    from shared_core.facades.engine import SelfReflectEngine

P = ParamSpec("P")

_LOCAL = ("127.0.0.1", "localhost")
_MOST = 20  # passages of one search
_INSTRUCTIONS = (
    "Questions about the indexed documents. `ask` answers with verbatim quotes; a result that begins with {} "
    "means that the documents do not answer the question. `search` finds passages. `check` says which claims of a text "
    "the documents support."
)


@reports_errors
def serve_command(
    engine: AnswerOptions,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0: all addresses of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 8000,
    key: Annotated[
        str | None,
        typer.Option(
            envvar="SELFREFLECT_KEY", help="API key that requests must carry; safer as an environment variable."
        ),
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="Origin whose pages may call the API, repeatable.")
    ] = None,
    max_upload: Annotated[float, typer.Option(min=0, help="Largest upload in MB; 0 refuses uploads.")] = 100.0,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Time limit of a request in seconds, waiting included.")
    ] = 60.0,
    parallel: Annotated[int, typer.Option(min=1, help="Questions answered at the same time.")] = 8,
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
    check_calibration(engine.calibration)
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


# --- the Model Context Protocol -------------------------------------------------------------------------------------


@reports_errors
def mcp_command(engine: AnswerOptions) -> None:
    """Serve an index to agents over the Model Context Protocol, on standard input and output.

    Tools: ask (an answer with quotes, or an abstention), search (passages), check (which claims of a text the documents
    support). An MCP client starts it: {"command": "selfreflect", "args": ["mcp", "--index", "DIR"]}.

    Exit codes: 0 the client ended the session, 2 bad usage or input, 1 failure.
    """
    settings = engine.settings()
    check_questions_and_docs(["?"], engine.docs)
    check_calibration(engine.calibration)
    built = engine.build(settings)
    make_server(built.engine, built.index).run()


def make_server(engine: SelfReflectEngine, index: DocumentIndex | None = None) -> MCPServer[Any]:
    """Create the server over an engine.

    Args:
        index: that it reads from, whose changes are followed.

    Raises:
        MissingDependencyError: the package ``mcp`` is not installed.
    """
    from shared_core.facades.following import Current  # slow to import: not for `--help`
    from shared_core.pipelines.decision.wording import NO_ANSWER, source_of

    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError as error:
        raise MissingDependencyError("mcp", extra="mcp", purpose="selfreflect mcp") from error
    current = Current(engine, index)
    server: MCPServer[Any] = MCPServer("selfreflect", instructions=_INSTRUCTIONS.format(NO_ANSWER))

    async def ask(question: str) -> str:
        """Answer a question from the documents, with verbatim quotes and their sources."""
        return answer_text(await (await current.follow()).aanswer(question))

    async def search(query: str, k: int = 5) -> str:
        """Find the passages of the documents that match a query, best first."""
        found = await _retrieve(await current.follow(), query, max(1, min(k, _MOST)))
        return "\n\n".join(f"[{i}] {source_of(p)}\n{p.text}" for i, p in enumerate(found, 1)) or "No passage matches."

    async def check(text: str, question: str = "") -> str:
        """Check a text, claim by claim: do the documents support or contradict it?"""
        return check_text(await (await current.follow()).acheck(text, question))

    for tool in (ask, search, check):
        server.tool()(_explained(tool))
    return server


def _explained(tool: Callable[P, Awaitable[str]]) -> Callable[P, Awaitable[str]]:
    """Give a tool's client the message and hint of this project's errors; of others it sees no more than the name."""
    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(tool)
    async def told(*args: P.args, **kwargs: P.kwargs) -> str:
        try:
            return await tool(*args, **kwargs)
        except SelfReflectError as error:
            raise ToolError(str(error)) from error

    return told


async def _retrieve(engine: SelfReflectEngine, query: str, k: int) -> list[Passage]:
    from shared_core.runtime.flow import Flow, Retrieve, arun

    def flow() -> Flow[list[Passage]]:
        found = yield Retrieve(query, k, engine.settings.where)
        return list(found)

    return await arun(flow(), engine.resources, deadline=engine.settings.deadline)


def answer_text(answer: Answer) -> str:
    """Word an answer for an agent: the text, its confidence, and each quote with its source."""
    from shared_core.pipelines.decision.wording import one_line, source_of, tool_text

    if answer.abstained:
        return tool_text(answer)
    confidence = "unknown" if answer.confidence is None else f"{answer.confidence:.2f}"
    quotes = [
        f"[{i}] “{one_line(span.text)}” ({source_of(answer.passage(span.passage_id))})"
        for i, span in enumerate(answer.numbered_spans(), 1)
    ]
    return "\n".join([answer.text, f"confidence: {confidence}", *quotes])


def check_text(checked: Answer) -> str:
    """Word a check for an agent: each claim with its verdict and the quote for it."""
    from shared_core.pipelines.decision.wording import one_line, source_of
    from shared_core.pipelines.evidence import cited_spans

    lines = []
    for claim in checked.claims:
        spans = cited_spans(claim)
        quote = f" — “{one_line(spans[0].text)}” ({source_of(checked.passage(spans[0].passage_id))})" if spans else ""
        lines.append(f"{claim.verdict or 'unknown'}: {one_line(claim.text)}{quote}")
    return "\n".join(lines) or "The text makes no claim that could be checked."
