"""ReClaim for models that cannot be constrained: cite sentences by number, or quote freely and align the quote.

Each reply goes down a ladder until something can be used: sentences named by number (the quote is then ours, and
verbatim); a free quote, aligned to the passages (exact, normalised, fuzzy); prose, each sentence with the sentence of
the passages most like it. Only a reply of which nothing can be used is asked for again, at most ``regenerate`` times,
naming what was wrong. If no reply can be used at all, ``UnusableReplies`` is raised: that is not the same as a model
that declines to answer.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.abstention.refusals import is_refusal
from shared_core.citation import CitationIndex, align_quote, split_sentences
from shared_core.citation.facts.attributions import POINTING
from shared_core.citation.facts.tokens import tokens_of
from shared_core.errors import LimitError
from shared_core.lm.base import Generation, SamplingParams
from shared_core.lm.chat.thoughts import find_own_words
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.decision.reasons import DECLINED
from shared_core.pipelines.evidence import complete_sentences
from shared_core.pipelines.extractive import UnusableReplies
from shared_core.pipelines.reclaim.prompts import isolated_prompt, numbered_prompt
from shared_core.pipelines.structured import plain_reply
from shared_core.runtime.flow import Flow, Generate
from shared_core.support.regex import lazy_regex
from shared_core.types import Citation, Claim, MatchKind, Passage, Span

# Tags of any name, and bold and code of Markdown: none of them is part of a claim.
_TAGS = lazy_regex(r"</?\s*\w+\s*/?>|\*\*|`+")
# "S3", "3, 4", "S1-S3", "2 and 5".
_CITED = r"S?\d+(?:\s*(?:[,;–-]|and)\s*S?\d+)*"
# In round brackets only with the letter: (1871) may be a year.
_MARK = rf"(?:\[\s*{_CITED}\s*\]|\(\s*S\d+(?:\s*(?:[,;–-]|and)\s*S?\d+)*\s*\))"
# Several marks in a row: "[1], [2] and [S3]".
_MARKS = rf"{_MARK}(?:\s*(?:,|and|&)?\s*{_MARK})*"
_POINTING = rf"(?:{POINTING}|see(?:\s+also)?|cf\.?|from|in|by)"
_SOURCE = r"(?:the\s+)?(?:passages?|sentences?|sources?|documents?|references?|quotes?|citations?)"
# "According to [1], …": with it the beginning of the sentence goes, so tidy puts a capital.
_OPENING = lazy_regex(rf"^\s*{_POINTING}\s+(?:{_SOURCE}\s*)?{_MARKS}\s*[,:]?\s+", re.IGNORECASE)
# "…, as stated in passage [2]", or bare marks, anywhere.
_POINTER = lazy_regex(rf"\s*,?\s*\b{_POINTING}\s+(?:{_SOURCE}\s*)?{_MARKS}|\s*{_MARKS}", re.IGNORECASE)
# What is copied from lists and forms before a sentence: "- S27: ", "[3] ", "Claim 2: ", "1. ".
_LABEL = lazy_regex(
    rf"^\s*(?:(?:[-*•#>]+\s+|\(?S\d+\)?\s*[:.)–-]\s*|{_MARK}\s*[:.)–-]?\s*)(?=\S|$)|"
    r"(?:(?:sentence|passage|claim|answer|reference|quote)s?(?:\s+S?\d+)?\s*:\s*|"
    # A number opens a list, unless a month follows it ("12. Mai").
    r"\d{1,2}\)\s+|\d{1,2}\.\s+(?!(?:jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])))(?=\S))",
    re.IGNORECASE,
)
# Both are left over where a mark was cut out: "capital .", ",.".
_BLANKS_BEFORE = lazy_regex(r"\s+([.,;:!?])")
_DOUBLED = lazy_regex(r"[,;]\s*([.,;!?])")
# Folded as in is_placeholder: lower case, words only.
_PLACEHOLDERS = frozenset(
    {"one sentence", "quoted sentences", "what follows from them for the question",
     "one sentence that follows from them and answers the question"}
)  # fmt: skip


def without_tags(text: str) -> str:
    """Replace tags and Markdown emphasis by blanks."""
    return _TAGS.sub(" ", text)


def tidy(text: str, titles: Sequence[str] = ()) -> str:
    """Take off what belongs to the form of a prompt or a citation style, and set the text on one line.

    >>> tidy("- S27: The capital is **Aster**, as stated in [1].")
    'The capital is Aster.'
    >>> tidy("Aster: The capital since 1871 [7]", titles=["Aster"])
    'The capital since 1871'

    Args:
        titles: of the passages; one that opens the text, followed by a colon, a dash or a line break, is taken off.
    """
    text = without_tags(text).strip()
    # Labels and titles come in any order, and more than once.
    while (bare := _without_title(_LABEL.sub("", text), titles)) != text:
        text = bare
    opened = _OPENING.sub("", text)
    if opened != text:
        text = opened[:1].upper() + opened[1:]
    text = _POINTER.sub("", re.sub(r"\s+", " ", text))
    text = _DOUBLED.sub(r"\1", _BLANKS_BEFORE.sub(r"\1", re.sub(r"\s+", " ", text)))
    text = text.strip().lstrip(",;: ")
    return text if any(c.isalnum() for c in text) else ""


def _without_title(text: str, titles: Sequence[str]) -> str:
    for title in titles:
        rest = text[len(title) :]
        # A hyphen needs blanks around it: "Aster-2" is a name, not the title "Aster".
        if title and text.casefold().startswith(title.casefold()) and re.match(r"\s*[:–—]\s|\s+-\s|[ \t]*\n", rest):
            return re.sub(r"^\s*[:–—-]?\s*", "", rest)
    return text


def is_placeholder(text: str) -> bool:
    """Return whether a claim only repeats the words by which a prompt describes the form."""
    return re.sub(r"[\W_]+", " ", text).strip().casefold() in _PLACEHOLDERS


# --- replies -------------------------------------------------------------------------------------------------------


# "We can know that:" may stand between both tags; a reply that was cut off lacks the last one ($).
_PAIR = lazy_regex(
    r"<\s*reference\s*>(?P<reference>.*?)<\s*/\s*reference\s*>.*?<\s*claim\s*>(?P<claim>.*?)(?:<\s*/\s*claim\s*>|$)",
    re.IGNORECASE | re.DOTALL,
)
# Possessive: a reply of many blanks is matched, or not, in time linear in its length.
_ONE = r"\[?+\s*+S?+\s*+\d++\s*+\]?+"
_NUMBERS = lazy_regex(rf"\s*+{_ONE}(?>(?:\s*+(?>(?:,|;|and|-|–)?)\s*+{_ONE})*)\s*+\.?+\s*+", re.IGNORECASE)
# The second group is the end of a range: "S2-S4".
_NUMBER = lazy_regex(r"S?\s*(\d+)(?:\s*[-–]\s*S?\s*(\d+))?", re.IGNORECASE)
_NO_ANSWER = lazy_regex(r"\bno[ _]answer\b", re.IGNORECASE)
_LADDER: tuple[MatchKind, ...] = ("verbatim", "normalised", "fuzzy")
_SHARED = 0.6
"""Share of a prose sentence's content words that its quote must hold; what is missing, the judges will notice."""
_FEWEST = 2
"""Content words of a sentence at least: with one, every passage on the subject would hold all of them."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """One pair of a reply; without a ``citation`` that can be verified, ``problem`` says why."""

    claim: str
    citation: Citation | None
    problem: str = ""


def write_freely(
    question: str, passages: Sequence[Passage], index: CitationIndex, run: QuestionRun
) -> Flow[list[Claim]]:
    """Write claims with citations; those without any stay in the list, dropped (``status="dropped"``).

    UnusableReplies if no attempt gave anything that could be used, nor declined to answer.
    """
    options, seed = run.settings.reclaim, run.settings.seed
    sentences = index.quotable
    uncited: list[Parsed] = []
    used: list[Parsed] = []
    problems = ""
    for attempt in range(options.regenerate + 1):
        prompt = numbered_prompt(question, sentences, passages, problems, options.demonstrations, options.style)
        params = SamplingParams(
            max_tokens=(options.max_claim_tokens + 40) * options.max_pairs,  # 40: the tags and numbers of a line
            seed=None if seed is None else seed + attempt,  # or two attempts at 0.7 could be the same
            temperature=0.0 if attempt == 0 else 0.7,  # the same greedy reply would come again
        )
        try:
            reply: Generation = yield Generate(prompt, params, model="claim")
        except LimitError as error:
            # With claims at hand, even without quotes, the run goes on: they are listed as dropped.
            if not uncited:
                raise
            yield run.note("write", "asking again left out", error.message)
            break
        # Framework models have their echo taken off; whatever else completes text may repeat the prompt as well.
        text = reply.text[find_own_words(reply.text, [prompt.text], prompt.text) :]
        plain = plain_reply(text, len(sentences))
        # Of JSON that was cut off only whole texts are left.
        text = _without_cut(text) if plain == text and reply.samples[0].finish_reason == "length" else plain
        parsed = parse_reply(text, index, passages, options.fuzzy_threshold)[: options.max_pairs]
        if not parsed and (_NO_ANSWER.search(text) or is_refusal(text)):
            yield run.note("write", DECLINED, "the model says the passages do not answer", attempt=attempt + 1)
            return []
        problems = " ".join(dict.fromkeys(p.problem for p in parsed if p.problem))
        problems = problems or ("" if parsed else "it holds no line of the form asked for.")
        cited = sum(p.citation is not None for p in parsed)
        yield run.note("write", f"{cited} of {len(parsed)} claims cite", problems, attempt=attempt + 1)
        if cited:
            # Its pairs without a citation stay in the list: they become dropped claims.
            used = parsed
            break
        # A reply costs hundreds of tokens. Small models never keep to the form, and their prose is usable at once.
        used = salvage(text, sentences, options.max_pairs, [p.title for p in passages])
        if used:
            yield run.note("write", f"{len(used)} sentences of prose aligned", problems)
            break
        uncited = uncited or parsed  # the first attempt's, which was greedy
    if not used and not uncited:
        raise UnusableReplies(
            f"No reply of {run.abilities.model_name('claim')} could be used: {problems}",
            hint="See what it replies to a plain question; a larger model follows the form.",
        )
    pairs = used or uncited
    if options.published.isolate_claims:
        pairs = yield from _isolate(pairs, run)
    return [_claim(p) for p in pairs]


def _without_cut(text: str) -> str:
    """Leave out the sentence that a limit cut off: what it lacks may be "except on Sundays"."""
    before, tag, last = text.rpartition(">")
    return before + tag + complete_sentences(last)


def _isolate(pairs: Sequence[Parsed], run: QuestionRun) -> Flow[list[Parsed]]:
    """Write each claim anew from its quote and the claims before it, without question and passages.

    So the claim can rest on nothing but its quote, as with the claim model of the interleaved form. A claim for which
    nothing is written stays as it was, and so do all once a limit is reached.
    """
    options = run.settings.reclaim
    params = SamplingParams(max_tokens=options.max_claim_tokens, seed=run.settings.seed)
    out = list(pairs)
    for i, pair in enumerate(pairs):
        if pair.citation is None:
            continue
        # From ``out``: earlier claims as they have been written anew.
        before = [p.claim for p in out[:i] if p.citation is not None]
        try:
            quoted = " ".join(span.text for span in pair.citation.primary)  # not as the model wrote it
            prompt = isolated_prompt(before, quoted, options.style)
            written: Generation = yield Generate(prompt, params, model="claim")
        except LimitError as error:
            yield run.note("write", "claims not isolated", error.message, claims=len(pairs) - i)
            break
        # One sentence was asked for: what follows the first line with words is talk.
        text = next(filter(None, map(tidy, written.text.splitlines())), "")
        if text and not _NO_ANSWER.search(text):
            out[i] = dataclasses.replace(pair, claim=text)
    yield run.note("write", f"{len(pairs)} claims isolated", "each from its quote alone")
    return out


def _claim(parsed: Parsed) -> Claim:
    if parsed.citation is None:
        return Claim(parsed.claim, None, status="dropped")
    return Claim(parsed.claim, None, (parsed.citation,))


def parse_reply(text: str, index: CitationIndex, passages: Sequence[Passage], threshold: float = 0.85) -> list[Parsed]:
    """Parse the pairs of a reply in order; one that cites nothing that can be verified has a ``problem`` instead.

    Args:
        index: of the passages; its sentences, headings left out, are those that were numbered.
        threshold: similarity in [0, 1] from which a free quote still counts.
    """
    found: list[Parsed] = []
    titles = [p.title for p in passages]
    for match in _PAIR.finditer(text):
        claim = tidy(match["claim"], titles)
        if claim and not _is_no_claim(claim) and not _NO_ANSWER.fullmatch(claim.strip(" .")):
            citation, problem = _resolve(match["reference"].strip(), claim, index, passages, threshold)
            found.append(Parsed(claim, citation, problem))
    return found


def salvage(text: str, sentences: Sequence[Span], limit: int, titles: Sequence[str] = ()) -> list[Parsed]:
    """Take the sentences of a reply in prose as claims, each citing the sentence that shares most of its words.

    Sentences that share less than ``_SHARED`` of their content words with any sentence of the passages are left out,
    and so are questions and lead-ins that end in a colon. Whether the others follow from their quotes is for the judges
    to say.

    Args:
        titles: of the passages, taken off where they open a sentence.
    """
    held = [(span, _content(span.text)) for span in sentences]
    out: list[Parsed] = []
    prose = without_tags(text)
    for start, end in split_sentences(prose):
        claim = tidy(prose[start:end], titles)
        words = _content(claim)
        unusable = len(words) < _FEWEST or claim.endswith(("?", ":")) or _is_no_claim(claim)
        if unusable or _NO_ANSWER.search(claim) or not held:
            continue
        # max takes the first of equals, which is of the better ranked passage.
        span, common = max(((span, len(words & of)) for span, of in held), key=lambda pair: pair[1])
        if common >= _SHARED * len(words):
            out.append(Parsed(claim, Citation((span,))))
    return out[:limit]


def _is_no_claim(text: str) -> bool:
    return text.startswith("{") or is_placeholder(text)  # JSON that could not be read


def _content(text: str) -> frozenset[str]:
    """Return the words of four letters and more, and the numbers: what sentences on the same matter share."""
    return frozenset(w for w in re.findall(r"\w+", text.lower()) if len(w) > 3 or w.isdigit())


def _resolve(
    reference: str, claim: str, index: CitationIndex, passages: Sequence[Passage], threshold: float
) -> tuple[Citation | None, str]:
    """Resolve the reference of a claim to a citation, or say what is wrong with it."""
    if len(reference) < 200 and _NUMBERS.fullmatch(reference):
        # The list that the prompt numbered: of any other, the numbers would mean other sentences.
        return _by_number(reference, index.quotable)
    # Labels come off a quote too ("S3: It burned oil."), but the quote as it was written has the first word.
    quotes = dict.fromkeys(q.strip(" \t\r\n\"“”'‘’«»") for q in (reference, tidy(reference)))
    # Whole sentences, also of several places, else the ladder: exact, normalised, fuzzy.
    found = [index.resolve(q) or align_quote(q, passages, threshold=threshold) for q in quotes if q]
    best = min((c for c in found if c is not None), key=lambda c: _LADDER.index(c.match), default=None)
    if best is not None:
        citation = _whole_sentences(best, claim, index)
        if all(index.is_heading(s) for s in citation.spans):
            return None, f"“{best.quote[:80]}” is a heading, which states nothing."
        return citation, ""
    if not reference:
        return None, "A reference is empty."
    return None, f"The quote “{reference[:80]}” is not in the passages."


def _whole_sentences(found: Citation, claim: str, index: CitationIndex) -> Citation:
    """Widen a citation to whole sentences: "open the valve" must not lose the "do not" before it.

    Of several sentences with the same part, that with most of the claim's words is cited.
    """
    wanted = _content(claim)
    spans: dict[Span, None] = {}
    for part in found.primary:
        places = [_widened(s, index) for s in found.spans if s.text == part.text]
        # max takes the first of equals, which is of the better ranked passage.
        best = max(places, key=lambda s: (not index.is_heading(s), len(wanted & _content(s.text))))
        spans.update(dict.fromkeys(s for s in places if s.text == best.text))
    quote = "" if found.match == "verbatim" else found.quote
    return Citation(tuple(spans), found.match, found.ambiguous and len(spans) > 1, quote)


def keep_negations(found: Citation, index: CitationIndex) -> Citation:
    """Widen parts of sentences to whole ones where only these are negated: "never open it" is no "open it"."""
    spans = [(span, _widened(span, index)) for span in found.spans]
    kept = (whole if _is_negated(whole.text) and not _is_negated(span.text) else span for span, whole in spans)
    return dataclasses.replace(found, spans=tuple(dict.fromkeys(kept)), quote="")


def _is_negated(text: str) -> bool:
    return any(token.is_negation for token in tokens_of(text))


def _widened(span: Span, index: CitationIndex) -> Span:
    """Return the sentences that a span overlaps, with what stands between them."""
    near = [s for s in index.sentences if s.passage_id == span.passage_id]
    held = [s for s in near if s.start < span.end and span.start < s.end]
    passage = next(p for p in index.passages if p.id == span.passage_id)
    return passage.span(held[0].start, held[-1].end) if held else span


def _by_number(reference: str, sentences: Sequence[Span]) -> tuple[Citation | None, str]:
    numbers: list[int] = []
    for match in _NUMBER.finditer(reference):
        first, last = sorted((int(match[1]), int(match[2] or match[1])))  # "S4-S2" is a range, too
        numbers.extend(range(first, min(last, first + 20) + 1))  # "S2-S9999" must not make a list of that length
    unknown = [n for n in numbers if not 1 <= n <= len(sentences)]
    if unknown:
        return None, f"There is no sentence S{unknown[0]}."
    spans = tuple(sentences[n - 1] for n in dict.fromkeys(numbers))
    return Citation(spans), ""
