"""From segments to claims: each sentence with a verbatim quote of the passage it was written from, and its critique."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared_core.citation import CitationIndex, align_quote, split_sentences
from shared_core.errors import LimitError, SelfReflectError
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.self_rag.segments import WrittenSegment
from shared_core.runtime.flow import Embed, Flow
from shared_core.types import Citation, Claim, Passage, Signals, Span
from shared_core.uncertainty import is_content_word

_LEAST_NEW = 2
"""Content words that a second sentence must add to be quoted too."""


def claims_of(segment: WrittenSegment, run: QuestionRun) -> Flow[list[Claim]]:
    """The segment's sentences, each a claim.

    Where the segment was written from a passage that was not judged irrelevant, each cites the sentences of that
    passage that are nearest to it. Verdicts of the segment are signals of its claims: P(fully supported) is
    ``entailed``, P(useful) the model's own certainty that it answers. Half of a partial support is no probability, so
    it counts for nothing there.
    """
    kept = segment.payload
    signals = Signals(entailed=kept.fully, certain=kept.useful)
    claims = []
    for start, end in split_sentences(kept.text) or [(0, len(kept.text))]:
        text = " ".join(kept.text[start:end].split())
        citations: tuple[Citation, ...] = ()
        if kept.passage is not None and not kept.irrelevant:
            citations = yield from quote(text, kept.passage, run)
        claims.append(Claim(text, None, citations, signals=signals, critique=segment.critique))
    return claims


def quote(text: str, passage: Passage, run: QuestionRun) -> Flow[tuple[Citation, ...]]:
    """Quote the passage for a segment: the sentences that it repeats, else the nearest, at most two.

    Nearest is the sentence that holds most of its words, and one more that holds others of them; where none holds any,
    the one of nearest meaning.
    """
    sentences = CitationIndex([passage]).sentences
    aligned = align_quote(text, [passage])
    if aligned is not None:
        return (Citation(tuple(s for s in sentences if any(_overlap(s, a) for a in aligned.primary)) or aligned.spans),)
    best = nearest_by_words(text, sentences)
    if not best and sentences:
        best = yield from _nearest_by_meaning(text, sentences, run)
    return (Citation(tuple(best)),) if best else ()


def _overlap(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def nearest_by_words(text: str, sentences: Sequence[Span]) -> list[Span]:
    """The sentence that holds most of the content words, and one that adds to it, in their order; none if none does.

    A figure counts double: a claim on 2001 rests on the sentence that says 2001.
    """
    wanted = _content(text)
    held = [wanted & _content(s.text) for s in sentences]
    order = sorted(range(len(sentences)), key=lambda i: -sum(1 + any(map(str.isdigit, w)) for w in held[i]))
    if not order or not held[order[0]]:
        return []
    first = order[0]
    added = max((i for i in order[1:]), key=lambda i: len(held[i] - held[first]), default=None)
    if added is None or len(held[added] - held[first]) < _LEAST_NEW:
        return [sentences[first]]
    return [sentences[i] for i in sorted((first, added))]


def _nearest_by_meaning(text: str, sentences: Sequence[Span], run: QuestionRun) -> Flow[list[Span]]:
    if not run.abilities.has_embedder:
        return []
    try:
        vectors = yield Embed((text, *(s.text for s in sentences)))
    except LimitError as error:
        yield run.stop(error)
        return []
    except SelfReflectError as error:
        yield run.note("quote", "none", error.message)
        return []
    similar = vectors[1:] @ vectors[0]
    return [sentences[int(similar.argmax())]]


def _content(text: str) -> set[str]:
    return {w for w in re.findall(r"\w+", text.casefold()) if is_content_word(w)}
