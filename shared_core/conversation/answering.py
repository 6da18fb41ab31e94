"""Answer the last question of a conversation: full questions as they are, follow-ups made full, or decline."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from shared_core.conversation.condense import condense_request, read_rewriting, refusal
from shared_core.conversation.phrases import phrases_of, words_of
from shared_core.conversation.recognise import FollowUp, recognise
from shared_core.conversation.rules import Exchange, Rewriting, exchanges_of, rewrite
from shared_core.conversation.turns import Asked
from shared_core.errors import LanguageModelError, LimitError
from shared_core.pipelines.decision.decide import DecisionRequest, decide
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.decision.reasons import (
    ABOUT_ANSWER,
    FOLLOW_UP_UNCLEAR,
    NOTHING_ASKED,
    PASSAGES_DO_NOT_ANSWER,
    explain,
)
from shared_core.pipelines.decision.wording import abstention_text
from shared_core.runtime.flow import Flow
from shared_core.types import Answer, Decision

CONDENSED = "condensed_question"
"""Key of ``Answer.metadata`` that holds the full question that was answered in place of a follow-up."""

_KINDS = {
    "full": "the question can be understood alone",
    "open": "the question names nothing, so it may be about the topic",
    "reference": "the question refers to something said before",
    "ellipsis": "the question leaves out what was said before",
    "about_answer": "the question asks about the answer given before",
    "nothing": "the message asks nothing",
}


def answer_turn(asked: Asked, answer: Callable[[str], Flow[Answer]], run: QuestionRun) -> Flow[Answer]:
    """Answer a question in its conversation.

    A question that can be understood alone is asked as it is. A follow-up is made a full question: with the model, if
    there is one and what it writes can be used, else by rule; if two readings are likely, both are asked and the surer
    answer is shown. An answer to it counts only if its evidence names what the follow-up refers to. A follow-up that
    cannot be made full is declined, and so is what asks about the answer given before, which documents do not know.

    Args:
        asked: the question and its history.
        answer: creates the flow that answers a full question.
        run: for notes; its trace comes before the answer's own.

    Returns:
        The answer; its ``question`` is the user's, and ``metadata["condensed_question"]`` is the question answered.
    """
    found = recognise(asked.question)
    if not asked.history:
        return (yield from answer(asked.question))
    if asked.condense is False:
        yield run.note("history", "not read", "condense is off", messages=len(asked.history))
        return _with_trace((yield from answer(asked.question)), run)
    yield run.note("history", "read", _KINDS[found.kind], messages=len(asked.history))
    if found.kind in ("nothing", "about_answer"):
        reason = NOTHING_ASKED if found.kind == "nothing" else ABOUT_ANSWER
        return (yield from _decline(asked.question, reason, run))
    exchanges = exchanges_of(asked.history)
    readings, by = yield from _readings(asked, found, exchanges, run)
    if found.kind in ("full", "open") and by != "model":
        return (yield from _answer_alone(asked.question, found, readings, answer, run))
    if not readings:
        yield run.note("condense", "declined", f"it cannot be told what {found.word or 'it'!r} refers to")
        return (yield from _decline(asked.question, FOLLOW_UP_UNCLEAR, run))
    yield run.note("condense", readings[0].question, f"a follow-up, made full by the {by}")
    tried = []
    for reading in readings:
        tried.append((reading, (yield from answer(reading.question))))
    return _surest(asked.question, tried, by, run)


def _readings(
    asked: Asked, found: FollowUp, exchanges: Sequence[Exchange], run: QuestionRun
) -> Flow[tuple[list[Rewriting], str]]:
    """Return the full questions that a follow-up may stand for, and whether the model or the rule wrote them."""
    by_rule = rewrite(asked.question, found, exchanges)
    wanted = asked.condense is True or found.needs_history
    if not (wanted and exchanges):
        return by_rule, "rule"
    written = asked.condensed
    if not written and run.abilities.model("default") is not None:
        try:
            reply = yield condense_request(asked.question, exchanges, asked.prompt)
        except (LanguageModelError, LimitError) as error:
            yield run.note("condense", "model failed", error.message)
            return by_rule, "rule"
        written = read_rewriting(reply.text)
    if not written:
        return by_rule, "rule"
    if problem := refusal(written, asked.question, exchanges):
        yield run.note("condense", "rewriting not used", problem, rewriting=written)
        return by_rule, "rule"
    return [Rewriting(written, _topics(written, by_rule))], "model"


def _topics(written: str, by_rule: Sequence[Rewriting]) -> tuple[frozenset[str], ...]:
    """Return the topics of the rule's reading that the model's has too, for the check of the evidence."""
    said = frozenset(words_of(written))
    return next((r.topics for r in by_rule if all(topic <= said for topic in r.topics)), ())


def _answer_alone(
    question: str,
    found: FollowUp,
    readings: Sequence[Rewriting],
    answer: Callable[[str], Flow[Answer]],
    run: QuestionRun,
) -> Flow[Answer]:
    """Answer a question that can be understood alone; without names in it, also as one about the topic."""
    alone = yield from answer(question)
    if found.kind == "full" or not readings:
        return _with_trace(alone, run)
    reading = readings[0]
    if not alone.abstained and is_about(alone, reading.topics):
        return _with_trace(alone, run)
    yield run.note("condense", reading.question, "asked about the topic too")
    other = yield from answer(reading.question)
    # whether it was meant so is not known, which no calibration of full questions accounts for
    alone = dataclasses.replace(alone, calibrated=False)
    return _surest(question, [(reading, other), (Rewriting(question), alone)], "rule", run)


def _surest(question: str, tried: Sequence[tuple[Rewriting, Answer]], by: str, run: QuestionRun) -> Answer:
    """Return the surest answer whose evidence is about the topic, or an abstention."""
    right = [(r, a) for r, a in tried if not a.abstained and is_about(a, r.topics)]
    reading, best = max(right or tried[:1], key=lambda pair: pair[1].confidence or 0.0)
    if not right and not best.abstained:
        best = _withheld(best, run)
    more = {} if reading.question == question else {CONDENSED: reading.question, "condensed_by": by}
    return _with_trace(dataclasses.replace(best, question=question, metadata={**best.metadata, **more}), run)


def is_about(answer: Answer, topics: Sequence[frozenset[str]]) -> bool:
    """Whether the evidence of each claim shown is about every topic.

    The topic's words must be in the claim, the passage or its title, and the claim itself must not speak of a namesake
    instead ("Tobin Aldreth" where "Perrin Aldreth" is the topic).
    """
    by_id = {p.id: p for p in answer.passages}
    for claim in answer.kept_claims:
        spans = [s for citation in claim.citations for s in citation.primary]
        cited = [by_id[s.passage_id] for s in spans if s.passage_id in by_id]
        texts = [claim.text, *(f"{p.title} {p.text} {p.metadata.get('source', '')}" for p in cited)]
        said = {_form(w) for w in words_of(" ".join(texts))}
        names = [frozenset(map(_form, p.words)) for p in phrases_of(claim.text)]
        for topic in (frozenset(map(_form, t)) for t in topics):
            namesakes = [n for n in names if len(n) > 1 and n & topic and not topic <= n]
            if not topic <= said or (namesakes and not any(topic <= n for n in names)):
                return False
    return True


def _form(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word


def _decline(question: str, reason: str, run: QuestionRun) -> Flow[Answer]:
    return (yield from decide(DecisionRequest(question, (), (), pipeline=run.settings.pipeline, reason=reason), run))


def _withheld(answer: Answer, run: QuestionRun) -> Answer:
    """Turn an answer about something else into an abstention."""
    sentence = explain(PASSAGES_DO_NOT_ANSWER)
    dropped = tuple(dataclasses.replace(c, status="dropped", start=None, end=None) for c in answer.claims)
    text = abstention_text(answer.question, PASSAGES_DO_NOT_ANSWER, sentence, dropped, answer.passages, run.settings)
    note = Decision("abstain", PASSAGES_DO_NOT_ANSWER, "what was found is not about what the follow-up refers to")
    return dataclasses.replace(
        answer,
        text=text,
        claims=dropped,
        abstained=True,
        reason=PASSAGES_DO_NOT_ANSWER,
        utility=0.0,
        trace=(*answer.trace, note),
    )


def _with_trace(answer: Answer, run: QuestionRun) -> Answer:
    """Put this run's notes at the head of the answer's trace."""
    return dataclasses.replace(answer, trace=(*run.trace.decisions, *answer.trace))
