"""ReClaim (Xia et al. 2024): write every claim after a quote that decoding forces to be verbatim.

Models with grammars write under the citation index's grammar: ``interleaved`` (a reference model that sees everything,
a claim model that sees only the output so far) or ``unified`` (one model, one generation). Others write freely
(``free``). The support of every claim is then estimated, and expected utility decides which claims are shown.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared_core.citation import CitationIndex
from shared_core.errors import ContextOverflowError, GrammarError, LimitError
from shared_core.lm.base import Generation, Grammar, SamplingParams
from shared_core.pipelines.confidence import Weighed, decide_weighed, weigh
from shared_core.pipelines.decision.decide import merge_duplicates
from shared_core.pipelines.decision.links import without_own_references
from shared_core.pipelines.decision.question_run import QuestionRun, leave_out, retrieve
from shared_core.pipelines.evidence import complete_sentences
from shared_core.pipelines.extractive import UnusableReplies, answer_without_model
from shared_core.pipelines.reclaim.free import is_placeholder, keep_negations, tidy, write_freely
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
from shared_core.pipelines.rereading import read_again
from shared_core.runtime.flow import Flow, Generate, Report
from shared_core.settings import ReclaimSettings
from shared_core.support.regex import lazy_regex
from shared_core.types import Answer, Citation, Claim, ClaimSealed, Passage, ReferenceSealed, iter_spans

# One pair. Lazy groups suffice: the grammar lets no tag into a quote or a claim.
_UNIFIED = lazy_regex(
    re.escape(REFERENCE_LEAD.strip())
    + r"\s*(?P<reference>.*?)\s*"
    + re.escape((REFERENCE_END + CLAIM_LEAD).strip())
    + r"\s*(?P<claim>.*?)\s*"
    + re.escape(CLAIM_END.strip()),
    re.DOTALL,
)


def reclaim(question: str, run: QuestionRun) -> Flow[Answer]:
    """Retrieve, then write reference–claim pairs, estimate each claim's support, keep what is worth keeping.

    The trace holds ``retrieve``, ``write`` (once for each step), ``support``, ``keep``, ``answer`` or ``abstain``.
    """
    settings = run.settings
    yield run.note("retrieve", "always", "every claim must stand on a quote", k=settings.top_k)
    found = yield from retrieve(question, settings.top_k, run)
    weighed = Weighed([])
    if found:
        try:
            claims = yield from write(question, found, run)
        except UnusableReplies as error:
            return (yield from answer_without_model(question, error, found, run, pipeline="reclaim"))
        weighed = yield from weigh(question, merge_duplicates(claims), found, run)
        if settings.signals == "all":  # as published, nobody reads again
            weighed = yield from read_again(question, weighed, found, run)
    return (yield from decide_weighed(question, weighed, found, run, pipeline="reclaim"))


@dataclass
class _Draft:
    """An answer being written.

    Attributes:
        pairs, claims: written so far, as text for prompts and as claims.
        left_out: texts of sentences not to be quoted: headings, and those that no claim came of.
        too_long: texts of sentences that do not fit ``max_reference_tokens``.
        form: the claim model is shown the form; not any more once it copied it.
        alone: references are single sentences from now on, whatever ``max_sentences`` allows.
    """

    question: str
    passages: Sequence[Passage]
    run: QuestionRun
    pairs: list[WrittenPair] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    too_long: set[str] = field(default_factory=set)
    form: bool = True
    alone: bool = False

    def __post_init__(self) -> None:
        self.index = CitationIndex(self.passages)
        # By text, as grammars exclude: a heading of several passages is left out of all.
        self.left_out.update({s.text for s in self.index.sentences} - {s.text for s in self.index.quotable})

    def add(self, text: str, citation: Citation) -> None:
        """Add a claim, without links that no passage has."""
        self.claims += without_own_references([Claim(text, None, (citation,))], self.question, self.passages)

    @property
    def options(self) -> ReclaimSettings:
        return self.run.settings.reclaim

    def resolve(self, quote: str) -> Citation | None:
        """Resolve a quote to its places."""
        found = self.index.resolve(quote)
        return found if found is None else keep_negations(found, self.index)


def write(question: str, passages: Sequence[Passage], run: QuestionRun) -> Flow[list[Claim]]:
    """Write claims with citations; their support is not known yet.

    If the context is too short, the lowest-ranked passages are dropped; if a limit is reached, the claims written until
    then are returned.

    Raises:
        UnusableReplies: as ``write_freely``.
    """
    draft = _Draft(question, list(passages), run)
    while True:
        try:
            return (yield from _write(draft))
        except ContextOverflowError as error:
            # From the beginning: index and grammars are those of all passages.
            draft = _Draft(question, (yield from leave_out(draft.passages, error, run)), run)
        except LimitError as error:
            yield run.stop(error)
            return draft.claims


def _write(draft: _Draft) -> Flow[list[Claim]]:
    run = draft.run
    model = run.abilities.model("reference")
    if model is None or not model.grammar:
        yield run.note("citation", "by number or aligned", f"{run.abilities.model_name('reference')} has no grammar")
        return (yield from write_freely(draft.question, draft.passages, draft.index, run))
    try:
        yield from _write_at_once(draft) if draft.options.published.generation == "unified" else _write_in_turns(draft)
    except _GrammarNotKept as error:  # a server that was started anew, or one of several behind an address
        name = run.abilities.model_name("reference")
        yield run.note("citation", "by number or aligned", f"{name} does not keep to its grammar: {error}")
        return draft.claims or (yield from write_freely(draft.question, draft.passages, draft.index, run))
    return draft.claims


def _write_in_turns(draft: _Draft) -> Flow[None]:
    """Write references and claims in turn, each by its own model.

    A claim that comes to nothing (it has no end, or is a word of the form) is left out with its reference, and the
    answer goes on without the sentences of that reference.
    """
    run = draft.run
    for _ in range(2 * draft.options.max_pairs):  # as many tries again as pairs: left-out pairs must not go on forever
        citation: Citation | None = yield from _write_reference(draft)
        if citation is None:
            yield run.note("write", "end", "the reference model ends the answer", pairs=len(draft.pairs))
            break
        yield Report(ReferenceSealed(citation))
        text = yield from _write_claim(draft, citation.quote)
        if not text:
            yield run.note("write", "claim without an end left out", citation.quote)
            draft.left_out.update(_sentences_of(citation, draft.index))  # or decoding would choose them again
            continue
        draft.pairs.append(WrittenPair(citation.quote, text))
        draft.add(text, citation)
        yield run.note("write", f"pair {len(draft.pairs)}", citation.quote)
        yield Report(ClaimSealed(draft.claims[-1]))
        if len(draft.pairs) == draft.options.max_pairs:
            break


def _sentences_of(citation: Citation, index: CitationIndex) -> set[str]:
    """Texts of the citation's sentences, and of what it quotes."""
    spans = citation.spans
    inside = {
        s.text
        for s in index.sentences
        if any(s.passage_id == x.passage_id and x.start <= s.start and s.end <= x.end for x in spans)
    }
    # The quote as well: in span mode it need not be a whole sentence.
    return inside | {s.text for s in spans}


def _write_reference(draft: _Draft) -> Flow[Citation | None]:
    """Generate the next reference; ``None`` if the model ends the answer, or no sentence is left.

    Ending is allowed from ``min_pairs`` on. A reference longer than ``max_reference_tokens`` keeps its whole sentences;
    a single sentence that long is taken out of the grammar, and the model chooses again.

    Raises:
        GrammarError: the backend cannot keep to the grammar, not even to that of single sentences.
        UnusableReplies: no sentence of the passages is short enough to be quoted.
    """
    options, run = draft.options, draft.run
    while True:
        grammar = _reference_grammar(draft)
        if grammar is None:
            return None  # every sentence has been cited, or was left out
        params = SamplingParams(max_tokens=_longest(draft.index, options), grammar=grammar, seed=run.settings.seed)
        # No style: that is for claims, which the claim model words.
        prompt = reference_prompt(draft.question, draft.passages, draft.pairs, options.demonstrations)
        try:
            block: Generation = yield Generate(prompt, params, model="reference")
        except GrammarError as error:
            # Servers limit the work that a grammar may take; that of several sentences is a hundred times as much.
            # Raised where nothing smaller is left to try.
            if draft.alone or options.mode != "sentence" or options.published.min_sentences > 1:
                raise
            draft.alone = True
            yield run.note("write", "single sentences", error.message)
            continue
        text = block.text.strip()
        quote = text.removeprefix(REFERENCE_LEAD.strip()).strip()
        # The grammar lets nothing but sentences of the passages in, so the quote resolves to its places exactly.
        if text.endswith(REFERENCE_END.strip()):
            found = draft.resolve(quote.removesuffix(REFERENCE_END.strip()))
            if found is None:
                raise _GrammarNotKept(repr(text[:80]))
            return found
        if block.samples[0].finish_reason != "length":
            if text and text == quote:
                raise _GrammarNotKept(repr(text[:80]))
            return None  # ended
        cut = _cut_reference(quote, draft.index, options)
        if isinstance(cut, Citation):
            yield run.note("write", "reference cut at its last whole sentence", _too_long(options))
            return keep_negations(cut, draft.index)
        draft.too_long |= cut
        yield run.note("write", f"{len(cut)} sentences left out", _too_long(options))
        # Nothing more would be excluded, so that the next try would be the same, for ever.
        if not cut:
            raise UnusableReplies(f"No reference fits: {_too_long(options)}.", hint=_RAISE_IT)


class _GrammarNotKept(Exception):
    """A model that takes grammars wrote, under one, what is not in its language."""


_RAISE_IT = "Raise reclaim.max_reference_tokens, or cut documents into shorter sentences."


def _too_long(options: ReclaimSettings) -> str:
    return f"longer than max_reference_tokens={options.max_reference_tokens}"


def _reference_grammar(draft: _Draft) -> Grammar | None:
    """Make the grammar of the next reference; ``None`` if no sentence is left to cite.

    Raises:
        GrammarError: the passages hold no sentence at all that may be cited.
        UnusableReplies: every sentence was left out for its length.
    """
    options, pairs = draft.options, draft.pairs
    # Sentences of earlier references leave the grammar, where each may be cited once only.
    used = () if options.published.reuse else tuple(s.text for s in iter_spans(tuple(draft.claims)))
    try:
        grammar = draft.index.grammar(
            options.mode,
            min_sentences=options.published.min_sentences,
            max_sentences=1 if draft.alone else options.max_sentences,
            open_tag=(PAIR_GAP if pairs else "") + REFERENCE_LEAD,  # a part of the grammar: tokens may merge across it
            close_tag=REFERENCE_END,
            exclude=(*used, *draft.left_out, *draft.too_long),
        )
    except GrammarError as error:
        if draft.too_long and not pairs:
            raise UnusableReplies(
                f"Every sentence of the passages that could be quoted is {_too_long(options)}.", hint=_RAISE_IT
            ) from error
        if not pairs and not draft.left_out:
            raise
        return None
    return _optional(grammar) if len(pairs) >= options.published.min_pairs else grammar


def _cut_reference(quote: str, index: CitationIndex, options: ReclaimSettings) -> Citation | set[str]:
    """Cut a reference that was stopped by length to its whole sentences (or words).

    Returns:
        The citation of those; if there are none, the texts of the sentences that are too long. A sentence of at least
        as many bytes as one that is too long is taken to be too long as well.
    """
    if options.mode == "span":
        whole = quote.rpartition(" ")[0]  # the last word may be half of one
        return (index.resolve(whole) if whole else None) or set()
    # Longest first: a sentence may begin with the words of another.
    texts = sorted({s.text for s in index.sentences}, key=len, reverse=True)
    rest, whole = quote, ""
    while rest and (found := next((t for t in texts if rest.startswith(t)), None)):
        whole = quote[: len(quote) - len(rest) + len(found)]
        rest = rest[len(found) :].lstrip()
    citation = index.resolve(whole) if whole else None
    if citation is not None:
        return citation
    # What is left is the beginning of the sentence (or sentences) that did not fit.
    begun = [len(t.encode()) for t in texts if rest and t.startswith(rest)]
    # All of that size: to find out about each would cost another max_reference_tokens.
    return {t for t in texts if len(t.encode()) >= min(begun)} if begun else set()


def _longest(index: CitationIndex, options: ReclaimSettings) -> int:
    """Bound the tokens of a reference by its bytes, so that no more context is set aside than passages need.

    A token is at least one byte long, in byte-level vocabularies and those with byte fallback alike.
    """
    # UTF-8 bytes; lone surrogates (from broken files) are replaced, as tokenizers do.
    sizes = sorted((len(s.text.encode("utf-8", "replace")) for s in index.sentences), reverse=True)
    count = options.max_sentences if options.mode == "sentence" else len(sizes)
    tags = len((PAIR_GAP + REFERENCE_LEAD + REFERENCE_END).encode())
    # A blank behind each sentence, and both tags.
    return min(options.max_reference_tokens, sum(sizes[:count]) + count + tags)


def _optional(grammar: Grammar) -> Grammar:
    """Make a grammar optional: an end-of-sequence token at the start then ends the answer."""
    head, rule, rest = grammar.lark.partition("start: ")
    if head or not rule:
        raise GrammarError(f"The grammar {grammar.name!r} does not begin with its start rule.")
    return Grammar(f"start: block?\nblock: {rest}", f"{grammar.name} or end")


def _write_claim(draft: _Draft, reference: str) -> Flow[str]:
    """Generate the claim on a reference; empty if it has no end within its limit, or repeats the form's words.

    A model that does either is asked again without the form, and from then on always.
    """
    text = yield from _ask_claim(draft, reference)
    if text or not draft.form:
        return text
    draft.form = False
    yield draft.run.note("write", "claim asked for again", "without the form, which models that do not know it copy")
    return (yield from _ask_claim(draft, reference))


def _ask_claim(draft: _Draft, reference: str) -> Flow[str]:
    # The tags of the next reference too: a claim model that forgets its own end tag goes on with those.
    stops = (CLAIM_END.strip(), "<reference>", REFERENCE_LEAD.split("<")[0].strip(), "\n\n")
    params = SamplingParams(max_tokens=draft.options.max_claim_tokens, stop=stops, seed=draft.run.settings.seed)
    options = draft.options
    prompt = claim_prompt(draft.pairs, reference, options.demonstrations, form=draft.form, style=options.style)
    written: Generation = yield Generate(prompt, params, model="claim")
    text = tidy(_finished_sentences(written))
    return "" if is_placeholder(text) else text


def _write_at_once(draft: _Draft) -> Flow[None]:
    """Generate all pairs at once, under the grammar of a whole answer; errors as of ``_write_reference``."""
    options, index = draft.options, draft.index
    limit = options.max_pairs * (_longest(index, options) + options.max_claim_tokens)
    params = SamplingParams(max_tokens=limit, seed=draft.run.settings.seed)
    while True:
        asked = dataclasses.replace(params, grammar=_answer_grammar(draft))
        prompt = reference_prompt(draft.question, draft.passages, (), options.demonstrations, options.style)
        answer: Generation = yield Generate(prompt, asked, model="reference")
        finish = answer.samples[0].finish_reason
        matches = list(_UNIFIED.finditer(answer.text))
        # A whole pair, an ended answer or an ended reference: no sentence was too long by itself.
        if matches or finish != "length" or REFERENCE_END.strip() in answer.text:
            break
        # Not even the first reference came to its end: take the sentences it began with out of the grammar.
        cut = _cut_reference(answer.text.strip().removeprefix(REFERENCE_LEAD.strip()).strip(), index, options)
        if not isinstance(cut, set) or not cut:
            break
        draft.too_long |= cut
        yield draft.run.note("write", f"{len(cut)} sentences left out", f"no reference of them ends in {limit} tokens")
    for match in matches:
        citation = draft.resolve(match["reference"])
        claim = tidy(match["claim"])
        if citation is not None and claim and not is_placeholder(claim):
            draft.add(claim, citation)
            yield Report(ReferenceSealed(citation))
            yield Report(ClaimSealed(draft.claims[-1]))
    yield draft.run.note("write", f"{len(draft.claims)} pairs", "one model, one go", finish=finish)


def _answer_grammar(draft: _Draft) -> Grammar:
    options = draft.options
    try:
        grammar = draft.index.answer_grammar(
            options.mode,
            min_pairs=max(options.published.min_pairs, 1),  # an answer without any is what _optional allows
            max_pairs=options.max_pairs,
            min_sentences=options.published.min_sentences,
            max_sentences=options.max_sentences,
            reuse=options.published.reuse,
            exclude=(*draft.left_out, *draft.too_long),
        )
    except GrammarError as error:
        if not draft.too_long:
            raise
        raise UnusableReplies("Every sentence of the passages is too long to be quoted.", hint=_RAISE_IT) from error
    return grammar if options.published.min_pairs else _optional(grammar)


def _finished_sentences(written: Generation) -> str:
    """Return the text on one line; if it was stopped by length, only its complete sentences."""
    sample = written.samples[0]
    text = re.sub(r"\s+", " ", sample.text).strip()
    return complete_sentences(text) if sample.finish_reason == "length" else text
