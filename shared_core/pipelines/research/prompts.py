"""ReSearch's prompts as the paper gives them (Piché et al., Table 4): write, rewrite, evaluate, split."""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.lm.base import Prompt


def _user(text: str) -> Prompt:
    return Prompt.trusted(text, role="user")


def _said(text: str) -> Prompt:
    return Prompt.untrusted(text, role="user")


def write_prompt(entity: str) -> Prompt:
    """Write about it, known or not."""
    return _user("Write a biography of ") + _said(entity) + _user(" of up to 4 sentences.")


def safe_write_prompt(entity: str) -> Prompt:
    """Write about it, or say that it is not known."""
    return write_prompt(entity) + _user(" If you do not know who that is, do not answer.")


def rewrite_prompt(entity: str, facts: Sequence[str]) -> Prompt:
    """Write about it with the claims that an earlier round found likely."""
    wanted = " The biography should include, but not be limited to, the following facts. Facts: "
    return write_prompt(entity) + _user(wanted) + _said(" ".join(facts))


def evaluate_prompt(sources: Sequence[str], entity: str, claim: str) -> Prompt:
    """Ask for a claim's probability, given sentences of earlier answers; the reply is a number from 0 to 100."""
    asked = _said(" ".join(sources)) + _user(" Based on these sources, what is the probability of the following claim ")
    asked += _user("concerning ") + _said(entity) + _user(" being true? Claim: ") + _said(claim)
    return asked + _user(" Probability:")


def split_prompt(entity: str, sentence: str) -> Prompt:
    """The claims of a sentence, each a sentence of its own that begins with the name."""
    task = (
        "Please breakdown the following sentence into independent claims. Each claim must be understandable as an "
        "independent sentence, and start explicitly with the name of the entity. Entity: "
    )
    return _user(task) + _said(entity) + _user(" Sentence: ") + _said(sentence) + _user(" Claims:")
