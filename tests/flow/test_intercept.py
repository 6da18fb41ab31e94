"""Wrapping a flow: what goes out, what comes back, and what is closed."""

from __future__ import annotations

from typing import Any

import pytest

from shared_core.errors import BudgetError, GenerationError, LimitError
from shared_core.lm.base import Prompt
from shared_core.lm.scripted import ScriptedLM
from shared_core.runtime.flow import Flow, Generate, Request, Resources, intercept, run


def ask(*questions: str) -> Flow[list[str]]:
    replies: list[str] = []
    for question in questions:
        try:
            reply = yield Generate(Prompt.untrusted(question))
        except (GenerationError, LimitError) as error:
            replies.append(type(error).__name__)
        else:
            replies.append(reply.text)
    return replies


def upper() -> Resources:
    return Resources(
        {"default": ScriptedLM(lambda r: GenerationError("no") if "bad" in r.prompt.text else r.prompt.text.upper())}
    )


def test_a_wrapped_flow_gives_what_the_flow_gives() -> None:
    assert run(intercept(ask("a", "bad", "c")), upper()) == ["A", "GenerationError", "C"]


def test_before_changes_what_goes_out_and_after_sees_what_went() -> None:
    seen: list[tuple[str, Any]] = []

    def before(request: Request) -> Request:
        assert isinstance(request, Generate)
        return Generate(request.prompt + Prompt.trusted("!"))

    def after(request: Request, result: Any) -> None:
        assert isinstance(request, Generate)
        seen.append((request.prompt.text, result if isinstance(result, Exception) else result.text))

    assert run(intercept(ask("a", "bad"), before, after), upper()) == ["A!", "GenerationError"]
    assert seen[0] == ("a!", "A!")
    assert seen[1][0] == "bad!"
    assert isinstance(seen[1][1], GenerationError)


def test_what_before_raises_is_raised_in_the_flow_and_nothing_goes_out() -> None:
    outcomes: list[Any] = []

    def before(request: Request) -> Request:
        assert isinstance(request, Generate)
        if request.prompt.text == "b":
            raise BudgetError("spent")
        return request

    resources = upper()
    flow = intercept(ask("a", "b", "c"), before, lambda _, result: outcomes.append(result))
    assert run(flow, resources) == ["A", "BudgetError", "C"]
    assert [r.prompt.text for r in resources.models["default"].requests] == ["a", "c"]  # type: ignore[attr-defined]
    assert len(outcomes) == 2


def test_errors_that_the_flow_does_not_catch_come_through() -> None:
    def plain() -> Flow[str]:
        reply = yield Generate(Prompt.untrusted("bad"))
        return str(reply.text)

    with pytest.raises(GenerationError, match="no"):
        run(intercept(plain()), upper())


def test_closing_the_wrapper_closes_the_flow() -> None:
    closed: list[bool] = []

    def plain() -> Flow[None]:
        try:
            yield Generate(Prompt.untrusted("a"))
        finally:
            closed.append(True)

    wrapped = intercept(plain())
    next(wrapped)
    assert not closed
    wrapped.close()
    assert closed == [True]
