"""``SelfReflectEngine``: one facade over a pipeline, a language model and a retriever."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import cache
from typing import Self

from shared_core.calibration.binding import BindingValue
from shared_core.calibration.stack import AnyCalibration
from shared_core.errors import AbstainedError, LimitError, QuestionError, SelfReflectError
from shared_core.facades.assembly import Parts, compares_meanings, load, require_retriever
from shared_core.facades.checker import Passages, SelfReflectChecker
from shared_core.lm.base import Generation, LanguageModel, SamplingParams
from shared_core.lm.identity import identity_of
from shared_core.pipelines import load_pipeline
from shared_core.pipelines.decision.decide import DecisionRequest, decide
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.decision.reasons import NOTHING_ASKED
from shared_core.pipelines.gating.prompts import memory_prompt
from shared_core.pipelines.research.evaluate import self_evaluation_of
from shared_core.reading.base import Reader, SupportScorer
from shared_core.reading.questions import asks_nothing
from shared_core.retrieval.base import Embedder, Retriever
from shared_core.runtime import flow as flows
from shared_core.runtime.budget import Meter
from shared_core.runtime.flow import Embed, Flow, Generate, Judge, LeafRequest, Read, Report, Retrieve
from shared_core.settings import GuaranteeName, SelfReflectSettings
from shared_core.types import Answer, Event, Finished, Passage, TextDelta

_LOG = logging.getLogger(__name__)

Wrap = Callable[[int, Flow[Answer]], Flow[Answer]]
"""Replaces the flow of the question at a place, for requests that are to be changed on their way."""


class SelfReflectEngine:
    """Answers questions from documents, claim by claim with verbatim quotes, or abstains and says why.

    Args:
        retriever: anything with ``retrieve(query, k) -> passages`` (``aretrieve`` is used where it exists).
        lm: a language model backend; ``None`` answers with the documents' own sentences.
        settings: see ``SelfReflectSettings``.
        reader: extractive reader; the shipped one, loaded at first need, if none is given.
        judge: scores how far a quote supports a claim; without one the critic does.
        critic: the shipped one, loaded at first need, if none is given.
        embedder: for similarity between samples; MiniLM, loaded at first need, if none is given.
        models: further language models by role (``reference``, ``claim``, ``judge``); ``lm`` is ``default``, which
            stands in for the others.
        calibrations: by purpose; read from ``settings.calibration`` if not given.

    Attributes:
        settings, resources, context: what it is made of.

    Raises:
        InputError: ``retriever`` cannot retrieve, ``settings`` are something else, or a role does not exist.
        SettingsError: the pipeline or policy needs a language model that is not there.
        CalibrationError: the confidence's calibration cannot be read, or is of another configuration.
    """

    def __init__(
        self,
        retriever: Retriever,
        lm: LanguageModel | None = None,
        settings: SelfReflectSettings | None = None,
        *,
        reader: Reader | None = None,
        judge: SupportScorer | None = None,
        critic: SupportScorer | None = None,
        embedder: Embedder | None = None,
        models: Mapping[str, LanguageModel] | None = None,
        calibrations: Mapping[str, AnyCalibration] | None = None,
    ) -> None:
        require_retriever(retriever)
        parts = Parts.of(
            settings,
            retriever=retriever,
            lm=lm,
            models=models,
            reader=reader,
            judge=judge,
            critic=critic,
            embedder=embedder,
            calibrations=calibrations,
        )
        self.settings, self.resources, self.context = parts.settings, parts.resources, parts.context
        self._pipeline = load_pipeline(self.settings.pipeline)
        _require_models(parts)
        if "confidence" in self.context.calibrations:
            self.context.calibrations["confidence"].require(**self.calibration_binding)
        self_evaluation_of(self.settings, self.context)
        if self.context.stack is not None:
            self.context.stack.require(**self.claims_binding)
        if self.context.guarantee is not None and self.settings.guarantee is not None:
            self.context.guarantee.require(**self.guarantee_binding(self.settings.guarantee))

    def over(
        self,
        retriever: Retriever,
        settings: SelfReflectSettings | None = None,
        *,
        calibrations: Mapping[str, AnyCalibration] | None = None,
    ) -> Self:
        """The same engine over another retriever: its models and parts are shared, nothing is loaded again.

        Args:
            retriever: as for the engine.
            settings: in place of its own.
            calibrations: in place of its own.
        """
        parts = self.resources
        made = type(self)(
            retriever,
            None,
            settings if settings is not None else self.settings,
            reader=parts.reader,
            judge=parts.judge,
            embedder=parts.embedder,
            models=parts.models,
            critic=parts.critic,
            calibrations=calibrations if calibrations is not None else self.context.every_calibration,
        )
        # questions are asked one engine each, and are to be looked at together
        if made.settings.expected_answerable == self.settings.expected_answerable:
            made.context = dataclasses.replace(made.context, expected=self.context.expected)
        if calibrations is None:
            made.context = dataclasses.replace(made.context, drift=self.context.drift)
        return made

    def warm_up(self) -> Self:
        """Load now what would be loaded at the first question; raises what that would raise. Gives the engine itself.

        The retriever is asked one query for it, the reader and the judge read a word; no language model is called
        (those in this process are loaded when they are made).
        """
        passage = Passage("warm-up", "Ready.")
        load([Retrieve("ready?", 1, self.settings.where)], self.resources)
        read: list[LeafRequest] = []
        model = self.context.model("default")
        if model is None or self.settings.rerank == "reading":
            read.append(Read("Ready?", (passage,), limit=1))
        if model is not None and self.context.scorer is not None:
            read.append(Judge((("Ready.", "Ready."),)))
        if model is not None and self._compares_meanings():
            read.append(Embed(("Ready.",)))
        load(read, self.resources)
        if self.settings.pipeline == "self_rag":
            from shared_core.pipelines.self_rag.choose import require_tokens  # with its pipeline, where it is used

            flows.run(require_tokens(QuestionRun(self.settings, self.context)), self.resources)
        return self

    def _compares_meanings(self) -> bool:
        if self.settings.pipeline in ("reclaim", "research", "self_rag") or self.context.scorer is not None:
            return False
        return compares_meanings(self.settings, self.context)

    @property
    def calibration_binding(self) -> dict[str, str | int | None]:
        """What a calibration of this engine's confidence is bound to; the index and its documents are yours to mind."""
        lm = self.resources.models.get("default")
        reader = self.resources.reader.name if lm is None and self.resources.reader is not None else None
        return {
            "pipeline": self.settings.pipeline,
            "model": identity_of(lm) if lm is not None else None,
            "reader": reader,
            "top_k": self.settings.top_k,
        }

    @property
    def claims_binding(self) -> dict[str, BindingValue]:
        """What a calibration of this engine's claims (``calibrate_claims``) is bound to: all that judges and writes."""
        return {
            "pipeline": self.settings.pipeline,
            **{f"{role} model": identity_of(model) for role, model in self.resources.models.items()},
            "reader": self.resources.reader.name if self.context.has_reader and self.resources.reader else None,
            "judge": self.context.scorer,
            "critic": self.context.critic,
            "top_k": self.settings.top_k,
            "signals": self.settings.signals,
            "retry_short_answer": self._retry_form,
        }

    @property
    def _retry_form(self) -> str | None:
        """Name the prompt that asks for a short answer once more; ``None`` where it is never used."""
        settings = self.settings
        if settings.pipeline != "composed" or not settings.retry_short_answer:
            return None
        return "steps" if settings.seakr.multi_hop else "short"

    def guarantee_binding(self, kind: GuaranteeName) -> dict[str, BindingValue]:
        """What a guarantee for this engine's answers is bound to: all that decides what is found and how it scores."""
        settings = self.settings
        groups = ("seakr", "reclaim") if settings.pipeline == "composed" else (settings.pipeline,)
        written = "".join(getattr(settings, group).model_dump_json() for group in groups)
        others = {n: c.to_dict() for n, c in self.context.every_calibration.items() if n != "guarantee"}
        return {
            **self.claims_binding,
            "target_accuracy": settings.target_accuracy,
            "guarantee": kind,
            "alpha": settings.guarantee_alpha if kind != "conformal_risk_control" else None,
            "rerank": settings.rerank,
            "candidates": settings.candidates,
            "max_claims": settings.max_claims,
            "unsupported_claims": settings.unsupported_claims,
            "expected_answerable": settings.expected_answerable,
            "pipeline settings": _digest(written),
            "calibrations": _digest(json.dumps(others, sort_keys=True)) if others else None,
        }

    # --- asking ------------------------------------------------------------------------------------------------

    def answer(self, question: str) -> Answer:
        """Answer one question. Raises QuestionError for an empty one, AbstainedError if the policy is ``raise``."""
        return flows.run(self._flow(question), self.resources, deadline=self.settings.deadline)

    async def aanswer(self, question: str) -> Answer:
        """``answer`` without blocking the event loop."""
        return await flows.arun(self._flow(question), self.resources, deadline=self.settings.deadline)

    def stream(self, question: str) -> Iterator[Event]:
        """Events as they happen; the last is ``Finished``, and the ``TextDelta`` pieces joined are its text."""
        yield from flows.stream(self._flow(question), self.resources, deadline=self.settings.deadline)

    async def astream(self, question: str) -> AsyncGenerator[Event, None]:
        """``stream`` without blocking the event loop."""
        async with aclosing(
            flows.astream(self._flow(question), self.resources, deadline=self.settings.deadline)
        ) as events:
            async for event in events:
                yield event

    def answer_many(
        self,
        questions: Sequence[str],
        on_event: Callable[[int, Event], None] | None = None,
        *,
        wrap: Wrap | None = None,
    ) -> list[Answer | Exception]:
        """Answer many questions together, in batches for the models; a failing one gives its error in its place.

        Args:
            questions: any number.
            on_event: called with the place of a question and each of its events.
            wrap: called with the place of a question and its flow; returns the flow to run in its stead
                (``runtime.flow.intercept``). LangChain's chain marks each request with its caller this way.
        """
        todo = self._flows(questions, wrap)
        return flows.run_many(todo, self.resources, on_event, deadline=self.settings.deadline)

    async def aanswer_many(
        self,
        questions: Sequence[str],
        on_event: Callable[[int, Event], None] | None = None,
        *,
        wrap: Wrap | None = None,
    ) -> list[Answer | Exception]:
        """``answer_many`` without blocking the event loop."""
        todo = self._flows(questions, wrap)
        return await flows.arun_many(todo, self.resources, on_event, deadline=self.settings.deadline)

    # --- checking what others answered -------------------------------------------------------------------------

    def check(
        self, answer: str, question: str = "", passages: Passages | None = None, *, necessary: bool = False
    ) -> Answer:
        """Check an answer that was made elsewhere, claim by claim; ``passages=None`` retrieves for each claim.

        Arguments and errors as ``SelfReflectChecker.check``. ``necessary`` as there, when it is made: whether the model
        states each claim because of what it cites; CapabilityError where the model cannot score given texts.
        """
        return self._checker(necessary).check(answer, question, passages)

    async def acheck(
        self, answer: str, question: str = "", passages: Passages | None = None, *, necessary: bool = False
    ) -> Answer:
        """``check`` without blocking the event loop."""
        return await self._checker(necessary).acheck(answer, question, passages)

    def check_many(
        self,
        answers: Sequence[str],
        questions: Sequence[str] | None = None,
        passages: Sequence[Passages | None] | None = None,
        on_event: Callable[[int, Event], None] | None = None,
        *,
        necessary: bool = False,
    ) -> list[Answer | Exception]:
        """Check many answers at once; arguments and errors as ``SelfReflectChecker.check_many``."""
        return self._checker(necessary).check_many(answers, questions, passages, on_event)

    async def acheck_many(
        self,
        answers: Sequence[str],
        questions: Sequence[str] | None = None,
        passages: Sequence[Passages | None] | None = None,
        on_event: Callable[[int, Event], None] | None = None,
        *,
        necessary: bool = False,
    ) -> list[Answer | Exception]:
        """``check_many`` without blocking the event loop."""
        return await self._checker(necessary).acheck_many(answers, questions, passages, on_event)

    def _checker(self, necessary: bool) -> SelfReflectChecker:
        return SelfReflectChecker.over(Parts(self.settings, self.resources, self.context), necessary=necessary)

    # --- as a flow ---------------------------------------------------------------------------------------------

    def _flows(self, questions: Sequence[str], wrap: Wrap | None) -> list[Flow[Answer]]:
        todo = [self._flow(q) for q in questions]
        return todo if wrap is None else [wrap(i, flow) for i, flow in enumerate(todo)]

    def _flow(self, question: str) -> Flow[Answer]:
        if not isinstance(question, str) or not question.strip():
            raised = QuestionError(f"A question must be non-empty text, not {question!r}.", hint="Ask in words.")
            return _fail(raised)
        return self._complete(question.strip())

    def _complete(self, question: str) -> Flow[Answer]:
        """The pipeline's answer with what the settings say of abstentions done to it, and what it cost."""
        run, meter = QuestionRun(self.settings, self.context), Meter(self.settings)
        try:
            if asks_nothing(question):  # a greeting is near to no passage and far from none
                answer = yield from decide(
                    DecisionRequest(question, (), (), pipeline=self.settings.pipeline, reason=NOTHING_ASKED), run
                )
            else:
                answer = yield from meter.watch(self._pipeline(question, run))
        except LimitError as error:
            yield run.stop(error)
            answer = yield from decide(
                DecisionRequest(question, (), meter.passages, pipeline=self.settings.pipeline), run
            )
        if answer.abstained and self.settings.on_abstain == "fallback":
            answer = yield from _fall_back(answer, run, meter)
        answer = dataclasses.replace(answer, usage=meter.usage)
        if not (answer.calibrated or answer.abstained):
            _warn_uncalibrated(self.settings.pipeline)
        if answer.abstained and self.settings.on_abstain == "raise":
            raise AbstainedError(answer)
        for piece in answer.pieces():
            yield Report(TextDelta(piece))
        yield Report(Finished(answer))
        return answer


@cache
def _warn_uncalibrated(pipeline: str) -> None:
    """Say so once a process and pipeline."""
    _LOG.warning(
        "Confidences of the pipeline %s are not calibrated for this model: they follow a rule, not your questions. "
        "Fit them with selfreflect calibrate; Answer.calibrated says which are.",
        pipeline,
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _require_models(parts: Parts) -> None:
    """SettingsError if pipeline or policy cannot do with the models that there are."""
    settings = parts.settings
    if settings.on_abstain == "fallback":
        parts.require_model("on_abstain='fallback'")
    if settings.rerank == "uncertainty":
        parts.require_model("rerank='uncertainty'")
    name = f"pipeline={settings.pipeline!r}"
    if settings.pipeline == "reclaim":
        parts.require_model(name, "reference", "claim")
    elif settings.pipeline != "composed" or parts.resources.models:
        parts.require_model(name)


def _fail(error: SelfReflectError) -> Flow[Answer]:
    yield from ()
    raise error


def _fall_back(answer: Answer, run: QuestionRun, meter: Meter) -> Flow[Answer]:
    """The model's own answer, marked as standing on nothing; ``abstained`` stays true."""
    params = SamplingParams(max_tokens=256, stop=("\nQuestion:",), seed=run.settings.seed)
    try:
        own = yield from meter.watch(_write(Generate(memory_prompt(answer.question), params)))
    except LimitError as error:
        yield run.note("fallback", "left out", error.message)
        return dataclasses.replace(answer, trace=tuple(run.trace.decisions))
    text = f"{answer.text}\nFrom the model's own knowledge, not from the documents, unverified: {own}" if own else ""
    return dataclasses.replace(
        answer, text=text or answer.text, metadata={**answer.metadata, "fallback": bool(own), "own_knowledge": own}
    )


def _write(request: Generate) -> Flow[str]:
    written: Generation = yield request
    return written.text.strip()
