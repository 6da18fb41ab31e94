"""The work behind the routes: asks the engine within the limits, and counts."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from shared_core.calibration import DriftWatch
from shared_core.conversation import Asked
from shared_core.errors import AbstainedError, InputError, QuestionError, RetrievalError, StoreError
from shared_core.facades.engine import SelfReflectEngine
from shared_core.facades.following import Current
from shared_core.serve.limits import Gate, Limits
from shared_core.serve.replies import place_of, status_of
from shared_core.support.sanitize import to_printable_line
from shared_core.support.threads import in_thread
from shared_core.types import Answer, Event, Finished, TextDelta

if TYPE_CHECKING:
    from shared_core.documents.store import DocumentIndex, IndexReport

_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)  # seconds


class Metrics:
    """Counts by endpoint and outcome (answered, abstained, done, refused, cancelled, error), and latencies.

    An error below status 500 is ``refused``, one above ``error``.

    >>> metrics = Metrics(Gate(Limits()))
    >>> with metrics.measure("ask") as outcome:
    ...     outcome.append("answered")
    >>> 'selfreflect_requests_total{endpoint="ask",outcome="answered"} 1.0' in metrics.text()
    True
    """

    def __init__(self, gate: Gate, drift: DriftWatch | None = None) -> None:
        self._registry = CollectorRegistry()
        if drift is not None:
            meaning = "1 if the questions of the last full window differ from the calibration's in this signal."
            differs = Gauge("selfreflect_drift", meaning, ["signal"], registry=self._registry)
            for name in drift.names:
                differs.labels(name).set_function(partial(_holds, drift, name))
        self._counts = Counter("selfreflect_requests", "Requests.", ["endpoint", "outcome"], registry=self._registry)
        self._seconds = Histogram(
            "selfreflect_request_seconds",
            "Seconds of a request, waiting included.",
            ["endpoint"],
            registry=self._registry,
            buckets=_BUCKETS,
        )
        inside = Gauge("selfreflect_requests_inside", "Requests worked on or waiting.", registry=self._registry)
        inside.set_function(lambda: gate.inside)

    @contextmanager
    def measure(self, endpoint: str) -> Iterator[list[str]]:
        """Measure one request; the last entry of the list is its outcome (``done`` if it stays empty)."""
        outcome: list[str] = []
        start = time.monotonic()
        try:
            yield outcome
        except (GeneratorExit, asyncio.CancelledError):
            if not outcome:
                outcome.append("cancelled")
            raise
        except Exception as error:  # below 500 the client is to blame
            outcome.append("refused" if status_of(error) < 500 else "error")
            raise
        finally:
            self._counts.labels(endpoint, outcome[-1] if outcome else "done").inc()
            self._seconds.labels(endpoint).observe(time.monotonic() - start)

    def text(self) -> str:
        """Write the figures in Prometheus' text format."""
        return generate_latest(self._registry).decode()


def _holds(drift: DriftWatch, name: str) -> float:
    return float(name in drift.drifted)


class Service:
    """An engine and its index behind limits.

    >>> from shared_core import SelfReflectEngine
    >>> from shared_core.retrieval import BM25Retriever
    >>> Service(SelfReflectEngine(BM25Retriever()), None, Limits()).health()["documents"]
    0

    Args:
        engine: answers; its ``deadline`` is replaced by ``limits.timeout``.
        index: takes uploads; ``None`` if there is none.
    """

    def __init__(self, engine: SelfReflectEngine, index: DocumentIndex | None, limits: Limits) -> None:
        self._current, self._index, self.limits = Current(engine, index), index, limits
        self._gate = Gate(limits)
        self.metrics = Metrics(self._gate, engine.context.drift)
        self._updating = asyncio.Lock()
        self._folder: Path | None = None

    async def events(
        self, question: str | Asked, target: float | None = None, *, endpoint: str = "ask"
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of one question; the last is ``Finished``, an abstention included.

        Args:
            question: at most ``limits.max_question`` characters; ``Asked`` has a history, for follow-ups.
            target: target accuracy of this question; by default the engine's.
            endpoint: under which it is counted.
        """
        with self.metrics.measure(endpoint) as outcome:
            self._check_question(question.question if isinstance(question, Asked) else question)
            async with self._gate.enter() as seconds:
                engine = await self._engine_within(seconds, target)
                async with aclosing(engine.astream(question)) as events:
                    try:
                        async for event in events:
                            if isinstance(event, Finished):
                                outcome.append("abstained" if event.answer.abstained else "answered")
                            yield event
                    except AbstainedError as error:  # on_abstain="raise"
                        outcome.append("abstained")
                        yield TextDelta(error.answer.text)
                        yield Finished(error.answer)

    async def ask(self, question: str | Asked, target: float | None = None, *, endpoint: str = "ask") -> Answer:
        """Answer one question; arguments as ``events``."""
        async with aclosing(self.events(question, target, endpoint=endpoint)) as events:
            finished = [event.answer async for event in events if isinstance(event, Finished)]
        return finished[-1]

    async def check(self, answer: str, question: str = "", target: float | None = None) -> Answer:
        """Check an answer from elsewhere against the index."""
        with self.metrics.measure("check"):
            if question:
                self._check_question(question)
            async with self._gate.enter() as seconds:
                return await (await self._engine_within(seconds, target)).acheck(answer, question)

    async def search(self, query: str, k: int) -> list[dict[str, Any]]:
        """Retrieve ``k`` passages, best first, each with its place and score."""
        with self.metrics.measure("search"):
            self._check_question(query)
            retriever = (await self._current.follow()).resources.retriever
            if retriever is None:
                raise InputError("This server has no documents.", hint="Start it with --docs or --index.")
            async with self._gate.enter() as seconds:
                try:
                    async with asyncio.timeout(seconds):
                        found = await in_thread(retriever.retrieve, query, k)
                except TimeoutError as error:
                    raise RetrievalError("The search took too long.", hint="Try again.") from error
        return [{**place_of(p), "title": p.title, "score": p.score} for p in found]

    async def upload(self, files: Sequence[tuple[str, IO[bytes]]]) -> IndexReport:
        """Add files to the index, and answer from it from now on; a file of a known name replaces the former one.

        The files are kept beside the index, in ``INDEX-uploads``. InputError without an index, or if none of the files
        has a usable name.
        """
        index = self._index
        if index is None:
            raise InputError("This server has no index to upload into.", hint="Start it with --docs or --index.")
        with self.metrics.measure("upload"):
            async with self._updating:
                return await asyncio.to_thread(self._add, index, files)

    def health(self) -> dict[str, Any]:
        """Return the state of the server, without names of documents."""
        from shared_core import __version__

        self._current.look()
        engine = self._current.engine
        stats = None
        if self._index is not None:
            with suppress(StoreError):  # gone or locked: the former state answers on, and "index" says so
                stats = self._index.stats()
        model = engine.resources.models.get("default")
        return {
            "status": "ok",
            "version": __version__,
            "documents": stats.documents if stats else 0,
            "passages": stats.passages if stats else 0,
            "index": self._current.state() if self._index is not None else None,
            "pipeline": engine.settings.pipeline,
            "has_model": model is not None,
            "target_accuracy": engine.settings.target_accuracy,
            "needs_key": self.limits.key is not None,
            "drift": sorted(engine.context.drift.drifted) if engine.context.drift is not None else [],
            "max_upload": self.limits.max_upload if self._index is not None else 0,
        }

    def documents(self) -> list[str]:
        """List the names of the indexed documents."""
        return [] if self._index is None else self._index.sources()

    def _check_question(self, question: str) -> None:
        if len(question) > self.limits.max_question:
            raise QuestionError(
                f"The question has {len(question):,} characters, and at most {self.limits.max_question:,} are read.",
                hint="Ask shorter, or upload long texts as documents.",
            )

    async def _engine_within(self, seconds: float, target: float | None) -> SelfReflectEngine:
        engine = await self._current.follow()
        own = engine.settings
        changes: dict[str, Any] = {"deadline": min(seconds, own.deadline or seconds)}
        if target is not None:
            changes["target_accuracy"] = target
        retriever = engine.resources.retriever
        assert retriever is not None  # no engine is made without one
        return engine.over(retriever, own.replace(**changes))

    def _add(self, index: DocumentIndex, files: Sequence[tuple[str, IO[bytes]]]) -> IndexReport:
        folder = self._uploads(index)
        former = Path(tempfile.mkdtemp(prefix=".former-", dir=folder))
        paths: list[Path] = []
        indexed: set[str] = set()
        try:
            for given, file in files:
                path = folder / _safe_name(given)
                if path.exists() and path not in paths:
                    path.replace(former / path.name)
                paths.append(path)
                with open(path, "wb") as out:
                    shutil.copyfileobj(file, out)
            report = index.update(paths, prune=False)  # an empty upload is refused, and its former file stays
            indexed = {Path(source).name for source in (*report.added, *report.changed, *report.unchanged)}
        finally:
            _put_back([path for path in paths if path.name not in indexed], former)
        self._current.reopen()
        return report

    def _uploads(self, index: DocumentIndex) -> Path:
        if self._folder is None:
            beside = index.path.with_name(f"{index.path.name}-uploads") if index.path is not None else None
            self._folder = beside or Path(tempfile.mkdtemp(prefix="selfreflect-uploads-"))
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._folder


def _put_back(refused: Sequence[Path], former: Path) -> None:
    """Remove files that the index did not take; their former versions, which stay in it, stay on the disk too."""
    for path in dict.fromkeys(refused):  # one name may come twice
        path.unlink(missing_ok=True)
        if (former / path.name).exists():
            (former / path.name).replace(path)
    shutil.rmtree(former, ignore_errors=True)


def _safe_name(given: str) -> str:
    """Return the last part of a file's name; InputError if nothing usable is left."""
    name = to_printable_line(PurePosixPath(given.replace("\\", "/")).name).strip()
    if not name or name.startswith(".") or len(name.encode()) > 200:
        raise InputError(f"A file cannot be called {given[:100]!r}.", hint="Give it a plain name, such as report.pdf.")
    return name
