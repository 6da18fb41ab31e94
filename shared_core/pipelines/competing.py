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

from shared_core.citation.facts import Comparison, compare_claim
from shared_core.errors import LimitError, SelfReflectError
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.decision.trust import Reply
from shared_core.pipelines.extractive import QUOTES, claims_from
from shared_core.reading.base import Reading, ReadResult
from shared_core.runtime.flow import Flow, Read
from shared_core.types import Claim, Passage, Signals

ANSWERED_BY = "embedded default"
_NEARLY = 0.8  # a further quote is as good as the first where its probability is so large a share of it


@dataclasses.dataclass(frozen=True, slots=True)
class Competition:
    """Candidates after they were compared.

    Attributes:
        claims: to decide on: the model's, and the default's own quotes where they won.
        own: the default's quotes won.
        answerable: P(the passages answer), where it became known only here.
    """

    claims: list[Claim]
    own: bool = False
    answerable: float | None = None


def compete(
    question: str, claims: Sequence[Claim], readings: Sequence[Reading], passages: Sequence[Passage], run: QuestionRun
) -> Flow[Competition]:
    """Compare a model's claims with the reader's best quotes of the same passages.

    Args:
        question: the user's question.
        claims: of the model, weighed; none if it declined.
        readings: of the passages, best first; asked for here if there are none.
        passages: that the model was shown.
        run: of the question. Without ``settings.compete``, a reader or a model the claims stay as they are.

    Returns:
        The claims to decide on. An agreeing claim is as probable as the two together, but never more than its facts
        allow (``compare_claim``); a claim that differs from a more probable quote is at most as probable as what that
        leaves.
    """
    wanted = run.settings.compete and passages and run.trace.limit is None
    if not (wanted and run.abilities.has_reader and run.abilities.model("default")):
        return Competition(list(claims))
    answerable = None
    if not readings:
        result = yield from _read(question, passages, run)
        readings, answerable = result.readings, result.answerable
    own = _own_claims(readings, passages, run)
    p = own[0].support if own else None
    if p is None:
        return Competition(list(claims), answerable=answerable)
    agreeing = [i for i, c in enumerate(claims) if _same_answer(c, own[0], question)]
    reply: Reply = "agrees" if agreeing else "differs" if claims else "declines"
    trust = run.abilities.trust
    together = trust.posterior(p, reply)
    believed = [_believed(c, run) for c in claims]
    trust.observe(p, reply)
    best = max((c.support for c in believed if c.support is not None), default=0.0)
    wins = not agreeing and together > max(best, run.bar)
    yield run.note(
        "compare",
        f"the model {reply}",
        "the default's own quote is shown" if wins else "",
        reader=p,
        given_reply=together,
        model=best,
        competent=trust.competent,
    )
    if agreeing:
        return Competition([_agreed(c, together, run) if i in agreeing else c for i, c in enumerate(believed)])
    if not wins:
        return Competition(believed, answerable=answerable)
    # Only one of two different answers can be right, so what remains for the model's is what the quote leaves.
    lowered = [_lowered(c, 1 - together) for c in believed]
    scaled = [dataclasses.replace(c, support=(c.support or 0.0) * together / p) for c in own]
    return Competition([*scaled, *lowered], True, answerable)


def _read(question: str, passages: Sequence[Passage], run: QuestionRun) -> Flow[ReadResult]:
    """Ask the reader; nothing is known where it cannot be asked or there is no time."""
    try:
        result: ReadResult = yield Read(question, tuple(passages), QUOTES, run.abilities.expected.value)
    except LimitError as error:
        yield run.stop(error)
        return ReadResult(())
    except SelfReflectError as error:
        yield run.note("read", "unknown", error.message)
        return ReadResult(())
    run.abilities.expected.see(result)
    return result


def _own_claims(readings: Sequence[Reading], passages: Sequence[Passage], run: QuestionRun) -> list[Claim]:
    """The best quote, and those nearly as probable, as claims."""
    calibration = run.abilities.calibrations.get("confidence")
    claims = claims_from(readings, {p.id: p for p in passages}, calibration)[: run.settings.max_claims]
    first = claims[0].support if claims else None
    return [
        dataclasses.replace(c, signals=Signals(entailed=1.0, quoted=c.support))
        for c in claims
        if first is None or (c.support is not None and c.support >= _NEARLY * first)
    ]


def _same_answer(claim: Claim, own: Claim, question: str) -> bool:
    """Whether a model's claim holds the reader's short answer (or is held by it), or repeats its quote."""
    said = _words(claim.short_answer or claim.text)
    whole = _words(claim.text)
    short = _words(own.short_answer or "")
    asked = set(_words(question).split())
    if short and set(short.split()) - asked:
        return f" {short} " in f" {whole} " or (bool(set(said.split()) - asked) and f" {said} " in f" {short} ")
    return f" {whole} " in f" {_words(own.text)} "


def _believed(claim: Claim, run: QuestionRun) -> Claim:
    """Raise a claim's support by the trust in its writer, if its facts are borne out and no fitted stack decides."""
    entailed = claim.signals.entailed
    if run.abilities.stack is not None or claim.support is None or entailed is None or entailed <= run.bar:
        return claim
    if not _facts(claim).agrees:
        return claim
    return dataclasses.replace(claim, support=min(entailed, run.abilities.trust.raised(claim.support)))


def _agreed(claim: Claim, together: float, run: QuestionRun) -> Claim:
    """Give an agreeing claim at least the probability of the answer on which both agree, as far as its facts allow."""
    entailed = claim.signals.entailed
    if run.abilities.stack is not None or claim.support is None or entailed is None or entailed <= run.bar:
        return claim
    facts = _facts(claim)
    if facts.refuted:
        return claim
    return dataclasses.replace(claim, support=max(claim.support, facts.cap(min(together, entailed), names=False)))


def _facts(claim: Claim) -> Comparison:
    return compare_claim(claim.text, " ".join(c.quote for c in claim.citations))


def _lowered(claim: Claim, most: float) -> Claim:
    return claim if claim.support is None else dataclasses.replace(claim, support=min(claim.support, most))


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
