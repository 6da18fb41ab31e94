"""Test whether the model states a claim because of its quote, by leaving the quote out.

A claim may be supported by a sentence that had no part in its being written: the model knew it, or read it elsewhere.
So each claim is scored three times as the answer to the question: given all passages; given the same passages with the
quoted sentences cut out; given these sentences alone (leaving out and keeping alone are how ContextCite, Cohen-Wang et
al. 2024, section 2, tests attributions). This needs a model that gives log-probabilities of given texts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from shared_core.errors import CapabilityError, ContextOverflowError, LimitError
from shared_core.lm.base import Prompt, Scores
from shared_core.pipelines.decision.question_run import Abilities, QuestionRun, together
from shared_core.pipelines.evidence import cited_spans, titled
from shared_core.runtime.flow import Flow, Score
from shared_core.types import Claim, Necessity, Passage, Span

Texts = Sequence[str]
"""Texts of passages as a model reads them, titles first."""


def require_scores(context: Abilities) -> None:
    """Refuse (CapabilityError) a check of necessity without a model that gives log-probabilities of given texts."""
    model = context.model("default")
    if model is None or not model.score:
        raise CapabilityError(
            "score",
            context.model_name("default"),
            hint="necessary=True compares log-probabilities of given texts: use a transformers model, or a server with "
            "prompt_logprobs (vLLM); or leave it out.",
        )


def ask_necessity(
    question: str, claims: Sequence[Claim], passages: Sequence[Passage], run: QuestionRun
) -> Flow[list[Claim]]:
    """Add ``necessity`` to the claims that cite something, in one batch; it stays ``None`` where scoring failed."""
    cited = [i for i, c in enumerate(claims) if cited_spans(c)]
    out = list(claims)
    try:
        found = yield from _compare(question, [claims[i] for i in cited], passages)
    except LimitError as error:
        yield run.stop(error)
        return out
    for i, necessity in zip(cited, found, strict=True):
        out[i] = dataclasses.replace(claims[i], necessity=necessity)
    known = [n for n in found if n is not None]
    yield run.note(
        "necessity",
        f"{sum(n.necessary for n in known)} of {len(known)} claims need their quote",
        "by the model's log-probability of each claim with all passages, without its quote, with its quote alone",
        unknown=len(found) - len(known),
        sufficient=sum(n.sufficient for n in known),
    )
    return out


def _compare(question: str, claims: Sequence[Claim], passages: Sequence[Passage]) -> Flow[list[Necessity | None]]:
    found: list[Necessity | None] = [None] * len(claims)
    shown = [_in_reach(passages, c) for c in claims]
    left = list(range(len(claims)))
    while left:  # again with fewer passages for the claims whose prompts were too long
        requests = [
            # The prompt ends in "Answer:", so the blank belongs to what is scored.
            Score(_prompt(question, texts), (Prompt.trusted(" ") + Prompt.untrusted(claims[i].text),))
            for i in left
            for texts in _three(shown[i], cited_spans(claims[i]))
        ]
        results = yield from together(requests)
        too_long: list[int] = []
        for place, i in enumerate(left):
            three = results[3 * place : 3 * place + 3]  # with all, without the quote, with the quote alone
            # All three again, also those that fitted: they compare only if given the same passages.
            if any(isinstance(r, ContextOverflowError) for r in three) and len(shown[i]) > 1:
                shown[i] = shown[i][: max(1, len(shown[i]) // 2)]  # the cited ones come first, and stay
                too_long.append(i)
            else:
                found[i] = _read(three)
        left = too_long
    return found


def _read(three: Sequence[object]) -> Necessity | None:
    totals = [r.totals[0] for r in three if isinstance(r, Scores)]
    if len(totals) < 3 or not all(map(math.isfinite, totals)):  # differences with -inf mean nothing
        return None
    return Necessity(*totals)


def _in_reach(passages: Sequence[Passage], claim: Claim) -> list[Passage]:
    """Sort the passages, those that the claim cites first: what does not fit the context is cut off at the end."""
    cited = {s.passage_id for s in cited_spans(claim)}
    return sorted(passages, key=lambda p: p.id not in cited)


def _three(passages: Sequence[Passage], spans: Sequence[Span]) -> tuple[Texts, Texts, Texts]:
    """Return the texts of all passages; the same without the spans; the spans alone."""
    by_id = {p.id: p for p in passages}
    everything = [titled(p) for p in passages]
    without = [titled(p, rest) for p in passages if (rest := _without(p, spans)).strip()]  # no empty passage
    # With titles, as in the other two: only the quote is to make the difference.
    alone = [titled(by_id[s.passage_id], s.text) for s in spans if s.passage_id in by_id]
    return everything, without, alone


def _without(passage: Passage, spans: Sequence[Span]) -> str:
    """Cut the sentences out of a passage, wherever they occur in it."""
    text = passage.text
    # By text, not by place: a sentence repeated in another passage would give the quote back. The longest first, since
    # one may contain another.
    for span in sorted(spans, key=lambda s: -len(s.text)):
        text = text.replace(span.text, " ")
    return text


def _prompt(question: str, texts: Texts) -> Prompt:
    prompt = Prompt.trusted("Answer from these passages.\n")
    for i, text in enumerate(texts, 1):
        prompt += Prompt.trusted(f"\n[{i}] ") + Prompt.untrusted(text) + Prompt.trusted("\n")
    if question:
        prompt += Prompt.trusted("\nQuestion: ") + Prompt.untrusted(question)
    return prompt + Prompt.trusted("\nAnswer:")


def describe_necessity(necessity: Necessity) -> str:
    """Describe for readers how far the claim depends on its quote, in nats of log-probability."""
    fall = necessity.with_all - necessity.without_quote
    needed = "rests on its quote" if necessity.necessary else "as likely without its quote"
    alone = "which suffices" if necessity.sufficient else "which alone does not suffice"
    return f"{needed}: {fall:+.1f} nats, {alone}" if necessity.necessary else f"{needed}: {fall:+.1f} nats"
