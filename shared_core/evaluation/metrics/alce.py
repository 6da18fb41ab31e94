"""Compute ALCE's citation recall and precision, and claim recall, of answers that cite ``[1]``, ``[2]``, …

Source: princeton-nlp/ALCE ``eval.py`` (``compute_autoais``, ``compute_claims``), ``utils.py`` (``remove_citations``).
Scores are in [0, 1]; ALCE prints them times 100. Two bugs of the published code are not reproduced:

- ``[0]`` cites nothing (published: the last document);
- ``[1, 2]`` cites both (published: the first, and ", 2" becomes part of the sentence).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from shared_core.citation.sentences import SentenceSplitter, split_sentences
from shared_core.errors import InputError
from shared_core.reading.base import SupportScorer
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

_LIST = r"\[(\d+(?:(?:\s*,\s*\d+)+(?=\s*\]))?)"
_CITATION = lazy_regex(_LIST)
_CITATION_WITH_SPACE = lazy_regex(rf" ?{_LIST}")


class CitationScores(NamedTuple):
    """Result of ``alce_citation_scores``: means over the answers that have sentences, in [0, 1]; NaN if none has.

    >>> item = {"output": "It rains [1].", "docs": [{"title": "Sky", "text": "It rains"}]}
    >>> alce_citation_scores(item, lambda premise, claim: claim.strip(".") in premise)
    CitationScores(recall=1.0, precision=1.0, answers=1)

    Attributes:
        recall: share of sentences entailed by their cited documents together.
        precision: share of citations of supported sentences that entail the sentence alone, or are needed for it.
        answers: number of answers scored; those without a sentence are left out, as published.
    """

    recall: float
    precision: float
    answers: int


def cited_numbers(sentence: str) -> list[int]:
    """Return the numbers cited in a sentence, in order, with repetitions: ``[1][3]`` and ``[1, 3]`` give 1 and 3."""
    return [int(n) for group in _CITATION.findall(sentence) for n in group.split(",")]


def remove_citations(text: str) -> str:
    """Remove citation marks (and, as published, "]" and " |")."""
    return _CITATION_WITH_SPACE.sub("", text).replace(" |", "").replace("]", "")


def alce_citation_scores(
    data: Mapping[str, Any] | Iterable[Mapping[str, Any]],
    nli: Nli,
    *,
    at_most_citations: int | None = 3,
    qampari: bool = False,
    splitter: SentenceSplitter = split_sentences,
) -> CitationScores:
    """Compute ALCE's citation recall and precision.

    Args:
        data: items (or one) with ``output``, ``docs`` (``Passage``s, or mappings with ``title`` and ``text`` or
            ``sent``); ``sentences`` (the output's sentences) if they are known; ``question`` for ``qampari``.
        nli: judges whether a premise (documents as "Title: …\\n…", joined by newlines) entails a sentence.
        at_most_citations: only the first so many citations of a sentence count (3 in the paper); ``None`` for all.
        qampari: the output is a comma-separated list; each entry is judged after the question.

    Raises:
        InputError: an item lacks a field.
    """
    items = [data] if isinstance(data, Mapping) else list(data)
    scored = [s for s in (_sentences(item, qampari, splitter, at_most_citations) for item in items) if s]
    _judge([sentence for answer in scored for sentence in answer], Entailment(nli))
    if not scored:
        return CitationScores(math.nan, math.nan, 0)
    recall = [sum(s.supported for s in answer) / len(answer) for answer in scored]
    cited = [max(1, sum(len(s.documents) for s in answer)) for answer in scored]
    precision = [sum(s.needed for s in answer) / n for answer, n in zip(scored, cited)]
    return CitationScores(math.fsum(recall) / len(recall), math.fsum(precision) / len(precision), len(scored))


@dataclass(slots=True)
class _Sentence:
    claim: str
    documents: list[str]  # cited ones; empty if a citation points nowhere, which rejects the sentence
    supported: bool = False
    needed: int = 0

    def without(self, i: int) -> tuple[str, str]:
        return ("\n".join(self.documents[:i] + self.documents[i + 1 :]), self.claim)


def _judge(sentences: list[_Sentence], entails: Entailment) -> None:
    """Judge in three rounds of large batches: all documents together, each alone, each left out."""
    cited = [s for s in sentences if s.documents]
    for s, verdict in zip(cited, entails.ask([("\n".join(s.documents), s.claim) for s in cited])):
        s.supported = verdict
        s.needed = int(verdict and len(s.documents) == 1)
    several = [(s, i) for s in cited if s.supported and len(s.documents) > 1 for i in range(len(s.documents))]
    alone = entails.ask([(s.documents[i], s.claim) for s, i in several])
    rest = [pair for pair, verdict in zip(several, alone) if not verdict]
    for (s, _), verdict in zip(several, alone):
        s.needed += verdict
    # What is left out of a repetition is its first occurrence, as in the published code; the order tells no difference.
    for (s, _), verdict in zip(rest, entails.ask([s.without(s.documents.index(s.documents[i])) for s, i in rest])):
        s.needed += not verdict


def _sentences(item: Mapping[str, Any], qampari: bool, splitter: SentenceSplitter, cap: int | None) -> list[_Sentence]:
    output, docs = _field(item, "output"), [_document(d) for d in _field(item, "docs")]
    if item.get("sentences") is not None:
        sentences: Sequence[str] = item["sentences"]
    elif qampari:
        parts = output.rstrip().rstrip(".").rstrip(",").split(",")
        sentences = [f"{_field(item, 'question')} {part.strip()}" for part in parts]
    else:
        sentences = [output[a:b] for a, b in splitter(output)]
    return [_sentence(s, docs, cap) for s in sentences]


def _sentence(sentence: str, docs: list[str], cap: int | None) -> _Sentence:
    numbers = cited_numbers(sentence)
    exist = all(1 <= n <= len(docs) for n in numbers)
    return _Sentence(remove_citations(sentence).strip(), [docs[n - 1] for n in numbers[:cap]] if exist else [])


def _document(doc: Any) -> str:
    if isinstance(doc, Passage):
        return f"Title: {doc.title}\n{doc.text}"
    if isinstance(doc, Mapping):
        text = doc["sent"] if "sent" in doc else doc.get("text")
        if isinstance(text, str):
            return f"Title: {doc.get('title', '')}\n{text}"
    raise InputError(f"A document must be a Passage or have title and text, not {doc!r}.")


def claim_recall(data: Iterable[Mapping[str, Any]], nli: Nli) -> float:
    """Share of an item's gold claims that its output entails, mean over the items that have claims (ALCE, ELI5).

    Args:
        data: items with ``output`` and ``claims``; NaN if none has claims (the published code divides by zero).
        nli: judges whether the output without citations entails a claim.
    """
    items = [(remove_citations(_field(i, "output")), list(i.get("claims") or ())) for i in data]
    verdicts = iter(Entailment(nli).ask([(output, claim) for output, claims in items for claim in claims]))
    shares = [sum(next(verdicts) for _ in claims) / len(claims) for _, claims in items if claims]
    return math.fsum(shares) / len(shares) if shares else math.nan


def _field(item: Mapping[str, Any], name: str) -> Any:
    try:
        return item[name]
    except (KeyError, TypeError) as error:
        raise InputError(f"An item to score lacks {name!r}.") from error


Nli = Callable[[str, str], Any] | SupportScorer
"""``nli(premise, hypothesis)`` returning true/false, 0/1 or a probability; or a ``SupportScorer``, asked in batches."""


class Entailment:
    """Judge of entailment that asks ``nli`` once per distinct pair, in batches if it takes them.

    >>> Entailment(lambda premise, hypothesis: hypothesis in premise).ask([("It rains.", "rains"), ("a", "b")])
    [True, False]

    Args:
        nli: function or scorer to ask. A probability of at least 0.5 is entailment; an unknown one (``None``, NaN) is
            not.

    Raises:
        InputError: ``nli`` is neither callable nor a ``SupportScorer``.
    """

    def __init__(self, nli: Nli) -> None:
        if not isinstance(nli, SupportScorer) and not callable(nli):
            raise InputError(
                f"An NLI model must be a function (premise, hypothesis) or a SupportScorer, not {nli!r}.",
                hint="No model is downloaded by default; pass your own.",
            )
        self._nli = nli
        self._known: dict[tuple[str, str], bool] = {}

    def ask(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Return whether each premise entails its hypothesis."""
        new = list(dict.fromkeys(p for p in pairs if p not in self._known))
        if new:
            self._known.update(zip(new, map(self._decide, self._judge(new), new)))
        return [self._known[p] for p in pairs]

    def _judge(self, pairs: list[tuple[str, str]]) -> list[Any]:
        if not isinstance(self._nli, SupportScorer):
            return [self._nli(premise, hypothesis) for premise, hypothesis in pairs]
        scores = list(self._nli.score(pairs))
        if len(scores) != len(pairs):
            raise InputError(f"The SupportScorer gave {len(scores)} scores for {len(pairs)} pairs.")
        return scores

    def _decide(self, verdict: Any, pair: tuple[str, str]) -> bool:
        if verdict is None:
            return False
        try:
            value = float(verdict)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"The NLI model answered {verdict!r} about {pair!r}.", hint="Return true/false or a probability."
            ) from error
        if math.isnan(value):
            return False
        if not 0.0 <= value <= 1.0:
            raise InputError(f"The NLI model answered {value!r}, not a probability.", hint="Apply its softmax.")
        return value >= 0.5
