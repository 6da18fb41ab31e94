"""Decide on a claim by the verdicts on its windows, and choose the sentences to show.

One rule gives the verdict and what is quoted for it: the sentence shown is of the window that the verdict rests on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared_core.abstention import keep_claims
from shared_core.citation.facts import REFUTED_AT_MOST, Comparison, compare_claim
from shared_core.citation.facts.tokens import tokens_of
from shared_core.errors import LimitError
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.evidence import Evidence, Window, headings_of
from shared_core.pipelines.support import verdicts
from shared_core.reading.base import Verdict
from shared_core.runtime.flow import Compute, Flow
from shared_core.support.regex import lazy_regex
from shared_core.types import ClaimVerdict, Passage, Span

_SENTENCES = 4  # of the decisive window that are tried one by one for the citation
_NEARLY = 0.8  # a sentence replaces its window as the citation if it keeps this share of the window's support
_FAR = 0.5  # the window's support is lowered if no sentence, nor any two, keep this share of it
_CONTRADICTED = 0.7  # of 52 true claims that the critic does not support, it refutes 17 above a half, none above this
_REFUTED = 0.5  # above it, contradiction is more probable than support and silence together


@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement of one statement: probabilities in [0, 1] or ``None``, and the sentences to cite.

    Attributes:
        disputed: one sentence of the passages supports it, and another one contradicts that.
    """

    supported: float | None = None
    refuted: float | None = None
    spans: tuple[Span, ...] = ()
    disputed: bool = False

    @property
    def support(self) -> float | None:
        """The support; if one passage supports and another contradicts, the lower of the two probabilities."""
        if self.supported is None or self.refuted is None or self.refuted <= _REFUTED:
            return self.supported
        return min(self.supported, 1 - self.refuted)


def verdict_of(judged: Judged, run: QuestionRun) -> ClaimVerdict:
    """Return the verdict at the target accuracy of the run."""
    if judged.support is None:
        return "unknown"
    if keep_claims([judged.support], run.settings.target_accuracy):  # exact: a tie with ρ* fails
        return "supported"
    return "contradicted" if (judged.refuted or 0.0) > _CONTRADICTED else "unsupported"


def most(values: Iterable[float | None]) -> float | None:
    """Return the highest known value; ``None`` if none is known."""
    return max((v for v in values if v is not None), default=None)


def ask(
    pairs: Sequence[Sequence[tuple[str, str]]],
    run: QuestionRun,
    around: Sequence[Sequence[str]] | None = None,
    written: Sequence[str] | None = None,
) -> Flow[list[list[Verdict | None]]]:
    """Verdicts in the shape of the pairs; all unknown when the time is over.

    Args:
        pairs: (evidence, claim) of each claim.
        around: in the same shape, text that may name what the evidence speaks of.
        written: each claim with its backticks, and with the addresses that no passage has.
    """
    codes = [code for some, code in zip(pairs, written, strict=True) for _ in some] if written is not None else None
    contexts = [text for some in around for text in some] if around is not None else None
    try:
        told = iter((yield from verdicts([pair for some in pairs for pair in some], run, contexts, codes)))
    except LimitError as error:
        yield run.stop(error)
        return [[None] * len(some) for some in pairs]
    return [[next(told) for _ in some] for some in pairs]


def _refuting(
    windows: Sequence[Window], judged: Sequence[Verdict | None], facts: Sequence[Comparison]
) -> list[float | None]:
    """P(the window contradicts the claim) for each window, by its judge or by its facts; ``None`` if it has no say.

    Beside a window that supports the claim, another one counts only if its facts refute the claim and it speaks of the
    same subject: what another lake's depth is says nothing about this one's, and a passage that leaves a fact out
    contradicts none; nor does one whose title names another thing.
    """
    homes = [w.passage for w, v, f in zip(windows, judged, facts, strict=True)
             if v is not None and v.supported > _REFUTED and f.agrees]  # fmt: skip
    out: list[float | None] = []
    for window, verdict, compared in zip(windows, judged, facts, strict=True):
        counts = compared.refuted and compared.same_subject and any(are_of_one(h, window.passage) for h in homes)
        if verdict is None or (homes and not counts):
            out.append(None)
        else:
            by_facts = 1 - REFUTED_AT_MOST if compared.refuted else None  # the cap on support, turned round
            out.append(most((verdict.refuted, by_facts)))
    return out


def are_of_one(one: Passage, other: Passage) -> bool:
    """Return whether two passages may speak of the same thing, by their headings: not of two of a kind.

    >>> pools = [Passage(name, "It opens at 7.", f"{name} pool") for name in ("North", "South")]
    >>> are_of_one(*pools), are_of_one(pools[0], Passage("faq", "It opens at 9.", "Questions"))
    (False, True)
    """
    titles = [[t for t in tokens_of(headings_of(p)) if t.is_telling] for p in (one, other)]
    own, others = ({t.key for t in tokens if not _YEAR.fullmatch(t.text)} for tokens in titles)
    if not (own - others and others - own):
        return True
    numbered = [{t.key for t in tokens if _CODE.search(t.text) and not _YEAR.fullmatch(t.text)} for tokens in titles]
    return titles[0][-1].key != titles[1][-1].key and not (numbered[0] and numbered[1] and numbered[0] != numbered[1])


_CODE, _YEAR = lazy_regex(r"\d"), lazy_regex(r"(?:19|20)\d\d")


@dataclass(frozen=True, slots=True)
class Decisive:
    """The window that decides, and what all windows together say of the claim.

    Attributes:
        window: that supports the claim best; the one that contradicts it most if the claim is contradicted.
        supported, refuted: the largest probabilities of all windows.
        against: the claim is contradicted.
        disputed: another window supports it.
    """

    window: Window | None = None
    supported: float | None = None
    refuted: float | None = None
    against: bool = False
    disputed: bool = False


def decide(
    windows: Sequence[Window], told: Sequence[Verdict | None], facts: Sequence[Comparison], run: QuestionRun
) -> Decisive:
    """Find the window that decides, by the rule that gives the verdict: what it says bears the verdict out."""
    known = [(v.supported, w) for v, w in zip(told, windows, strict=True) if v is not None]
    if not known:
        return Decisive(windows[0] if windows else None)
    supported, window = max(known, key=lambda pair: pair[0])
    refuting = _refuting(windows, told, facts)
    judged = Judged(supported, most(refuting))
    if verdict_of(judged, run) != "contradicted":
        return Decisive(window, supported, judged.refuted)
    # Of two that contradict it alike, the one that has the claim's names and is more like it (they are ranked).
    rank = [(p or 0.0, not any(m.kind == "name" for m in f.mismatches)) for p, f in zip(refuting, facts, strict=True)]
    disputed = verdict_of(Judged(supported), run) == "supported"
    return Decisive(windows[rank.index(max(rank))], supported, judged.refuted, True, disputed)


def choose_sentences(
    said: Sequence[str], decisive: Sequence[Decisive], evidence: Evidence, run: QuestionRun
) -> Flow[list[tuple[tuple[Span, ...], float | None]]]:
    """Choose for each claim one sentence to cite, or two, of the window that decides.

    Those that support the claim best, or contradict it; the sentence most like it if nothing is known. No heading is
    cited by itself. Beside them stands a limit of the claim's support, if neither a sentence nor a pair comes near the
    window's: then the claim may be put together from things that do not belong together.
    """
    like = [
        evidence.like(claim, d.window.quotable) if d.window else [] for claim, d in zip(said, decisive, strict=True)
    ]
    chosen: list[tuple[Span, ...]] = [(spans[0],) if spans else () for spans in like]
    scores = [-1.0] * len(said)

    def improve(candidates: dict[int, list[tuple[Span, ...]]]) -> Flow[None]:
        """Replace what is chosen by the best candidate, if that is better."""
        told = yield from _score([(some, said[i], decisive[i]) for i, some in candidates.items()], run)
        for (i, some), of_claim in zip(candidates.items(), told, strict=True):
            best = max(range(len(some)), key=lambda n: of_claim[n])  # the first of equals: the one more like the claim
            if of_claim[best] > scores[i]:
                chosen[i], scores[i] = some[best], of_claim[best]

    target = run.settings.target_accuracy
    open_ = [i for i, d in enumerate(decisive) if (d.against or (d.supported or 0.0) > target) and len(like[i]) > 1]
    # First single sentences; then, for claims that no single one supports nearly as well as the window, pairs.
    yield from improve({i: [(span,) for span in like[i][:_SENTENCES]] for i in open_})
    open_ = [i for i in open_ if not decisive[i].against and 0 <= scores[i] < _NEARLY * (decisive[i].supported or 0.0)]
    yield from improve({i: [_in_order(chosen[i][0], s) for s in like[i][:3] if s != chosen[i][0]] for i in open_})
    far = {i for i in open_ if 0 <= scores[i] < _FAR * (decisive[i].supported or 0.0)}
    return [(spans, (scores[i] + (decisive[i].supported or 0.0)) / 2 if i in far else None)
            for i, spans in enumerate(chosen)]  # fmt: skip


def _in_order(one: Span, other: Span) -> tuple[Span, ...]:
    return (one, other) if one.start < other.start else (other, one)


def _score(
    items: Sequence[tuple[Sequence[tuple[Span, ...]], str, Decisive]], run: QuestionRun
) -> Flow[list[list[float]]]:
    """Score how far each candidate supports (or contradicts) its claim; -1 if that is unknown."""
    pairs = [[(d.window.with_heading(spans), claim) for spans in some if d.window] for some, claim, d in items]
    # Remembered: judging compares them again, and does not block the event loop with it then.
    yield Compute(lambda: [compare_claim(claim, text, "", "") for of_claim in pairs for text, claim in of_claim])
    told = yield from ask(pairs, run)
    scores: list[list[float]] = yield Compute(lambda: list(map(_scores, told, items)))
    return scores


def _scores(told: Sequence[Verdict | None], item: tuple[Sequence[tuple[Span, ...]], str, Decisive]) -> list[float]:
    some, claim, decisive = item
    if decisive.against and decisive.window:
        return _against(told, some, claim, decisive.window)
    return [-1.0 if v is None else v.supported for v in told]


def _against(
    told: Sequence[Verdict | None], candidates: Sequence[tuple[Span, ...]], claim: str, window: Window
) -> list[float]:
    """Score how far each candidate contradicts a claim.

    Highest if the window's facts name it as what the claim has otherwise (its row of a table), then if its own facts
    contradict the claim; else as the judge says, who takes much for a contradiction.
    """
    named = {m.held for m in compare_claim(claim, window.text).mismatches}
    out: list[float] = []
    for verdict, spans in zip(told, candidates, strict=True):
        text = " ".join(s.text for s in spans)
        if text in named or compare_claim(claim, text).refuted:
            out.append(1.0 + (text in named))
        else:
            out.append((verdict.refuted or 0.0) if verdict else -1.0)
    return out
