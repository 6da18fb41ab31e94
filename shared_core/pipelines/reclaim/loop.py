"""ReClaim (Xia et al. 2024): every claim after a quote that decoding forces to be verbatim.

Models with grammars write under the citation index's grammar: ``interleaved`` (a reference model that sees everything,
a claim model that sees only the output so far) or ``unified`` (one model, one go). Others climb the ladder of
``free``. Every claim's support by its quote is then estimated, and utility decides what stays.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from shared_core.citation import CitationIndex, split_sentences
from shared_core.errors import ContextOverflowError, GrammarError
from shared_core.flow import Flow, Generate, Report, Retrieve
from shared_core.lm.base import Generation, Grammar, SamplingParams
from shared_core.pipelines.common import Context, Trace, decide
from shared_core.pipelines.reclaim.free import write_freely
from shared_core.pipelines.reclaim.prompts import (
    CLAIM_END,
    CLAIM_LEAD,
    PAIR_GAP,
    REFERENCE_END,
    REFERENCE_LEAD,
    Pair,
    claim_prompt,
    reference_prompt,
)
from shared_core.pipelines.support import support
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Citation, Claim, ClaimSealed, Passage, ReferenceSealed, Retrieved, iter_spans

_UNIFIED = re.compile(
    re.escape(REFERENCE_LEAD.strip())
    + r"\s*(?P<reference>.*?)\s*"
    + re.escape((REFERENCE_END + CLAIM_LEAD).strip())
    + r"\s*(?P<claim>.*?)\s*"
    + re.escape(CLAIM_END.strip()),
    re.DOTALL,
)


def reclaim(question: str, settings: SelfReflectSettings, context: Context) -> Flow[Answer]:
    """Retrieve, then write reference–claim pairs, estimate each claim's support, keep what is worth keeping.

    The trace holds ``retrieve``, ``write`` (once for each step), ``support``, ``keep``, ``answer`` or ``abstain``.
    """
    trace = Trace()
    yield trace.add("retrieve", "always", "every claim must stand on a quote", k=settings.top_k)
    found: tuple[Passage, ...] = yield Retrieve(question, settings.top_k, settings.where)
    yield Report(Retrieved(question, found))
    claims: list[Claim] = []
    if found:
        claims = yield from write(question, found, settings, context, trace)
        claims = yield from judged(claims, settings, context, trace)
    return (yield from decide(question, claims, found, settings, trace, pipeline="reclaim"))


def write(
    question: str, passages: Sequence[Passage], settings: SelfReflectSettings, context: Context, trace: Trace
) -> Flow[list[Claim]]:
    """Claims with citations, support not yet known. Drops the lowest-ranked passages where the context is too short."""
    fitting = list(passages)
    while True:
        try:
            return (yield from _write(question, fitting, settings, context, trace))
        except ContextOverflowError as error:
            if settings.on_overflow == "raise" or len(fitting) == 1:
                raise
            # In proportion to the excess, at least one: each try costs an encoding of the whole prompt.
            share = (error.needed - error.available) / error.needed
            dropped = max(1, int(share * len(fitting)))
            fitting = fitting[:-dropped]
            yield trace.add("context", f"{dropped} lowest-ranked passages left out", error.message)


def _write(
    question: str, passages: Sequence[Passage], settings: SelfReflectSettings, context: Context, trace: Trace
) -> Flow[list[Claim]]:
    index = CitationIndex(passages)
    model = context.model("reference")
    if model is None or not model.grammar:
        yield trace.add("citation", "by number or aligned", f"{context.model_name('reference')} has no grammar")
        return (yield from write_freely(question, passages, index, settings, trace))
    if settings.reclaim.generation == "unified":
        return (yield from _unified(question, passages, index, settings, trace))
    return (yield from _interleaved(question, passages, index, settings, trace))


def _interleaved(
    question: str, passages: Sequence[Passage], index: CitationIndex, settings: SelfReflectSettings, trace: Trace
) -> Flow[list[Claim]]:
    options = settings.reclaim
    pairs: list[Pair] = []
    claims: list[Claim] = []
    while len(pairs) < options.max_pairs:
        citation: Citation | None = yield from _reference(question, passages, index, pairs, claims, settings)
        if citation is None:
            yield trace.add("write", "end", "the reference model ends the answer", pairs=len(pairs))
            break
        yield Report(ReferenceSealed(citation))
        text = yield from _claim(pairs, citation.quote, settings)
        yield trace.add("write", f"pair {len(pairs) + 1}" if text else "claim without an end left out", citation.quote)
        if not text:
            break
        pairs.append(Pair(citation.quote, text))
        claims.append(Claim(text, None, (citation,)))
        yield Report(ClaimSealed(claims[-1]))
    return claims


def _reference(
    question: str,
    passages: Sequence[Passage],
    index: CitationIndex,
    pairs: Sequence[Pair],
    claims: Sequence[Claim],
    settings: SelfReflectSettings,
) -> Flow[Citation | None]:
    """The next reference; ``None`` if the model ends the answer (allowed from ``min_pairs`` on) or nothing is left."""
    options = settings.reclaim
    try:
        grammar = index.grammar(
            options.mode,
            min_sentences=options.min_sentences,
            max_sentences=options.max_sentences,
            open_tag=(PAIR_GAP if pairs else "") + REFERENCE_LEAD,
            close_tag=REFERENCE_END,
            exclude=() if options.reuse else tuple(iter_spans(tuple(claims))),
        )
    except GrammarError:
        if not pairs:
            raise
        return None  # reuse is off and every sentence has been cited
    if len(pairs) >= options.min_pairs:
        grammar = _optional(grammar)
    params = SamplingParams(max_tokens=_longest(index, settings), grammar=grammar, seed=settings.seed)
    block: Generation = yield Generate(reference_prompt(question, passages, pairs), params, model="reference")
    text = block.text.strip()
    if not text.endswith(REFERENCE_END.strip()):
        return None  # ended, or cut off by the limit: half a quote is none
    return index.resolve(text[len(REFERENCE_LEAD.strip()) : -len(REFERENCE_END.strip())])


def _longest(index: CitationIndex, settings: SelfReflectSettings) -> int:
    """Tokens a reference can need: at most one for each byte, so that little context is set aside for short ones."""
    sizes = sorted((len(s.text.encode("utf-8", "replace")) for s in index.sentences), reverse=True)
    count = settings.reclaim.max_sentences if settings.reclaim.mode == "sentence" else len(sizes)
    tags = len((PAIR_GAP + REFERENCE_LEAD + REFERENCE_END).encode())
    return min(settings.reclaim.max_reference_tokens, sum(sizes[:count]) + count + tags)


def _optional(grammar: Grammar) -> Grammar:
    """The same or nothing: an end-of-sequence token at the start ends the answer."""
    head, rule, rest = grammar.lark.partition("start: ")
    if head or not rule:
        raise GrammarError(f"The grammar {grammar.name!r} does not begin with its start rule.")
    return Grammar(f"start: block?\nblock: {rest}", f"{grammar.name} or end")


def _claim(pairs: Sequence[Pair], reference: str, settings: SelfReflectSettings) -> Flow[str]:
    """The claim on a reference; empty if it has no end within its limit."""
    stops = (CLAIM_END.strip(), "<reference>", REFERENCE_LEAD.split("<")[0].strip(), "\n\n")
    params = SamplingParams(max_tokens=settings.reclaim.max_claim_tokens, stop=stops, seed=settings.seed)
    written: Generation = yield Generate(claim_prompt(pairs, reference), params, model="claim")
    return _finished_sentences(written)


def _unified(
    question: str, passages: Sequence[Passage], index: CitationIndex, settings: SelfReflectSettings, trace: Trace
) -> Flow[list[Claim]]:
    """One model writes all pairs in one go, under the grammar of a whole answer."""
    options = settings.reclaim
    grammar = index.answer_grammar(
        options.mode,
        min_pairs=options.min_pairs,
        max_pairs=options.max_pairs,
        min_sentences=options.min_sentences,
        max_sentences=options.max_sentences,
        reuse=options.reuse,
    )
    limit = options.max_pairs * (_longest(index, settings) + options.max_claim_tokens)
    params = SamplingParams(max_tokens=limit, grammar=grammar, seed=settings.seed)
    answer: Generation = yield Generate(reference_prompt(question, passages, ()), params, model="reference")
    claims: list[Claim] = []
    for match in _UNIFIED.finditer(answer.text):
        citation = index.resolve(match["reference"])
        if citation is not None and match["claim"].strip():
            claims.append(Claim(match["claim"].strip(), None, (citation,)))
            yield Report(ReferenceSealed(citation))
            yield Report(ClaimSealed(claims[-1]))
    yield trace.add("write", f"{len(claims)} pairs", "one model, one go", finish=answer.samples[0].finish_reason)
    return claims


def _finished_sentences(written: Generation) -> str:
    """The text without line breaks; if it was cut off by length, only its complete sentences."""
    sample = written.samples[0]
    text = re.sub(r"\s+", " ", sample.text).strip()
    if sample.finish_reason != "length":
        return text
    whole = split_sentences(text)[:-1]
    return text[: whole[-1][1]] if whole else ""


def judged(claims: Sequence[Claim], settings: SelfReflectSettings, context: Context, trace: Trace) -> Flow[list[Claim]]:
    """The claims with their support; claims that cite nothing stay unknown."""
    cited = [i for i, c in enumerate(claims) if c.citations]
    quotes = [(" ".join(x.quote for x in claims[i].citations), claims[i].text) for i in cited]
    found = yield from support(quotes, settings, context, trace)
    scores = dict(zip(cited, found))
    return [dataclasses.replace(c, support=scores.get(i)) for i, c in enumerate(claims)]
