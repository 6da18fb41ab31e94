"""``selfreflect mcp``: a server of the Model Context Protocol over an index, with the tools ask, search and check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shared_core.cli.common import check_questions_and_docs, read_calibration, reports_errors
from shared_core.cli.options import AnswerOptions
from shared_core.errors import MissingDependencyError
from shared_core.types import Answer, Passage

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from shared_core.facades.engine import SelfReflectEngine

_MOST = 20  # passages of one search
_INSTRUCTIONS = (
    "Questions about the indexed documents. `ask` answers with verbatim quotes; a result that begins with {} "
    "means that the documents do not answer the question. `search` finds passages. `check` says which claims of a text "
    "the documents support."
)


@reports_errors
def mcp_command(engine: AnswerOptions) -> None:
    """Serve an index to agents over the Model Context Protocol, on standard input and output.

    Tools: ask (an answer with quotes, or an abstention), search (passages), check (which claims of a text the documents
    support). An MCP client starts it: {"command": "selfreflect", "args": ["mcp", "--index", "DIR"]}.

    Exit codes: 0 the client ended the session, 2 bad usage or input, 1 failure.
    """
    settings = engine.settings()
    check_questions_and_docs(["?"], engine.docs)
    read_calibration(engine.calibration)
    make_server(engine.build(settings).engine).run()


def make_server(engine: SelfReflectEngine) -> MCPServer[Any]:
    """Create the server over an engine.

    Raises:
        MissingDependencyError: the package ``mcp`` is not installed.
    """
    from shared_core.pipelines.decision.wording import NO_ANSWER, source_of  # slow to import: not for `--help`

    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError as error:
        raise MissingDependencyError("mcp", extra="mcp", purpose="selfreflect mcp") from error
    server: MCPServer[Any] = MCPServer("selfreflect", instructions=_INSTRUCTIONS.format(NO_ANSWER))

    async def ask(question: str) -> str:
        """Answer a question from the documents, with verbatim quotes and their sources."""
        return answer_text(await engine.aanswer(question))

    async def search(query: str, k: int = 5) -> str:
        """Find the passages of the documents that match a query, best first."""
        found = await _retrieve(engine, query, max(1, min(k, _MOST)))
        return "\n\n".join(f"[{i}] {source_of(p)}\n{p.text}" for i, p in enumerate(found, 1)) or "No passage matches."

    async def check(text: str, question: str = "") -> str:
        """Check a text, claim by claim: do the documents support or contradict it?"""
        return check_text(await engine.acheck(text, question))

    for tool in (ask, search, check):
        server.tool()(tool)
    return server


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

    lines = []
    for claim in checked.claims:
        spans = [s for citation in claim.citations for s in citation.primary]
        quote = f" — “{one_line(spans[0].text)}” ({source_of(checked.passage(spans[0].passage_id))})" if spans else ""
        lines.append(f"{claim.verdict or 'unknown'}: {one_line(claim.text)}{quote}")
    return "\n".join(lines) or "The text makes no claim that could be checked."
