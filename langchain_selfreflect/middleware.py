"""``SelfReflectMiddleware``: checks what an agent of LangChain answers against what its tools returned."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, Self, cast

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables.config import ensure_config, var_child_runnable_config
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from langchain_selfreflect import _messages
from langchain_selfreflect.checker import SelfReflectChecker
from langchain_selfreflect.documents import to_passages
from langchain_selfreflect.lm import HIDDEN_TAGS
from shared_core.errors import MissingDependencyError, SettingsError
from shared_core.pipelines.check_values import FIELDS
from shared_core.pipelines.decision.wording import NO_ANSWER, treat_unsupported
from shared_core.reading.questions import asks_nothing
from shared_core.types import Answer, Passage

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse, hook_config
    from langchain.agents.structured_output import ToolStrategy
except ImportError as error:
    raise MissingDependencyError("langchain", extra="agents", purpose="SelfReflectMiddleware") from error

if TYPE_CHECKING:
    Base = AgentMiddleware[AgentState[Any], Any, Any]
else:
    Base = AgentMiddleware  # in LangChain 1.0 it has two parameters of type

_LOG = logging.getLogger(__name__)
_READ = 20_000  # characters of a tool's result
_EARLIER = 20  # results of earlier turns, the newest ones
_SMALL_TALK = "the user's message asks nothing"
_NO_EVIDENCE = "no tool was called in this conversation, and there is no retriever"


@dataclasses.dataclass(frozen=True, slots=True)
class _Reply:
    """The final reply of a model, with what it is checked against.

    Attributes:
        message: the model's.
        question: the user's last message.
        evidence: what the tools returned; ``None`` to retrieve.
        values: of a structured response; ``None`` for a text.
        unchecked: why it is not checked; empty if it is.
    """

    message: AIMessage
    question: str
    evidence: list[Passage] | None
    values: Mapping[str, Any] | None
    unchecked: str = ""


class SelfReflectMiddleware(Base):
    """Checks an agent's final answer, claim by claim, against the results of its tools.

    ::

        agent = create_agent(model, tools, middleware=[SelfReflectMiddleware(on_unsupported="flag")])

    The claims of each reply that calls no tool are checked against the tools' results since the user's last message:
    texts, and documents that a tool gives as its artifact. Without any, against what ``retriever`` finds for each
    claim, and without a retriever against the results of earlier turns. Where there are none, or the user's message
    asks nothing ("Thanks!") and no tool was called for it, the reply is shown as it is, with the ``status``
    ``unchecked`` and the reason. The message keeps its id and gets the check under
    ``response_metadata["selfreflect"]``; supported claims get citations. An abstention of ours is no evidence as a
    tool's result, and no claim as the reply. A reply that states nothing is never refused.

    The model's call is hidden from ``stream_mode="messages"``, since its tokens come before the check: each reply
    arrives whole, once it was checked. Put the middleware first in the list, so that it checks what the others return.

    Of a structured response (``response_format``) each value is checked together with its name; the check has the
    verdicts under ``metadata["fields"]``. Values can be neither marked nor removed: ``flag`` leaves them as they are,
    ``strip`` and ``refuse`` withhold the whole response if one is not supported. ``structured_response`` then is
    ``None``, and the last message says why.

    Args:
        on_unsupported: keep unsupported claims (``pass``), mark them (``flag``), remove them (``strip``), or withhold
            the whole answer (``refuse``).
        stream_drafts: show the model's tokens as they come, before the check; what it changes then does not reach
            ``stream_mode="messages"``.
        fields: names of the values of a structured response to check; by default all.
        require_evidence: take what a reply states for unsupported where no tool was called in the whole conversation
            and there is no retriever, instead of showing it unchecked.
        options: as for ``SelfReflectChecker``: ``retriever``, ``target_accuracy``, ``settings``, ``critic``, …

    Raises:
        SettingsError: an argument is unknown or wrong; when made.
        AbstainedError: the answer is refused and ``settings.on_abstain="raise"``; in the agent's run.
    """

    def __init__(
        self,
        *,
        stream_drafts: bool = False,
        fields: Collection[str] | None = None,
        require_evidence: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        if isinstance(fields, str):
            raise SettingsError(f"fields must be a list of names, not {fields!r}.", hint=f"fields=[{fields!r}]")
        self.stream_drafts, self.require_evidence = stream_drafts, require_evidence
        self.fields = None if fields is None else frozenset(fields)
        self.checker = SelfReflectChecker(**options)

    def warm_up(self) -> Self:
        """Load the critic eagerly instead of at the first answer."""
        self.checker.checker.check("Ready.", passages=["Ready."])
        return self

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Check the model's reply if it is a final one."""
        with nullcontext() if self.stream_drafts else _hidden():
            response = handler(request)
        if (reply := self._find(request, response)) is None:
            return response
        if reply.unchecked:
            return _with(response, reply, _messages.unchecked(reply.message, reply.unchecked))
        checker = self.checker.checker
        if reply.values is None:
            checked = checker.check(reply.message.text, reply.question, reply.evidence)
        else:
            checked = checker.check_values(reply.values, reply.question, reply.evidence)
        return self._replaced(response, reply, checked)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """``wrap_model_call`` without blocking the event loop."""
        with nullcontext() if self.stream_drafts else _hidden():
            response = await handler(request)
        if (reply := self._find(request, response)) is None:
            return response
        if reply.unchecked:
            return _with(response, reply, _messages.unchecked(reply.message, reply.unchecked))
        checker = self.checker.checker
        if reply.values is None:
            checked = await checker.acheck(reply.message.text, reply.question, reply.evidence)
        else:
            checked = await checker.acheck_values(reply.values, reply.question, reply.evidence)
        return self._replaced(response, reply, checked)

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: AgentState[Any], runtime: object) -> dict[str, Any] | None:
        """End the run after a refused structured response; LangChain would ask the model for another one."""
        last = state["messages"][-1] if state["messages"] else None
        check = last.response_metadata.get(_messages.NAMESPACE, {}) if isinstance(last, AIMessage) else {}
        if FIELDS not in (told := check.get("metadata", {})) or not told["changed"]:
            return None
        return {"structured_response": None, "jump_to": "end"}  # not the one of an earlier turn

    def _find(self, request: ModelRequest[Any], response: ModelResponse[Any]) -> _Reply | None:
        """Return the reply with its question and evidence; ``None`` if there is nothing to check."""
        message = next((m for m in reversed(response.result) if isinstance(m, AIMessage)), None)
        if message is None:
            return None
        values = None if response.structured_response is None else self._values(response.structured_response)
        if values is None and (message.tool_calls or not message.text.strip()):
            return None
        messages = request.state["messages"]
        asked = next((i for i in reversed(range(len(messages))) if isinstance(messages[i], HumanMessage)), -1)
        question = str(messages[asked].text) if asked >= 0 else ""
        own = _response_tools(request.response_format)
        earlier, results = (
            [m for m in some if isinstance(m, ToolMessage) and m.name not in own]
            for some in (messages[: asked + 1], messages[asked + 1 :])
        )
        if results:
            # tools that found nothing support nothing
            evidence = evidence_of(results)
            return _Reply(message, question, evidence or self._none(), values)
        if asks_nothing(question) and values is None:
            return _Reply(message, question, None, None, _SMALL_TALK)
        if self.checker.retriever is not None:
            return _Reply(message, question, None, values)
        evidence = evidence_of(earlier[-_EARLIER:])
        return _Reply(message, question, evidence, values, "" if evidence or self.require_evidence else _NO_EVIDENCE)

    def _none(self) -> list[Passage] | None:
        """Return what a reply is checked against where the tools found nothing."""
        return None if self.checker.retriever is not None else []

    def _values(self, response: object) -> Mapping[str, Any]:
        """Convert a structured response to plain values; defaults that the model left are no statements of it."""
        if isinstance(response, BaseModel):
            plain: Any = response.model_dump(mode="json", exclude_unset=True)
        else:
            plain = to_jsonable_python(response, serialize_unknown=True)
        values = plain if isinstance(plain, dict) else {"response": plain}
        return values if self.fields is None else {name: v for name, v in values.items() if name in self.fields}

    def _replaced(self, response: ModelResponse[Any], reply: _Reply, checked: Answer) -> ModelResponse[Any]:
        """Return the response with the checked message; a refused structured response is left out."""
        policy, settings = self.checker.on_unsupported, self.checker.checker.settings
        if reply.values is None:
            return _with(
                response, reply, _messages.checked(treat_unsupported(checked, policy, settings), reply.message)
            )
        if policy == "flag" and not checked.metadata["passing"]:
            _warn_of_unmarked()
        withheld = policy in ("strip", "refuse")
        answer = treat_unsupported(checked, "refuse" if withheld else "pass", settings)
        if not answer.metadata["changed"]:
            return _with(response, reply, _messages.noted(answer, reply.message))
        refusal = _messages.checked(answer, reply.message).model_copy(update={"tool_calls": [], "content": answer.text})
        return dataclasses.replace(response, result=[refusal], structured_response=None)


def _with(response: ModelResponse[Any], reply: _Reply, message: AIMessage) -> ModelResponse[Any]:
    """Put a message in the place of the reply's."""
    return dataclasses.replace(response, result=[message if m is reply.message else m for m in response.result])


@contextmanager
def _hidden() -> Iterator[None]:
    """Hide calls of models from streams of messages within the block.

    The tags are set for all that is called, whatever its model: middleware within may choose another one.
    """
    config = ensure_config()
    token = var_child_runnable_config.set({**config, "tags": [*config["tags"], *HIDDEN_TAGS]})
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def _response_tools(response_format: object) -> frozenset[str]:
    """Name the tools by which a model gives its structured response: what they hold is its own words."""
    if response_format is None:
        return frozenset()
    given = cast("Any", response_format)
    if not isinstance(given, ToolStrategy):
        try:
            given = ToolStrategy(getattr(given, "schema", given))  # as LangChain makes one where a provider has no own
        except ValueError:
            return frozenset()
    return frozenset(spec.name for spec in given.schema_specs)


@cache
def _warn_of_unmarked() -> None:
    """Warn once per process."""
    _LOG.warning(
        "SelfReflectMiddleware: a structured response has values that are not supported. They cannot be marked: "
        'on_unsupported="flag" leaves them as they are, and the message\'s response_metadata["selfreflect"] names them '
        'under metadata["fields"]. Use "refuse" to withhold such responses.'
    )


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
