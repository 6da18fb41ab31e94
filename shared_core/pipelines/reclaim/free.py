"""ReClaim for models that cannot be constrained: cite sentences by number, or quote freely and be aligned.

A ladder: numbers of sentences (the quote is then ours, and verbatim) → a free quote that is aligned to the passages
(exact, normalised, fuzzy) → ask again with what was wrong, at most ``regenerate`` times → the sentences of prose, each
beside the sentence of the passages that is most like it → drop the claim. Where nothing at all can be used, the writing
is ``Unusable``, which is another thing than a model that says that the passages do not answer.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.citation import CitationIndex, align_quote, split_sentences
from shared_core.errors import LimitError
from shared_core.lm.base import Generation, SamplingParams
from shared_core.pipelines.decision.declining import is_refusal
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.extractive import UnusableReplies
from shared_core.pipelines.reclaim.prompts import isolated_prompt, numbered_prompt
from shared_core.runtime.flow import Flow, Generate
from shared_core.types import Citation, Claim, Passage, Span

_PAIR = re.compile(
    r"<\s*reference\s*>(?P<reference>.*?)<\s*/\s*reference\s*>.*?<\s*claim\s*>(?P<claim>.*?)(?:<\s*/\s*claim\s*>|$)",
    re.IGNORECASE | re.DOTALL,
)
_ONE = r"\[?\s*S?\s*\d+\s*\]?"
_NUMBERS = re.compile(rf"\s*{_ONE}(?:\s*(?:,|;|and|-|–|\s)\s*{_ONE})*\s*\.?\s*", re.IGNORECASE)
_NUMBER = re.compile(r"S?\s*(\d+)(?:\s*[-–]\s*S?\s*(\d+))?", re.IGNORECASE)
_NO_ANSWER = re.compile(r"\bno[ _]answer\b", re.IGNORECASE)
_MARKUP = re.compile(r"</?\s*\w+\s*/?>|^\s*[-*#>]+\s*|\*\*|`+|\[\s*S?\d+\s*\]", re.MULTILINE)
_SHARED = 0.6  # of a sentence's content words
_FEWEST = 2  # content words of a sentence that says something


DECLINED = "no answer"
"""Outcome in the trace where the model says so."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """One pair of a reply; ``citation`` is ``None`` where nothing verifiable was cited, ``problem`` says why."""

    claim: str
    citation: Citation | None
    problem: str = ""


def write_freely(
    question: str, passages: Sequence[Passage], index: CitationIndex, run: QuestionRun
) -> Flow[list[Claim]]:
    """Claims with citations, the ones without any dropped (``status="dropped"``) but kept in sight.

    Raises:
        UnusableReplies: no attempt gave a claim that cites, nor "no answer".
    """
    options, seed = run.settings.reclaim, run.settings.seed
    best: list[Parsed] = []
    replies: list[str] = []
    problems = ""
    for attempt in range(options.regenerate + 1):
        prompt = numbered_prompt(question, index.sentences, passages, problems, options.demonstrations)
        params = SamplingParams(
            max_tokens=(options.max_claim_tokens + 40) * options.max_pairs,
            seed=None if seed is None else seed + attempt,
            # The same greedy reply would come again.
            temperature=0.0 if attempt == 0 else 0.7,
        )
        try:
            reply: Generation = yield Generate(prompt, params, model="claim")
        except LimitError as error:
            if not best:
                raise
            yield run.note("write", "asking again left out", error.message)
            break
        replies.append(reply.text)
        parsed = parse_reply(reply.text, index, passages, options.fuzzy_threshold)[: options.max_pairs]
        if _better(parsed, best):
            best = parsed
        problems = " ".join(dict.fromkeys(p.problem for p in parsed if p.problem))
        if not parsed and (_NO_ANSWER.search(reply.text) or is_refusal(reply.text)):
            yield run.note("write", DECLINED, "the model says the passages do not answer", attempt=attempt + 1)
            return []
        grounded = sum(p.citation is not None for p in parsed)
        problems = problems or ("" if parsed else "it holds no line of the form asked for.")
        yield run.note("write", f"{grounded} of {len(parsed)} claims cite", problems, attempt=attempt + 1)
        if parsed and not problems:
            break
    if not any(p.citation for p in best):
        salvaged = next((s for r in replies if (s := salvage(r, index, options.max_pairs))), [])
        if not salvaged and not best:
            raise UnusableReplies(
                f"No reply of {run.abilities.model_name('claim')} could be used: {problems}",
                hint="See what it replies to a plain question; a larger model follows the form.",
            )
        if salvaged:
            yield run.note("write", f"{len(salvaged)} sentences of prose aligned", problems)
            best = salvaged
    if options.published.isolate_claims:
        best = yield from _isolate(best, run)
    return [_claim(p) for p in best]


def _isolate(pairs: Sequence[Parsed], run: QuestionRun) -> Flow[list[Parsed]]:
    """Each claim written anew from its quote and the claims before it, without question and passages.

    A claim for which nothing is written stays as it was, and so do all once a limit is reached.
    """
    params = SamplingParams(max_tokens=run.settings.reclaim.max_claim_tokens, seed=run.settings.seed)
    out = list(pairs)
    for i, pair in enumerate(pairs):
        if pair.citation is None:
            continue
        before = [p.claim for p in out[:i] if p.citation is not None]
        try:
            written: Generation = yield Generate(isolated_prompt(before, pair.citation.quote), params, model="claim")
        except LimitError as error:
            yield run.note("write", "claims not isolated", error.message, claims=len(pairs) - i)
            break
        said = [p for p in written.text.splitlines() if p.strip()]
        text = re.sub(r"\s+", " ", _MARKUP.sub(" ", said[0])).strip() if said else ""
        if text and not _NO_ANSWER.search(text):
            out[i] = dataclasses.replace(pair, claim=text)
    yield run.note("write", f"{len(pairs)} claims isolated", "each from its quote alone")
    return out


def _better(new: Sequence[Parsed], old: Sequence[Parsed]) -> bool:
    return sum(p.citation is not None for p in new) > sum(p.citation is not None for p in old) or not old


def _claim(parsed: Parsed) -> Claim:
    if parsed.citation is None:
        return Claim(parsed.claim, None, status="dropped")
    return Claim(parsed.claim, None, (parsed.citation,))


def parse_reply(text: str, index: CitationIndex, passages: Sequence[Passage], threshold: float = 0.85) -> list[Parsed]:
    """The pairs of a reply, each with what it cites resolved to places that hold, or with its problem."""
    found: list[Parsed] = []
    for match in _PAIR.finditer(text):
        claim = re.sub(r"\s+", " ", match["claim"]).strip()
        if claim and not _NO_ANSWER.fullmatch(claim.strip(" .")):
            citation, problem = _resolve(match["reference"].strip(), index, passages, threshold)
            found.append(Parsed(claim, citation, problem))
    return found


def salvage(text: str, index: CitationIndex, limit: int) -> list[Parsed]:
    """The sentences of a reply in prose as claims, each with the passages' sentence that shares most of its words.

    Sentences of which less than ``_SHARED`` of the content words stand in one sentence of the passages are left out;
    whether the others follow from theirs is for the witnesses to say.
    """
    said = _MARKUP.sub(" ", text)
    held = [(span, _content(span.text)) for span in index.sentences]
    out: list[Parsed] = []
    for start, end in split_sentences(said):
        claim = re.sub(r"\s+", " ", said[start:end]).strip()
        words = _content(claim)
        if len(words) < _FEWEST or claim.endswith("?") or _NO_ANSWER.search(claim):
            continue
        span, common = max(((span, len(words & of)) for span, of in held), key=lambda pair: pair[1])
        if common >= _SHARED * len(words):
            out.append(Parsed(claim, Citation((span,))))
    return out[:limit]


def _content(text: str) -> frozenset[str]:
    """Words of four letters and more, and numbers: what two sentences on the same thing share."""
    return frozenset(w for w in re.findall(r"\w+", text.lower()) if len(w) > 3 or w.isdigit())


def _resolve(
    reference: str, index: CitationIndex, passages: Sequence[Passage], threshold: float
) -> tuple[Citation | None, str]:
    if len(reference) < 200 and _NUMBERS.fullmatch(reference):
        return _by_number(reference, index.sentences)
    quote = reference.strip(" \t\r\n\"“”'‘’«»")
    if not quote:
        return None, "A reference is empty."
    exact = index.resolve(quote)
    citation = exact if exact is not None else align_quote(quote, passages, threshold=threshold)
    return citation, "" if citation else f"The quote “{quote[:80]}” does not stand in the passages."


def _by_number(reference: str, sentences: Sequence[Span]) -> tuple[Citation | None, str]:
    numbers: list[int] = []
    for match in _NUMBER.finditer(reference):
        first, last = int(match[1]), int(match[2] or match[1])
        numbers.extend(range(first, min(last, first + 20) + 1))
    unknown = [n for n in numbers if not 1 <= n <= len(sentences)]
    if unknown:
        return None, f"There is no sentence S{unknown[0]}."
    spans = tuple(sentences[n - 1] for n in dict.fromkeys(numbers))
    return Citation(spans), ""
