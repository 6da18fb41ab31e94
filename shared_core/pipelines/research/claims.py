"""Candidates cut into claims: sentence by sentence, by any language model, or a sentence being a claim.

A splitter is a model like any other: it refuses, rambles, invents, or stops half way. What it says of a sentence is
used where it is a list of statements made of the answer's own words; elsewhere the sentence itself is the claim. So it
is where passages judge the claims and these leave something out: a sentence is shown whole, with all that it says.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from shared_core.abstention import claim_key, split_claims, unique_claims
from shared_core.abstention.claims import ClaimSpan
from shared_core.abstention.refusals import is_refusal
from shared_core.citation import split_sentences
from shared_core.citation.facts import compare_claim
from shared_core.lm.base import Generation, Sample, SamplingParams
from shared_core.pipelines.decision.decide import leans
from shared_core.pipelines.decision.question_run import QuestionRun, together
from shared_core.pipelines.decision.wording import number_marks
from shared_core.pipelines.research.asking import split_list_prompt, split_prompt, spoken
from shared_core.retrieval.tokenizer import Tokenizer
from shared_core.runtime.flow import Flow, Generate
from shared_core.support.markup import edit_links
from shared_core.support.regex import lazy_regex
from shared_core.types import Claim

MAX_TOKENS = 192
"""Of the splitter's reply about one sentence."""

_LONGEST = 20 * MAX_TOKENS
"""Characters of such a reply; a longer one comes from a provider that does not keep to the limit."""
_AT_ONCE, _MOST_TOKENS, _MOST_LINES = 10, 1_024, 20
"""Sentences of one request, tokens of its reply, and lines of the reply for each sentence, at most."""
_AT_ONCE_BATCHED = 2
"""Sentences of one request to a model that takes token ids, and so a batch at once: short replies take fewer steps."""
_TRIED, _USELESS = 8, 0.75
"""Sentences asked about from which on a splitter is known, and the share of unusable replies that makes it useless."""
_SIMPLE = 16
"""Words of a sentence that may make one claim only."""
# Also common joiners of German, French and Spanish, or more of their sentences would pass for one claim.
_JOINED = lazy_regex(
    r"[,;:()–—]|\s-\s|\b(?:and|or|but|which|who|whom|whose|while|where|when|because|although|though|since|after|before|"
    r"as|that|und|oder|et|ou|y)\b",
    re.IGNORECASE,
)
"""What joins a second statement to a first."""
# "1. …", "(2) …", "3: - …": the number of a sentence, then a claim of it.
_NUMBERED = lazy_regex(r"^[\s*•–-]*\(?(\d{1,2})[.):\]]\s*(?:[-*•–]\s*)?(\S.*)$")
_BULLET = lazy_regex(r"^\s*(?:[-*•–—]|\(?\d{1,2}[.):]|claim\s*\d*\s*:)\s*", re.IGNORECASE)
_QUOTED = lazy_regex(r'^["“”]([^"“”]*)["“”]$')
"""Marks around all of a claim; not those of "“The Tide” was written in 1948"."""
_GROUNDED = 0.6
"""Share of a claim's content words that must stand in the answer or the question."""


@dataclass(frozen=True, slots=True)
class Part:
    """A sentence of a candidate (``candidate.text[start:end]``) and the claims it makes, each by its own words."""

    start: int
    end: int
    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer as it was written, and its parts in order; ``round`` counts from 1."""

    text: str
    parts: tuple[Part, ...] = ()
    round: int = 1

    @property
    def claims(self) -> list[str]:
        """Its claims, each once (``claim_key``), in order."""
        return unique_claims(c for p in self.parts for c in p.claims)

    def places(self) -> Iterator[tuple[str, Part]]:
        """Each claim once, with the first sentence that makes it."""
        seen: set[str] = set()
        for part in self.parts:
            for claim in part.claims:
                if (key := claim_key(claim)) and key not in seen:
                    seen.add(key)
                    yield claim, part


@dataclass
class Splits:
    """Cache of sentences split into claims, so that none is asked about twice.

    Attributes:
        asked: sentences that the splitter was asked about.
        fallbacks: of these, those taken whole because the reply could not be used.
        left_out: statements of the splitter's that the answer does not contain.
    """

    asked: int = 0
    fallbacks: int = 0
    left_out: int = 0
    known: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)


def split(question: str, texts: Sequence[str], number: int, splits: Splits, run: QuestionRun) -> Flow[list[Candidate]]:
    """Cut the texts of round ``number`` into claims; all sentences that are new go to the splitter in one batch.

    A candidate that says it has no answer has no claims. A sentence whose request fails stands for itself. Where
    passages judge the claims, so does a short sentence that makes one claim only.
    """
    options = run.settings.research
    sentences = [_claiming(text, comments=options.closed_book) for text in texts]
    keys = [[_key(text, s.text, s.start) for s in found] for text, found in zip(texts, sentences)]
    if options.splitter == "model":
        todo = {
            key: (text, s.text)
            for text, found, named in zip(texts, sentences, keys)
            for s, key in zip(found, named)
            if key not in splits.known and (options.closed_book or not _makes_one_claim(s.text))
        }
        yield from _ask(question, todo, splits, run)
    return [
        Candidate(
            text, tuple(Part(s.start, s.end, splits.known.get(k, (s.text,))) for s, k in zip(found, named)), number
        )
        for text, found, named in zip(texts, sentences, keys)
    ]


def _claiming(text: str, *, comments: bool) -> list[ClaimSpan]:
    """Return the sentences of an answer that claim something; none if it begins by saying that it has none.

    Args:
        comments: sentences behind such a beginning count. What follows "The passages do not say who won" comments on
            the passages ("They only say that there is a prize"), and is no answer either.
    """
    found = split_claims(text)
    if found and is_refusal(found[0].text) and not comments:
        return []
    return [s for s in found if not is_refusal(s.text)]


def _key(text: str, sentence: str, start: int) -> str:
    """The same sentence makes the same claims, unless it begins with a word for something said before it."""
    return f"{text[:start]}\n{sentence}" if leans(sentence) else sentence


def _makes_one_claim(sentence: str) -> bool:
    """Whether a sentence is one clause that is understood by itself: asking what it claims would give it back."""
    return len(sentence.split()) <= _SIMPLE and not leans(sentence) and _JOINED.search(sentence) is None


def _ask(question: str, todo: Mapping[str, tuple[str, str]], splits: Splits, run: QuestionRun) -> Flow[None]:
    """Ask about each sentence by itself (closed book: the paper's form), else about many in one request."""
    if not todo:
        return
    model = run.abilities.model("default")
    batched = model is not None and model.token_prompts
    most = 1 if run.settings.research.closed_book else _AT_ONCE_BATCHED if batched else _AT_ONCE
    groups = [list(todo.items())[i : i + most] for i in range(0, len(todo), most)]
    # A model that cannot split shows it on the first sentences: the others, hundreds of tokens each, stand whole. Where
    # all requests are one batch, asking twice would take longer.
    trial = 1 if most == _AT_ONCE else len(groups)
    for some in (groups[:trial], groups[trial:]):
        if some and (splits.asked < _TRIED or splits.fallbacks <= _USELESS * splits.asked):
            yield from _ask_groups(question, some, splits, run)


def _ask_groups(
    question: str, groups: Sequence[Sequence[tuple[str, tuple[str, str]]]], splits: Splits, run: QuestionRun
) -> Flow[None]:
    """Ask about the sentences of each group in one request, all requests at the same time."""
    requests = []
    for group in groups:
        if len(group) == 1:
            prompt = split_prompt(question, *group[0][1], run.settings.research)
        else:
            prompt = split_list_prompt(question, [(s, _before(text, s)) for _, (text, s) in group])
        # Claims repeat words of their sentence: a list twice as long as the sentences goes round in circles.
        # A token has four characters or so; of scripts whose characters take three bytes, one.
        room = sum(40 + len(sentence.encode()) // 2 for _, (_, sentence) in group)
        limit = MAX_TOKENS if run.settings.research.closed_book else min(_MOST_TOKENS, room)
        requests.append(Generate(prompt, SamplingParams(max_tokens=limit, seed=run.settings.seed)))
    replies = yield from together(requests)
    most = run.settings.research.published.max_sentence_claims
    for group, reply in zip(groups, replies):
        parts = [reply] if len(group) == 1 else _by_number(reply, len(group))
        for (key, (text, sentence)), part in zip(group, parts):
            claims, left_out = read_claims(part, sentence, f"{question}\n{text}", most)
            # the sentence itself, which is shown, keeps those that are known
            claims = tuple(edit_links(claim, lambda label, _: label) for claim in claims)
            if (
                not run.settings.research.closed_book
                and not compare_claim(sentence, "\n".join(claims), question).agrees
            ):
                claims = ()
            splits.asked += 1
            splits.fallbacks += not claims
            splits.left_out += left_out
            splits.known[key] = claims or (sentence,)


def _before(text: str, sentence: str) -> str:
    """The sentence before one that refers to it; empty for one that is understood by itself."""
    if not leans(sentence):
        return ""
    before = text[: text.index(sentence)]
    spans = split_sentences(before)
    return before[spans[-1][0] : spans[-1][1]] if spans else ""


def _by_number(reply: Generation | Exception, count: int) -> list[Generation | Exception]:
    """Cut a reply about several sentences into one for each, by the numbers that its lines begin with."""
    if isinstance(reply, Exception):
        return [reply] * count
    sample = reply.samples[0]
    lines = spoken(sample.text).splitlines()
    if sample.finish_reason == "length":
        lines = lines[:-1]  # half a claim is none
    said: list[list[str]] = [[] for _ in range(count)]
    for line in lines[: count * _MOST_LINES]:
        match = _NUMBERED.match(line)
        if match and 1 <= int(match[1]) <= count:
            said[int(match[1]) - 1].append(f"- {match[2]}")
    # As complete replies ("eos" by default), for read_claims: a line that was cut is gone already.
    return [Generation((Sample("\n".join(some)),)) for some in said]


def read_claims(
    reply: Generation | Exception, sentence: str, source: str, most: int = 8
) -> tuple[tuple[str, ...], int]:
    """The claims of a splitter's reply, and how many of its statements were left out.

    Args:
        reply: what came back; an error, a refusal or a reply of more than ``most`` statements gives no claims.
        source: what claims may be made of: the answer and the question.
        most: statements of one sentence.

    Returns:
        Claims without repetitions, none if the reply cannot be used; statements that bring in words or figures of
        their own are left out and counted.
    """
    if isinstance(reply, Exception):
        return (), 0
    sample = reply.samples[0]
    # The provider ignored max_tokens: text of that length about one sentence is no list of its claims.
    if len(sample.text) > _LONGEST:
        return (), 0
    lines = [line for line in spoken(sample.text).splitlines() if line.strip()]
    if sample.finish_reason == "length":
        lines = lines[:-1]  # half a claim is none
    bulleted = [line for line in lines if _BULLET.match(line)]
    if bulleted:
        lines = bulleted  # what stands around a list is talk
    elif len(lines) == 1:
        lines = [lines[0][a:b] for a, b in split_sentences(lines[0])]  # a paragraph, no list
    said = [_QUOTED.sub(r"\1", " ".join(_BULLET.sub("", line).split())) for line in lines]
    # "Here are the claims:" is no claim.
    said = [s for s in unique_claims(said) if any(c.isalnum() for c in s) and not s.endswith(":")]
    # Fall back to the sentence itself: it is a weaker unit, but the model did write it.
    if not said or len(said) > most or any(is_refusal(s) for s in said):
        return (), 0
    # Names that replace "she" come from the rest of the answer or from the question.
    allowed = _words(f"{source}\n{sentence}")
    kept = tuple(s for s in said if _stands_in(s, allowed))
    return kept, len(said) - len(kept)


@lru_cache(maxsize=1)
def _tokenizer() -> Tokenizer:
    return Tokenizer()


def _words(text: str) -> frozenset[str]:
    return frozenset(_tokenizer()(text))


def _stands_in(claim: str, allowed: frozenset[str]) -> bool:
    """Whether the claim is made of these words, all its figures among them."""
    words = _words(claim)
    # A changed figure is the worst invention and the easiest to miss by overlap, so figures must match exactly.
    if any(w not in allowed for w in words if any(c.isdigit() for c in w)):
        return False
    return not words or len(words & allowed) >= _GROUNDED * len(words)


# --- the text of an answer -----------------------------------------------------------------------------------------


def shown_scores(candidate: Candidate, scores: Mapping[str, float | None]) -> list[float | None]:
    """For each claim of the candidate what its sentence is shown by.

    A sentence is shown by the least of its claims' scores, and one that begins with a word for something said before it
    by no more than that sentence is: so whatever the bar, what is above it can be shown and understood.

    Args:
        scores: of each claim by ``claim_key``; ``None`` for unknown.
    """
    shown: dict[str, float | None] = {}  # a claim that is made again is shown where its first sentence is
    before: float | None = None
    for i, part in enumerate(candidate.parts):
        keys = [key for c in part.claims if (key := claim_key(c))]
        least = _least([shown.get(key, scores.get(key)) for key in keys])
        # "It is red." says nothing without the sentence before it, so it is never more certain than that one.
        if i and leans(candidate.text[part.start : part.end]):
            least = _least([least, before])
        # Chained through: a dropped sentence drops all that refer back to it, one after the other.
        before = least
        for key in keys:
            shown.setdefault(key, least)
    return [shown[claim_key(claim)] for claim, _ in candidate.places()]


def _least(scores: Sequence[float | None]) -> float | None:
    known = [s for s in scores if s is not None]
    # One unknown claim makes the sentence unknown: a sentence is shown whole or not at all.
    return min(known) if known and len(known) == len(scores) else None


def lay_out(candidate: Candidate, claims: Sequence[Claim], *, marks: bool = True) -> tuple[str, tuple[Claim, ...]]:
    """The candidate's text as far as its claims are not dropped, and the claims with their places in it.

    Args:
        claims: its claims in order (``Candidate.places``), each with its status.
        marks: put marks behind the sentences; then words that make no claim (“I am not sure.”) are left out, too.

    Returns:
        The text and the claims, the dropped ones last. A claim's place is that of its sentence as written, whose words
        need not be the claim's own: the claim is understandable by itself.
    """
    status = {claim_key(c.text): c for c in claims}
    shown = False
    numbers: dict[tuple[str, int, int], int] = {}
    text, last = "", 0
    places: dict[int, tuple[int, int]] = {}
    for part in candidate.parts:
        mine = [status[key] for c in part.claims if (key := claim_key(c)) in status]
        shown = all(c.status != "dropped" for c in mine)
        if shown:
            # Where all before it was dropped, not even the blank in between opens the text.
            text += _between(candidate.text[last : part.start], keep=not marks) if text or not last else ""
            start = len(text)
            text += candidate.text[part.start : part.end]
            places[part.start] = (start, len(text))
            text += _marks(mine, numbers) if marks else ""
        last = part.end
    if shown:
        # What follows the last sentence goes with it.
        text = (text + _between(candidate.text[last:], keep=not marks)).rstrip()
    placed = []
    for claim, part in ((status[claim_key(t)], p) for t, p in candidate.places()):
        if claim.status != "dropped" and part.start in places:
            claim = dataclasses.replace(claim, start=places[part.start][0], end=places[part.start][1])
        placed.append(claim)
    # sort is stable: claims that are shown keep the order of the text.
    placed.sort(key=lambda c: c.status == "dropped")
    return text, tuple(placed)


def _between(text: str, *, keep: bool) -> str:
    """Text between sentences with claims; ``keep``: words, too."""
    return " " if not keep and any(c.isalnum() for c in text) else text


def _marks(claims: Sequence[Claim], numbers: dict[tuple[str, int, int], int]) -> str:
    text = number_marks(claims, numbers)
    flagged = sum(c.status == "flagged" for c in claims)
    if flagged:
        text += " (unsupported)" if flagged == len(claims) else " (partly unsupported)"
    return text
