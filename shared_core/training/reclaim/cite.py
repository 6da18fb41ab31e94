"""Turn labels into references: find cited sentences in the passages and join them as the pipeline's grammar does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

from shared_core.citation import CitationIndex, grammar
from shared_core.errors import LanguageModelError
from shared_core.lm.base import Generation, Prompt, SamplingParams
from shared_core.pipelines.evidence import ours, theirs
from shared_core.pipelines.reclaim.prompts import REFERENCE_LEAD, numbered_sentences
from shared_core.runtime.flow import Flow, Generate, Together
from shared_core.support.regex import lazy_regex
from shared_core.training.reclaim.sources import Segment
from shared_core.types import Passage, Span


@dataclass(frozen=True, slots=True)
class Cited:
    """A reference that the pipeline's grammar can write.

    Attributes:
        quote: as a model has to write it.
        reference: as the pipeline keeps it afterwards (``CitationIndex.resolve(quote).quote``), in history and claims.
    """

    quote: str
    reference: str


@dataclass(frozen=True, slots=True)
class Found:
    """Cited spans, or the problem with them.

    Attributes:
        spans: as named by a label or a model, in that order.
        cited: the reference that they make, once it is known.
        stage: where the problem is.
        problem: ``not verbatim``, ``no sentence selected``, ``reply not understood``, ``unknown sentence``,
            ``request failed``, …; empty if there is none.
        detail: the label, the reply or the error.
    """

    spans: tuple[Span, ...] = ()
    cited: Cited | None = None
    stage: Literal["selection", "string match"] = "string match"
    problem: str = ""
    detail: str = ""


class SentenceBook:
    """The passages of one answer with their sentences."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.index = CitationIndex(passages)
        self.passages = tuple(passages)
        self.texts = {p.id: p.text for p in passages}
        self.order = {p.id: i for i, p in enumerate(self.index.passages)}
        self.number = {(s.passage_id, s.start): i for i, s in enumerate(self.index.sentences)}
        self._edges: dict[str, set[int]] = {}
        self.first = {s.text: s for s in reversed(self.index.sentences)}

    def sentences_of(self, numbers: Sequence[int]) -> tuple[Span, ...]:
        """Return the sentences of passages by their numbers (from 1); of all passages if none is given."""
        wanted = {self.passages[n - 1].id for n in numbers if 1 <= n <= len(self.passages)}
        return tuple(s for s in self.index.sentences if not numbers or s.passage_id in wanted)

    def word_edges(self, passage_id: str) -> set[int]:
        """Return the offsets at which words, white space and marks of a passage start or end."""
        if passage_id not in self._edges:
            chunks = grammar.chunk_text(self.texts[passage_id])
            self._edges[passage_id] = {0, *accumulate(map(len, chunks))}
        return self._edges[passage_id]


def read_labels(book: SentenceBook, segment: Segment) -> Found:
    """Look up the spans that a segment's labels name: numbers of sentences, or texts to find word for word."""
    spans: list[Span] = []
    for label in segment.sentences or ():
        if isinstance(label, int):
            if not 0 <= label < len(book.index):
                return _unselected("unknown sentence", str(label))
            spans.append(book.index.sentences[label])
            continue
        whole = book.first.get(label.strip())
        if whole is not None:
            spans.append(whole)
            continue
        found = book.index.resolve(label)
        if found is None:
            return Found(problem="not verbatim", detail=label)
        spans += found.primary
    if not spans:
        return _unselected("no sentence selected", "")
    return Found(tuple(spans))


def cite(
    book: SentenceBook, spans: Sequence[Span], mode: Literal["sentence", "span"], min_sentences: int, max_sentences: int
) -> Found:
    """Join spans into one reference, as the grammar of ``mode`` writes it, or name the problem.

    Sentences come in the order of the passages, each text once; those that follow each other keep the passage's own
    white space between them, others are joined by one space.
    """
    if mode == "span":
        quote = _one_span(book, spans)
        if quote is None:
            return Found(problem="not one span of words", detail=" … ".join(s.text for s in spans))
    else:
        sentences = _whole_sentences(book, spans)
        if sentences is None:
            return Found(problem="not whole sentences", detail=" … ".join(s.text for s in spans))
        if not min_sentences <= len(sentences) <= max_sentences:
            many = "too many sentences" if len(sentences) > max_sentences else "too few sentences"
            return Found(problem=many, detail=str(len(sentences)))
        quote = _join(book, sentences)
    if not grammar.is_writable(quote, book.index.layout.tags):
        return Found(problem="not citable", detail=quote)
    citation = book.index.resolve(quote)
    if citation is None:
        return Found(problem="not verbatim", detail=quote)
    return Found(cited=Cited(quote, citation.quote))


def _whole_sentences(book: SentenceBook, spans: Sequence[Span]) -> list[Span] | None:
    """Split spans into their sentences, sorted; ``None`` if a span starts or ends inside a sentence."""
    found: dict[str, Span] = {}
    for span in spans:
        start = book.number.get((span.passage_id, span.start))
        if start is None:
            return None
        last = start
        while book.index.sentences[last].end < span.end:
            last += 1
        if book.index.sentences[last].end != span.end:
            return None
        for sentence in book.index.sentences[start : last + 1]:
            found.setdefault(sentence.text, sentence)
    return sorted(found.values(), key=lambda s: (book.order[s.passage_id], s.start))


def _join(book: SentenceBook, sentences: Sequence[Span]) -> str:
    quote = sentences[0].text
    for last, sentence in pairwise(sentences):
        gap = " "
        if last.passage_id == sentence.passage_id:
            between = book.texts[last.passage_id][last.end : sentence.start]
            adjoin = book.number[sentence.passage_id, sentence.start] == book.number[last.passage_id, last.start] + 1
            gap = between if adjoin and not between.strip() else " "
        quote += gap + sentence.text
    return quote


def _one_span(book: SentenceBook, spans: Sequence[Span]) -> str | None:
    """Return the text from the first to the last span, if they share a passage with only white space between them.

    It has to start and end between words, as the grammar of spans has it.
    """
    ordered = sorted(set(spans), key=lambda s: (book.order[s.passage_id], s.start))
    text, start, end = book.texts[ordered[0].passage_id], ordered[0].start, ordered[0].end
    for span in ordered[1:]:
        if span.passage_id != ordered[0].passage_id or text[end : span.start].strip():
            return None
        end = max(end, span.end)
    return text[start:end] if {start, end} <= book.word_edges(ordered[0].passage_id) else None


def citable_claim(text: str, max_chars: int) -> str:
    """Name the reason why a text cannot be a claim; empty if it can.

    A claim ends at the tags and at the lead of a reference: text that holds one could not be read back.
    """
    if not any(c.isalnum() for c in text):
        return "no words"
    lead = REFERENCE_LEAD.split("<")[0].strip()
    if not grammar.is_writable(text, ("<reference>", "</reference>", "<claim>", "</claim>", lead)):
        return "holds a tag"
    return "too long" if len(text) > max_chars else ""


_TASK = (
    "Which of the numbered sentences support the statement? Reply with their numbers only, for example: S2, S3. Name "
    "as few as together say all of the statement. If they do not say it, reply: NONE\n"
)
_ONE = r"\[?S?\s?\d{1,6}\]?"
_REPLY = lazy_regex(rf"{_ONE}(?:(?:\s*(?:,|;|\band\b)\s*|\s+){_ONE})*\s*\.?", re.IGNORECASE)
_NONE = lazy_regex(r"none\s*\.?", re.IGNORECASE)


def selection_prompt(question: str, clause: str, sentences: Sequence[Span], passages: Sequence[Passage]) -> Prompt:
    """Build the prompt for one clause; sentences are numbered from S1 in the order given."""
    prompt = ours(_TASK) + numbered_sentences(sentences, passages) + ours("\nThe question was: ") + theirs(question)
    return prompt + ours("\nStatement: ") + theirs(clause)


def select_citations(
    question: str, clauses: Sequence[tuple[str, Sequence[Span]]], passages: Sequence[Passage], *, seed: int | None = 0
) -> Flow[list[Found]]:
    """Ask for the sentences of each clause, all at once. Each clause comes with those to choose from."""
    params = SamplingParams(max_tokens=64, seed=seed)
    requests = tuple(
        Generate(selection_prompt(question, clause, sentences, passages), params, model="selection")
        for clause, sentences in clauses
    )
    replies = yield Together(requests, return_errors=True)
    return [_read(reply, sentences) for reply, (_, sentences) in zip(replies, clauses)]


def _read(reply: object, sentences: Sequence[Span]) -> Found:
    if isinstance(reply, Generation):
        return parse_selection(reply.text, sentences)
    if isinstance(reply, LanguageModelError):
        return _unselected("request failed", f"{type(reply).__name__}: {reply.message}")
    assert isinstance(reply, Exception)
    raise reply


def parse_selection(reply: str, sentences: Sequence[Span]) -> Found:
    """Parse the sentence numbers of a reply; a reply with no numbers, unknown numbers or other text is a problem."""
    text = reply.strip()
    if _NONE.fullmatch(text):
        return _unselected("no sentence selected", text)
    if not _REPLY.fullmatch(text):
        return _unselected("reply not understood", text)
    numbers = list(dict.fromkeys(map(int, re.findall(r"\d+", text))))
    if not all(1 <= n <= len(sentences) for n in numbers):
        return _unselected("unknown sentence", text)
    return Found(tuple(sentences[n - 1] for n in numbers))


def _unselected(problem: str, detail: str) -> Found:
    return Found(stage="selection", problem=problem, detail=detail)
