"""``SelfReflectEngine``: one facade over a pipeline, a language model and a retriever."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from shared_core import flow as flows
from shared_core.defaults import LazyEmbedder, LazyReader
from shared_core.errors import AbstainedError, InputError, QuestionError, SelfReflectError, SettingsError
from shared_core.flow import Flow, Generate, Report, Resources
from shared_core.lm.base import Generation, LanguageModel, Prompt, SamplingParams
from shared_core.pipelines import Context, load_pipeline
from shared_core.reading.base import Reader, SupportScorer
from shared_core.retrieval.base import Embedder, Retriever
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Event, Finished, TextDelta, Usage
from shared_core.uncertainty.calibration import Calibration

T = TypeVar("T")


class SelfReflectEngine:
    """Answers questions from documents, claim by claim with verbatim quotes, or abstains and says why.

    Args:
        retriever: anything with ``retrieve(query, k) -> passages`` (``aretrieve`` is used where it exists).
        lm: a language model backend; ``None`` answers with the documents' own sentences.
        settings: see ``SelfReflectSettings``.
        reader: extractive reader; the shipped one is loaded at first need.
        judge: scores how far a quote supports a claim; needed by pipelines that write.
        embedder: for similarity between samples; loaded at first need.
        models: further language models by role (``reference``, ``claim``, …); ``lm`` is ``default``.
        calibrations: by purpose; read from ``settings.calibration`` if not given.

    Raises:
        InputError: the retriever is none, or the settings are of another type.
        SettingsError: the pipeline or policy needs a language model and there is none.
    """

    def __init__(
        self,
        retriever: Retriever,
        lm: LanguageModel | None = None,
        settings: SelfReflectSettings | None = None,
        *,
        reader: Reader | None = None,
        judge: SupportScorer | None = None,
        embedder: Embedder | None = None,
        models: Mapping[str, LanguageModel] | None = None,
        calibrations: Mapping[str, Calibration] | None = None,
    ) -> None:
        self.settings = settings if settings is not None else SelfReflectSettings()
        _check(retriever, self.settings)
        roles = {**({"default": lm} if lm is not None else {}), **(models or {})}
        _check_models(roles, self.settings)
        self._pipeline = load_pipeline(self.settings.pipeline)
        self.resources = Resources(
            models=roles,
            retriever=retriever,
            reader=reader if reader is not None else LazyReader(),
            judge=judge,
            embedder=embedder if embedder is not None else LazyEmbedder(),
        )
        loaded = calibrations if calibrations is not None else _load_calibrations(self.settings)
        if "confidence" in loaded:
            loaded["confidence"].require(**self.calibration_binding)
        self._context = Context(
            capabilities={role: model.capabilities for role, model in roles.items()},
            names={
                **{role: model.name for role, model in roles.items()},
                **({"judge_scorer": judge.name} if judge is not None else {}),
            },
            calibrations=loaded,
            has_judge=judge is not None,
            has_embedder=True,
        )

    @property
    def calibration_binding(self) -> dict[str, str | int | None]:
        """What a calibration of this engine's confidence is bound to; the index and its documents are yours to mind."""
        lm = self.resources.models.get("default")
        reader = self.resources.reader.name if lm is None and self.resources.reader is not None else None
        return {
            "pipeline": self.settings.pipeline,
            "model": lm.name if lm is not None else None,
            "reader": reader,
            "top_k": self.settings.top_k,
        }

    # --- asking ------------------------------------------------------------------------------------------------

    def answer(self, question: str) -> Answer:
        """Answer one question. Raises QuestionError for an empty one, AbstainedError if the policy is ``raise``."""
        return flows.run(self._flow(question), self.resources)

    async def aanswer(self, question: str) -> Answer:
        """``answer`` without blocking the event loop."""
        return await flows.arun(self._flow(question), self.resources)

    def stream(self, question: str) -> Iterator[Event]:
        """Events as they happen; the last is ``Finished``, and the ``TextDelta`` pieces joined are its text."""
        yield from flows.stream(self._flow(question), self.resources)

    async def astream(self, question: str) -> AsyncGenerator[Event, None]:
        """``stream`` without blocking the event loop."""
        async with aclosing(flows.astream(self._flow(question), self.resources)) as events:
            async for event in events:
                yield event

    def answer_many(
        self, questions: Sequence[str], on_event: Callable[[int, Event], None] | None = None
    ) -> list[Answer | Exception]:
        """Answer many questions at once, in batches for the models; a failing one gives its error in its place."""
        return flows.run_many([self._flow(q) for q in questions], self.resources, on_event)

    async def aanswer_many(
        self, questions: Sequence[str], on_event: Callable[[int, Event], None] | None = None
    ) -> list[Answer | Exception]:
        """``answer_many`` without blocking the event loop."""
        return await flows.arun_many([self._flow(q) for q in questions], self.resources, on_event)

    # --- as a flow ---------------------------------------------------------------------------------------------

    def _flow(self, question: str) -> Flow[Answer]:
        if not isinstance(question, str) or not question.strip():
            raised = QuestionError(f"A question must be non-empty text, not {question!r}.", hint="Ask in words.")
            return _failing(raised)
        return self._finished(question.strip())

    def _finished(self, question: str) -> Flow[Answer]:
        usage = _Meter()
        answer = yield from usage.metered(self._pipeline(question, self.settings, self._context))
        if answer.abstained and self.settings.on_abstain == "fallback":
            answer = yield from usage.metered(_fall_back(answer, self.settings))
        answer = dataclasses.replace(answer, usage=usage.total)
        if answer.abstained and self.settings.on_abstain == "raise":
            raise AbstainedError(answer)
        for piece in _pieces(answer):
            yield Report(TextDelta(piece))
        yield Report(Finished(answer))
        return answer


def _check(retriever: object, settings: object) -> None:
    if not isinstance(settings, SelfReflectSettings):
        raise InputError(f"settings must be SelfReflectSettings, not {type(settings).__name__}.")
    if not callable(getattr(retriever, "retrieve", None)):
        raise InputError(
            f"{type(retriever).__name__} is no retriever: it has no retrieve(query, k).",
            hint="Use shared_core.retrieval (HybridRetriever, …), or the plugin of your framework for its retrievers.",
        )


def _check_models(models: Mapping[str, object], settings: SelfReflectSettings) -> None:
    for role, model in models.items():
        if not isinstance(model, LanguageModel):
            raise InputError(
                f"The {role} model is a {type(model).__name__}, which is no language model backend.",
                hint="Use shared_core.lm (TransformersLM, OpenAICompatibleLM, …), or the plugin of your framework.",
            )
    needs = {
        "on_abstain='fallback'": settings.on_abstain == "fallback",
        f"pipeline={settings.pipeline!r}": settings.pipeline != "composed",
        "rerank='uncertainty'": settings.rerank == "uncertainty",
    }
    what = next((name for name, needed in needs.items() if needed), None)
    if what and not models:
        raise SettingsError(
            f"{what} needs a language model, and the engine has none.", hint="Give one: SelfReflectEngine(…, lm=…)."
        )


def _load_calibrations(settings: SelfReflectSettings) -> Mapping[str, Calibration]:
    if settings.calibration is None:
        return {}
    from shared_core import calibration_io

    return calibration_io.load(settings.calibration)


def _failing(error: SelfReflectError) -> Flow[Answer]:
    yield from ()
    raise error


def _pieces(answer: Answer) -> list[str]:
    """The text cut before each claim, so that a stream shows it claim by claim."""
    cuts = [0, *sorted(c.start for c in answer.claims if c.start), len(answer.text)]
    return [answer.text[a:b] for a, b in itertools.pairwise(cuts) if a < b]


def _fall_back(answer: Answer, settings: SelfReflectSettings) -> Flow[Answer]:
    """The model's own answer, marked as standing on nothing; ``abstained`` stays true."""
    prompt = Prompt.trusted("Answer the question briefly from what you know.\nQuestion: ") + Prompt.untrusted(
        answer.question
    )
    params = SamplingParams(max_tokens=256, stop=("\nQuestion:",), seed=settings.seed)
    written: Generation = yield Generate(prompt + Prompt.trusted("\nAnswer:"), params)
    own = written.text.strip()
    text = f"{answer.text}\nFrom the model's own knowledge, not from the documents, unverified: {own}" if own else ""
    return dataclasses.replace(
        answer, text=text or answer.text, metadata={**answer.metadata, "fallback": bool(own), "own_knowledge": own}
    )


class _Meter:
    """Adds up the usage of every result that passes through."""

    def __init__(self) -> None:
        self.total = Usage()

    def metered(self, flow: Flow[T]) -> Flow[T]:
        try:
            request = next(flow)
            while True:
                try:
                    result = yield request
                except Exception as error:
                    request = flow.throw(error)
                else:
                    self._count(result)
                    request = flow.send(result)
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:
            flow.close()

    def _count(self, result: Any) -> None:
        for item in result if isinstance(result, list) else [result]:
            usage = getattr(item, "usage", None)
            if isinstance(usage, Usage):
                self.total = self.total + usage
