"""Let the embedded default's own quotes compete with what a language model wrote.

A model may quote badly, decline what the passages plainly answer, or answer something else; the reader, which judges
the same passages anyway, may have the answer. Both are candidates for one answer. If they say the same, the model's
wording is shown and each supports the other. If not, the more probable one is shown, after ``ModelTrust`` has weighed
how much this model's disagreement or refusal means.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from shared_core.calibration.replies import Reply
from shared_core.citation.facts import compare_claim
from shared_core.pipelines.agreement import reads_same_quote, same_answer
from shared_core.pipelines.decision.decide import DecisionRequest, decide
from shared_core.pipelines.decision.question_run import QuestionRun, retrieve, try_reader
from shared_core.pipelines.decision.reasons import IN_NO_PASSAGE, SAYS_NOTHING
from shared_core.pipelines.decision.trust import ModelTrust
from shared_core.pipelines.evidence import (
    around_quotes,
    cited_spans,
    quote_of,
    titled,
    with_cited,
)
from shared_core.pipelines.extractive import (
    ANSWERED_BY,
    QUOTES,
    claims_from,
    count_candidates,
    in_place_of_model,
    keep_or_chain,
    quote_best,
    retraced,
)
from shared_core.pipelines.stepwise import answer_in_steps, takes_steps
from shared_core.reading.base import Reading, ReadResult
from shared_core.runtime.flow import Flow
from shared_core.support.regex import lazy_regex
from shared_core.types import Answer, Claim, Passage, Signals

_TRIED = 0.9  # P(competent) from which on a model is believed to have told things with similar names apart
_POOR = 0.05  # P(its replies help) below which a model's own wording is not shown where the reader has the same answer
_NEARLY = 0.8  # a further quote is as good as the first where its probability is so large a share of it


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """The reader's best quotes beside a model's claims.

    Attributes:
        own: the reader's best quote as a claim, and those nearly as probable.
        probability: of the first, as the reader alone sees it.
        reply: what the model's claims are, compared with it.
        together: P(the quote answers), given the reply and how much this model's replies have meant so far.
        agree: for each of the model's claims, whether it says the same as the first.
        same_quote: it differs, but reads its answer from the same quote.
    """

    own: list[Claim]
    probability: float
    reply: Reply
    together: float
    agree: tuple[bool, ...] = ()
    same_quote: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Competition:
    """Candidates after they were compared.

    Attributes:
        claims: to decide on: the model's, and the default's own quotes where they won.
        own: the default's quotes won.
        answerable: P(the passages answer), where it became known only here.
    """

    claims: list[Claim]
    readings: tuple[Reading, ...] = ()
    own: bool = False
    answerable: float | None = None


def compete(
    question: str, claims: Sequence[Claim], readings: Sequence[Reading], passages: Sequence[Passage], run: QuestionRun
) -> Flow[Competition]:
    """Compare a model's claims with the reader's best quotes of the same passages.

    Args:
        claims: of the model, weighed; none if it declined.
        readings: of the passages, best first; asked for here if there are none.
        run: of the question. Without ``settings.compete``, a reader or a model the claims stay as they are.

    Returns:
        The claims to decide on. The default's quotes are among them if they are worth showing and more probable than
        what the model claims; its claims are then at most as probable as what the quotes leave.
    """
    if not (takes_part(run) and passages and run.trace.limit is None):
        return Competition(list(claims), tuple(readings))
    answerable = None
    # `weigh` reads only for claims that cite something; for a refusal nobody has read yet.
    if not readings:
        result = yield from try_reader(question, passages, QUOTES, run)
        run.abilities.expected.see(result)
        readings, answerable = result.readings, result.answerable
    if takes_steps(question):  # a quote that gives only a step's answer is no rival
        attempt = yield from answer_in_steps(question, passages, count_candidates(run), run)
        readings = attempt.lower(ReadResult(tuple(readings))).readings
    found = compare(question, claims, readings, passages, run)
    if found is None:
        return Competition(list(claims), tuple(readings), answerable=answerable)
    # Counts for other questions only (`ModelTrust`), so that this one gets the same answer when asked again.
    if not found.same_quote:  # who takes the right quote may lie behind it: it speaks neither for nor against
        run.abilities.trust.observe(found.probability, found.reply, question)
    if found.reply != "agrees":
        claims = _lower(claims, trust_in(run).own_right(found.reply, question))
    best = max((c.support for c in claims if c.support is not None), default=0.0)  # unknown ones are never shown
    wins = found.together > max(best, run.settings.target_accuracy)
    if found.reply == "agrees" and best > run.settings.target_accuracy:
        # Both say the same, and the model's words answer the question. Those of a model that is mostly wrong are words
        # out of the answer ("2018" for "from 9 to 25 February 2018"): the quote says it whole.
        wins = run.abilities.trust.is_seldom_right or is_poor(question, run)
    yield run.note(
        "compare",
        f"the model {found.reply}",
        "the default's own quote is shown" if wins else "",
        reader=found.probability,
        given_reply=found.together,
        model=best,
        competent=run.abilities.trust.competent(question),
        quote=found.own[0].text,
        same_quote=found.same_quote,
    )
    if not wins:
        return Competition(list(claims), tuple(readings), answerable=answerable)
    # Only one of two different answers can be right, so what remains for the model's is what the quote leaves. Both may
    # be read from one quote; the model's words are then not shown beside it.
    lowered = _lower(claims, 1 - found.together)
    # Further quotes rise or fall with the first. Its probability is not 0: then it could not have won.
    share = found.together / found.probability
    scaled = [dataclasses.replace(c, support=(c.support or 0.0) * share) for c in found.own]
    return Competition([*scaled, *lowered], tuple(readings), True, answerable)


def _lower(claims: Sequence[Claim], most: float) -> list[Claim]:
    return [c if c.support is None else dataclasses.replace(c, support=min(c.support, most)) for c in claims]


def read_where_hopeless(question: str, passages: Sequence[Passage], run: QuestionRun) -> Flow[ReadResult | None]:
    """Read before the model is asked, and return the result where no reply of it could lead to an answer.

    That is so where the reader's best quote stays below the target whatever the model says to it, and what the model
    says otherwise was measured to be right too seldom (``ModelTrust.own_right``). Elsewhere ``None``.
    """
    target, trust = run.settings.target_accuracy, run.abilities.trust
    if not takes_part(run) or any(trust.own_right(reply, question) > target for reply in ("differs", "contradicts")):
        return None
    result = yield from try_reader(question, passages, max(QUOTES, len(passages)), run)
    own = own_claims(result.readings, passages, run)
    p = own[0].support if own else None
    if p is None or (at_most := trust.highest(p, question)) > target:
        return None
    run.abilities.expected.see(result)
    reason = "whatever the model replied, no answer would be probable enough"
    yield run.note("write", "left out", reason, reader=p, given_reply=at_most)
    return result


def is_settled(
    question: str, claims: Sequence[Claim], readings: Sequence[Reading], passages: Sequence[Passage], run: QuestionRun
) -> bool:
    """Return whether the reader's quote will be shown whatever the model may still say.

    It has said the same, or what it says otherwise is too seldom right.
    """
    target = run.settings.target_accuracy
    found = compare(question, claims, readings, passages, run) if takes_part(run) else None
    if found is None or found.together <= target:
        return False
    return found.reply == "agrees" or run.abilities.trust.own_right("differs", question) <= target


def takes_part(run: QuestionRun) -> bool:
    """Return whether the default's own quotes compete at all: settings, a reader and a model.

    Not under a guarantee, which holds for claims whose scores depend on nothing but their question; nor beside a stack
    fitted for this configuration: the reader's word was not fitted on these documents, and the stack has heard it.
    """
    wanted = run.settings.compete and run.settings.guarantee is None and run.abilities.stack is None
    return wanted and _has_both(run)


def is_poor(question: str, run: QuestionRun) -> bool:
    """Return whether the model's replies have told nothing so far: its own words are not shown where quotes compete."""
    return takes_part(run) and run.abilities.trust.helps(question) < _POOR


def has_rival(run: QuestionRun) -> bool:
    """Return whether claims are compared with the reader's quote: where these compete, and beside a fitted stack."""
    return takes_part(run) or (run.abilities.stack is not None and _has_both(run))


def _has_both(run: QuestionRun) -> bool:
    return run.abilities.has_reader and bool(run.abilities.capabilities)


def trust_in(run: QuestionRun) -> ModelTrust:
    """Return what the model's replies have shown of it. A fitted stack's scores depend on their question alone."""
    return run.abilities.trust if run.abilities.stack is None else ModelTrust()


def compare(
    question: str, claims: Sequence[Claim], readings: Sequence[Reading], passages: Sequence[Passage], run: QuestionRun
) -> Comparison | None:
    """Compare claims with the reader's best quotes; ``None`` if the reader has none whose probability is known."""
    own = own_claims(readings, passages, run)
    p = own[0].support if own else None
    if p is None:
        return None
    # A claim that its own quote refutes is no agreement, even where it repeats the reader's words.
    borne_out = [not compare_claim(c.text, quote_of(c)).refuted for c in claims]
    context = around_quotes(own[0], passages)
    agree = tuple(b and same_answer(c, own[0], question, context) for b, c in zip(borne_out, claims, strict=True))
    reply: Reply = "contradicts" if claims or _is_unfounded(run) else "declines"
    if any(borne_out):
        reply = "agrees" if any(agree) else "differs"
    # Whatever the model reads from the reader's quote, it holds that the quote answers; that is what `together` is of.
    supported = [c for b, c in zip(borne_out, claims, strict=True) if b]
    same = reply == "differs" and any(reads_same_quote(c, own[0], question) for c in supported)
    trust = trust_in(run)
    together = trust.posterior(p, "agrees" if same else reply, question)
    share = named(question, own[0], passages)
    if share is not None and share < 1 and trust.competent(question) < _TRIED:
        together = min(together, p)  # of something with nearly the same name, model and reader are misled alike
    return Comparison(own, p, reply, together, agree, same)


def _is_unfounded(run: QuestionRun) -> bool:
    """Return whether the model's short answer is in no passage or says nothing: that is no refusal."""
    return any(d.kind == "read again" and d.outcome in (IN_NO_PASSAGE, SAYS_NOTHING) for d in run.trace.decisions)


def own_claims(readings: Sequence[Reading], passages: Sequence[Passage], run: QuestionRun) -> list[Claim]:
    """Return the reader's best quote, and those nearly as probable, as claims."""
    # As without a model: the same calibration, so that the default's own figure is compared.
    calibration = run.abilities.calibrations.get("confidence")
    claims = claims_from(readings, {p.id: p for p in passages}, calibration)[: run.settings.max_claims]
    first = claims[0].support if claims else None
    return [
        dataclasses.replace(c, signals=Signals(entailed=1.0, quoted=c.support))  # a quote follows from itself
        for c in claims
        if first is None or (c.support is not None and c.support >= _NEARLY * first)
    ]


_NAME = lazy_regex(r"(?<=\s)[^\W\d_]\w*|\d+(?:[.,]\d+)*")
"""Words, except for the question's first (its capital says nothing), and numbers such as 1871 or 6.1."""


def named(question: str, claim: Claim, passages: Sequence[Passage]) -> float | None:
    """Return the share of the question's names and numbers that the passages cited hold; ``None`` if it has none."""
    # "I" is no name, and "DVDs" hold "DVD".
    names = {_singular(n) for n in _NAME.findall(question) if (n[0].isupper() and n != "I") or n[0].isdigit()}
    cited = {s.passage_id for s in cited_spans(claim)}
    # Numbers first, so that "6.1" stays one word here as it does in the question.
    words = re.findall(r"\d+(?:[.,]\d+)*|\w+", "\n".join(titled(p) for p in passages if p.id in cited))
    held = {_singular(word) for word in words}
    return sum(n in held for n in names) / len(names) if names and cited else None


def _singular(name: str) -> str:
    return name.casefold().removesuffix("s")


def replace_by_steps(answer: Answer, found: Sequence[Passage], run: QuestionRun) -> Flow[Answer]:
    """Return the embedded default's answer in steps in place of an abstention, if it has one; else the abstention."""
    question = answer.question
    if not (answer.abstained and takes_part(run) and found and run.trace.limit is None and takes_steps(question)):
        return answer
    result = yield from try_reader(question, found, max(QUOTES, len(found)), run)
    kept, result = yield from keep_or_chain(question, tuple(found), result, run)
    if not result.steps or (result.readings[0].probability or 0.0) <= run.bar:
        return retraced(answer, run)
    own: Answer = yield from quote_best(question, kept, result, run)
    return retraced(answer, run) if own.abstained else in_place_of_model(own, answer.metadata["pipeline"])


def reconsider(question: str, answer: Answer, run: QuestionRun, *, search: bool = False) -> Flow[Answer]:
    """Let the embedded default's own quotes compete, unless the answer shows quotes that no rival is surer than.

    Args:
        search: read what the question itself finds as well: a model's own queries may have led elsewhere.
    """
    quoted = [c for c in answer.kept_claims if c.citations]
    stands = bool(quoted) and not any((c.signals.rival or 0.0) > (c.support or 0.0) for c in quoted)
    if stands or not answer.passages or run.trace.limit is not None:
        return answer
    passages = answer.passages
    if search and takes_part(run):
        k = count_candidates(run)
        found = yield from retrieve(question, k, run)
        yield run.note("retrieve", "the question itself", "for the embedded default's own quotes", k=k)
        passages = tuple({p.id: p for p in (*found, *passages)}.values())
    # What an abstention does not show cannot win, however probable: it may stand in a sentence with improbable claims.
    claims = _lower(answer.claims, run.settings.target_accuracy) if answer.abstained else answer.claims
    rivals = yield from compete(question, claims, (), passages, run)
    known = answer.metadata["answerable"] if rivals.answerable is None else rivals.answerable
    if not rivals.own:
        left = dataclasses.replace(answer, metadata={**answer.metadata, "answerable": known})
        return (yield from replace_by_steps(retraced(left, run), passages, run))
    pipeline = str(answer.metadata["pipeline"])
    shown = with_cited(answer.passages, rivals.claims, passages)
    request = DecisionRequest(question, rivals.claims, shown, pipeline=pipeline, answerable=known)
    decided = yield from decide(request, run)
    metadata = {**answer.metadata, **decided.metadata, "answered_by": ANSWERED_BY}
    return dataclasses.replace(decided, metadata=metadata)
