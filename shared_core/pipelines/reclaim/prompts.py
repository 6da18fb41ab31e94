"""ReClaim's prompts with their worked answers, and the tags of its output.

O = r₁ c₁ r₂ c₂ …: ``According to the citation: <reference> r </reference> We can know that: <claim> c </claim>``.
Passages, questions and a model's own output are untrusted: their text never becomes a control token.

The forms hold no words where a model is to write its own: small models copy them ("one sentence" was the claim of a
135M-parameter model in 10 of 16 answers). An ellipsis that is copied is recognised as empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from shared_core.citation import AnswerFormat, split_sentences
from shared_core.lm.base import Prompt
from shared_core.pipelines.evidence import headings_of, ours, theirs, titled
from shared_core.types import Passage, Span

# The grammar's own layout: tags of prompts and grammars must agree to the blank.
LAYOUT = AnswerFormat()
REFERENCE_LEAD, CLAIM_END, PAIR_GAP = LAYOUT.prefix, LAYOUT.suffix, LAYOUT.joiner
REFERENCE_END = " </reference>"
CLAIM_LEAD = LAYOUT.middle.removeprefix(REFERENCE_END)

_TASK = (
    "Answer the question from the passages, one claim at a time. Before each claim quote, word for word, the sentence "
    "or sentences of the passages that it rests on. Write nothing that the quote does not say. Use this form, as often "
    f"as needed:\n{REFERENCE_LEAD}…{REFERENCE_END}{CLAIM_LEAD}…{CLAIM_END}\n"
    "If the passages do not answer the question, write nothing.\n\n"
)
_CLAIM_TASK = "After each quoted reference, state in one sentence what can be known from it and from nothing else."
_CLAIM_FORM = f" Use this form:\n{REFERENCE_LEAD}…{REFERENCE_END}{CLAIM_LEAD}…{CLAIM_END}"
_ISOLATED_TASK = (
    "State in one sentence what can be known from the quoted reference and from nothing else. Use no knowledge of your "
    "own, repeat nothing that was said before, and reply with the sentence only.\n\n"
)
_FREE_TASK = (
    "Answer the question from the numbered sentences, one claim at a time. A claim is a sentence of your own that "
    "follows from the sentences it names and answers the question. Write each claim on a line of exactly this form, "
    "naming the sentences it rests on by their numbers:\n<reference>S2, S3</reference><claim>…</claim>\nUse no "
    "knowledge of your own. If the sentences do not answer the question, write only: NO ANSWER\n\n"
)


@dataclass(frozen=True, slots=True)
class WrittenPair:
    """A reference and its claim, as text of the output."""

    reference: str
    claim: str


def numbered_passages(passages: Sequence[Passage]) -> Prompt:
    """Show passages with their titles, numbered from 1."""
    prompt = Prompt()
    for i, passage in enumerate(passages, 1):
        # Titles come from documents too, and are as untrusted as their text.
        prompt += ours(f"[{i}] ") + theirs(titled(passage)) + ours("\n\n")
    return prompt


def numbered_sentences(sentences: Sequence[Span], passages: Sequence[Passage]) -> Prompt:
    """Show sentences, numbered from S1, under the titles and headings of the passages that hold them.

    Headings between them are shown without a number: they are never quoted, but say what a sentence is about. Further
    lines of a sentence are indented, so that no document's line looks like a numbered one.

    Args:
        sentences: all of these passages, in their order, but for headings, which are what stands between them.
    """
    by_id = {p.id: p for p in passages}
    prompt = Prompt()
    last: Span | None = None
    known: set[str] = set()
    for i, span in enumerate(sentences, 1):
        passage = by_id.get(span.passage_id)
        follows = last is not None and last.passage_id == span.passage_id
        if not follows:
            above = headings_of(passage) if passage is not None else ""
            known = {" ".join(part.split()) for part in above.split(" > ")}
            prompt += ours("\n# ") + theirs(above or "Passage") + ours("\n")
        if passage is not None:
            for heading in _headings(passage.text[last.end if last and follows else 0 : span.start]):
                if heading not in known:
                    prompt += ours("## ") + theirs(heading) + ours("\n")
        prompt += ours(f"S{i}: ") + theirs(re.sub(r"\s*[\n\r]\s*", "\n    ", span.text.strip())) + ours("\n")
        last = span
    return prompt


def _headings(between: str) -> list[str]:
    """Return the headings in what stands between two sentences, without their marks."""
    lines = (" ".join(line.strip("#=* \t").split()) for line in between.splitlines())
    return [line for line in lines if any(map(str.isalpha, line)) or line.isdigit()]


def render_pairs(pairs: Sequence[WrittenPair]) -> Prompt:
    """Render complete pairs as the beginning of the assistant's message."""
    prompt = Prompt()
    for i, pair in enumerate(pairs):
        gap = PAIR_GAP if i else ""
        prompt += Prompt.trusted(gap + REFERENCE_LEAD, "assistant") + Prompt.untrusted(pair.reference, "assistant")
        prompt += Prompt.trusted(REFERENCE_END + CLAIM_LEAD, "assistant") + Prompt.untrusted(pair.claim, "assistant")
        prompt += Prompt.trusted(CLAIM_END, "assistant")
    return prompt


def _styled(style: str | None) -> Prompt:
    """Put the wish for how claims are worded behind a task (``ReclaimSettings.style``)."""
    return ours(f"{style.strip()}\n\n") if style else Prompt()


def _examples(rendered: Sequence[str]) -> Prompt:
    """Put worked answers between the task and the question; nothing if there are none."""
    if not rendered:
        return Prompt()
    shown = "\n\n".join(f"Example {i}:\n{text}" for i, text in enumerate(rendered, 1))
    return ours(f"{shown}\n\nEnd of the examples.\n\n")


def reference_prompt(
    question: str,
    passages: Sequence[Passage],
    pairs: Sequence[WrittenPair],
    demonstrations: int = 0,
    style: str | None = None,
) -> Prompt:
    """Word the prompt of the reference model: task, passages, question and the output so far.

    Generation continues the assistant's message, where the next reference or the end is due.

    Args:
        demonstrations: worked answers to show, 0 … 3; trained models saw none.
        style: how claims are to be worded, where the same model writes them.
    """
    examples = _examples([w.render() for w in WORKED[:demonstrations]])
    task = ours(_TASK) + _styled(style) + examples + numbered_passages(passages)
    # The output comes last: what stands before it is the same at every step, and is computed once.
    return task + ours("Question: ") + theirs(question) + render_pairs(pairs)


def claim_prompt(
    pairs: Sequence[WrittenPair],
    reference: str,
    demonstrations: int = 0,
    *,
    form: bool = True,
    style: str | None = None,
) -> Prompt:
    """Word the prompt of the claim model: only the output so far, so that claims can rest on nothing but quotes.

    Args:
        pairs, reference: written so far, and the quote that a claim is due on.
        demonstrations: worked answers to show, 0 … 3.
        form: describe the form, as trained models saw it. Untrained ones copy its "…" as their claim; without it they
            write a sentence.
    """
    gap = PAIR_GAP if pairs else ""
    block = Prompt.trusted(gap + REFERENCE_LEAD, role="assistant") + Prompt.untrusted(reference, role="assistant")
    # No blank at the end: tokenizers join a blank to the word after it, and a blank token by itself is rare.
    lead = Prompt.trusted((REFERENCE_END + CLAIM_LEAD).rstrip(), role="assistant")
    examples = _examples([w.render_pairs() for w in WORKED[:demonstrations]])
    task = ours(_CLAIM_TASK + (_CLAIM_FORM if form else "") + "\n") + _styled(style)
    return task + examples + render_pairs(pairs) + block + lead


def isolated_prompt(claims: Sequence[str], reference: str, style: str | None = None) -> Prompt:
    """Word the claim step for models that cannot continue a given text: the quote and the claims before it.

    It shows neither question nor passages, as for the claim model.
    """
    prompt = ours(_ISOLATED_TASK) + _styled(style) + ours("Reference: ") + theirs(reference)
    if claims:
        prompt += ours("\nSaid before: ") + theirs(" ".join(claims))
    return prompt + ours("\nClaim:")


def numbered_prompt(
    question: str,
    sentences: Sequence[Span],
    passages: Sequence[Passage],
    problems: str = "",
    demonstrations: int = 0,
    style: str | None = None,
) -> Prompt:
    """Word the prompt for models without grammars, with numbered sentences.

    Args:
        sentences: that may be cited; number i + 1 is the i-th.
        passages: that hold them, for their titles.
        problems: of the last reply, where it is asked for again.
        demonstrations: worked answers to show, 0 … 3.
    """
    prompt = ours(_FREE_TASK) + _styled(style)
    prompt += _examples([w.render_numbered() for w in WORKED[:demonstrations]])
    prompt += numbered_sentences(sentences, passages) + ours("\nQuestion: ") + theirs(question)
    if problems:
        prompt += ours("\nYour last reply could not be used: ") + theirs(problems)  # untrusted: they quote that reply
        prompt += ours(" Reply again in the form asked for.")
    return prompt


@dataclass(frozen=True, slots=True)
class WorkedAnswer:
    """A question, passages (title, text), and pairs of quoted sentences and claim; every quote is in a passage."""

    question: str
    passages: tuple[tuple[str, str], ...]
    pairs: tuple[tuple[tuple[str, ...], str], ...]

    @classmethod
    def of(cls, entry: dict[str, Any]) -> WorkedAnswer:
        """Read an entry of ``worked_answers.json``."""
        passages = tuple((title, text) for title, text in entry["passages"])
        return cls(entry["question"], passages, tuple((tuple(quotes), claim) for quotes, claim in entry["pairs"]))

    def render(self) -> str:
        """Render passages, question and pairs, for a model that sees all of them."""
        shown = "\n\n".join(f"[{i}] {title}\n{text}" for i, (title, text) in enumerate(self.passages, 1))
        return f"{shown}\n\nQuestion: {self.question}\n{self.render_pairs()}"

    def render_pairs(self) -> str:
        """Render the pairs alone, for a model that sees nothing else."""
        return PAIR_GAP.join(
            f"{REFERENCE_LEAD}{' '.join(quotes)}{REFERENCE_END}{CLAIM_LEAD}{claim}{CLAIM_END}"
            for quotes, claim in self.pairs
        )

    def render_numbered(self) -> str:
        """Render with numbered sentences, for models that cannot be constrained."""
        lines, numbers = [], dict[str, int]()
        for title, text in self.passages:
            lines.append(f"# {title}")
            for start, end in split_sentences(text):
                # Numbers run on from passage to passage, as in numbered_prompt.
                numbers[text[start:end]] = len(numbers) + 1
                lines.append(f"S{len(numbers)}: {text[start:end]}")
        lines.append(f"\nQuestion: {self.question}")
        for quotes, claim in self.pairs:
            cited = ", ".join(f"S{numbers[q]}" for q in quotes)
            lines.append(f"<reference>{cited}</reference><claim>{claim}</claim>")
        return "\n".join(lines)


# Ours, not the paper's: they show a quote of two sentences, a single pair, and passages left unused.
WORKED = tuple(
    WorkedAnswer.of(entry)
    for entry in json.loads(
        resources.files("shared_core.pipelines.reclaim").joinpath("worked_answers.json").read_text("utf-8")
    )
)
