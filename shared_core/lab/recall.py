"""The lab's questions answered at once, from memory or from given passages, with the uncertainty of each answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.evaluation.metrics.qa import contains_answer
from shared_core.lab.questions import Question
from shared_core.lab.setup import LabSetup
from shared_core.lm.base import Prompt
from shared_core.pipelines.gating.choose import choose_estimator
from shared_core.pipelines.gating.measure import Measurement, measure
from shared_core.pipelines.gating.prompts import ANSWER_LEAD, ANSWER_STOPS, demonstrations, step_prompt
from shared_core.runtime.flow import run
from shared_core.settings import SeakrSettings, SelfReflectSettings
from shared_core.types import Passage
from shared_core.uncertainty import final_answer, is_answer

_BATCH = 10
TOKENS, CHAIN_TOKENS = 32, 96
"""Most tokens of an answer, and of an answer with the steps that lead to it."""


@dataclass(frozen=True, slots=True)
class MeasuredAnswer:
    """A question with the model's answer and its uncertainty.

    Attributes:
        question: the question that was asked.
        text: the answer; empty if the model said that it does not know.
        values: uncertainty by estimator, inf where it is unknown.
    """

    question: Question
    text: str
    values: dict[str, float]

    @property
    def right(self) -> bool:
        """Whether the answer is an accepted one."""
        return is_right(self.text, self.question)


def is_right(text: str, question: Question) -> bool:
    """Return whether a text holds an accepted answer; never true of a question without one.

    Yes and no are words of many sentences, so a text has to begin with the right one.
    """
    if not question.answers or not text:
        return False
    if question.answers[0] in ("yes", "no"):
        return text.strip().lower().startswith(question.answers[0])
    return contains_answer(text, question.answers)


def measure_answers(
    setup: LabSetup,
    questions: Sequence[Question],
    passages: Sequence[Sequence[Passage]] | None = None,
    also: Sequence[str] = (),
    options: SeakrSettings | None = None,
    *,
    stepwise: bool = False,
) -> list[MeasuredAnswer]:
    """Answer questions and measure how uncertain the model is.

    Args:
        setup: model and engines.
        questions: questions to answer.
        passages: passages for each question; answers come from memory if not given.
        also: names of estimators to compute beside that of ``options``.
        options: estimator (Gram by default) and how to sample for it.
        stepwise: ask for the steps that lead to the answer, which are measured too.
    """
    engine = setup.engine(SelfReflectSettings(seakr=options or SeakrSettings()))
    chosen = choose_estimator(engine.settings, engine.context, also=also)
    prompt_of, limit = (_chain_prompt, CHAIN_TOKENS) if stepwise else (short_prompt, TOKENS)
    found = []
    for start in range(0, len(questions), _BATCH):
        some = questions[start : start + _BATCH]
        read = passages[start : start + _BATCH] if passages is not None else [()] * len(some)
        prompts = [prompt_of(q, p) for q, p in zip(some, read)]
        asked = [q.text for q in some]
        results = run(measure(prompts, chosen, stop=ANSWER_STOPS, max_tokens=limit, question=asked), engine.resources)
        found += [_measured(q, m, chosen.estimator.name, stepwise) for q, m in zip(some, results)]
    return found


def short_prompt(question: Question, passages: Sequence[Passage] = ()) -> Prompt:
    """Return the prompt that asks for an answer of a few words, from memory or from passages."""
    return step_prompt(question.text, (), passages, demonstrations("simple"), ANSWER_LEAD)


def _chain_prompt(question: Question, passages: Sequence[Passage] = ()) -> Prompt:
    """Return the prompt that asks for an answer step by step."""
    return step_prompt(question.text, (), passages, demonstrations(SeakrSettings().published.task))


def _measured(question: Question, found: Measurement, name: str, stepwise: bool) -> MeasuredAnswer:
    # `final_answer` looks for "the answer is", which a short prompt ends with and the reply therefore lacks.
    text = final_answer(found.text if stepwise else f"the answer is {found.text}")
    known = text if text and is_answer(text) else ""
    return MeasuredAnswer(question, known, {name: found.uncertainty, **found.others})
