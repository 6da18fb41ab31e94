"""``SelfReflectMiddleware``: checks what an agent of LangChain answers against what its tools returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_selfreflect import _messages
from langchain_selfreflect.checker import SelfReflectChecker
from langchain_selfreflect.documents import to_passages
from shared_core.errors import MissingDependencyError
from shared_core.pipelines.decision.wording import NO_ANSWER, treat_unsupported
from shared_core.types import Answer, Passage

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState
except ImportError as error:
    raise MissingDependencyError("langchain", extra="agents", purpose="SelfReflectMiddleware") from error

_READ = 20_000  # characters of a tool's result


class SelfReflectMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Checks an agent's final answer, claim by claim, against the results of its tools.

    ::

        agent = create_agent(model, tools, middleware=[SelfReflectMiddleware(on_unsupported="flag")])

    After each reply of the model that calls no tool, its claims are checked against the tools' results since the user's
    last message: texts, and documents that a tool gives as its artifact. Without any, against what ``retriever`` finds
    for each claim; where no tool was called and there is no retriever, the reply is shown as it is. The message keeps
    its id and gets the check under ``response_metadata["selfreflect"]``; supported claims get citations. An abstention
    of ours is no evidence as a tool's result, and no claim as the reply.

    Args:
        on_unsupported: keep unsupported claims (``pass``), mark them (``flag``), remove them (``strip``), or withhold
            the whole answer (``refuse``).
        options: as for ``SelfReflectChecker``: ``retriever``, ``target_accuracy``, ``settings``, ``critic``, …

    Raises:
        SettingsError: an argument is unknown or wrong; when made.
        AbstainedError: the answer is refused and ``settings.on_abstain="raise"``; in the agent's run.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.checker = SelfReflectChecker(**options)

    def warm_up(self) -> Self:
        """Load the critic eagerly instead of at the first answer."""
        self.checker.checker.check("Ready.", passages=["Ready."])
        return self

    def after_model(self, state: AgentState[Any], runtime: object) -> dict[str, Any] | None:
        """Check the model's reply if it is a final one."""
        if (found := self._find(state["messages"])) is None:
            return None
        message, question, evidence = found
        return self._replaced(message, self.checker.checker.check(message.text, question, evidence))

    async def aafter_model(self, state: AgentState[Any], runtime: object) -> dict[str, Any] | None:
        """``after_model`` without blocking the event loop."""
        if (found := self._find(state["messages"])) is None:
            return None
        message, question, evidence = found
        return self._replaced(message, await self.checker.checker.acheck(message.text, question, evidence))

    def _find(self, messages: Sequence[BaseMessage]) -> tuple[AIMessage, str, list[Passage] | None] | None:
        """Return the reply, the question and the evidence; ``None`` if there is nothing to check."""
        last = messages[-1] if messages else None
        if not isinstance(last, AIMessage) or last.tool_calls or not last.text.strip():
            return None
        asked = next((i for i in reversed(range(len(messages))) if isinstance(messages[i], HumanMessage)), -1)
        question = str(messages[asked].text) if asked >= 0 else ""
        results = [m for m in messages[asked + 1 :] if isinstance(m, ToolMessage)]
        evidence = evidence_of(results)
        if self.checker.retriever is not None:
            return last, question, evidence or None
        # tools that found nothing support nothing; without any tool there is nothing to check against
        return (last, question, evidence) if results else None

    def _replaced(self, message: AIMessage, checked: Answer) -> dict[str, Any]:
        answer = treat_unsupported(checked, self.checker.on_unsupported, self.checker.checker.settings)
        return {"messages": [_messages.checked(answer, message)]}


def evidence_of(results: Sequence[ToolMessage]) -> list[Passage]:
    """Convert tools' results to passages: the documents of an artifact, else the text.

    Failed calls, results without text (bytes, images) and abstentions of ours are left out.
    """
    found: list[Document] = []
    for number, result in enumerate(results, 1):
        if result.status == "error":
            continue
        artifact = result.artifact
        if isinstance(artifact, (list, tuple)) and artifact and all(hasattr(d, "page_content") for d in artifact):
            found += artifact
            continue
        text, name = result.text[:_READ], result.name or "tool"
        if text.strip() and not text.startswith(f"{NO_ANSWER}:"):
            found.append(Document(text, id=f"{name} {number}", metadata={"source": name}))
    return to_passages(found)  # of all tools together: documents of two tools may share an id
