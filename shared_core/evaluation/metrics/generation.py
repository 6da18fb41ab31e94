"""Score long answers against reference texts: ROUGE-Lsum and MAUVE, from their own packages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from shared_core.citation.sentences import SentenceSplitter, split_sentences
from shared_core.errors import InputError, MissingDependencyError


def rouge_lsum(
    prediction: str,
    references: str | Iterable[str],
    *,
    stemmer: bool = True,
    splitter: SentenceSplitter = split_sentences,
) -> float:
    """Return ROUGE-Lsum F1 in [0, 1], the best over the references (package rouge-score).

    As in ALCE: lower case, one sentence a line, Porter stemmer. Average over answers for a data set (ALCE prints the
    median of bootstrap samples of that average instead).

    Args:
        prediction: answer.
        references: one or more texts.
        stemmer: compare word stems.
        splitter: finds the sentences.

    Raises:
        InputError: no reference.
        MissingDependencyError: rouge-score is not installed.
    """
    texts = [references] if isinstance(references, str) else list(references)
    if not texts:
        raise InputError("ROUGE needs at least one reference text.")
    scorer, predicted = _scorer(stemmer), _lines(prediction, splitter)
    return max(float(scorer.score(_lines(t, splitter), predicted)["rougeLsum"].fmeasure) for t in texts)


def _lines(text: str, splitter: SentenceSplitter) -> str:
    return "\n".join(text[a:b].lower() for a, b in splitter(text))  # capitals help to find sentences: split first


@lru_cache(maxsize=2)
def _scorer(stemmer: bool) -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise MissingDependencyError("rouge-score", extra="eval", purpose="ROUGE-Lsum") from error
    return RougeScorer(["rougeLsum"], use_stemmer=stemmer)


def mauve(predictions: Sequence[str], references: Sequence[str], *, model: str, **options: Any) -> float:
    """Return MAUVE in [0, 1] between two sets of texts (package mauve-text).

    Args:
        predictions: answers.
        references: human texts.
        model: name or path of a local model that embeds both (``gpt2-large`` in ALCE's tables).
        options: passed on to ``mauve.compute_mauve``.

    Raises:
        InputError: no texts.
        MissingDependencyError: mauve-text is not installed (no extra of ours holds it).
    """
    if not predictions or not references:
        raise InputError("MAUVE needs predictions and references.")
    try:
        from mauve import compute_mauve
    except ImportError as error:
        missing = MissingDependencyError("mauve-text", extra="eval", purpose="MAUVE")
        missing.hint = "pip install mauve-text"
        raise missing from error
    result = compute_mauve(
        p_text=list(predictions), q_text=list(references), featurize_model_name=model, verbose=False, **options
    )
    return float(result.mauve)
