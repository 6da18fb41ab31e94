"""``SelfReflectChecker``: checks answers from elsewhere against passages, claim by claim."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Self

from shared_core.calibration.stack import AnyCalibration
from shared_core.errors import InputError, SelfReflectError
from shared_core.facades.assembly import Parts
from shared_core.lm.base import LanguageModel
from shared_core.lm.chat.thoughts import without_thoughts
from shared_core.pipelines.check import STACK_LEFT_OUT, VERDICTS, check
from shared_core.pipelines.check_values import check_values
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.decision.wording import is_abstention
from shared_core.pipelines.necessity import require_scores
from shared_core.reading.base import Reader, SupportScorer
from shared_core.retrieval.base import Retriever
from shared_core.runtime import flow as flows
from shared_core.runtime.budget import Meter
from shared_core.runtime.flow import Flow, Report
from shared_core.runtime.replies import readable
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Decided, Decision, Event, Finished, Passage

_LOG = logging.getLogger(__name__)
ABSTENTION = "abstention"
"""Reason of a check of one of our own abstentions."""
MAX_ANSWER = 200_000
"""Characters of an answer to check at most, unless a checker is made for more."""
Passages = Sequence[Passage | str]
"""Passages to check against; a plain text is a passage without a title, with its position as the id."""


class SelfReflectChecker:
    """Checks whether passages support or contradict each claim of an answer. Needs no language model.

    >>> checked = SelfReflectChecker().check(
    ...     "The lamp was lit in 1871. The sea is warm.", passages=["The lamp of Vessen was lit in 1871."]
    ... )
    >>> [claim.verdict for claim in checked.claims]
    ['supported', 'unsupported']

    Args:
        retriever: finds passages if none are given; anything with ``retrieve(query, k)``, or ``None``.
        lm: a language model backend, for claims that judge and critic cannot judge (other languages).
        settings: as for the engine; ``target_accuracy``, ``top_k``, ``where`` and the limits matter here.
        judge: scores whether passages support a claim; by default the critic.
        critic: by default the shipped one, loaded at first use.
        reader: finds short answers to the question ("1871"); by default the shipped one, loaded at first use.
        models: language models by role; ``judge`` is used.
        necessary: also measure whether ``lm`` states each claim because of its quotes: ``Claim.necessity`` has the
            log-probabilities with all passages, without the cited sentences, and with these alone, at three scorings
            per claim. Needs a model that scores given texts.
        calibrations: by purpose; ``support`` is applied. Read from ``settings.calibration`` if not given. ``claims``,
            fitted to a pipeline's own answers, is not applied; log and trace say so.
        max_answer: characters of an answer at most; a longer one is refused.

    Attributes:
        settings, resources, context, necessary, max_answer: its parts.

    Raises:
        InputError: ``retriever`` cannot retrieve, ``settings`` has another type, or a role does not exist.
        CalibrationError: the settings' file of calibrations cannot be read.
        CapabilityError: ``necessary`` with a model that cannot score given texts, or without one.
    """

    def __init__(
        self,
        retriever: Retriever | None = None,
        lm: LanguageModel | None = None,
        settings: SelfReflectSettings | None = None,
        *,
        judge: SupportScorer | None = None,
        critic: SupportScorer | None = None,
        reader: Reader | None = None,
        models: Mapping[str, LanguageModel] | None = None,
        calibrations: Mapping[str, AnyCalibration] | None = None,
        necessary: bool = False,
        max_answer: int = MAX_ANSWER,
    ) -> None:
        parts = Parts.of(
            settings,
            retriever=retriever,
            lm=lm,
            models=models,
            judge=judge,
            critic=critic,
            reader=reader,
            calibrations=calibrations,
        )
        self.settings, self.resources, self.context = parts.settings, parts.resources, parts.context
        self.necessary, self.max_answer = necessary, max_answer
        if necessary:
            require_scores(self.context)
        if self.context.stack is not None:
            _LOG.warning("SelfReflectChecker: %s.", STACK_LEFT_OUT)

    @classmethod
    def over(cls, parts: Parts, *, necessary: bool = False) -> Self:
        """Create a checker that shares the parts of an engine."""
        checker = cls.__new__(cls)
        checker.necessary, checker.max_answer = necessary, MAX_ANSWER
        checker.settings, checker.resources, checker.context = parts.settings, parts.resources, parts.context
        return checker

    def with_retriever(self, retriever: Retriever | None, settings: SelfReflectSettings | None = None) -> Self:
        """Return the same checker over another retriever, sharing its parts; ``settings`` replace its own."""
        resources = dataclasses.replace(self.resources, retriever=retriever)
        checker = self.over(Parts(settings or self.settings, resources, self.context), necessary=self.necessary)
        checker.max_answer = self.max_answer
        return checker

    def check(self, answer: str, question: str = "", passages: Passages | None = None) -> Answer:
        """Check one answer; ``shared_core.pipelines.check.check`` describes the result.

        Args:
            answer: the text to check; Markdown is understood. Thoughts of a model (``<think>…</think>``) are left out,
                and offsets are those of the text without them.
            question: that it answers, if any.
            passages: to check against; ``None`` retrieves for each claim.

        Raises:
            InputError: the answer is empty, no text or longer than ``max_answer``, or there is nothing to check
                against: no passages are given, and there is no retriever.
            PassageError: two passages of one id differ.
        """
        flow = self._flow(answer, question, passages)
        return flows.run(flow, self.resources, deadline=self.settings.deadline)

    async def acheck(self, answer: str, question: str = "", passages: Passages | None = None) -> Answer:
        """``check`` without blocking the event loop."""
        flow = self._flow(answer, question, passages)
        return await flows.arun(flow, self.resources, deadline=self.settings.deadline)

    def check_values(self, values: Mapping[str, Any], question: str = "", passages: Passages | None = None) -> Answer:
        """Check each value of a structured answer, together with its name.

        >>> shelf = ["The lamp of Vessen was lit in 1871 by Ila Venn."]
        >>> checked = SelfReflectChecker().check_values({"lit_in": 1871, "lit_by": "Bob Hill"}, passages=shelf)
        >>> checked.metadata["fields"]
        {'lit_in': 'supported', 'lit_by': 'contradicted'}

        Args:
            values: texts, numbers, truth values, and lists and mappings of them; ``None`` and ``""`` state nothing.
            question, passages: as for ``check``.

        Returns:
            As ``check``, of a text that states the values; ``metadata["fields"]`` has the verdict of each by its path
            (``plans.0.price``). Which values belong together is not checked.

        Raises:
            InputError, PassageError: as ``check``.
        """
        flow = self._values_flow(values, question, passages)
        return flows.run(flow, self.resources, deadline=self.settings.deadline)

    async def acheck_values(
        self, values: Mapping[str, Any], question: str = "", passages: Passages | None = None
    ) -> Answer:
        """``check_values`` without blocking the event loop."""
        flow = self._values_flow(values, question, passages)
        return await flows.arun(flow, self.resources, deadline=self.settings.deadline)

    def stream(self, answer: str, question: str = "", passages: Passages | None = None) -> Iterator[Event]:
        """Yield events as they happen: ``ClaimSealed`` for each judged claim; the last is ``Finished``."""
        yield from flows.stream(self._flow(answer, question, passages), self.resources, deadline=self.settings.deadline)

    async def astream(
        self, answer: str, question: str = "", passages: Passages | None = None
    ) -> AsyncGenerator[Event, None]:
        """``stream`` without blocking the event loop."""
        flow = self._flow(answer, question, passages)
        async with aclosing(flows.astream(flow, self.resources, deadline=self.settings.deadline)) as events:
            async for event in events:
                yield event

    def check_many(
        self,
        answers: Sequence[str],
        questions: Sequence[str] | None = None,
        passages: Sequence[Passages | None] | None = None,
        on_event: Callable[[int, Event], None] | None = None,
    ) -> list[Answer | Exception]:
        """Check many answers together, in batches; a failing one gives its error in its place.

        Args:
            questions: one for each answer, if any.
            passages: passages for each answer, if any; ``None`` in a place retrieves.
            on_event: called with the place of an answer and each of its events (``ClaimSealed`` for a judged claim).

        Raises:
            InputError: the numbers of questions, passages and answers differ.
        """
        todo = self._flows(answers, questions, passages)
        return flows.run_many(todo, self.resources, on_event, deadline=self.settings.deadline)

    async def acheck_many(
        self,
        answers: Sequence[str],
        questions: Sequence[str] | None = None,
        passages: Sequence[Passages | None] | None = None,
        on_event: Callable[[int, Event], None] | None = None,
    ) -> list[Answer | Exception]:
        """``check_many`` without blocking the event loop."""
        todo = self._flows(answers, questions, passages)
        return await flows.arun_many(todo, self.resources, on_event, deadline=self.settings.deadline)

    def _flow(self, answer: str, question: str, passages: Passages | None) -> Flow[Answer]:
        """Create the flow that checks one answer; errors in the arguments are raised when it runs."""
        try:
            require_answer(answer, self.max_answer)
            _require_question(question)
            given = self._given(passages)
        except SelfReflectError as error:
            return flows.fail(error)
        said = without_thoughts(answer)
        if is_abstention(said, self.settings):
            return _abstention(said, question.strip(), given or (), self.settings)
        run = QuestionRun(self.settings, self.context)
        checking = check(said, question.strip(), given, run, necessary=self.necessary)
        return _complete(checking, run, thought=said != answer)

    def _values_flow(self, values: Mapping[str, Any], question: str, passages: Passages | None) -> Flow[Answer]:
        """Create the flow that checks a structured answer."""
        if not isinstance(values, Mapping):
            raise InputError(f"The values to check must be a mapping of names to values, not {values!r}.")
        _require_question(question)
        given, run = self._given(passages), QuestionRun(self.settings, self.context)
        return _complete(check_values(values, question.strip(), given, run), run)

    def _given(self, passages: Passages | None) -> list[Passage] | None:
        """Convert the passages to check against; InputError if there are none and nothing finds any."""
        if passages is None and self.resources.retriever is None:
            raise InputError(
                "There is nothing to check the answer against.",
                hint="Give passages=…, or a retriever that finds some for each claim.",
            )
        return None if passages is None else _as_passages(passages)

    def _flows(
        self, answers: Sequence[str], questions: Sequence[str] | None, passages: Sequence[Passages | None] | None
    ) -> list[Flow[Answer]]:
        asked = list(questions) if questions is not None else [""] * len(answers)
        given = list(passages) if passages is not None else [None] * len(answers)
        for name, values in (("questions", asked), ("passages", given)):
            if len(values) != len(answers):
                raise InputError(
                    f"There are {len(answers)} answers to check and {len(values)} {name}.",
                    hint=f"Give one of the {name} for each answer, or leave {name} out.",
                )
        return [self._flow(a, q, p) for a, q, p in zip(answers, asked, given, strict=True)]


def _abstention(answer: str, question: str, passages: Sequence[Passage], settings: SelfReflectSettings) -> Flow[Answer]:
    """Check one of our own abstentions: it claims nothing, so nothing in it is unsupported."""
    note = Decision("check", ABSTENTION, "the text is an abstention: it makes no claim")
    metadata = {
        "pipeline": "check",
        "target_accuracy": settings.target_accuracy,
        "passing": True,
        "verdicts": dict.fromkeys(VERDICTS, 0),
        "shares": dict.fromkeys(VERDICTS, None),
        "unchecked": [],
        "disputed": [],
        "judged_by": None,
    }
    checked = Answer(
        question, answer, passages=tuple(passages), abstained=True, reason=ABSTENTION, trace=(note,), metadata=metadata
    )
    yield Report(Decided(note))
    yield Report(Finished(checked))
    return checked


def _complete(checking: Flow[Answer], run: QuestionRun, *, thought: bool = False) -> Flow[Answer]:
    meter = Meter(run.settings)
    if thought:
        yield run.note("reply", "thoughts left out", "what a model thinks aloud is no answer")
    yield from run.abilities.learn()
    checked = yield from meter.watch(readable(checking, lambda why: run.note("reply", "empty", why)))
    checked = dataclasses.replace(checked, usage=meter.usage)
    yield Report(Finished(checked))
    return checked


def require_answer(answer: str, longest: int = MAX_ANSWER) -> None:
    """Refuse (InputError) an answer that is empty, no text, or longer than ``longest`` characters."""
    if not isinstance(answer, str) or not answer.strip():
        raise InputError(f"An answer to check must be non-empty text, not {answer!r}.")
    if len(answer) > longest:
        raise InputError(
            f"The answer has {len(answer):,} characters, and at most {longest:,} are checked.",
            hint="Check it in parts, or raise max_answer.",
        )


def _require_question(question: str) -> None:
    if not isinstance(question, str):
        raise InputError(f"The question of an answer must be text, not {question!r}.", hint="Leave it out if none.")


def _as_passages(passages: Passages) -> list[Passage]:
    if isinstance(passages, (str, Passage)) or not isinstance(passages, Sequence):
        raise InputError(f"passages must be a list, not {type(passages).__name__}.", hint="passages=[…]")
    return [Passage(f"passage {i}", p) if isinstance(p, str) else p for i, p in enumerate(passages, 1)]
