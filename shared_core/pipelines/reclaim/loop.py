"""ReClaim (Xia et al. 2024): every claim after a quote that decoding forces to be verbatim.

Models with grammars write under the citation index's grammar: ``interleaved`` (a reference model that sees everything,
a claim model that sees only the output so far) or ``unified`` (one model, one go). Others climb the ladder of
``free``. Every claim's support by its quote is then estimated, and utility decides what stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared_core.citation import CitationIndex, split_sentences
from shared_core.errors import ContextOverflowError, GrammarError, LimitError
from shared_core.flow import Flow, Generate, Report, Retrieve
from shared_core.lm.base import Generation, Grammar, SamplingParams
from shared_core.pipelines.common import Run
from shared_core.pipelines.confidence import Weighed, decide_weighed, weigh
from shared_core.pipelines.extractive import answer_without_model
from shared_core.pipelines.reclaim.free import UnusableReplies, write_freely
from shared_core.pipelines.reclaim.prompts import (
    CLAIM_END,
    CLAIM_LEAD,
    PAIR_GAP,
    REFERENCE_END,
    REFERENCE_LEAD,
    WrittenPair,
    claim_prompt,
    reference_prompt,
)
from shared_core.settings import ReclaimSettings
from shared_core.types import Answer, Citation, Claim, ClaimSealed, Passage, ReferenceSealed, Retrieved, iter_spans

_UNIFIED = re.compile(
    re.escape(REFERENCE_LEAD.strip())
    + r"\s*(?P<reference>.*?)\s*"
    + re.escape((REFERENCE_END + CLAIM_LEAD).strip())
    + r"\s*(?P<claim>.*?)\s*"
    + re.escape(CLAIM_END.strip()),
    re.DOTALL,
)


def reclaim(question: str, run: Run) -> Flow[Answer]:
    """Retrieve, then write reference–claim pairs, estimate each claim's support, keep what is worth keeping.

    The trace holds ``retrieve``, ``write`` (once for each step), ``support``, ``keep``, ``answer`` or ``abstain``.
    """
    settings = run.settings
    yield run.note("retrieve", "always", "every claim must stand on a quote", k=settings.top_k)
    found: tuple[Passage, ...] = yield Retrieve(question, settings.top_k, settings.where)
    yield Report(Retrieved(question, found))
    weighed = Weighed([])
    if found:
        try:
            claims = yield from write(question, found, run)
        except UnusableReplies as error:
            return (yield from answer_without_model(question, error, found, run, pipeline="reclaim"))
        weighed = yield from weigh(question, claims, found, run)
    return (yield from decide_weighed(question, weighed, found, run, pipeline="reclaim"))


@dataclass
class _Draft:
    """An answer as far as it is written."""

    question: str
    passages: Sequence[Passage]
    run: Run
    pairs: list[WrittenPair] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.index = CitationIndex(self.passages)

    @property
    def options(self) -> ReclaimSettings:
        return self.run.settings.reclaim


def write(question: str, passages: Sequence[Passage], run: Run) -> Flow[list[Claim]]:
    """Claims with citations, support not yet known.

    The lowest-ranked passages are dropped where the context is too short; where a limit is reached, the claims are
    those written until then.

    Raises:
        UnusableReplies: as ``write_freely``.
    """
    draft = _Draft(question, list(passages), run)
    while True:
        try:
            return (yield from _write(draft))
        except ContextOverflowError as error:
            if run.settings.on_overflow == "raise" or len(draft.passages) == 1:
                raise
            # In proportion to the excess, at least one: each try costs an encoding of the whole prompt.
            dropped = max(1, int(error.excess * len(draft.passages)))
            draft = _Draft(question, draft.passages[:-dropped], run)
            yield run.note("context", f"{dropped} lowest-ranked passages left out", error.message)
        except LimitError as error:
            yield run.stop(error)
            return draft.claims


def _write(draft: _Draft) -> Flow[list[Claim]]:
    run = draft.run
    model = run.context.model("reference")
    if model is None or not model.grammar:
        yield run.note("citation", "by number or aligned", f"{run.context.model_name('reference')} has no grammar")
        return (yield from write_freely(draft.question, draft.passages, draft.index, run))
    yield from _write_at_once(draft) if draft.options.generation == "unified" else _write_in_turns(draft)
    return draft.claims


def _write_in_turns(draft: _Draft) -> Flow[None]:
    """Reference and claim one after the other, each by its own model."""
    while len(draft.pairs) < draft.options.max_pairs:
        citation: Citation | None = yield from _write_reference(draft)
        if citation is None:
            yield draft.run.note("write", "end", "the reference model ends the answer", pairs=len(draft.pairs))
            break
        yield Report(ReferenceSealed(citation))
        text = yield from _write_claim(draft, citation.quote)
        outcome = f"pair {len(draft.pairs) + 1}" if text else "claim without an end left out"
        yield draft.run.note("write", outcome, citation.quote)
        if not text:
            break
        draft.pairs.append(WrittenPair(citation.quote, text))
        draft.claims.append(Claim(text, None, (citation,)))
        yield Report(ClaimSealed(draft.claims[-1]))


def _write_reference(draft: _Draft) -> Flow[Citation | None]:
    """The next reference; ``None`` if the model ends the answer (allowed from ``min_pairs`` on) or nothing is left."""
    options, pairs, index = draft.options, draft.pairs, draft.index
    try:
        grammar = index.grammar(
            options.mode,
            min_sentences=options.min_sentences,
            max_sentences=options.max_sentences,
            open_tag=(PAIR_GAP if pairs else "") + REFERENCE_LEAD,
            close_tag=REFERENCE_END,
            exclude=() if options.reuse else tuple(iter_spans(tuple(draft.claims))),
        )
    except GrammarError:
        if not pairs:
            raise
        return None  # reuse is off and every sentence has been cited
    if len(pairs) >= options.min_pairs:
        grammar = _optional(grammar)
    params = SamplingParams(max_tokens=_longest(index, options), grammar=grammar, seed=draft.run.settings.seed)
    prompt = reference_prompt(draft.question, draft.passages, pairs)
    block: Generation = yield Generate(prompt, params, model="reference")
    text = block.text.strip()
    if not text.endswith(REFERENCE_END.strip()):
        return None  # ended, or cut off by the limit: half a quote is none
    return index.resolve(text[len(REFERENCE_LEAD.strip()) : -len(REFERENCE_END.strip())])


def _longest(index: CitationIndex, options: ReclaimSettings) -> int:
    """Tokens a reference can need: at most one for each byte, so that little context is set aside for short ones."""
    sizes = sorted((len(s.text.encode("utf-8", "replace")) for s in index.sentences), reverse=True)
    count = options.max_sentences if options.mode == "sentence" else len(sizes)
    tags = len((PAIR_GAP + REFERENCE_LEAD + REFERENCE_END).encode())
    return min(options.max_reference_tokens, sum(sizes[:count]) + count + tags)


def _optional(grammar: Grammar) -> Grammar:
    """The same or nothing: an end-of-sequence token at the start ends the answer."""
    head, rule, rest = grammar.lark.partition("start: ")
    if head or not rule:
        raise GrammarError(f"The grammar {grammar.name!r} does not begin with its start rule.")
    return Grammar(f"start: block?\nblock: {rest}", f"{grammar.name} or end")


def _write_claim(draft: _Draft, reference: str) -> Flow[str]:
    """The claim on a reference; empty if it has no end within its limit."""
    stops = (CLAIM_END.strip(), "<reference>", REFERENCE_LEAD.split("<")[0].strip(), "\n\n")
    params = SamplingParams(max_tokens=draft.options.max_claim_tokens, stop=stops, seed=draft.run.settings.seed)
    written: Generation = yield Generate(claim_prompt(draft.pairs, reference), params, model="claim")
    return _finished_sentences(written)


def _write_at_once(draft: _Draft) -> Flow[None]:
    """One model writes all pairs in one go, under the grammar of a whole answer."""
    options, index = draft.options, draft.index
    grammar = index.answer_grammar(
        options.mode,
        min_pairs=max(options.min_pairs, 1),
        max_pairs=options.max_pairs,
        min_sentences=options.min_sentences,
        max_sentences=options.max_sentences,
        reuse=options.reuse,
    )
    if options.min_pairs == 0:
        grammar = _optional(grammar)
    limit = options.max_pairs * (_longest(index, options) + options.max_claim_tokens)
    params = SamplingParams(max_tokens=limit, grammar=grammar, seed=draft.run.settings.seed)
    prompt = reference_prompt(draft.question, draft.passages, ())
    answer: Generation = yield Generate(prompt, params, model="reference")
    for match in _UNIFIED.finditer(answer.text):
        citation = index.resolve(match["reference"])
        if citation is not None and match["claim"].strip():
            draft.claims.append(Claim(match["claim"].strip(), None, (citation,)))
            yield Report(ReferenceSealed(citation))
            yield Report(ClaimSealed(draft.claims[-1]))
    finish = answer.samples[0].finish_reason
    yield draft.run.note("write", f"{len(draft.claims)} pairs", "one model, one go", finish=finish)


def _finished_sentences(written: Generation) -> str:
    """The text without line breaks; if it was cut off by length, only its complete sentences."""
    sample = written.samples[0]
    text = re.sub(r"\s+", " ", sample.text).strip()
    if sample.finish_reason != "length":
        return text
    whole = split_sentences(text)[:-1]
    return text[: whole[-1][1]] if whole else ""
