"""ReSearch's prompts: the paper's own prompts (``prompts``: biographies) or task-neutral ones.

Questions, passages and what a model wrote are untrusted: their text never becomes a control token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.lm.base import Prompt
from shared_core.lm.chat.thoughts import find_thoughts, without_thoughts
from shared_core.pipelines.evidence import ours, theirs, titled
from shared_core.pipelines.structured import plain_text
from shared_core.settings import ResearchSettings
from shared_core.types import Passage


@dataclass(frozen=True, slots=True)
class Fact:
    """A likely claim for the next round, with the quote that supports it where there is one."""

    claim: str
    quote: str = ""


def spoken(text: str) -> str:
    """A reply without the model's thoughts: backends of servers take them out, models in this process do not.

    Nothing, where the thoughts have no end: the answer was never begun. Of JSON the answer in it.
    """
    thoughts = find_thoughts(text)
    return plain_text(without_thoughts(text)) if thoughts.finished else ""


def write_prompt(
    question: str, passages: Sequence[Passage], facts: Sequence[Fact], options: ResearchSettings
) -> Prompt:
    """Ask for one candidate answer; with ``facts`` it is P_rewrite, without P_write."""
    if options.published.prompts == "biography":
        if facts:
            prompt = biography_rewrite_prompt(question, [f.claim for f in facts])
        else:
            prompt = (safe_biography_prompt if options.published.safe_prompt else biography_prompt)(question)
        return prompt + _passages(passages)
    about = " from the passages and from nothing else" if passages else ""
    most = options.published.max_sentences
    prompt = ours(
        f"Answer the question{about} in up to {most} full sentences, each understandable by itself. "
        "Write nothing but the answer."
    )
    if options.published.safe_prompt:
        prompt += ours(" If you do not know the answer, reply only: I do not know.")
    if facts:
        prompt += ours(" The answer should include, but not be limited to, the following facts. Facts:")
        for fact in facts:
            prompt += ours("\n- ") + theirs(fact.claim)
            # With passages, likely claims carry their quotes; the paper's facts have none.
            if fact.quote:
                prompt += ours(" (“") + theirs(fact.quote) + ours("”)")
    return prompt + _passages(passages) + ours("\n\nQuestion: ") + theirs(question) + ours("\nAnswer:")


def _passages(passages: Sequence[Passage]) -> Prompt:
    prompt = Prompt()
    for i, passage in enumerate(passages, 1):
        prompt += ours(f"\n\n[{i}] ") + theirs(titled(passage))
    return prompt


def split_prompt(question: str, answer: str, sentence: str, options: ResearchSettings) -> Prompt:
    """Ask for the independent claims of one sentence of an answer, one on each line."""
    if options.published.prompts == "biography":
        return biography_split_prompt(question, sentence)
    return (
        ours(
            "Break the sentence down into the independent claims that it makes, one short sentence on each line, each "
            "beginning with “- ”. Each must be understandable by itself: put names for words such as “he” or “it”. "
            "Add nothing that the sentence does not say.\n\nQuestion: "
        )
        + theirs(question)
        # It says who "he" is.
        + ours("\nThe whole answer: ")
        + theirs(answer)
        + ours("\nSentence: ")
        + theirs(sentence)
        + ours("\nClaims:")
    )


def split_list_prompt(question: str, sentences: Sequence[tuple[str, str]]) -> Prompt:
    """Ask for the independent claims of several sentences at once, each behind its sentence's number.

    Args:
        sentences: each with the one before it where it refers to that ("She died."), else with an empty text.
    """
    prompt = ours(
        "Break the sentences down into the independent claims that they make, one short sentence on each line, behind "
        "the number of the sentence it is from. Each must be understandable by itself: put names for words such as "
        "“he” or “it”. Add nothing that the sentences do not say.\n\nSentences:\n1. Ada Lind, a painter, was born in "
        "Oslo and died there.\nClaims:\n1. Ada Lind was a painter.\n1. Ada Lind was born in Oslo.\n1. Ada Lind died in "
        "Oslo.\n\nQuestion: "
    )
    prompt += theirs(question) + ours("\nSentences:\n")
    for i, (sentence, before) in enumerate(sentences, 1):
        prompt += ours(f"{i}. ") + theirs(sentence)
        prompt += (ours(" (said after: “") + theirs(before) + ours("”)\n")) if before else ours("\n")
    return prompt + ours("Claims:")


def evaluate_prompt(
    question: str, sources: Sequence[str], claim: str, options: ResearchSettings, *, yes_no: bool = False
) -> Prompt:
    """Ask how probable a claim is by ``sources`` (earlier sentences of the model's own), in per cent or yes or no."""
    if options.published.prompts == "biography" and not yes_no:
        return biography_evaluate_prompt(sources, question, claim)
    prompt = Prompt()
    for source in sources:
        prompt += theirs(source) + ours("\n")
    by = "Based on these sources, what" if sources else "What"
    about = "The biography is of" if options.published.prompts == "biography" else "The question was"
    prompt += ours(f"\n{about}: ") + theirs(question)
    prompt += ours(f"\n{by} is the probability of the following claim being true? Claim: ") + theirs(claim)
    if yes_no:
        return prompt + ours("\nIs the claim true? Answer yes or no:")
    return prompt + ours("\nReply with one whole number from 0 to 100 and nothing else.\nProbability:")


# --- the paper's own prompts (Piché et al., Table 4) ---------------------------------------------------------------


def biography_prompt(entity: str) -> Prompt:
    """Write about it, known or not."""
    return ours("Write a biography of ") + theirs(entity) + ours(" of up to 4 sentences.")


def safe_biography_prompt(entity: str) -> Prompt:
    """Write about it, or say that it is not known."""
    return biography_prompt(entity) + ours(" If you do not know who that is, do not answer.")


def biography_rewrite_prompt(entity: str, facts: Sequence[str]) -> Prompt:
    """Write about it with the claims that an earlier round found likely."""
    wanted = " The biography should include, but not be limited to, the following facts. Facts: "
    return biography_prompt(entity) + ours(wanted) + theirs(" ".join(facts))


def biography_evaluate_prompt(sources: Sequence[str], entity: str, claim: str) -> Prompt:
    """Ask for a claim's probability, given sentences of earlier answers; the reply is a number from 0 to 100."""
    by = theirs(" ".join(sources)) + ours(" Based on these sources, what") if sources else ours("What")
    asked = (
        by
        + ours(" is the probability of the following claim concerning ")
        + theirs(entity)
        + ours(" being true? Claim: ")
        + theirs(claim)
    )
    return asked + ours(" Probability:")


def biography_split_prompt(entity: str, sentence: str) -> Prompt:
    """The claims of a sentence, each a sentence of its own that begins with the name."""
    task = (
        "Please breakdown the following sentence into independent claims. Each claim must be understandable as an "
        "independent sentence, and start explicitly with the name of the entity. Entity: "
    )
    return ours(task) + theirs(entity) + ours(" Sentence: ") + theirs(sentence) + ours(" Claims:")
