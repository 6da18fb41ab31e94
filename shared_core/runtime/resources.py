"""Resources: the models, retriever, reader, judges and embedder of an engine; they carry out requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from shared_core.errors import CapabilityError, InputError, LanguageModelError, RetrievalError, SelfReflectError
from shared_core.lm.base import Generate, Generation, HiddenStates, LanguageModel, Score, Scores, States, TokenIds
from shared_core.reading.base import Judge, PassageRater, Rate, Read, Reader, SupportScorer, Verdict, VerdictScorer
from shared_core.retrieval.base import Embedder, Retriever
from shared_core.runtime.huge import cut_huge
from shared_core.runtime.requests import Compute, Embed, LeafRequest, Retrieve
from shared_core.support.threads import given_up, in_thread, run_within
from shared_core.types import Passage, check_passages

T = TypeVar("T")
logger = logging.getLogger(__name__)

LATE: Any = object()
"""The result of a request that was not done in time."""
_RESULTS: dict[type, type] = {Generate: Generation, Score: Scores, HiddenStates: States}
_METHODS: dict[type, str] = {Generate: "generate", Score: "score", HiddenStates: "hidden_states"}


@dataclass(frozen=True, slots=True)
class Resources:
    """The parts that carry out requests, blocking or async, batch by batch.

    Attributes:
        models: backends by the role that requests name (``Generate.model``); ``default`` serves every other role.
        retriever, reader, embedder: for ``Retrieve``, ``Read`` and ``Embed``.
        judge, critic: for ``Judge``: the engine's own support scorer, and the shipped one (which also serves ``Rate``).

    >>> from shared_core.lm import Prompt, ScriptedLM
    >>> resources = Resources({"default": ScriptedLM(lambda request: request.prompt.text.upper())})
    >>> [reply.text for reply in resources.execute([Generate(Prompt.trusted("a")), Generate(Prompt.trusted("b"))])]
    ['A', 'B']
    """

    models: Mapping[str, LanguageModel] = field(default_factory=dict)
    retriever: Retriever | None = None
    reader: Reader | None = None
    judge: SupportScorer | None = None
    critic: SupportScorer | None = None
    embedder: Embedder | None = None

    def model(self, role: str) -> LanguageModel:
        """Return the model with that role, else the default model; raises CapabilityError if there is neither."""
        found = self._find_model(role)
        if found is None:
            raise CapabilityError("text", "none", hint="Give one: lm=…, or use pipeline='composed'.")
        return found

    def _find_model(self, role: str) -> LanguageModel | None:
        return self.models.get(role) or self.models.get("default")

    def calls_of(self, request: Generate | Score | HiddenStates) -> int:
        """Count the calls that a request to a model takes: one, or one for each sample where the backend needs that."""
        if not isinstance(request, Generate) or request.params.n == 1:
            return 1
        return request.params.n if getattr(self._find_model(request.model), "samples_are_calls", False) else 1

    def execute(self, requests: Sequence[LeafRequest], seconds: float | None = None) -> list[Any]:
        """Carry out the requests, those of one kind as one batch; return results (or errors, as values) in order.

        Requests not done after ``seconds`` have the result ``LATE``; the rest is not begun. A call that hangs is left
        behind in its thread.
        """
        results: list[Any] = [LATE] * len(requests)

        def work() -> None:
            for group in _groups(requests):
                if given_up():  # the thread left behind does not begin the next group
                    return
                for i, result in zip(group, self._execute_group([requests[i] for i in group])):
                    results[i] = result

        if seconds is None:
            work()
        elif seconds > 0:
            run_within(seconds, work)
        return results[:]

    async def aexecute(self, requests: Sequence[LeafRequest], seconds: float | None = None) -> list[Any]:
        """Carry out requests as ``execute`` does, without blocking; batches of different kinds run at the same time."""
        results: list[Any] = [LATE] * len(requests)
        if not requests or (seconds is not None and seconds <= 0):
            return results
        groups = _groups(requests)
        tasks = [asyncio.ensure_future(self._aexecute_group([requests[i] for i in group])) for group in groups]
        try:
            done, _ = await asyncio.wait(tasks, timeout=seconds)
        finally:
            for task in tasks:
                task.cancel()  # late ones; all of them, if the caller itself was cancelled
        for group, task in zip(groups, tasks):
            for i, value in zip(group, task.result() if task in done else ()):
                results[i] = value
        return results

    def _execute_group(self, group: list[Any]) -> list[Any]:
        try:
            return _check_results(group, self._call(group))
        except Exception as error:  # raised inside the flows that asked, where they may catch it
            return [error] * len(group)

    async def _aexecute_group(self, group: list[Any]) -> list[Any]:
        try:
            return _check_results(group, await self._acall(group))
        except Exception as error:
            return [error] * len(group)

    def _call(self, group: list[Any]) -> list[Any]:
        first = group[0]
        if (method := _METHODS.get(type(first))) is not None:
            return _as_list(getattr(self.model(first.model), method)(group))
        if isinstance(first, TokenIds):
            return _split_ids(self.model(first.model).token_ids(_strings(group)), group)
        if isinstance(first, Retrieve):
            return _retrieve_all(_require(self.retriever, "retriever"), group)
        if isinstance(first, Read):
            return list(_require(self.reader, "reader").read(group))
        if isinstance(first, Judge):
            return _judge_all(_require(getattr(self, first.by), first.by), group)
        if isinstance(first, Rate):
            return [tuple(rated) for rated in _rater(self.critic).rate(group)]
        if isinstance(first, Compute):
            return [_computed(request) for request in group]
        return _embed_all(_require(self.embedder, "embedder"), group)

    async def _acall(self, group: list[Any]) -> list[Any]:
        first = group[0]
        if (method := _METHODS.get(type(first))) is not None:
            return _as_list(await getattr(self.model(first.model), f"a{method}")(group))
        if isinstance(first, TokenIds):
            return _split_ids(await self.model(first.model).atoken_ids(_strings(group)), group)
        # Everything else is computation without an async form: a thread keeps the event loop free.
        if isinstance(first, Retrieve) and hasattr(self.retriever, "aretrieve"):
            return list(await asyncio.gather(*(_aretrieve(self.retriever, r) for r in group)))
        return await in_thread(self._call, group)


def _computed(request: Compute) -> Any:
    try:
        return request.work()
    except Exception as error:  # raised inside the flow that asked, and in no other of the batch
        return error


def _rater(critic: object) -> PassageRater:
    if not isinstance(critic, PassageRater):
        raise InputError("This needs the shipped critic.", hint="pip install 'selfreflect-rag[offline]'")
    return critic


def _require(resource: T | None, name: str) -> T:
    if resource is None:
        raise InputError(f"This pipeline needs a {name}, and the engine has none.", hint=f"SelfReflectEngine({name}=…)")
    return resource


def _groups(requests: Sequence[LeafRequest]) -> list[list[int]]:
    # Requests of one kind to one model (or one judge) can share a batch; dicts keep the order of first requests.
    groups: dict[tuple[type, str], list[int]] = {}
    for i, request in enumerate(requests):
        asked = getattr(request, "model", "") or getattr(request, "by", "")
        groups.setdefault((type(request), asked), []).append(i)
    return list(groups.values())


def _bug(said: str) -> LanguageModelError:
    return LanguageModelError(f"A backend gave {said}.", hint="This is a bug of the backend.")


def _as_list(results: object) -> list[Any]:
    if isinstance(results, (list, tuple)):
        return list(results)
    raise _bug(f"a {type(results).__name__} where a list of results belongs")


def _check_count(group: list[Any], results: list[Any]) -> list[Any]:
    if len(results) != len(group):
        raise _bug(f"{len(results)} results for {len(group)} requests")
    return results


def _check_results(group: list[Any], results: list[Any]) -> list[Any]:
    """Return the results, with an error in the place of each that is none for its request."""
    return [_checked(request, result) for request, result in zip(group, _check_count(group, results))]


def _checked(request: LeafRequest, result: Any) -> Any:
    wanted = _RESULTS.get(type(request))
    if wanted is None or isinstance(result, Exception):
        return result
    if not isinstance(result, wanted):
        return _bug(f"a {type(result).__name__} where a {wanted.__name__} belongs")
    if not isinstance(request, Generate) or not isinstance(result, Generation):
        return result
    if len(result.samples) < request.params.n:
        return _bug(f"{len(result.samples)} samples where {request.params.n} were asked for")
    texts = [getattr(sample, "text", None) for sample in result.samples]
    return result if all(isinstance(text, str) for text in texts) else _bug("a sample whose text is no string")


def _retrieval_error(query: str, error: Exception) -> Exception:
    if isinstance(error, SelfReflectError):
        return error
    hint = next((hint for kinds, hint in _RETRIEVAL_HINTS if isinstance(error, kinds)), "")
    if isinstance(error, TypeError) and "NoneType" in str(error):
        hint = _NOT_NONE
    failed = f"Retrieving passages for {query[:80]!r} failed: {type(error).__name__}: {error}"
    wrapped = RetrievalError(failed, hint=hint)
    wrapped.__cause__ = error
    from shared_core.lm.chat.failures import as_both  # when something failed only

    return as_both(wrapped, error, {})  # who retries on ConnectionError catches this one too


_NOT_NONE = "A retriever returns a list, and an empty one where it finds nothing: look for a missing return."
_RETRIEVAL_HINTS: tuple[tuple[type[Exception], str], ...] = (
    (TimeoutError, "What the retriever searches answers too slowly: check that it is well, or give it more time."),
    (ConnectionError, "What the retriever searches cannot be reached: check that it runs, and its address."),
)


def _keywords(request: Retrieve) -> dict[str, Any]:
    return {"k": request.k} if request.where is None else {"k": request.k, "where": request.where}


def _with_text(found: Iterable[Passage] | None) -> tuple[Passage, ...]:
    """Return the passages that can be read: a blank one holds nothing, and would stand before those that do."""
    if found is None:
        raise RetrievalError("The retriever returned None, not passages.", hint=_NOT_NONE)
    return tuple(cut_huge(p) for p in check_passages(found) if p.text.strip())


def _retrieve_all(retriever: Any, group: list[Retrieve]) -> list[Any]:
    # One k and one filter for all: ``retrieve_many`` takes no list of them.
    if len(group) > 1 and hasattr(retriever, "retrieve_many") and len({(r.k, repr(r.where)) for r in group}) == 1:
        try:
            found = retriever.retrieve_many([r.query for r in group], **_keywords(group[0]))
            return [
                _retrieval_error(request.query, one) if isinstance(one, Exception) else _with_text(one)
                for request, one in zip(group, found, strict=True)
            ]
        except Exception:  # most likely of one query: retrieve each alone, so that only that one fails
            logger.warning(
                "%s.retrieve_many failed for %d queries; each is retrieved separately.",
                type(retriever).__name__,
                len(group),
                exc_info=True,
            )
    results: list[Any] = []
    for request in group:
        try:
            results.append(_with_text(retriever.retrieve(request.query, **_keywords(request))))
        except Exception as error:
            results.append(_retrieval_error(request.query, error))
    return results


async def _aretrieve(retriever: Any, request: Retrieve) -> tuple[Passage, ...] | Exception:
    try:
        return _with_text(await retriever.aretrieve(request.query, **_keywords(request)))
    except Exception as error:
        return _retrieval_error(request.query, error)


def _judge_all(judge: SupportScorer, group: list[Judge]) -> list[Any]:
    """Judge all pairs as one batch: as verdicts if a request wants them and the judge can give them."""
    pairs, sizes = [pair for request in group for pair in request.pairs], [len(r.pairs) for r in group]
    if not any(r.verdicts for r in group):
        return _split(judge.score(pairs), sizes, tuple)
    if isinstance(judge, VerdictScorer):
        verdicts = judge.judge(pairs)
    else:
        verdicts = [None if p is None else Verdict(p) for p in judge.score(pairs)]
    return [
        found if request.verdicts else tuple(None if v is None else v.supported for v in found)
        for request, found in zip(group, _split(verdicts, sizes, tuple), strict=True)
    ]


def _embed_all(embedder: Embedder, group: list[Embed]) -> list[Any]:
    vectors = embedder.embed([text for request in group for text in request.texts])
    return _split(vectors, [len(r.texts) for r in group], lambda rows: rows)


def _strings(group: list[TokenIds]) -> list[str]:
    return [string for request in group for string in request.strings]


def _split_ids(ids: Sequence[int | None], group: list[TokenIds]) -> list[tuple[int | None, ...]]:
    _check_count(_strings(group), list(ids))
    return _split(ids, [len(r.strings) for r in group], tuple)


def _split(values: Any, sizes: list[int], make: Callable[[Any], Any]) -> list[Any]:
    parts, start = [], 0
    for size in sizes:
        parts.append(make(values[start : start + size]))
        start += size
    return parts
