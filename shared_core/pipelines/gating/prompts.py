"""SeaKR's prompts: demonstrations, passages where there are any, the question, the steps so far."""

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
