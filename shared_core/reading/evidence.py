"""Figures of a claim and its evidence, which the critic's probabilities are computed from.

The network was trained on evidence of a sentence or two. On a page, with most of a claim's words standing somewhere,
what it says alone is less than what it says together with which words are there; so both count. What comparing facts
finds counts beside them, and does not decide alone: in a paraphrase a name or number that seems missing often is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shared_core.citation.facts import compare_claim
from shared_core.citation.sentences import split_sentences
from shared_core.reading.features import NUMBER, NUMBER_WORD, RARITY, Words, is_among
from shared_core.reading.network import REFUTED, log_odds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared_core.reading.prepared import Beside

EVIDENCE_FIGURES = (
    "whole",  # log-odds of "supported" by the window of the evidence that supports best, -15 to 15
    "sentence",  # the same of the one sentence that holds most of the claim's words
    "around",  # the same of that sentence with its neighbours
    "words",  # share of the claim's words in the evidence
    "rare_words",  # the same of content words' stems, weighed by their rarity
    "nearest",  # the same within one sentence
    "numbers",  # -ln(1 + numbers of the claim that the evidence lacks)
    "refuted",  # P("refuted") by the window that supports best, as the network says
    "contradicted",  # -1 if a fact of the claim is contradicted (``citation.facts``), else 0
    "missing",  # -1 if the evidence lacks one of the claim's facts, else 0
)


def evidence_figures(claim: Beside, text: str, evidence: str) -> NDArray[np.float64] | None:
    """(len(EVIDENCE_FIGURES),) of one claim, given also as text; ``None`` where either text has no words."""
    said, held = claim.words, claim.words_of(evidence)
    whole = [logits.support for logits in claim.read(evidence)]
    if not whole or not len(said) or not len(held):
        return None
    sentences = split_sentences(evidence)
    shares = [_rare_share(said, claim.words_of(evidence[a:b])) for a, b in sentences]
    best = max(whole, key=log_odds)
    alone, around = _close_by(claim, evidence, sentences, shares) or (log_odds(best), log_odds(best))
    facts = compare_claim(text, evidence)
    numbers = said.static[:, [NUMBER, NUMBER_WORD]].any(axis=1) & ~is_among(said.stem, np.unique(held.stem))
    return np.array(
        [
            log_odds(best),
            alone,
            around,
            float(is_among(said.exact, np.unique(held.exact)).mean()),
            _rare_share(said, held),
            max(shares, default=0.0),
            -np.log1p(numbers.sum()),
            float(np.exp(best[REFUTED])),
            -float(facts.refuted),
            -float(not all(m.refuted for m in facts.mismatches)),
        ]
    )


def _close_by(
    claim: Beside, evidence: str, sentences: Sequence[tuple[int, int]], shares: Sequence[float]
) -> tuple[float, float] | None:
    """Log-odds by the sentence that holds most of the claim, and by it with its neighbours; ``None`` for one alone."""
    if len(sentences) < 2:
        return None
    at = int(np.argmax(shares))
    first, last = max(0, at - 1), min(len(sentences) - 1, at + 1)
    texts = [evidence[slice(*sentences[at])], evidence[sentences[first][0] : sentences[last][1]]]
    found = [[log_odds(logits.support) for logits in claim.read(text)] for text in texts]
    return (max(found[0]), max(found[1])) if all(found) else None


def _rare_share(said: Words, held: Words) -> float:
    """The share of a claim's content stems in a text, weighed by rarity; of all words where all are function words."""
    content = ~said.stop
    stems, first = np.unique(said.stem[content], return_index=True)
    if not len(stems):
        return float(is_among(said.stem, np.unique(held.stem)).mean())
    weights = said.static[content, RARITY][first] + 1e-6
    return float(weights[is_among(stems, np.unique(held.stem))].sum() / weights.sum())
