"""From the network's logits to candidate quotes: one per sentence, with its best short answer and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared_core.reading.features import Lacking, Shape
from shared_core.types import Passage, Span

MAX_ANSWER_TOKENS = 25

FIGURES = (
    "log_probability",  # of this sentence among all sentences read and "no answer"
    "best_log_probability",  # of the best one
    "answer_log_odds",  # all sentences read against "no answer"
    "margin",  # to the best other sentence
    "span_logit",  # of its best short answer, against "no answer"
    "span_share",  # log share of that short answer among the sentence's
    "agreement",  # the best span of everything lies in this sentence
    "window",  # the network's verdict on the window
    "best_window",  # and on the best window read
    "coverage",  # share of the question's content words in the sentence
    "window_coverage",  # and in its window or title
    "missing_numbers",  # question numbers that are neither in the window nor in the title
    "missing_names",  # capitalised question words likewise
    "missing_rarest",  # rarity of the rarest missing content word
    "rank",  # of the passage
    "question_words",  # log of their number
    "typed",  # the short answer is of the kind asked for (a number, a date, a name); 0.5 where no kind is asked for
    "first",  # the sentence is the reader's first choice
    "links",  # words of the question that relate one thing to another: many where it takes several steps
    "elsewhere",  # rarity of the rarest question word that the passage lacks and another one holds
    "nowhere",  # and of the rarest that no passage holds
    "sentence_rarest",  # and of the rarest that neither sentence nor title holds
    "asks_how",  # the question asks how something is or is done: often for an opinion
    "verifier_window",  # by the verifier: all sentences of the window against "no answer"
    "verifier_sentence",  # and this one
    "verifier_alone",  # and this one, read without the rest of its window
    "verifier_supports",  # log-odds by the verifier that it alone supports question and short answer as a claim
)
"""Figures of each candidate that probabilities are computed from, in this order."""


class Verdict(NamedTuple):
    """Log-odds that the verifier gives a candidate when it reads it again; ``figures`` has them.

    Attributes:
        window, sentence, alone: of an answer in the window, in the sentence there, and in the sentence by itself.
        supports: that the sentence by itself supports question and short answer as a claim.
    """

    window: float
    sentence: float
    alone: float
    supports: float


@dataclass(slots=True)
class Candidate:
    """One sentence of one passage.

    Attributes:
        passage: number of the passage in the request.
        start, end: the sentence, code points of the passage.
        score: what candidates are ranked by, comparable within one request; 0 is "no answer".
        answer: code points of the best short answer in it.
        span: logit of that short answer; ``span_share`` its log share among all of the sentence.
        window: the network's verdict on the sentence's window.
        coverage, window_coverage: shares of the question's content words.
        missing: (numbers, names, rarest) of the question's words that the window lacks.
        typed: the short answer is of the kind asked for.
        verdict: on reading it again; ``None`` for a candidate that was not read again.
        place: number of the window among those read closely.
        lacking: the question's words that the passage lacks; ``sentence_rarest`` the rarest one's rarity that neither
            the sentence nor the title holds.
        conflicts: where it says something else than the question asks (``conflicts.CONFLICTS``).
        defines: 1 for the definition of the option or variable whose meaning is asked, and for the setting that is
            asked for (``entries``); -1 where the documents of the command do not have the option, or the block not the
            setting, for what says that someone did it where who is asked, and for what has no number where how many is
            asked; 2 for rows that a whole table leaves (``cells.Chosen``); 0 for everything else.
        joined: it is a whole list, not a sentence (``lists``).
        chosen: it is one of several rows of a table that the question asks for by their values (``row_values``).
        untold: it does not tell what the question's form asks for (``told``).
    """

    passage: int
    start: int
    end: int
    score: float
    answer: tuple[int, int]
    span: float
    span_share: float
    window: float
    coverage: float
    window_coverage: float
    missing: tuple[float, float, float]
    typed: float
    verdict: Verdict | None = None
    place: int = 0
    lacking: Lacking = Lacking(0.0, 0.0)
    sentence_rarest: float = 0.0
    conflicts: frozenset[str] = frozenset()
    defines: int = 0
    joined: bool = False
    chosen: bool = False
    untold: bool = False


def log_sum(values: NDArray[np.float64]) -> float:
    """log Σ exp, -inf for none."""
    if not len(values):
        return float("-inf")
    top = float(values.max())
    return top if not np.isfinite(top) else top + float(np.log(np.exp(values - top).sum()))


def best_span(start: NDArray[np.float64], end: NDArray[np.float64]) -> tuple[int, int, float, float]:
    """Find the best span of a sentence: first and last token, logit (mean of both ends), log share among all spans.

    Args:
        start, end: (n,) logits of the sentence's tokens, n at least 1.
    """
    n = len(start)
    both = start[:, None] + end[None, :]
    offset = np.arange(n)[None, :] - np.arange(n)[:, None]
    allowed = (offset >= 0) & (offset < MAX_ANSWER_TOKENS)
    both = np.where(allowed, both, -np.inf)
    first, last = np.unravel_index(int(both.argmax()), both.shape)
    logit = float(both[first, last])
    return int(first), int(last), logit / 2, logit - log_sum(both[allowed])


def trim_answer(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a short answer without brackets, quotation marks and signs of Markdown of which it has only one half.

    >>> text = "Ring Ann (0800 555) or **Bo**."
    >>> [text[slice(*trim_answer(text, *place))] for place in ((5, 19), (10, 19), (25, 29), (5, 8))]
    ['Ann (0800 555)', '0800 555', 'Bo', 'Ann']
    """
    while end - start > 1:
        answer = text[start:end]
        for opening, closing in _PAIRS:
            inside = answer.removeprefix(opening).removesuffix(closing)
            opens, closes = answer.startswith(opening), answer.endswith(closing)
            if opens and closing not in answer[len(opening) :] and inside[:1].isalnum():
                start += len(opening)
                break
            if closes and opening not in answer[: -len(closing)] and inside[-1:].strip():
                end -= len(closing)
                break
        else:
            return start, end
    return start, end


_PAIRS = (("(", ")"), ("[", "]"), ("“", "”"), ('"', '"'), ("**", "**"), ("*", "*"), ("`", "`"))


def figures(candidates: list[Candidate], question: Shape) -> NDArray[np.float64]:
    """(len(candidates), len(FIGURES)) for candidates that are sorted best first."""
    scores = np.array([c.score for c in candidates], dtype=np.float64)
    total = log_sum(scores)
    with_null = float(np.logaddexp(0.0, total))
    spans = np.array([c.span for c in candidates])
    best_span_at = int(spans.argmax()) if len(spans) else -1
    best_window = max((c.window for c in candidates), default=0.0)
    verdicts = np.array([c.verdict for c in candidates if c.verdict is not None] or [Verdict(*[0.0] * 4)])
    least = verdicts.min(axis=0)
    rows = []
    for i, c in enumerate(candidates):
        verdict = least if c.verdict is None else c.verdict
        other = scores[1] if i == 0 and len(scores) > 1 else scores[0] if i else 0.0
        rows.append(
            (
                c.score - with_null,
                scores[0] - with_null,
                total,
                min(max(c.score - other, -10.0), 10.0),
                c.span,
                c.span_share,
                i == best_span_at,
                c.window,
                best_window,
                c.coverage,
                c.window_coverage,
                *c.missing,
                c.passage,
                np.log1p(question.words),
                c.typed,
                i == 0,
                question.links,
                *c.lacking,
                c.sentence_rarest,
                question.asks_how,
                *verdict,
            )
        )
    return np.array(rows, dtype=np.float64).reshape(-1, len(FIGURES))


def distinct(candidates: list[Candidate], texts: list[str]) -> list[Candidate]:
    """Sort by score and keep each sentence once, since overlapping chunks share sentences; ties keep their order."""
    order = sorted(range(len(candidates)), key=lambda i: -candidates[i].score)
    seen: set[str] = set()
    out = []
    for i in order:
        text = " ".join(texts[i].split())
        if text not in seen:
            seen.add(text)
            out.append(candidates[i])
    return out


def candidates_at(
    spans: Sequence[Span],
    numbers: Mapping[str, int],
    out: Sequence[Candidate],
    ranked: Sequence[Candidate],
    passages: Sequence[Passage],
) -> tuple[int | None, ...]:
    """For each span the number in ``ranked`` of the best sentence it overlaps, also if it occurs elsewhere too."""
    by_text: dict[str, int] = {}
    for i, c in enumerate(ranked):
        by_text.setdefault(" ".join(passages[c.passage].text[c.start : c.end].split()), i)
    found: list[int | None] = []
    for span in spans:
        number = numbers.get(span.passage_id)
        here = [c for c in out if c.passage == number and c.start < span.end and span.start < c.end]
        texts = [" ".join(passages[c.passage].text[c.start : c.end].split()) for c in here]
        whole = (i for i, c in enumerate(ranked) if c.passage == number and c.start < span.end and span.start < c.end)
        found.append(min((by_text[t] for t in texts if t in by_text), default=next(whole, None)))
    return tuple(found)
