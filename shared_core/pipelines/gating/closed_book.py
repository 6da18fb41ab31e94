"""Answer without passages (or with them) and measure the uncertainty: the rows that gates are calibrated on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.errors import ContextOverflowError
from shared_core.lm.base import Generation, SamplingParams
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.gating.choose import ChosenEstimator, Form, choose_estimator
from shared_core.pipelines.gating.measure import measure
from shared_core.pipelines.gating.prompts import ANSWER_LEAD, ANSWER_STOPS, STEP_STOPS, demonstrations, step_prompt
from shared_core.runtime.flow import Flow, Generate, Retrieve
from shared_core.settings import Demonstration, SelfReflectSettings
from shared_core.types import Passage
from shared_core.uncertainty import final_answer, is_answer


@dataclass(frozen=True, slots=True)
class Recalled:
    """An answer from memory.

    Attributes:
        text: the short answer; ``None`` where there is none, or the model says it does not know.
        uncertainty: of the answer (form ``answer``), or of the least certain step on the way (form ``step``): the
            gate would have retrieved nowhere if and only if this is at or below its threshold.
    """

    text: str | None
    uncertainty: float


def closed_book(question: str, run: QuestionRun, form: Form = "answer") -> Flow[Recalled]:
    """Answer without any passage, in the very prompts that SeaKR's gate measures."""
    settings = run.settings
    chosen = choose_estimator(settings, run.abilities, form=form)
    options = settings.seakr
    if form == "answer":
        prompt = step_prompt(question, (), (), _demos(settings, "simple"), ANSWER_LEAD)
        (draft,) = yield from measure([prompt], chosen, stop=ANSWER_STOPS, question=question)
        # The prompt ended in this lead: put back, so that the draft is read as its end.
        return Recalled(_real_answer(final_answer(f"the answer is {draft.text}")), draft.uncertainty)
    if form == "thought":
        return (yield from _think(question, run, chosen))
    demos = _demos(settings, options.published.task)
    steps: list[str] = []
    worst = float("-inf")
    said: str | None = None
    while said is None and len(steps) < options.max_steps:
        prompt = step_prompt(question, steps, (), demos)
        (step,) = yield from measure([prompt], chosen, stop=STEP_STOPS, question=question)
        # The gate opens at the first step above the threshold: the least certain step decides for the whole chain.
        # +inf, unknown, stays: what is unknown retrieves.
        worst = max(worst, step.uncertainty)
        if not step.text or step.text in steps:  # as SeaKR's loop stops; such a step still counts above
            break
        steps.append(step.text)
        said = final_answer(step.text)
    if said is None:
        said = yield from conclude(question, steps, (), demos, settings)
    return Recalled(_real_answer(said), worst)


def _think(question: str, run: QuestionRun, chosen: ChosenEstimator) -> Flow[Recalled]:
    """A whole chain of thought, as simple questions are answered."""
    settings = run.settings
    demos = _demos(settings, "simple")
    prompt = step_prompt(question, (), (), demos)
    limit = 4 * settings.seakr.max_step_tokens  # four steps' worth, as in SeaKR's own chain
    (thought,) = yield from measure([prompt], chosen, stop=ANSWER_STOPS, max_tokens=limit, question=question)
    said = final_answer(thought.text)
    if said is None and thought.text:
        said = yield from conclude(question, [thought.text], (), demos, settings)
    return Recalled(_real_answer(said), thought.uncertainty)


def open_book(question: str, run: QuestionRun, form: Form = "answer") -> Flow[str | None]:
    """The answer with all the passages that one retrieval finds, as far as they fit; ``None`` where there is none."""
    settings = run.settings
    # As in `closed_book`, with whose answers these are compared.
    demos = _demos(settings, settings.seakr.published.task if form == "step" else "simple")
    found: tuple[Passage, ...] = yield Retrieve(question, settings.top_k, settings.where)
    while found:
        try:
            return _real_answer((yield from conclude(question, (), found, demos, settings)))
        except ContextOverflowError:
            if settings.on_overflow == "raise":
                raise
            # The lowest-ranked passage goes first.
            found = found[:-1]
    return None


def conclude(
    question: str,
    steps: Sequence[str],
    passages: Sequence[Passage],
    demos: Sequence[Demonstration],
    settings: SelfReflectSettings,
) -> Flow[str | None]:
    """The answer after ``steps``, asked for with "So the answer is"; ``None`` where nothing is written."""
    prompt = step_prompt(question, steps, passages, demos, ANSWER_LEAD)
    params = SamplingParams(max_tokens=settings.seakr.max_step_tokens, stop=ANSWER_STOPS, seed=settings.seed)
    written: Generation = yield Generate(prompt, params)
    return final_answer(f"the answer is {' '.join(written.text.split())}")


def _demos(settings: SelfReflectSettings, task: str) -> Sequence[Demonstration]:
    return settings.seakr.demonstrations or demonstrations(task)


def _real_answer(answer: str | None) -> str | None:
    """The answer, but for one that says it does not know."""
    return answer if is_answer(answer) else None
