"""Write every prompt and reply of a language model to a text file, as they happen."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from shared_core.lm.base import (
    Capabilities,
    Generate,
    GenerateResult,
    Generation,
    HiddenStates,
    LanguageModel,
    Prompt,
    Sample,
    SamplingParams,
    Score,
    ScoreResult,
    Scores,
    States,
    StatesResult,
)
from shared_core.support.sanitize import to_printable, to_printable_line

Q = TypeVar("Q", Generate, Score, HiddenStates)
R = TypeVar("R")

_DEFAULTS = SamplingParams()


class TracingLM:
    """A language model that records every request and every result of another one in a text file.

    Prompts are written before the model is called, so that the file shows what it hangs or fails at. Each message
    stands under its role, each line of it is indented, and control characters are replaced: whatever a document says,
    it cannot pass for a heading or reach the terminal. Token ids are decoded where the model has a tokenizer. The file
    holds the documents' text: treat it as you treat them.

    Safe from several threads, as the wrapped model is; replies name the number of their call.

    Args:
        model: any backend, also one made of a framework's model (``LangChainLM``, ``LlamaIndexLM``).
        path: the file; replaced if it exists.

    Raises:
        OSError: the file cannot be written.

    >>> import tempfile
    >>> from shared_core.lm import Generate, Prompt, ScriptedLM
    >>> path = Path(tempfile.mkdtemp()) / "prompts.txt"
    >>> with TracingLM(ScriptedLM(["In 1841."]), path) as lm:
    ...     _ = lm.generate([Generate(Prompt.untrusted("When was the Thale bridged?", role="user"))])
    >>> for line in path.read_text(encoding="utf-8").splitlines()[:3]:
    ...     print(line)
    --- call 1 · Generate · scripted · max_tokens=256 ---
    [user]
      When was the Thale bridged?
    """

    def __init__(self, model: LanguageModel, path: str | Path) -> None:
        self._model = model
        self._file = Path(path).open("w", encoding="utf-8", newline="\n")  # noqa: SIM115 - closed by `close`
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)

    @property
    def name(self) -> str:
        """The wrapped model's name."""
        return self._model.name

    @property
    def capabilities(self) -> Capabilities:
        """The wrapped model's capabilities."""
        return self._model.capabilities

    def __getattr__(self, name: str) -> Any:
        # ``identity``, ``encoder`` and whatever else a backend has; never called for what is defined here.
        if name == "_model":  # while it is copied or unpickled
            raise AttributeError(name)
        return getattr(self._model, name)

    def generate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Record and forward."""
        return self._record(self._model.generate, requests)

    async def agenerate(self, requests: Sequence[Generate]) -> list[GenerateResult]:
        """Record and forward."""
        return await self._arecord(self._model.agenerate, requests)

    def score(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """Record and forward."""
        return self._record(self._model.score, requests)

    async def ascore(self, requests: Sequence[Score]) -> list[ScoreResult]:
        """Record and forward."""
        return await self._arecord(self._model.ascore, requests)

    def hidden_states(self, requests: Sequence[HiddenStates]) -> list[StatesResult]:
        """Record and forward."""
        return self._record(self._model.hidden_states, requests)

    async def ahidden_states(self, requests: Sequence[HiddenStates]) -> list[StatesResult]:
        """Record and forward."""
        return await self._arecord(self._model.ahidden_states, requests)

    def token_ids(self, strings: Sequence[str]) -> list[int | None]:
        """Forward; nothing is read or written by the model."""
        return self._model.token_ids(strings)

    async def atoken_ids(self, strings: Sequence[str]) -> list[int | None]:
        """Forward; nothing is read or written by the model."""
        return await self._model.atoken_ids(strings)

    def heading(self, text: str) -> None:
        """Write a line that separates what follows, such as the question that is asked next."""
        self._write(f"=== {to_printable_line(text)} ===\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- recording ---------------------------------------------------------------------------------------------

    def _record(self, call: Callable[[Sequence[Q]], list[R]], requests: Sequence[Q]) -> list[R]:
        with self._recording(requests) as end:
            return end(call(requests))

    async def _arecord(self, call: Callable[[Sequence[Q]], Awaitable[list[R]]], requests: Sequence[Q]) -> list[R]:
        with self._recording(requests) as end:
            return end(await call(requests))

    @contextmanager
    def _recording(self, requests: Sequence[Q]) -> Iterator[Callable[[list[R]], list[R]]]:
        """Write the requests, and give a function that writes their results; or what is raised, a cancellation too."""
        numbers, start = self._begin(requests), time.monotonic()

        def end(results: list[R]) -> list[R]:
            seconds = time.monotonic() - start
            for number, request, result in zip(numbers, requests, results):
                self._write(f"--- result {number} · {seconds:.2f} s ---\n{self._result(request, result)}")
            return results

        try:
            yield end
        except BaseException as error:
            for number in numbers:
                self._write(f"--- result {number} ---\n[error]\n{_indent(f'{type(error).__name__}: {error}')}")
            raise

    def _begin(self, requests: Sequence[Q]) -> list[int]:
        numbers = [next(self._numbers) for _ in requests]
        for number, request in zip(numbers, requests):
            parts = [f"call {number}", type(request).__name__, self.name]
            if request.model != "default":
                parts.append(f"as {request.model}")
            if isinstance(request, Generate) and (options := _options(request.params)):
                parts.append(options)
            self._write(f"--- {' · '.join(parts)} ---\n{self._body(request)}")
        return numbers

    def _write(self, text: str) -> None:
        with self._lock:
            if not self._file.closed:  # a call that was given up at a deadline may end later
                self._file.write(text + "\n")
                self._file.flush()

    # --- text --------------------------------------------------------------------------------------------------

    def _body(self, request: Generate | Score | HiddenStates) -> str:
        if isinstance(request, HiddenStates):
            return "".join(self._prompt(p) for p in request.sequences)
        if isinstance(request, Generate):
            return self._prompt(request.prompt)
        continuations = (f"[continuation {i}]\n{self._text(c)}" for i, c in enumerate(request.continuations, 1))
        return self._prompt(request.prompt) + "".join(continuations)

    def _prompt(self, prompt: Prompt) -> str:
        messages = itertools.groupby(prompt.parts, lambda part: part.role)
        return "".join(f"[{role or 'prompt'}]\n{self._text(Prompt(tuple(parts)))}" for role, parts in messages)

    def _text(self, prompt: Prompt) -> str:
        return _indent("".join(p.text if p.token_ids is None else self._decoded(p.token_ids) for p in prompt.parts))

    def _decoded(self, token_ids: Sequence[int]) -> str:
        decode = getattr(getattr(self._model, "tokenizer", None), "decode", None)
        if decode is not None:
            return str(decode(list(token_ids)))
        return f"<token ids {' '.join(map(str, token_ids))}>"

    def _result(self, request: object, result: object) -> str:
        if isinstance(result, Generation):
            return "".join(_sample(s, i, len(result.samples)) for i, s in enumerate(result.samples, 1))
        if isinstance(result, Scores):
            totals = enumerate(result.totals, 1)
            return "".join(f"[continuation {i}: log-probability {total:.3f}]\n" for i, total in totals)
        if isinstance(result, States):
            return f"[states of shape {result.states.shape}]\n"
        return f"[error]\n{_indent(f'{type(result).__name__}: {result}')}"


def _sample(sample: Sample, number: int, of: int) -> str:
    tokens = f", {len(sample.token_ids)} tokens" if sample.token_ids else ""
    return f"[reply {number} of {of}: {sample.finish_reason}{tokens}]\n{_indent(sample.text)}"


def _options(params: SamplingParams) -> str:
    """List the sampling parameters that differ from their defaults, and always the token limit."""
    shown = [f"max_tokens={params.max_tokens}"]
    for name in ("n", "temperature", "top_k", "top_p", "stop", "min_tokens", "seed", "verdicts", "stop_token_ids"):
        value = getattr(params, name)
        if value != getattr(_DEFAULTS, name):
            shown.append(f"{name}={value!r}")
    if params.grammar is not None:
        shown.append(f"grammar={params.grammar.name}")
    return ", ".join(shown)


def _indent(text: str) -> str:
    return "".join(f"  {line}".rstrip() + "\n" for line in to_printable(text).split("\n"))
