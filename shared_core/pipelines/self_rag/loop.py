"""Self-RAG (Asai et al. 2023): retrieve on demand, write segment by segment, and criticise each while writing.

With a model that has reflection tokens its verdicts are read by id (``with_tokens``); any other model is asked by
prompts (``prompted``). Either way a beam search over passages finds the path of the best critiques (``search``), its
segments become claims with quotes, and all signals together decide which are kept.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared_core.citation import CitationIndex, align_quote, split_sentences
from shared_core.errors import LimitError
from shared_core.pipelines.confidence import Weighed, decide_weighed, weigh
from shared_core.pipelines.decision.links import without_own_references
from shared_core.pipelines.decision.question_run import QuestionRun, attempt
from shared_core.pipelines.decision.reasons import CERTAINTY_UNKNOWN, FROM_MEMORY, REPLIES_UNUSABLE, UNSUPPORTED_HERE
from shared_core.pipelines.evidence import lowest
from shared_core.pipelines.extractive import answer_without_model, find_unusable
from shared_core.pipelines.rereading import read_again, worth_showing
from shared_core.pipelines.self_rag.choose import choose_writer
from shared_core.pipelines.self_rag.search import Shelf, search
from shared_core.pipelines.self_rag.segments import WrittenPath, WrittenSegment
from shared_core.pipelines.support import own_word
from shared_core.reflection import Path, aggregate_answers
from shared_core.runtime.flow import Embed, Flow, Report
from shared_core.types import Answer, Citation, Claim, ClaimSealed, Passage, Signals, Span
from shared_core.uncertainty import is_content_word

# --- claims of segments --------------------------------------------------------------------------------------------


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
    return without_own_references(claims, "", [kept.passage] if kept.passage is not None else [])


def quote(text: str, passage: Passage, run: QuestionRun) -> Flow[tuple[Citation, ...]]:
    """Quote the passage for a segment: the sentences that it repeats, else the nearest, at most two.

    Nearest is the sentence that holds most of its words, and one more that holds others of them; where none holds any,
    the one of nearest meaning.
    """
    sentences = CitationIndex([passage]).sentences
    aligned = align_quote(text, [passage])
    if aligned is not None:
        # Where a part of a sentence is repeated, the whole sentence is quoted.
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
    vectors = yield from attempt(Embed((text, *(s.text for s in sentences))), run, "quote", "none")
    if vectors is None:
        return []
    # (n, d) @ (d,): the vectors have unit length, so these are cosines.
    similar = vectors[1:] @ vectors[0]
    return [sentences[int(similar.argmax())]]


def _content(text: str) -> set[str]:
    return {w for w in re.findall(r"\w+", text.casefold()) if is_content_word(w)}


# --- the pipeline --------------------------------------------------------------------------------------------------


_WEIGHED_PATHS = 3
"""Paths weighed at most: each costs the reader and the critic once."""


def self_rag(question: str, run: QuestionRun) -> Flow[Answer]:
    """The whole of it.

    The trace holds ``critic`` (who judges), ``retrieve``, ``segment`` for each step (and ``verdicts`` for each batch of
    questions to a prompted critic), ``path`` (which one won), then ``confidence``, ``keep``, ``answer`` or ``abstain``.
    """
    shelf, sealed = Shelf(question, run), _Sealed(run)
    # Stays empty where a limit ends the work before any path is weighed.
    weighed = Weighed([])
    try:
        writer = yield from choose_writer(question, run)
        options = run.settings.self_rag
        short = options.form == "short"
        # The short form is the same search with one segment per path and room for every passage's answer.
        width, depth = (run.settings.top_k, 1) if short else (options.beam_width, options.max_depth)
        # In the short form nothing is sealed early: any of the answers may still win.
        paths = yield from search(shelf, writer, width, depth, None if short else sealed.add)
        best, agreement = _winner(paths, closed=options.published.closed_set)
        weighed = yield from _weigh_path(best, agreement, len(paths), sealed, shelf)
        # The critiques choose among paths by themselves; where all other signals refuse what they chose, the next
        # best path gets its turn.
        alone = options.published.closed_set or run.settings.signals != "all"  # as published
        others = [p for p in paths if p.segments and p is not best and not alone]
        for path in others[: _WEIGHED_PATHS - 1]:
            if worth_showing(weighed, run) or run.trace.limit is not None:
                break
            other = yield from _weigh_path(path, None, len(paths), sealed, shelf)
            weighed = other if worth_showing(other, run) else weighed
        # What was written from passages can be read again; an answer from memory cannot.
        by_passages = all(c.citations for c in weighed.claims)
        if run.settings.signals == "all" and not writer.declined and by_passages:
            weighed = yield from read_again(question, weighed, tuple(shelf.passages.values()), run)
        # A model that declined read the passages; otherwise unusable claims mean that it misread them.
        read = shelf.passages and not writer.declined
        # Written and yet not in the path: pruned, which is not the same as silence.
        error = find_unusable(weighed.claims, run, pruned=shelf.written > 0) if read else None
        # After a limit the engine turns to the documents itself (replace_abstention).
        if error is not None and run.trace.limit is None and (run.abilities.has_reader or not weighed.claims):
            found = tuple(shelf.passages.values())
            return (yield from answer_without_model(question, error, found, run, pipeline="self_rag"))
    except LimitError as error:
        yield run.stop(error)
    passages = tuple(shelf.passages.values())
    reason = _why_not(weighed.claims, shelf)
    return (yield from decide_weighed(question, weighed, passages, run, pipeline="self_rag", reason=reason))


def _weigh_path(path: WrittenPath, agreement: float | None, of: int, sealed: _Sealed, shelf: Shelf) -> Flow[Weighed]:
    """Make a path's claims, and weigh them by all signals."""
    run = shelf.run
    yield run.note(
        "path",
        f"{len(path.segments)} segments",
        "the best of the paths that were kept",
        paths=of,
        score=path.score if path.segments else None,
        mean_score=path.mean_score if path.segments else None,
        agreement=agreement,
    )
    # Sealing is idempotent; only what the beam did not share is new here.
    for segment in path.segments:
        yield from sealed.add(segment)
    claims = _with_path(sealed.of(path), path, agreement)
    weighed = yield from weigh(shelf.question, claims, tuple(shelf.passages.values()), run)
    return (yield from _ask_own_word(shelf.question, weighed, path, run))


def _why_not(claims: Sequence[Claim], shelf: Shelf) -> str:
    """Why nothing is shown, where claims and passages do not tell: all was pruned, or nothing was looked up (that no
    passage matches would be untrue then)."""
    if shelf.searched:
        return UNSUPPORTED_HERE if shelf.written and not claims else ""
    if not claims:
        return REPLIES_UNUSABLE
    return FROM_MEMORY if any(c.support is not None for c in claims) else CERTAINTY_UNKNOWN


@dataclass(slots=True)
class _Sealed:
    """Claims of settled segments, each reported as soon as it is settled."""

    run: QuestionRun
    # Keyed by the payload's identity: the beam copies a segment when it closes a path, not its payload.
    claims: dict[int, list[Claim]] = field(default_factory=dict)

    def add(self, segment: WrittenSegment) -> Flow[None]:
        """Make the segment's claims, once."""
        if id(segment.payload) not in self.claims:
            self.claims[id(segment.payload)] = yield from claims_of(segment, self.run)
            for claim in self.claims[id(segment.payload)]:
                yield Report(ClaimSealed(claim))

    def of(self, path: WrittenPath) -> list[Claim]:
        """The claims of a path all of whose segments were added."""
        return [c for s in path.segments for c in self.claims[id(s.payload)]]


def _winner(paths: Sequence[WrittenPath], *, closed: bool) -> tuple[WrittenPath, float | None]:
    """The best path; of a closed set the best one of the answer with most score, and the share that agrees with it."""
    written = [p for p in paths if p.segments]
    if not written:
        return Path(), None
    totals = aggregate_answers([_answer(p) for p in written], [p.score for p in written]) if closed else ()
    if not totals:
        return written[0], None
    # Equal answers pool their scores (closed set); quotes come from the single best path among them.
    same = [written[i] for i in totals[0].paths]
    return max(same, key=lambda p: p.score), len(same) / len(written)


def _answer(path: WrittenPath) -> str:
    """As one of a closed set: without the marks and capitals by which replies differ."""
    return " ".join(s.payload.text for s in path.segments).strip(" .\"'").casefold()


def _with_path(claims: Sequence[Claim], path: WrittenPath, agreement: float | None) -> list[Claim]:
    """Copy whole-answer scores (usefulness, agreement) to each claim."""
    # The last rating is of the whole answer: it is given behind the whole path.
    use = path.segments[-1].payload.useful if path.segments else None
    found = []
    for claim in claims:
        # Both are the model's own word, so they make one signal, the more doubtful of the two.
        certain, agreeing = lowest(claim.signals.certain, use), agreement or claim.signals.agreement
        signals = dataclasses.replace(claim.signals, certain=certain, agreement=agreeing)
        found.append(dataclasses.replace(claim, signals=signals))
    return found


def _ask_own_word(question: str, weighed: Weighed, path: WrittenPath, run: QuestionRun) -> Flow[Weighed]:
    """A claim that was written without any passage rests on the model's own P(True), which is said in the trace."""
    if not any(s.payload.move == "none" for s in path.segments):
        return weighed
    # A claim is a sentence of its segment, so it is looked for within these texts.
    alone = {" ".join(s.payload.text.split()) for s in path.segments if s.payload.move == "none"}
    claims = []
    for claim in weighed.claims:
        if not claim.citations and claim.support is None and any(claim.text in text for text in alone):
            own = yield from own_word(question, claim.text, run.abilities)
            yield run.note("support", "the model's own P(True)", "no passage was used; not calibrated", support=own)
            claim = dataclasses.replace(claim, support=own, signals=dataclasses.replace(claim.signals, certain=own))
        claims.append(claim)
    return dataclasses.replace(weighed, claims=claims)
