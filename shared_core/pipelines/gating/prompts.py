"""SeaKR's prompts: demonstrations, passages where there are any, the question, the steps so far; what is asked then.

Demonstrations show the form ``Question: …``, ``Answer: step. step. So the answer is …``, one set for each kind of
question; pass your own with ``SeakrSettings(demonstrations=…)``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources
from types import MappingProxyType

from shared_core.errors import SettingsError
from shared_core.lm.base import Prompt
from shared_core.settings import Demonstration, SeakrSettings
from shared_core.types import Passage

ANSWER_LEAD = " So the answer is"  # the blank joins it to "Answer:" or the last step
SENTENCE_STOP = ". "  # with its blank, so that "3.5" goes on; abbreviations are written on (`measure`)
STEP_STOPS = (SENTENCE_STOP, "\n")
"""One step is one sentence."""
ANSWER_STOPS = ("\n",)  # no full stop: an answer may hold one ("J. R. Moss")

CONFIDENCE_ASK = (
    "\n\nHow sure are you that what was just written is right, from 0 to 100? Reply with the number only.\nConfidence:"
)
SUFFICIENCY_ASK = "\n\nIs the knowledge at hand sufficient to answer? Reply with yes or no only.\nSufficient:"
TRUTH_ASK = "\n\nIs what was just written true or false? It is"  # no blank at the end: " True" and " False" have theirs
"""Asked behind a prompt and what the model wrote to it."""


def step_prompt(
    question: str,
    steps: Sequence[str],
    passages: Sequence[Passage],
    demonstrations: Sequence[Demonstration],
    lead: str = "",
) -> Prompt:
    """Continue the reasoning after ``steps``; the demonstrations come first, so that all prompts share them.

    Args:
        lead: what follows the steps, for instance ``ANSWER_LEAD``.
    """
    # Demonstrations are the developer's own words, in which nobody hides control tokens.
    prompt = Prompt.trusted("\n\n".join(d.render() for d in demonstrations) + "\n\n")
    if passages:
        prompt += Prompt.trusted("Context:\n")
        for i, passage in enumerate(passages, 1):
            title = f"{passage.title}: " if passage.title else ""
            prompt += Prompt.trusted(f"[{i}] ") + Prompt.untrusted(title + passage.text) + Prompt.trusted("\n")
        prompt += Prompt.trusted("\n")
    prompt += Prompt.trusted("Answer in the same format as before.\nQuestion: ") + Prompt.untrusted(question)
    prompt += Prompt.trusted("\nAnswer:")
    if steps:
        prompt += Prompt.untrusted(" " + " ".join(steps))  # a model may repeat what a document says
    return prompt + Prompt.trusted(lead) if lead else prompt


def own_word_prompt(question: str, answer: str) -> Prompt:
    """Is this answer true or false, by what the model itself knows?"""
    return (
        Prompt.trusted("Question: ")
        + Prompt.untrusted(question)
        + Prompt.trusted("\nProposed answer: ")
        + Prompt.untrusted(answer)
        + Prompt.trusted("\nIs the proposed answer true or false? It is")
    )


def memory_prompt(question: str) -> Prompt:
    """Answer without documents: what ``on_abstain="fallback"`` shows, marked as the model's own."""
    asked = Prompt.trusted("Answer the question briefly from what you know.\nQuestion: ") + Prompt.untrusted(question)
    return asked + Prompt.trusted("\nAnswer:")


# --- demonstrations ------------------------------------------------------------------------------------------------


def _read() -> dict[str, tuple[Demonstration, ...]]:
    source = resources.files("shared_core.pipelines.gating").joinpath("demonstrations.toml")
    return {
        task: tuple(Demonstration(row["question"], tuple(row["steps"]), row["answer"]) for row in rows)
        for task, rows in tomllib.loads(source.read_text("utf-8")).items()
    }


DEMONSTRATIONS = MappingProxyType(_read())
"""Sets by the name that ``SeakrSettings.published.task`` gives."""


def demonstrations(task: str) -> tuple[Demonstration, ...]:
    """The set of that name; SettingsError that lists the names if there is none."""
    if task not in DEMONSTRATIONS:
        raise SettingsError(f"There are no demonstrations {task!r}.", hint=f"There are: {', '.join(DEMONSTRATIONS)}.")
    return DEMONSTRATIONS[task]


def chosen_demonstrations(options: SeakrSettings, task: str = "simple") -> Sequence[Demonstration]:
    """The user's own demonstrations, else the set of that name."""
    return options.demonstrations or demonstrations(task)


def demonstrations_for(options: SeakrSettings) -> Sequence[Demonstration]:
    """Those of questions as the settings expect them: of several steps, or simple ones."""
    return chosen_demonstrations(options, options.published.task if options.multi_hop else "simple")


def short_answer_prompt(question: str, passages: Sequence[Passage], options: SeakrSettings) -> Prompt:
    """Ask for the answer alone, without steps."""
    return step_prompt(question, (), passages, chosen_demonstrations(options), ANSWER_LEAD)
