"""Compare a model's claim with the reader's own answer: do both say the same?

The reader names a few words of a sentence. A model that has read the same sentence says them in words of its own:
"1 week" for "one week", "You have to submit them within 14 days" for "submitted". So a claim that cites the sentence of
the reader is compared by stems and by what its numbers mean; any other has to hold the very words.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from shared_core.citation.facts import compare_claim
from shared_core.citation.facts.arithmetic import equal_quantity, same_quantity
from shared_core.citation.facts.quantities import Quantity, measured, quantities_of
from shared_core.citation.facts.tokens import sentences_of
from shared_core.pipelines.evidence import cited_spans, contains_words, quoted_places, words_only
from shared_core.types import Claim, Span

_MOST = 0.6
"""Share of the answer's words that a claim must hold if it says anything else; its names and numbers it must all hold.
Of "Remove the filter and clean the impeller", "Clean the filter." is not the answer."""
_Part = str | Quantity
"""The stem of a word with content, or a number."""


def same_answer(claim: Claim, own: Claim, question: str, context: str = "") -> bool:
    """Return whether a model's claim says what the reader's best quote says.

    That is so if it holds the reader's short answer or is held by it, repeats its quote, or cites the same sentence and
    gives the answer in other words.

    Args:
        own: the reader's quote, with its short answer.
        question: whose words are no answer: claim and quote may both repeat them.
        context: what else may name the things spoken of: the passage with its title.
    """
    said = words_only(claim.short_answer or claim.text)
    short = words_only(own.short_answer or "")
    asked = set(words_only(question).split())
    if set(short.split()) - asked:
        return (
            contains_words(claim.text, short)
            or (bool(set(said.split()) - asked) and contains_words(short, said))
            or _says_otherwise_worded(claim, own, question, context)
        )
    if not short and quoted_places(claim) & quoted_places(own):
        return True  # the reader names no part of the sentence that both take for the answer
    if contains_words(own.text, claim.text):
        return True
    return _tells_of_same_sentence(claim, own, question, context)


def reads_same_quote(claim: Claim, own: Claim, question: str) -> bool:
    """Return whether a claim rests on the reader's quote alone: then both hold that the quote answers.

    They may still read different answers from it: of "Noise: DW450 47 dB, DW600 42 dB" one figure each. A claim that
    takes a fact from elsewhere ("in version 3.5.2", from the heading) says that the quote alone is no answer.
    """
    cited = cited_spans(claim)
    within = bool(cited) and all(any(_overlap(a, b) for b in cited_spans(own)) for a in cited)
    return within and compare_claim(claim.text, own.text, question).agrees


def _says_otherwise_worded(claim: Claim, own: Claim, question: str, context: str) -> bool:
    """Return whether a claim that cites the reader's sentence gives the short answer in words of its own.

    It holds all names and numbers of the answer, and most other words or nothing else, in the same order; and it turns
    nothing round.
    """
    if not (_shared(claim, own) and _fits(claim, own, question, context)):
        return False
    asked, answer, said = _Said(question), _Said(own.short_answer or ""), _Said(claim.text)
    fixed: list[_Part] = [*answer.names, *answer.numbers]
    if not all(said.holds(part) for part in fixed if not asked.holds(part)):
        return False
    wanted = [part for part in answer.parts if not asked.holds(part)]
    held = [part for part in wanted if said.holds(part)]
    if not held or not said.keeps_order(held):
        return False
    further = [part for part in said.parts if not asked.holds(part) and not answer.holds(part)]
    return len(held) >= _MOST * len(wanted) or bool(fixed and not further)


def _tells_of_same_sentence(claim: Claim, own: Claim, question: str, context: str) -> bool:
    """Return whether a claim retells the sentence of the reader's quote that speaks of the question.

    For where the reader names no part of it as the answer, or only words of the question.
    """
    asked, said = _Said(question), _Said(claim.text)
    sentences = [s for s in sentences_of(own.text) if s.tokens]
    if not (_shared(claim, own) and sentences and _fits(claim, own, question, context)):
        return False
    nearest = max((_Said(s.text) for s in sentences), key=lambda s: sum(s.holds(p) for p in asked.parts))
    cited = _Said(" ".join(s.text for s in cited_spans(claim)))
    told = [part for part in said.parts if not asked.holds(part)]
    wanted = [part for part in nearest.parts if not asked.holds(part)]
    # Left out, a number may be a condition: "on flights longer than eight hours".
    if not (wanted and all(cited.holds(p) for p in nearest.parts) and all(said.holds(n) for n in nearest.numbers)):
        return False
    kept = sum(nearest.holds(part) for part in told)
    held = sum(said.holds(part) for part in wanted)
    return kept >= _MOST * len(told) and held >= _MOST * len(wanted)


def _shared(claim: Claim, own: Claim) -> bool:
    """Return whether a claim cites a part of the reader's quote, in its place or where another passage repeats it."""
    return any(
        _overlap(a, b) or words_only(a.text) == words_only(b.text) for a in cited_spans(claim) for b in cited_spans(own)
    )


def _overlap(one: Span, other: Span) -> bool:
    return one.passage_id == other.passage_id and one.start < other.end and other.start < one.end


def _fits(claim: Claim, own: Claim, question: str, context: str) -> bool:
    """Return whether no fact of a claim is missing in the reader's quote or refuted by it, negations among them."""
    facts = compare_claim(claim.text, own.text, f"{question}\n{context}")
    return facts.agrees and _is_negated(claim.text) == _is_negated(own.text)


def _is_negated(text: str) -> bool:
    return any(s.is_negated for s in sentences_of(text))


class _Said:
    """Words with content and numbers of a text, in order, to look up in those of another."""

    def __init__(self, text: str) -> None:
        taken = measured(text)
        words = [(s.start + t.start, t) for s in sentences_of(text) for t in s.tokens]
        content = [(at, t) for at, t in words if t.is_content and at not in taken]
        self.numbers = quantities_of(text)
        self.names = [t.key for _, t in content if t.is_capitalised and not t.first]
        placed: list[tuple[int, _Part]] = [*((at, t.key) for at, t in content), *((q.start, q) for q in self.numbers)]
        self.parts = [part for _, part in sorted(placed, key=lambda p: p[0])]

    def place(self, part: _Part) -> int | None:
        """Return the place among the parts of the first that says the same; ``None`` if none does."""
        same: Callable[[_Part], bool] = (
            (lambda p: p == part)
            if isinstance(part, str)
            else (lambda p: isinstance(p, Quantity) and _is_same_number(p, part))
        )
        return next((i for i, p in enumerate(self.parts) if same(p)), None)

    def holds(self, part: _Part) -> bool:
        """Return whether it says this."""
        return self.place(part) is not None

    def keeps_order(self, parts: Sequence[_Part]) -> bool:
        """Return whether parts follow in the order given, but for one: "when the tenancy ends", "the tenancy's end".

        "Remove the impeller and clean the filter" has two in another's place.
        """
        rising: list[int] = []  # the least ends of rising runs of each length
        places = [place for part in parts if (place := self.place(part)) is not None]
        for place in places:
            at = bisect_left(rising, place)
            rising[at : at + 1] = [place]
        return len(rising) >= len(places) - 1


def _is_same_number(one: Quantity, other: Quantity) -> bool:
    """Return whether two numbers are equal, be it in other units; "more than six" is not "more than eight"."""
    return equal_quantity(one, other) or (not one.hedge and same_quantity(one, other))
