"""Alternative tokens of a model at each place of a sentence, and whether they mean the same.

For claim-conditioned probability (``uncertainty.tokens``). The judge of entailment is asked about the sentence so far
with either word; the shipped critic, where there is no judge, about the two words alone: it goes by words in common,
and of two sentences that differ in one word it would find nearly all supported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.citation import split_sentences
from shared_core.lm.base import Sample
from shared_core.pipelines.gating.choose import ChosenEstimator
from shared_core.reading.base import Verdict
from shared_core.runtime.flow import Flow, Judge, Together
from shared_core.support.regex import lazy_regex
from shared_core.uncertainty import (
    CONTRADICTS,
    ENTAILS,
    NEUTRAL,
    claim_uncertainties,
    is_content_word,
    pieces_of,
    token_ccp,
)

MOST = 10
"""Likely tokens looked at in each place (the paper's K)."""

LIKELY = 1e-3
"""Alternatives below this probability are not judged and count as neutral: they would change a product by less."""

_SUPPORTED = 0.5  # P(entails) from which on a judge that reports no contradiction says yes
_CONTROL = lazy_regex(r"<[^<>]*>|\[[^\[\]]*\]")
"""Control tokens, an end of sequence most likely: they say nothing else, they stop."""


@dataclass(frozen=True, slots=True)
class ClaimUncertainty:
    """A sentence of what a model wrote, with its claim-conditioned uncertainty.

    Attributes:
        uncertainty: in [0, 1], +inf where unknown.
    """

    text: str
    start: int
    end: int
    uncertainty: float


@dataclass(frozen=True, slots=True)
class JudgedAlternatives:
    """The alternatives of one text; rows are its tokens that have a part in the text.

    Attributes:
        logprobs, classes: of each row, the generated token first (``uncertainty.token_ccp``).
        functional: whether the row's word carries no meaning of its own.
        starts: (rows,) where each token begins in the text.
    """

    logprobs: tuple[tuple[float, ...], ...] = ()
    classes: tuple[tuple[float, ...], ...] = ()
    functional: tuple[bool, ...] = ()
    starts: tuple[int, ...] = ()
    text: str = ""

    @property
    def claims(self) -> tuple[ClaimUncertainty, ...]:
        """Of each sentence."""
        spans = split_sentences(self.text)
        # A token belongs to the sentence in which it begins.
        held = [[i for i, at in enumerate(self.starts) if a <= at < b] for a, b in spans]
        values = claim_uncertainties(token_ccp(self.logprobs, self.classes, functional=self.functional), held)
        return tuple(ClaimUncertainty(self.text[a:b], a, b, v) for (a, b), v in zip(spans, values))


@dataclass(frozen=True, slots=True)
class _Place:
    """A token of a text with its rivals.

    Attributes:
        start: where it begins.
        before: the sentence so far; ``word``: as generated, whole; ``others``: with each rival in its place.
        logprobs: of the generated token and each rival.
    """

    start: int
    before: str
    word: str
    others: tuple[str, ...]
    logprobs: tuple[float, ...]

    @property
    def functional(self) -> bool:
        return not is_content_word(self.word)

    def known_class(self, rival: int) -> float | None:
        """Compare a rival by its words alone; ``None`` if a judge is needed."""
        word, p = self.others[rival], self.logprobs[rival + 1]  # 0 is the generated token's
        # Rounding may lift a log-probability above 0.
        if math.isnan(p) or math.exp(min(p, 0.0)) < LIKELY:
            return NEUTRAL
        if word and self.word.casefold().startswith(word.casefold()):
            return ENTAILS  # what begins the same word may go on to spell it
        return None if is_content_word(word) else NEUTRAL  # it goes on another way, and gives no other value


def judge_alternatives(drafts: Sequence[Sample], chosen: ChosenEstimator) -> Flow[list[JudgedAlternatives]]:
    """The alternatives of each text, judged in one batch; nothing for a text of which none are known.

    Every pair of words is asked about once. What cannot be judged (another language, with the critic) is unknown.
    """
    places = [_places_of(d) for d in drafts]
    asked = [_asked(p, chosen) for p in places]
    requests = tuple(Judge(tuple(dict.fromkeys(a.values())), chosen.inferring, verdicts=chosen.judge) for a in asked)
    replies = yield Together(requests)
    found = []
    for draft, rows, pairs, request, reply in zip(drafts, places, asked, requests, replies):
        told = dict(zip(request.pairs, map(_class_of, reply)))
        found.append(
            JudgedAlternatives(
                tuple(p.logprobs for p in rows),
                tuple(_classes(i, p, pairs, told) for i, p in enumerate(rows)),
                tuple(p.functional for p in rows),
                tuple(p.start for p in rows),
                draft.text,
            )
        )
    return found


_Pairs = dict[tuple[int, int], tuple[str, str]]
"""By (row, rival): the pair to be judged."""


def _asked(places: Sequence[_Place], chosen: ChosenEstimator) -> _Pairs:
    pairs: _Pairs = {}
    for i, place in enumerate(places):
        if place.functional:
            continue  # its probability counts as 1, whatever its rivals (`token_ccp`)
        before = place.before if chosen.judge else ""
        for j, other in enumerate(place.others):
            if place.known_class(j) is None:
                # Rival first: the question is whether it entails the word that was written.
                pairs[i, j] = (before + other, before + place.word)
    return pairs


def _classes(row: int, place: _Place, pairs: _Pairs, told: dict[tuple[str, str], float]) -> tuple[float, ...]:
    rest = []
    for j in range(len(place.others)):
        known = place.known_class(j)
        # Functional words were not asked about, and of them no class counts.
        judged = told[pairs[row, j]] if (row, j) in pairs else NEUTRAL
        rest.append(judged if known is None else known)
    return (ENTAILS, *rest)  # the generated token entails itself


def _class_of(reply: Verdict | float | None) -> float:
    """The likeliest of the three. Who does not tell contradiction from silence denies what he does not support.

    That is the careful reading: a rival that is not known to say the same counts against the word.
    """
    if reply is None:
        return math.nan  # makes the whole sentence's uncertainty unknown
    if isinstance(reply, Verdict) and reply.refuted is not None:
        neutral = 1.0 - reply.supported - reply.refuted
        if reply.supported >= max(neutral, reply.refuted):
            return ENTAILS
        return CONTRADICTS if reply.refuted >= neutral else NEUTRAL
    supported = reply.supported if isinstance(reply, Verdict) else reply
    return ENTAILS if supported >= _SUPPORTED else CONTRADICTS


def _places_of(draft: Sample) -> list[_Place]:
    """The tokens that have a part in the text (an end of sequence has none), where rivals are known."""
    rows, tokens = draft.alternatives, draft.tokens
    if rows is None or tokens is None or len(rows) != len(tokens):
        return []
    found: list[_Place] = []
    text, at = draft.text, 0
    for piece in pieces_of(text, tokens):
        start, at = at, at + len(piece.text)
        for row in (rows[i] for i in piece.tokens):  # several where they are parts of one character
            found.append(_place(text, start, at, [a.token for a in row[1:]], [a.logprob for a in row]))
    return found


def _place(text: str, start: int, end: int, rivals: Sequence[str], logprobs: Sequence[float]) -> _Place:
    """Rivals as the words that they would make of the text so far."""
    while end < len(text) and not text[end].isspace():  # later tokens may spell the rest of the word
        end += 1
    # A token may begin with blanks; the word begins behind them.
    word_start = start + len(text[start:end]) - len(text[start:end].lstrip())
    if word_start == start:  # within a word, or at the beginning of the text
        while word_start > 0 and not text[word_start - 1].isspace():
            word_start -= 1
    others = []
    for rival in rivals:
        says = rival.strip() and not _CONTROL.fullmatch(rival.strip())
        # The word that the text would then end in; a rival that says nothing gets "", which counts as neutral.
        others.append((text[:start] + rival).split()[-1] if says else "")
    sentence = next((a for a, b in split_sentences(text) if a <= word_start < b), 0)
    return _Place(start, text[sentence:word_start], text[word_start:end].strip(), tuple(others), tuple(logprobs))
