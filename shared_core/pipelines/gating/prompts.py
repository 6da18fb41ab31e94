"""SeaKR's prompts: demonstrations, passages where there are any, the question, the steps so far; what is asked then."""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.lm.base import Prompt
from shared_core.settings import Demonstration
from shared_core.types import Passage

ANSWER_LEAD = " So the answer is"
SENTENCE_STOP = ". "
STEP_STOPS = (SENTENCE_STOP, "\n")
"""One step is one sentence."""
ANSWER_STOPS = ("\n",)

CONFIDENCE_ASK = (
    "\n\nHow sure are you that what was just written is right, from 0 to 100? Reply with the number only.\nConfidence:"
)
SUFFICIENCY_ASK = "\n\nIs the knowledge at hand sufficient to answer? Reply with yes or no only.\nSufficient:"
TRUTH_ASK = "\n\nIs what was just written true or false? It is"
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
        prompt += Prompt.untrusted(" " + " ".join(steps))
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
