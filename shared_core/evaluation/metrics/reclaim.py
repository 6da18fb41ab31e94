"""ReClaim's metrics of answers made of reference-claim pairs. All shares are in [0, 1].

Source: Xia et al., "Ground Every Sentence", section 4; code pdxthree/ReClaim ``evaluation/eval_our_format.py``.
Differences, where the published code is wrong:

- an answer without pairs, or with unequal numbers of references and claims, scores 0 (there: it is left out);
- an empty reference is no citation: it adds nothing to the redundancy score (there: a needed sentence of none, by
  which the score can pass 100%);
- the consistency ratio looks at every sentence of a reference (there: the last one is dropped).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from shared_core.citation.sentences import SentenceSplitter, split_sentences
from shared_core.errors import InputError
from shared_core.evaluation.metrics.alce import Entailment, Nli
from shared_core.types import Answer, Claim, Passage


@dataclass(frozen=True, slots=True)
class Pair:
    """A claim and the sentences it was written from.

    Attributes:
        reference_sentences: what was cited, sentence by sentence, as the model wrote it.
        reference: the sentences joined as they stood; by a space if not given.
    """

    claim: str
    reference_sentences: tuple[str, ...] = ()
    reference: str | None = None

    @property
    def premise(self) -> str:
        """The whole reference."""
        return " ".join(self.reference_sentences) if self.reference is None else self.reference


PairLike = Pair | Claim | Mapping[str, Any] | tuple[str | Sequence[str], str]
AnswerLike = Answer | Mapping[str, Any] | Sequence[PairLike]
"""An ``Answer``; a list of pairs (``Pair``, ``Claim``, ``(reference, claim)``, mappings with ``claim`` and
``reference_sentences`` and/or ``used_reference``); or ReClaim's ``{"used_references": […], "pred_sentences": […]}``."""


def pairs_of(answer: AnswerLike, splitter: SentenceSplitter = split_sentences) -> list[Pair] | None:
    """The pairs of an answer; ``None`` where references and claims differ in number.

    InputError for anything that is no answer.
    """
    if isinstance(answer, Answer):
        return [_pair(claim, splitter) for claim in answer.kept_claims]
    if isinstance(answer, Mapping):
        references, claims = answer.get("used_references"), answer.get("pred_sentences")
        if references is None or claims is None:
            raise InputError("An answer given as a mapping needs used_references and pred_sentences.")
        if len(references) != len(claims):
            return None
        return [_pair(pair, splitter) for pair in zip(references, claims)]
    given: Any = answer
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"Not an answer made of reference-claim pairs: {given!r}.")
    return [_pair(pair, splitter) for pair in given]


def _pair(pair: Any, splitter: SentenceSplitter) -> Pair:
    """Read a pair; blank sentences cite nothing, and are left out."""
    made = _as_given(pair, splitter)
    cited = tuple(s for s in made.reference_sentences if s.strip())
    return made if len(cited) == len(made.reference_sentences) else replace(made, reference_sentences=cited)


def _as_given(pair: Any, splitter: SentenceSplitter) -> Pair:
    if isinstance(pair, Pair):
        return pair
    if isinstance(pair, Claim):
        quoted = [s for citation in pair.citations for s in _split(citation.quote, splitter)]
        return Pair(pair.text, tuple(quoted))
    if isinstance(pair, Mapping):
        claim, reference, sentences = pair.get("claim"), pair.get("used_reference"), pair.get("reference_sentences")
        if sentences is None and isinstance(reference, str):
            sentences = _split(reference, splitter)
        if not isinstance(claim, str) or sentences is None:
            raise InputError(f"A pair needs claim and reference_sentences (or used_reference), not {sorted(pair)}.")
        return Pair(claim, tuple(sentences), reference)
    if isinstance(pair, (tuple, list)) and len(pair) == 2:
        reference, claim = pair
        if isinstance(reference, str):
            return Pair(claim, tuple(_split(reference, splitter)), reference)
        return Pair(claim, tuple(reference))
    raise InputError(f"A pair is (reference, claim), not {pair!r}.")


def _split(text: str, splitter: SentenceSplitter) -> list[str]:
    return [text[a:b] for a, b in splitter(text)]


class ReclaimScores(NamedTuple):
    """Result of ``reclaim_citation_scores``: means over answers, in [0, 1]; NaN without answers.

    >>> reclaim_citation_scores([[("It rains.", "It rains.")]], lambda premise, claim: claim in premise).cas
    1.0

    Attributes:
        cas: citation attribution score: share of an answer's pairs whose reference entails the claim.
        crs: citation redundancy score: share of its cited sentences that are not redundant.
        per_answer: (cas, crs) of each answer.
    """

    cas: float
    crs: float
    per_answer: tuple[tuple[float, float], ...]


def reclaim_citation_scores(
    answers: Answer | Iterable[AnswerLike], nli: Nli, *, splitter: SentenceSplitter = split_sentences
) -> ReclaimScores:
    """Compute CAS and CRS.

    A cited sentence is needed if its pair is supported and it entails the claim alone, or the reference without it
    (without all sentences equal to it) does not. A supported pair's single sentence is needed.

    Args:
        answers: answers (or one ``Answer``), see ``AnswerLike``.
        nli: judge of whether a reference entails a claim.
        splitter: splits references given as whole texts.

    Raises:
        InputError: an answer cannot be read as pairs.
    """
    answers = [answers] if isinstance(answers, Answer) else answers
    all_pairs = [pairs_of(answer, splitter) or [] for answer in answers]
    entails = Entailment(nli)
    every = list(dict.fromkeys(pair for pairs in all_pairs for pair in pairs))
    supported = dict(zip(every, entails.ask([(p.premise, p.claim) for p in every])))
    needed = _count_needed([p for p in every if supported[p]], entails)
    scores = []
    for pairs in all_pairs:
        cited = sum(len(p.reference_sentences) for p in pairs)
        cas = sum(supported[p] for p in pairs) / len(pairs) if pairs else 0.0
        scores.append((cas, sum(needed.get(p, 0) for p in pairs) / cited if cited else 0.0))
    if not scores:
        return ReclaimScores(math.nan, math.nan, ())
    cas, crs = (math.fsum(column) / len(scores) for column in zip(*scores))
    return ReclaimScores(cas, crs, tuple(scores))


def _count_needed(pairs: list[Pair], entails: Entailment) -> dict[Pair, int]:
    """Count the needed sentences of each of these (distinct, supported) pairs."""
    count = {p: int(len(p.reference_sentences) == 1) for p in pairs}
    several = [(p, s) for p in pairs if len(p.reference_sentences) > 1 for s in p.reference_sentences]
    alone = entails.ask([(s, p.claim) for p, s in several])
    rest = [pair for pair, verdict in zip(several, alone) if not verdict]
    for (p, _), verdict in zip(several, alone):
        count[p] += verdict
    without = [("\n".join(s for s in p.reference_sentences if s != left), p.claim) for p, left in rest]
    for (p, _), verdict in zip(rest, entails.ask(without)):
        count[p] += not verdict
    return count


def consistency_ratio(
    references: Answer | Iterable[str | Sequence[str]],
    passages: Iterable[Passage | str | Mapping[str, Any]] | None = None,
    *,
    splitter: SentenceSplitter = split_sentences,
) -> float:
    """Return CR: the share of cited sentences that occur verbatim in one passage; 0 if nothing is cited.

    Args:
        references: of one answer, as texts or lists of sentences; or an ``Answer``, whose kept claims' quotes count as
            the model wrote them.
        passages: ``Passage``s, texts, or mappings with ``text``; by default those of the ``Answer``.
        splitter: splits references given as texts.

    Raises:
        InputError: there are no passages, or one is not text.
    """
    if isinstance(references, Answer):
        passages = references.passages if passages is None else passages
        references = [p.reference_sentences for p in pairs_of(references, splitter) or []]
    if passages is None or isinstance(references, str):
        raise InputError("consistency_ratio needs a list of references and the passages.")
    texts = [_passage_text(p) for p in passages]
    cited = [s.strip() for r in references for s in (_split(r, splitter) if isinstance(r, str) else r)]
    cited = [s for s in cited if s]
    return sum(any(s in text for text in texts) for s in cited) / len(cited) if cited else 0.0


def _passage_text(passage: Any) -> str:
    text = passage.text if isinstance(passage, Passage) else passage
    text = text.get("text") if isinstance(text, Mapping) else text
    if not isinstance(text, str):
        raise InputError(f"A passage must be a Passage, a text or a mapping with text, not {passage!r}.")
    return text


def attribution_ratio(answer: AnswerLike, *, splitter: SentenceSplitter = split_sentences) -> float:
    """Return AR: the share of claim sentences with a citation that is not empty; 0 for an answer without claims.

    InputError if the answer cannot be read as pairs.
    """
    counts = [
        (max(1, len(splitter(pair.claim))), any(s.strip() for s in pair.reference_sentences))
        for pair in pairs_of(answer, splitter) or []
        if pair.claim.strip()
    ]
    sentences = sum(n for n, _ in counts)
    return sum(n for n, cited in counts if cited) / sentences if sentences else 0.0


def citation_length(answer: AnswerLike, *, splitter: SentenceSplitter = split_sentences) -> int:
    """Count the words in all references of an answer, split at white space."""
    return sum(len(pair.premise.split()) for pair in pairs_of(answer, splitter) or [])
