"""Support: combine the signals of a claim into the probability that it is right.

One meaning everywhere: the probability that a claim is a right answer to the question, or a right part of one. No
signal gives that alone, and a model never is the only judge of itself where another signal is available:

- ``entailed``: do its quotes support the claim? (the engine's judge, else the critic, else the model)
- ``answers``: does the passage around the quote support the claim as an answer to this question? (critic)
- ``quoted``: does the quoted sentence hold a right answer? ``sufficient``: do the passages hold one at all? (reader)
- ``certain``: how sure is the model? ``agreement``: do independent answers say the same?
- ``named``: do the passages cited hold the names and numbers that were asked about? (used by a stack only)
- ``likely``: how probable were its words to the model, given the passages? (used by a stack only)

They are combined by a stack that was fitted for this configuration (``Abilities.stack``). Without one, the shipped
stack for models in general counts, which also weighs what the reader would answer (``seconded``, ``rival``) and how far
this model's replies have been borne out (``trusted``); where the model was measured (``calibrate replies``), it is
corrected for how much oftener its claims are right. Without a reader it is their minimum (``most_doubtful``), which
is conservative: one doubtful signal is enough to keep a claim back.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources

from shared_core.calibration.stack import Stack
from shared_core.citation.facts import Comparison, compare_claim
from shared_core.pipelines.competing import compare, compete, has_rival, named, trust_in
from shared_core.pipelines.contradictions import add_contradiction
from shared_core.pipelines.decision.decide import DecisionRequest, decide, merge_duplicates
from shared_core.pipelines.decision.links import without_own_references
from shared_core.pipelines.decision.question_run import QuestionRun, try_reader
from shared_core.pipelines.evidence import (
    around_quotes,
    cited_spans,
    contains_words,
    evidence_for,
    known_probability,
    lowest,
    quote_of,
    titled,
    with_cited,
)
from shared_core.pipelines.extractive import ANSWERED_BY, claims_from
from shared_core.pipelines.support import ask_model, judge_at_hand, model_method, support, try_critic
from shared_core.reading.base import Reading, ReadResult
from shared_core.runtime.flow import Flow
from shared_core.types import Answer, Claim, Passage, Signals
from shared_core.uncertainty import final_answer

GENERAL = "general"
"""Name of the support by the shipped stack, the signal that a fitted stack starts from."""
SIGNALS = (GENERAL, "entailed", "answers", "quoted", "sufficient", "certain", "agreement", "named", "likely")
"""The signals of a stack, in the order of its features."""

_READER_BELIEVES = 0.5
"""The reader's own answer is an independent answer only if the reader holds it to be rather right than wrong."""


@dataclasses.dataclass(frozen=True, slots=True)
class Weighed:
    """Claims with their support and the signals it was made of.

    Attributes:
        claims: as given, with ``support`` and ``signals``.
        answerable: P(the passages answer the question), ``None`` if unknown.
        calibrated: whether supports come from a stack fitted for this configuration.
        unknown: why supports are unknown, if all are.
    """

    claims: list[Claim]
    answerable: float | None = None
    calibrated: bool = False
    unknown: str = ""
    readings: tuple[Reading, ...] = ()


def weigh(
    question: str, claims: Sequence[Claim], passages: Sequence[Passage], run: QuestionRun, *, judged: bool = False
) -> Flow[Weighed]:
    """Gather the signals of claims that cite passages, and combine them into each claim's support, in their order.

    Signals that a claim brings along (``certain``, ``agreement`` from samples) are kept. If it brings ``entailed``, its
    writer's own verdict, the lower of that and the judge's counts. A claim without citations keeps its support as it
    is: nobody but the model could judge it.

    Args:
        judged: ``entailed`` comes from the engine's own judge or critic already, which is not asked again.
    """
    claims = without_own_references(claims, question, passages)
    cited = [c for c in claims if c.citations]
    if not cited:
        return Weighed(list(claims))
    read = yield from _ask_reader(question, cited, passages, run)
    found = yield from _gather(question, cited, passages, read, run, judged=judged)
    signals = {id(claim): s for claim, s in zip(cited, found)}  # `cited` holds the same objects as `claims`
    stack = run.abilities.stack
    weighed = [
        dataclasses.replace(c, signals=s, support=combine(s, run, question)) if (s := signals.get(id(c))) else c
        for c in claims
    ]
    if not _judge_alone(run):  # as published, nobody looks at the facts
        weighed = yield from _hold_to_facts(question, weighed, passages, run)
    rule = _rule(weighed, run)
    yield run.note(
        "confidence",
        rule,
        read.remark,
        claims=len(cited),
        unknown=sum(c.support is None for c in weighed),
        answerable=read.answerable,
    )
    return Weighed(weighed, read.answerable, stack is not None, read.unknown, read.readings)


def _rule(weighed: Sequence[Claim], run: QuestionRun) -> str:
    """Name the rule that supports were made by."""
    if run.abilities.stack is not None:
        return f"calibrated on {run.abilities.stack.n} claims"
    if _judge_alone(run):
        return "the judge alone"
    # `trusted` is known only where claims were compared with the reader's quote.
    if not any(c.signals.trusted is not None for c in weighed):
        return "lowest signal"
    corrected = run.abilities.trust.corrected_for
    return f"models in general, corrected for {corrected}" if corrected else "models in general"


def _hold_to_facts(
    question: str, claims: Sequence[Claim], passages: Sequence[Passage], run: QuestionRun
) -> Flow[list[Claim]]:
    """Limit each claim's support to what its facts allow: it may say no more than its quotes (``compare_claim``).

    The passages cited and the question count as context: a name may come from there, a figure that the quote
    contradicts may not.
    """
    out: list[Claim] = []
    found: list[str] = []
    for claim in claims:
        context = f"{question}\n{around_quotes(claim, passages)}"
        facts = compare_claim(claim.text, quote_of(claim), context) if claim.citations else Comparison()
        found += [str(m) for m in facts.mismatches]
        capped = None if claim.support is None else facts.cap(claim.support)
        out.append(claim if capped == claim.support else dataclasses.replace(claim, support=capped))
    if found:
        yield run.note("facts", f"{len(found)} mismatches", "; ".join(found)[:500])
    return out


def _passages_cited(claim: Claim, by_id: Mapping[str, Passage]) -> list[str]:
    """Return the texts of the passages that a claim cites, titles first."""
    cited = dict.fromkeys(s.passage_id for s in cited_spans(claim))
    return [titled(by_id[i]) for i in cited if i in by_id]


def _judge_alone(run: QuestionRun) -> bool:
    return run.settings.signals == "support_only"


def _gather(
    question: str,
    cited: Sequence[Claim],
    passages: Sequence[Passage],
    read: ReadResult,
    run: QuestionRun,
    *,
    judged: bool,
) -> Flow[list[Signals]]:
    """Ask judge, critic and (where both are missing) the model about each claim; one batch for each of them."""
    beside = compare(question, cited, read.readings, passages, run) if has_rival(run) else None
    agrees = beside.agree if beside else (False,) * len(cited)
    entailed: list[float | None] = [None] * len(cited)
    if not judged:  # else each brings its own
        entailed = yield from _ask_judge(question, cited, agrees, passages, run)
    answers = yield from _ask_critic(question, cited, passages, run)
    quoted = _best_of_quotes(cited, read)
    best = read.readings[0] if read.readings else None
    own = best.short_answer if best is not None and (best.probability or 0.0) > _READER_BELIEVES else None
    together = beside.together if beside else None
    found = [
        dataclasses.replace(
            claim.signals,
            entailed=lowest(known_probability(entailed[i]), claim.signals.entailed),
            answers=known_probability(answers[i]),
            quoted=known_probability(quoted[i]),
            sufficient=known_probability(read.answerable),
            # The reader's answer is independent of the model; the model's own samples are less so.
            agreement=claim.signals.agreement if own is None else float(contains_words(claim.text, own.text)),
            seconded=together if agrees[i] else None,
            rival=None if agrees[i] else together,
            trusted=trust_in(run).competent(question) if beside else None,
            named=named(question, claim, passages),
        )
        for i, claim in enumerate(cited)
    ]
    if _judge_alone(run):
        return found  # as published: no other signal is asked for
    return (yield from _ask_model(question, cited, found, run))


def decide_weighed(
    question: str,
    weighed: Weighed,
    passages: Sequence[Passage],
    run: QuestionRun,
    *,
    pipeline: str,
    reason: str = "",
    found: Sequence[Passage] = (),
) -> Flow[Answer]:
    """Decide on weighed claims, in the order they were written.

    The embedded default's own quotes compete with them (``competing``). Where ``max_claims`` is set, only so many of
    the surest are decided on; by default all, since an answer in four steps is none without the third.

    Args:
        reason: for abstaining, if the pipeline knows more than claims and passages tell.
        found: all passages that were retrieved, if the claims were weighed beside those: without a model all of them
            would be read.
    """
    rivals = yield from compete(question, weighed.claims, weighed.readings, found or passages, run)
    claims = merge_duplicates(rivals.claims, run.bar)
    surest = sorted(range(len(claims)), key=lambda i: -(claims[i].support or 0.0))  # ties keep the order of writing
    most = run.settings.max_claims if "max_claims" in run.settings.model_fields_set else len(claims)
    everywhere = {p.id: p for p in (*passages, *found)}
    # Of all readings: a quote need not have won to contradict the one that is shown.
    quotes = claims_from(rivals.readings, everywhere, run.abilities.calibrations.get("confidence"))
    shown, contradiction, undisputed = add_contradiction(
        [claims[i] for i in sorted(surest[:most])], quotes, list(everywhere.values()), question
    )
    # The reader's quotes may stand in a passage that the model was not shown.
    request = DecisionRequest(
        question,
        shown,
        with_cited(passages, shown, found),
        pipeline=pipeline,
        answerable=rivals.answerable if weighed.answerable is None else weighed.answerable,
        calibrated=weighed.calibrated and not rivals.own,  # the stack was not fitted on the reader's own quotes
        unknown=weighed.unknown,
        reason=reason,
        contradiction=contradiction,
        undisputed=undisputed,
    )
    answer = yield from decide(request, run)
    if rivals.own and not answer.abstained:
        return dataclasses.replace(answer, metadata={**answer.metadata, "answered_by": ANSWERED_BY})
    return answer


def combine(signals: Signals, run: QuestionRun, question: str = "") -> float | None:
    """Combine a claim's signals into its support.

    By the stack fitted for this configuration, else by the shipped one for models in general, where it is known how
    far this model's replies have been borne out, else by the lowest signal.

    Args:
        question: that the claim answers; what the model's reply to it taught of the model is left out.
    """
    stack = run.abilities.stack
    if stack is not None:
        return stack.combine(signal_values(signals, stack.names))
    if _judge_alone(run):
        return signals.entailed
    trust = run.abilities.trust
    return _in_general(signals, lambda p: trust.correct(p, question), trust.alone(question))


def signal_values(signals: Signals, names: Sequence[str] = SIGNALS) -> list[float | None]:
    """Return a claim's signals in the order of a stack's names."""
    return [_in_general(signals) if name == GENERAL else getattr(signals, name) for name in names]


def in_general(signals: Signals) -> float | None:
    """Return the probability that a claim is right and follows from its quotes, for models in general.

    ``None`` if the claim was not compared with the reader's quote, or nobody has judged it.
    """
    if signals.trusted is None or signals.entailed is None:
        return None
    shipped = models_in_general()
    # Fitted on several kinds of model and not on this one: what follows from no quote is not shown whatever it says.
    return lowest(shipped.combine(signal_values(signals, shipped.names)), signals.entailed)


def _in_general(signals: Signals, correct: Callable[[float], float] = float, alone: float = 0.0) -> float | None:
    """Return the support by the shipped stack, or by the lowest signal where the reader was not compared with.

    Args:
        correct: for what was measured of this model (``ModelTrust.correct``).
        alone: probability at most of what it says against the reader (``ModelTrust.alone``).
    """
    p = in_general(signals)
    if p is None:
        return most_doubtful(signals)
    # What model and reader both say is as probable as Bayes' rule has it, and no less than what the model says alone.
    both = None if signals.seconded is None else max(signals.seconded, alone)
    return lowest(correct(p), signals.certain, both)


@functools.cache
def models_in_general() -> Stack:
    """Load the shipped stack, which was fitted on models of several kinds (``benchmarks/model_stack.py``)."""
    source = resources.files("shared_core.calibration").joinpath("models_in_general.json")
    return Stack.from_dict(json.loads(source.read_text("utf-8")))


def most_doubtful(signals: Signals) -> float | None:
    """Return the lowest of: the quote supports the claim, the claim answers the question, the model is sure.

    For "answers the question" the reader's probability of the quoted sentence counts (``quoted``), and the critic's
    (``answers``) only if that is missing: it separates right claims from wrong ones much worse (docs/confidence.md).
    ``sufficient`` and ``agreement`` do not count: answers can be right though the passages are insufficient, and wrong
    ones agree too.

    Returns:
        A probability in [0, 1]; ``None`` if ``entailed`` is unknown, or everything about the answer is.

    >>> most_doubtful(Signals(entailed=0.9, quoted=0.7, answers=0.2))
    0.7
    >>> most_doubtful(Signals(entailed=0.9)) is None
    True
    """
    answers = signals.quoted if signals.quoted is not None else signals.answers
    of_answer = [p for p in (answers, signals.certain) if p is not None]
    if signals.entailed is None or not of_answer:
        return None
    return min(signals.entailed, *of_answer)


def _ask_judge(
    question: str, cited: Sequence[Claim], agrees: Sequence[bool], passages: Sequence[Passage], run: QuestionRun
) -> Flow[list[float | None]]:
    """Ask the engine's judge, else the critic, whether each claim follows from its quotes; unknown without either."""
    by, alone = judge_at_hand(run.abilities), _judge_alone(run)
    # As published (``alone``), the verdict that the writer brings along is the only one, unless a judge was given.
    brought = run.abilities.scorer is None and all(c.signals.entailed is not None for c in cited)
    if by is None and (not alone or brought):
        return [None] * len(cited)  # the model is asked later, and only about claims that nobody else can judge
    by_id = {p.id: p for p in passages}
    if alone:
        evidence = [quote_of(c) for c in cited]
    else:
        # A claim that gives the reader's answer may take up words of the question. Beside any other, the question would
        # only seem to confirm what it supposes.
        with_question = [question if a and by == "critic" else "" for a in agrees]
        evidence = [evidence_for(c, by_id, q) for c, q in zip(cited, with_question, strict=True)]
    entailed = yield from support([(e, c.text) for e, c in zip(evidence, cited, strict=True)], run)
    if by == "critic" and not alone:
        # A claim that repeats words of its quote follows from it, whatever a trained critic makes of the style: also
        # where it says no more than that they are the answer.
        repeats = [any(contains_words(quote_of(c), t) for t in (c.text, final_answer(c.text) or "")) for c in cited]
        entailed = [1.0 if repeat else p for repeat, p in zip(repeats, entailed)]
    return entailed


def _ask_reader(
    question: str, claims: Sequence[Claim], passages: Sequence[Passage], run: QuestionRun
) -> Flow[ReadResult]:
    """Ask the reader for its own answer and about every sentence quoted; an empty result if there is no reader."""
    if not run.abilities.has_reader or not passages:
        return ReadResult(())
    # One request for all claims: the reader encodes each passage once, whatever is asked about it.
    spans = tuple(s for c in claims for s in cited_spans(c))
    result = yield from try_reader(question, passages, 3, run, spans)
    run.abilities.expected.see(result)
    return result


def _best_of_quotes(claims: Sequence[Claim], read: ReadResult) -> list[float | None]:
    """Return for each claim the reader's highest probability among its quotes; unknown if it answers otherwise.

    What the reader says of a quote is said of the claim only if that holds the answer which the reader finds there.

    ``read.judged`` has one reading for each span that was asked about, in order: first those of the first claim.
    """
    judged = iter(read.judged)
    out: list[float | None] = []
    for claim in claims:
        readings = [next(judged, None) for _ in cited_spans(claim)]  # none left: a reader that judges no spans
        known = [r.probability for r in readings if r is not None and r.probability is not None and _says(claim, r)]
        out.append(max(known) if known else None)
    return out


def _says(claim: Claim, reading: Reading) -> bool:
    """Return whether the claim holds the short answer of a reading, or is held by it, or repeats its whole quote."""
    if reading.short_answer is None or contains_words(claim.text, reading.quote.text):
        return True
    short = reading.short_answer.text
    return contains_words(claim.text, short) or contains_words(short, claim.short_answer or claim.text)


def _ask_critic(
    question: str, claims: Sequence[Claim], passages: Sequence[Passage], run: QuestionRun
) -> Flow[list[float | None]]:
    """Ask the critic for P(the passages cited support question and claim together); unknown without a critic."""
    if run.abilities.critic is None:
        return [None] * len(claims)
    by_id = {p.id: p for p in passages}
    pairs = []
    for claim in claims:
        # The whole passage, not the quote: "She founded it in 1871" answers only where the passage says who and what.
        evidence = "\n".join(_passages_cited(claim, by_id))
        # The question is part of what is to be supported: the critic itself knows support only.
        pairs.append((evidence or quote_of(claim), f"{question} {claim.short_answer or claim.text}"))
    return (yield from try_critic(pairs, run))


def _ask_model(
    question: str, claims: Sequence[Claim], found: Sequence[Signals], run: QuestionRun
) -> Flow[list[Signals]]:
    """Ask the model about claims that lack a signal which the rule needs: is it a right answer, by its quote?"""
    # What `most_doubtful` needs: `entailed`, and one signal that the claim answers the question.
    incomplete = [
        i
        for i, s in enumerate(found)
        if s.entailed is None or (s.answers is None and s.quoted is None and s.certain is None)
    ]
    out = list(found)
    if incomplete and model_method(run.abilities) is not None:
        replies = yield from ask_model([(quote_of(claims[i]), claims[i].text, question) for i in incomplete], run)
        for i, p in zip(incomplete, replies):
            # One reply answers both questions (supported, and right), so it may serve for both signals.
            entailed = found[i].entailed if found[i].entailed is not None else p
            out[i] = dataclasses.replace(found[i], entailed=entailed, certain=lowest(p, found[i].certain))
    return out
