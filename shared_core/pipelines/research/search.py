"""Iterative search (Piché et al., Algorithm 1): write candidates, judge their claims, write again from the likely ones.

What a claim is worth is asked once for all candidates and rounds (``ClaimCache``), which is what makes K rounds of J
cheaper than one of K·J. Differences to the algorithm as printed: no batch is sampled that is not scored, and the search
ends early when utility stops growing, when its tokens are spent, or at a limit of the settings; and, where passages
judge the claims, once nothing of the best answer is in doubt or no claim at all is likely.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from shared_core.abstention import ClaimCache, claim_key, expected_utility
from shared_core.citation import CitationIndex, split_sentences
from shared_core.errors import CapabilityError, ContextOverflowError, LanguageModelError, LimitError, SelfReflectError
from shared_core.lm.base import Generation, SamplingParams
from shared_core.lm.chat.layout import without_halves
from shared_core.pipelines.confidence import Weighed, weigh
from shared_core.pipelines.decision.links import Addresses
from shared_core.pipelines.decision.question_run import QuestionRun, leave_out
from shared_core.pipelines.evidence import complete_sentences
from shared_core.pipelines.research.asking import Fact, spoken, write_prompt
from shared_core.pipelines.research.claims import Candidate, Splits, shown_scores, split
from shared_core.pipelines.research.evaluate import evaluate, self_evaluation_of
from shared_core.pipelines.support import judge_at_hand
from shared_core.reading.confidence import ExpectedShare
from shared_core.retrieval import BM25Retriever
from shared_core.runtime.flow import Flow, Generate, Judge, Request, intercept
from shared_core.settings import ResearchSettings
from shared_core.types import Citation, Claim, Passage, Span, Usage

# --- claims and passages -------------------------------------------------------------------------------------------


class Quotes:
    """The sentences of one question's passages, to find quotes in."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = tuple(passages)
        seen: dict[str, Span] = {}
        # Each sentence once, at its first place: repetitions would fill the k nearest.
        for span in CitationIndex(passages).sentences:
            seen.setdefault(" ".join(span.text.split()), span)
        self._spans = list(seen.values())
        # A store takes no half of a surrogate pair (an emoji that was cut).
        self._search = BM25Retriever([Passage(str(i), without_halves(s.text)) for i, s in enumerate(self._spans)])

    def nearest(self, claims: Sequence[str], k: int) -> list[list[Span]]:
        """For each claim the sentences that share most words with it, best first, at most ``k``."""
        found = self._search.retrieve_many(claims, k) if self._spans else [[] for _ in claims]
        return [[self._spans[int(p.id)] for p in ranked] for ranked in found]


def weigh_claims(
    question: str, claims: Sequence[str], quotes: Quotes, run: QuestionRun, *, first: bool
) -> Flow[Weighed]:
    """Cite a verbatim quote for each claim, where there is one, and weigh the claims (``confidence.weigh``).

    Args:
        first: it is the first time for this question; later ones do not count as further questions.
    """
    near = quotes.nearest(claims, run.settings.research.published.quotes)
    best = yield from _choose(claims, near, run)
    cited = [Claim(c, None, (Citation((s,)),) if s is not None else ()) for c, s in zip(claims, best)]
    yield run.note("quote", f"{sum(s is not None for s in best)} of {len(claims)} claims", "by words, then by support")
    # weigh() counts its reading as one more question: here on a fixed copy, so that it does not.
    if not first:
        context = dataclasses.replace(run.abilities, expected=ExpectedShare(run.abilities.expected.value))
        run = dataclasses.replace(run, abilities=context)
    return (yield from weigh(question, cited, quotes.passages, run))


def _choose(claims: Sequence[str], near: Sequence[Sequence[Span]], run: QuestionRun) -> Flow[list[Span | None]]:
    """For each claim the sentence that supports it most, by judge or critic; without one, the nearest by words."""
    chosen = [spans[0] if spans else None for spans in near]
    by = judge_at_hand(run.abilities)
    # With one candidate there is nothing to choose.
    pairs = [(i, span) for i, spans in enumerate(near) if len(spans) > 1 for span in spans]
    if by is None or not pairs:
        return chosen
    texts = tuple((span.text, claims[i]) for i, span in pairs)
    try:
        scores: list[float | None] = yield Judge(texts, by=by)
    except LimitError:
        raise
    except SelfReflectError as error:
        yield run.note("quote", "nearest by words", error.message)
        return chosen
    best: dict[int, float] = {}
    for (i, span), score in zip(pairs, scores):
        if score is not None and score > best.get(i, -1.0):
            best[i], chosen[i] = score, span
    return chosen


# --- the search ----------------------------------------------------------------------------------------------------


T = TypeVar("T")
_SHORT = 4
"""Tokens that a sentence has at least, one with another."""


@dataclass
class Search:
    """One question's search, as far as it has come.

    Attributes:
        passages: what is read, best first; none in the closed-book form.
        candidates: all that were written and judged.
        claims: what is known of each claim, by ``claim_key``.
        cache: the claims' probabilities, with its hits and misses.
        weighed: the last judgement by passages (closed book: nothing).
        missing: replies of the model about claims that state no probability.
        usage: tokens spent by the models.
        history: best utility after each round.
    """

    question: str
    run: QuestionRun
    passages: Sequence[Passage] = ()
    candidates: list[Candidate] = field(default_factory=list)
    claims: dict[str, Claim] = field(default_factory=dict)
    cache: ClaimCache = field(default_factory=ClaimCache)
    splits: Splits = field(default_factory=Splits)
    weighed: Weighed = field(default_factory=lambda: Weighed([]))
    rounds: int = 0
    usage: Usage = field(default_factory=Usage)
    history: list[float] = field(default_factory=list)
    missing: int = 0
    _quotes: Quotes | None = field(default=None, repr=False)

    @property
    def options(self) -> ResearchSettings:
        """Of this pipeline."""
        return self.run.settings.research

    @property
    def target(self) -> float:
        """ρ*."""
        return self.run.settings.target_accuracy

    @property
    def tokens(self) -> int:
        """Read and written by the models so far."""
        return self.usage.prompt_tokens + self.usage.generated_tokens

    def probabilities(self, candidate: Candidate) -> list[float | None]:
        """Of its claims, in order."""
        return self.cache.probabilities(candidate.claims)

    def shown_by(self, candidate: Candidate) -> list[float | None]:
        """Scores by which its claims are shown: the sentence's, unless unsupported claims are only marked."""
        closed = self.options.closed_book
        # By passages a claim without a quote is never shown, however likely it is.
        known = {key: c.support if c.citations or closed else None for key, c in self.claims.items()}
        if self.run.settings.unsupported_claims == "flag":
            return [known.get(claim_key(claim)) for claim in candidate.claims]
        return shown_scores(candidate, known)

    def utility(self, candidate: Candidate) -> float:
        """Expected utility of what would be shown: closed book all of it, by passages what is above the target."""
        values = self.probabilities(candidate)
        if not self.options.closed_book:
            above = [s is not None and s > self.target for s in self.shown_by(candidate)]
            values = [p for p, shown in zip(values, above) if shown]
        return expected_utility(values, self.target)

    def ranked(self) -> list[tuple[Candidate, float]]:
        """The candidates with their utilities, the best first.

        Of equal ones that which is worth more as a whole (of which less must be left out), then the first written.
        """
        both = [(c, self.utility(c), expected_utility(self.probabilities(c), self.target)) for c in self.candidates]
        return [(c, utility) for c, utility, _ in sorted(both, key=lambda one: (-one[1], -one[2]))]

    def facts(self) -> list[Fact]:
        """The likely claims with their quotes, the surest first."""
        likely = sorted(self.cache.likely(self.target), key=lambda c: -(self.cache.get(c) or 0.0))
        known = [(c, self.claims[claim_key(c)]) for c in likely[: self.options.published.max_facts]]
        return [Fact(c, claim.citations[0].quote if claim.citations else "") for c, claim in known]

    def sources(self, claims: Sequence[str]) -> list[list[str]]:
        """For each claim the sentences for the model to judge it by, each as often as it was written.

        Those of the candidate that first made it are not among them: a generation is no evidence for itself. Others
        that make it as well are, and what was written often is drawn often for the subsets A_k (section 4).
        """
        written = [[c.text[p.start : p.end] for p in c.parts] for c in self.candidates]
        first = {claim_key(claim): i for i, c in reversed(list(enumerate(self.candidates))) for claim in c.claims}
        own = [first.get(claim_key(claim)) for claim in claims]
        return [[s for i, some in enumerate(written) if i != mine for s in some] for mine in own]


def search(question: str, passages: Sequence[Passage], run: QuestionRun) -> Flow[Search]:
    """K rounds of J candidates, or fewer (see the module). The trace holds ``split evaluate search`` of each round.

    Raises:
        LanguageModelError: not one candidate could be written.
        CapabilityError: the model lacks what the settings ask for.
    """
    state = Search(question, run, list(passages))
    while state.rounds < state.options.rounds:
        try:
            yield from _counted(_round(state), state)
        except LimitError as error:
            yield run.stop(error)
            break
        except LanguageModelError as error:
            # Nothing to fall back on, or a lack that every round would meet again.
            if not state.candidates or isinstance(error, CapabilityError):
                raise
            yield run.note("search", "ended", error.message, round=state.rounds + 1)
            break
        state.rounds += 1
        # A limit within the round left claims unknown; another round would reach it at its first request.
        if run.trace.limit is not None:
            break
        why = _why_end(state)
        if why and state.rounds < state.options.rounds:
            yield run.note("search", "ended", why, rounds=state.rounds)
            break
    return state


def _why_end(state: Search) -> str:
    """Why no further round is needed; empty if one may be of use."""
    options, history = state.options, state.history
    if not options.closed_book:  # by passages, nothing is to be gained where these hold
        if not state.cache.likely(state.target):
            return "no claim is likely, so that another round would be written from the same prompt"
        scores = state.shown_by(state.ranked()[0][0])
        if all(s is not None and s > state.target for s in scores):
            return "nothing of the best answer is in doubt"
    if options.token_budget is not None and state.tokens >= options.token_budget:
        return f"{state.tokens} tokens are spent of token_budget={options.token_budget}"
    if options.patience is not None and len(history) > options.patience:
        # history is a running maximum (max over all candidates so far), so comparing its ends is enough.
        before = history[-1 - options.patience]
        if history[-1] <= before + options.published.min_gain:
            return f"the best utility has not grown in {options.patience} round(s)"
    return ""


def _round(state: Search) -> Flow[None]:
    number, run = state.rounds + 1, state.run
    facts = state.facts()
    texts = yield from _write(state, facts, number)
    candidates = yield from split(state.question, texts, number, state.splits, run)
    # Claims of earlier rounds keep their probability: only new ones cost requests.
    new = state.cache.missing([claim for c in candidates for claim in c.claims])
    yield run.note(
        "split",
        f"{len(new)} new claims",
        f"{len(candidates)} candidates; {state.splits.fallbacks} sentences stand for themselves",
        candidates=len(candidates),
        refusals=sum(not c.claims for c in candidates),
        left_out=state.splits.left_out,
        cache_hits=state.cache.hits,
    )
    # Before judging: closed book, they are sources for each other's claims.
    state.candidates += candidates
    yield from judge_claims(state, new)
    # Abstaining is worth 0, so the best utility is never below it.
    state.history.append(max([0.0, *map(state.utility, state.candidates)]))
    yield run.note(
        "search",
        f"round {number}",
        "written from the likely claims" if facts else "written from nothing but the question",
        utility=state.history[-1],
        facts=len(facts),
        claims=len(state.cache),
        cache_hits=state.cache.hits,
        tokens=state.tokens,
    )


def judge_claims(state: Search, claims: Sequence[str]) -> Flow[None]:
    """Ask how likely claims are that nothing is known of: by the passages or, closed book, by the model itself.

    Results go into the state's cache and claims; after a limit (``run.trace.limit``) the rest is unknown.
    """
    if claims:
        yield from _weigh(state, claims) if state.passages else _evaluate(state, claims)


def _write(state: Search, facts: Sequence[Fact], number: int) -> Flow[list[str]]:
    """J candidates; the lowest-ranked passages are left out where the context is too short."""
    options, settings = state.options, state.run.settings
    params = SamplingParams(
        n=options.samples,
        max_tokens=options.candidate_tokens,
        temperature=options.published.temperature,
        # another one each round: where nothing is likely the same prompt is written from again
        seed=None if settings.seed is None else settings.seed + number - 1,
        # A model that goes on with a question of its own, in the words of the prompt, has answered.
        stop=("\n\nQuestion:",) if options.published.prompts == "neutral" else (),
    )
    while True:
        prompt = write_prompt(state.question, state.passages, facts, options)
        try:
            written: Generation = yield Generate(prompt, params)
        except ContextOverflowError as error:
            state.passages = yield from leave_out(state.passages, error, state.run)
            state._quotes = None  # its index belongs to the old passages
            continue
        # No reply within the limit holds more sentences.
        most = max(1, options.candidate_tokens // _SHORT)
        known = Addresses(state.question, state.passages)
        texts = [known.without_others(spoken(s.text).strip()) for s in written.samples]
        return [
            whole_sentences(text, cut=s.finish_reason == "length", most=most)
            for text, s in zip(texts, written.samples, strict=True)
        ]


def whole_sentences(text: str, *, cut: bool, most: int | None = None) -> str:
    """The text's complete sentences: all if it was not ``cut`` off by length, and ``most`` of them at most.

    A provider that does not keep to the limit of tokens sends more, and each sentence would cost a question.
    """
    text = complete_sentences(text) if cut else text  # half a claim must not be judged
    sentences = split_sentences(text)
    return text if most is None or len(sentences) <= most else text[: sentences[most - 1][1]]


def _evaluate(state: Search, new: Sequence[str]) -> Flow[None]:
    """Ask the model itself (closed book); claims that a limit leaves undone stay unknown."""
    found, limit = yield from evaluate(state.question, new, state.sources(new), len(state.cache), state.run)
    state.missing += sum(f.missing for f in found)
    # Calibrated before it enters the cache: the search compares and selects by fitted probabilities only.
    fitted = self_evaluation_of(state.run.settings, state.run.abilities)
    for i, claim in enumerate(new):
        p = found[i].probability if i < len(found) else None
        _remember(state, Claim(claim, p if fitted is None else fitted.probability(p)))
    if fitted is not None:
        yield state.run.note("calibrate", f"fitted on {fitted.n} claims", "what the model says of its own claims")
    if limit is not None:
        yield state.run.stop(limit)


def _weigh(state: Search, new: Sequence[str]) -> Flow[None]:
    """Ask what the passages say."""
    if state._quotes is None:
        state._quotes = Quotes(state.passages)
    state.weighed = yield from weigh_claims(state.question, new, state._quotes, state.run, first=state.rounds == 0)
    for claim in state.weighed.claims:
        _remember(state, claim)


def _remember(state: Search, claim: Claim) -> None:
    state.cache.add(claim.text, claim.support)
    # The first wording stays, as in the cache, so that a claim keeps its quotes across rounds.
    state.claims.setdefault(claim_key(claim.text), claim)


def _counted(flow: Flow[T], state: Search) -> Flow[T]:
    """Wrap the flow: add the usage of its requests to ``state.usage``."""

    def count(request: Request, result: object) -> None:
        # A Together gives a list, in which failed requests are errors without usage.
        for one in result if isinstance(result, list) else [result]:
            usage = getattr(one, "usage", None)
            if isinstance(usage, Usage):
                state.usage = state.usage + usage

    return intercept(flow, after=count)
