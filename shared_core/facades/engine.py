"""``SelfReflectEngine``: the facade over pipelines, language models and retrievers."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import cache, partial
from typing import Self

from shared_core.calibration.binding import BindingValue
from shared_core.calibration.stack import AnyCalibration
from shared_core.conversation.answering import CONDENSED, answer_turn
from shared_core.conversation.turns import Asked
from shared_core.errors import AbstainedError, LimitError, QuestionError
from shared_core.facades.assembly import Parts, compares_meanings, load, require_retriever
from shared_core.facades.checker import Passages, SelfReflectChecker
from shared_core.lm.base import Generation, LanguageModel, SamplingParams
from shared_core.lm.identity import identity_of
from shared_core.pipelines import load_pipeline
from shared_core.pipelines.decision.decide import DecisionRequest, decide
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.decision.reasons import IN_CONVERSATION, NOTHING_ASKED
from shared_core.pipelines.extractive import replace_abstention
from shared_core.pipelines.gating.prompts import memory_prompt
from shared_core.pipelines.research.evaluate import self_evaluation_of
from shared_core.reading.base import Reader, SupportScorer
from shared_core.reading.questions import asks_nothing
from shared_core.retrieval.base import Embedder, Retriever
from shared_core.runtime import flow as flows
from shared_core.runtime.budget import Meter
from shared_core.runtime.flow import Embed, Flow, Generate, Judge, LeafRequest, Read, Report, Retrieve
from shared_core.runtime.huge import note_huge
from shared_core.runtime.replies import readable
from shared_core.runtime.requests import Deadline
from shared_core.settings import GuaranteeName, SelfReflectSettings
from shared_core.types import Answer, Event, Finished, Passage, TextDelta

_LOG = logging.getLogger(__name__)

_RESERVED_SHARE, _RESERVE = 0.3, 3.0
"""Share of a deadline that is kept for the reader, and the most seconds."""

Wrap = Callable[[int, Flow[Answer]], Flow[Answer]]
"""Replaces the flow of the question at a place, for requests that are to be changed on their way."""


class SelfReflectEngine:
    """Answers questions from documents, claim by claim with verbatim quotes, or abstains and says why.

    >>> from shared_core import Passage
    >>> from shared_core.retrieval import BM25Retriever
    >>> lamp = Passage("lamp", "The lamp of Vessen was lit in 1871.")
    >>> engine = SelfReflectEngine(BM25Retriever([lamp]))
    >>> answer = engine.answer("When was the lamp of Vessen lit?")
    >>> answer.text, answer.claims[0].citations[0].spans[0].passage_id
    ('The lamp of Vessen was lit in 1871. [1]', 'lamp')

    Args:
        retriever: anything with ``retrieve(query, k) -> passages`` (``aretrieve`` is used where it exists).
        lm: a language model backend; ``None`` answers in sentences of the documents.
        settings: see ``SelfReflectSettings``.
        reader: extractive reader; by default the shipped one, loaded at first use.
        judge: scores whether a quote supports a claim; by default the critic.
        critic: by default the shipped one, loaded at first use.
        embedder: compares samples; by default MiniLM, loaded at first use.
        models: further language models by role (``reference``, ``claim``, ``judge``); ``lm`` is ``default``, which
            is used for missing roles.
        calibrations: by purpose; read from ``settings.calibration`` if not given.

    Attributes:
        settings, resources, context: its parts.

    Raises:
        InputError: ``retriever`` cannot retrieve, ``settings`` has another type, or a role does not exist.
        SettingsError: the pipeline or policy needs a language model that is missing.
        CalibrationError: a calibration cannot be read, or was fitted for another configuration.
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
        if self.context.replies is not None:
            self.context.replies.require(**self.replies_binding)
        if self.context.guarantee is not None and self.settings.guarantee is not None:
            self.context.guarantee.require(**self.guarantee_binding(self.settings.guarantee))

    def over(
        self,
        retriever: Retriever,
        settings: SelfReflectSettings | None = None,
        *,
        calibrations: Mapping[str, AnyCalibration] | None = None,
    ) -> Self:
        """Return the same engine over another retriever; models and parts are shared, nothing is loaded again.

        Settings and calibrations replace the engine's own, where they are given.
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
        # plug-ins create an engine per question, and the estimate needs all questions
        if made.settings.expected_answerable == self.settings.expected_answerable:
            made.context = dataclasses.replace(made.context, expected=self.context.expected)
        made.context = dataclasses.replace(made.context, trust=self.context.trust)
        if calibrations is None:
            made.context = dataclasses.replace(made.context, drift=self.context.drift)
        return made

    def warm_up(self) -> Self:
        """Load models eagerly instead of at the first question, raising what that would raise. Returns the engine.

        Sends one query to the retriever and one word to the reader and the judge. A language model is asked at most
        for its abilities (models in this process are loaded when they are created).
        """
        passage = Passage("warm-up", "Ready.")
        flows.run(self.context.learn(), self.resources)
        load([Retrieve("ready?", 1, self.settings.where)], self.resources)
        read: list[LeafRequest] = []
        has_model = self.context.has_model("default")
        if not has_model or self.settings.rerank == "reading":
            read.append(Read("Ready?", (passage,), limit=1))
        if has_model and self.context.scorer is not None:
            read.append(Judge((("Ready.", "Ready."),)))
        if has_model and self._compares_meanings():
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
    def calibration_binding(self) -> dict[str, BindingValue]:
        """Configuration that a calibration of the confidence is bound to; the documents are not part of it."""
        lm = self.resources.models.get("default")
        reader = self.resources.reader.name if lm is None and self.resources.reader is not None else None
        return {
            "pipeline": self.settings.pipeline,
            "model": identity_of(lm) if lm is not None else None,
            "reader": reader,
            "top_k": self.settings.top_k,
            **self._changed("expected_answerable"),  # the prior shifts every score
        }

    @property
    def claims_binding(self) -> dict[str, BindingValue]:
        """Configuration that a calibration of claims is bound to: everything that writes or judges claims."""
        return {
            "pipeline": self.settings.pipeline,
            **{f"{role} model": identity_of(model) for role, model in self.resources.models.items()},
            "reader": self.resources.reader.name if self.context.has_reader and self.resources.reader else None,
            "judge": self.context.scorer,
            "critic": self.context.critic,
            "top_k": self.settings.top_k,
            "signals": self.settings.signals,
            "retry_short_answer": self._retry_form,
            **self._changed("expected_answerable", "rerank", "candidates"),
        }

    @property
    def replies_binding(self) -> dict[str, BindingValue]:
        """Configuration that rates of replies are bound to: who writes, in which form, and the reader beside it."""
        return {
            "pipeline": self.settings.pipeline,
            **{f"{role} model": identity_of(model) for role, model in self.resources.models.items()},
            "reader": self.resources.reader.name if self.context.has_reader and self.resources.reader else None,
        }

    def _changed(self, *names: str) -> dict[str, BindingValue]:
        """Return settings that are not at their defaults: files written before they were bound to hold for these."""
        default = type(self.settings)()
        return {n: v for n in names if (v := getattr(self.settings, n)) != getattr(default, n)}

    @property
    def _retry_form(self) -> str | None:
        """Name the prompt that asks for a short answer once more; ``None`` where it is never used."""
        settings = self.settings
        if settings.pipeline != "composed" or not settings.retry_short_answer:
            return None
        return "steps" if settings.seakr.multi_hop else "short"

    def guarantee_binding(self, kind: GuaranteeName) -> dict[str, BindingValue]:
        """Configuration that a guarantee is bound to: everything that affects claims and their scores."""
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

    def answer(self, question: str | Asked) -> Answer:
        """Answer a question; QuestionError for an empty one, AbstainedError if the policy is ``raise``.

        An ``Asked`` holds the conversation before the question; a follow-up is then made a full question first.
        """
        return flows.run(self._flow(question), self.resources, deadline=self._deadline)

    async def aanswer(self, question: str | Asked) -> Answer:
        """``answer`` without blocking the event loop."""
        return await flows.arun(self._flow(question), self.resources, deadline=self._deadline)

    def stream(self, question: str | Asked) -> Iterator[Event]:
        """Yield events as they happen; the last is ``Finished``, and the ``TextDelta`` pieces joined are its text."""
        yield from flows.stream(self._flow(question), self.resources, deadline=self._deadline)

    async def astream(self, question: str | Asked) -> AsyncGenerator[Event, None]:
        """``stream`` without blocking the event loop."""
        async with aclosing(flows.astream(self._flow(question), self.resources, deadline=self._deadline)) as events:
            async for event in events:
                yield event

    def answer_many(
        self,
        questions: Sequence[str | Asked],
        on_event: Callable[[int, Event], None] | None = None,
        *,
        wrap: Wrap | None = None,
    ) -> list[Answer | Exception]:
        """Answer many questions together, in batches for the models; a failing one gives its error in its place.

        Args:
            on_event: called with the place of a question and each of its events.
            wrap: called with the place of a question and its flow; returns the flow to run in its stead
                (``runtime.flow.intercept``). LangChain's chain marks each request with its caller this way.
        """
        todo = self._flows(questions, wrap)
        return flows.run_many(todo, self.resources, on_event, deadline=self._deadline)

    async def aanswer_many(
        self,
        questions: Sequence[str | Asked],
        on_event: Callable[[int, Event], None] | None = None,
        *,
        wrap: Wrap | None = None,
    ) -> list[Answer | Exception]:
        """``answer_many`` without blocking the event loop."""
        todo = self._flows(questions, wrap)
        return await flows.arun_many(todo, self.resources, on_event, deadline=self._deadline)

    # --- checking what others answered -------------------------------------------------------------------------

    def check(
        self, answer: str, question: str = "", passages: Passages | None = None, *, necessary: bool = False
    ) -> Answer:
        """Check an answer from elsewhere, claim by claim; ``passages=None`` retrieves for each claim.

        Arguments and errors as ``SelfReflectChecker.check``, and ``necessary`` as in its constructor: whether the model
        states each claim because of its quotes; CapabilityError if the model cannot score given texts.
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
        """Check many answers together; arguments and errors as ``SelfReflectChecker.check_many``."""
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

    @property
    def _deadline(self) -> Deadline | None:
        """The settings' deadline; its last part is kept for the reader where that may have to answer alone."""
        seconds = self.settings.deadline
        if seconds is None:
            return None
        reads = self.context.has_reader and self.context.has_model("default")
        return Deadline(seconds, min(_RESERVE, _RESERVED_SHARE * seconds) if reads else 0.0)

    def _flows(self, questions: Sequence[str | Asked], wrap: Wrap | None) -> list[Flow[Answer]]:
        todo = [self._flow(q) for q in questions]
        return todo if wrap is None else [wrap(i, flow) for i, flow in enumerate(todo)]

    def _flow(self, question: str | Asked) -> Flow[Answer]:
        asked = question if isinstance(question, Asked) else Asked(question)
        if not isinstance(asked.question, str) or not asked.question.strip():
            raised = QuestionError(f"A question must be non-empty text, not {asked.question!r}.", hint="Ask in words.")
            return flows.fail(raised)
        return self._complete(dataclasses.replace(asked, question=asked.question.strip()))

    def _complete(self, asked: Asked) -> Flow[Answer]:
        """Answer in the conversation, apply the settings for abstentions, and add the cost."""
        meter = Meter(self.settings, self.resources.calls_of)
        run = QuestionRun(self.settings, self.context)
        yield from self.context.learn()
        answer = yield from meter.watch(answer_turn(asked, partial(self._run_pipeline, meter), run))
        if answer.abstained and self.settings.on_abstain == "fallback" and answer.reason not in IN_CONVERSATION:
            answer = yield from _fall_back(answer, run, meter)
        answer = dataclasses.replace(answer, usage=meter.usage, trace=(*note_huge(answer.passages), *answer.trace))
        if answer.abstained and self.settings.on_abstain == "raise":
            raise AbstainedError(answer)
        for piece in answer.pieces():
            yield Report(TextDelta(piece))
        yield Report(Finished(answer))
        return answer

    def _run_pipeline(self, meter: Meter, question: str) -> Flow[Answer]:
        """Run the pipeline on a full question."""
        run = QuestionRun(self.settings, self.context)
        try:
            if asks_nothing(question):  # retrieval would return passages for a greeting too
                nothing = DecisionRequest(question, (), (), pipeline=self.settings.pipeline, reason=NOTHING_ASKED)
                return (yield from decide(nothing, run))
            pipeline = readable(self._pipeline(question, run), lambda why: run.note("reply", "empty", why))
            answer = yield from pipeline
            if not (answer.calibrated or answer.abstained or self.context.replies is not None):
                _warn_uncalibrated(self.settings.pipeline, self.context.has_model("default"))
        except LimitError as error:
            yield run.stop(error)
            unfinished = DecisionRequest(question, (), meter.passages, pipeline=self.settings.pipeline)
            answer = yield from decide(unfinished, run)
        return (yield from replace_abstention(answer, run))


@cache
def _warn_uncalibrated(pipeline: str, with_model: bool) -> None:
    """Warn once per process, pipeline, and whether there is a model."""
    if not with_model:
        _LOG.warning(
            "Confidences in other languages than English are fitted on a few of them only: fit them to your questions "
            "with selfreflect calibrate."
        )
        return
    _LOG.warning(
        "Confidences of the pipeline %s are not calibrated for this model: they follow a rule, not your questions. "
        "Fit them with selfreflect calibrate; Answer.calibrated says which are. Without questions of your own, "
        "selfreflect calibrate replies (in Python: measure_replies) asks built-in ones, so that more right answers of "
        "a good model are shown.",
        pipeline,
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _require_models(parts: Parts) -> None:
    """Raise SettingsError if the pipeline or a policy needs a model that is missing."""
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


def _fall_back(answer: Answer, run: QuestionRun, meter: Meter) -> Flow[Answer]:
    """Add the model's own answer, marked as unverified; ``abstained`` stays true."""
    params = SamplingParams(max_tokens=256, stop=("\nQuestion:",), seed=run.settings.seed)
    known = len(run.trace.decisions)
    try:
        question = answer.metadata.get(CONDENSED, answer.question)
        writing = readable(
            _write(Generate(memory_prompt(question), params)), lambda why: run.note("fallback", "empty", why)
        )
        own = yield from meter.watch(writing)
    except LimitError as error:
        yield run.note("fallback", "left out", error.message)
        own = ""
    answer = dataclasses.replace(answer, trace=(*answer.trace, *run.trace.decisions[known:]))
    text = f"{answer.text}\nFrom the model's own knowledge, not from the documents, unverified: {own}" if own else ""
    return dataclasses.replace(
        answer, text=text or answer.text, metadata={**answer.metadata, "fallback": bool(own), "own_knowledge": own}
    )


def _write(request: Generate) -> Flow[str]:
    written: Generation = yield request
    return written.text.strip()
