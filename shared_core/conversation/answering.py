"""Answer the last question of a conversation: full questions as they are, follow-ups made full, or decline.

An answer to a follow-up counts only if it is about the topic, and if its evidence says what was asked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from shared_core.conversation.condense import condense_request, refusal
from shared_core.conversation.context import answer_in_context, context_of, first_quote, own_words, with_topic
from shared_core.conversation.missing import form_missing_in, is_about, missing_in, only_about
from shared_core.conversation.numbered import WORDS
from shared_core.conversation.phrases import phrases_of, words_of
from shared_core.conversation.recognise import FollowUp, names_only, recognise
from shared_core.conversation.rewriting import read_rewriting
from shared_core.conversation.rules import Exchange, Rewriting, exchanges_of, rewrite
from shared_core.conversation.turns import Asked, Turn
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
from shared_core.pipelines.decision.wording import abstention_text, is_abstention
from shared_core.runtime.flow import Flow
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Decision

CONDENSED = "condensed_question"
"""Key of ``Answer.metadata`` that holds the full question that was answered in place of a follow-up."""

_MANY_WORDS = 4  # of a question: so many tell that it is about another topic

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
    answer is shown. An answer to it counts only if its evidence names what the follow-up refers to. Where no rule
    gives an answer, it is asked of passages on the questions before it (``answer_in_context``). Else it is declined,
    and so is what asks about the answer given before, which documents do not know. The answer's ``question`` is the
    user's, and ``metadata["condensed_question"]`` is the one answered.

    Args:
        answer: creates the flow that answers a full question.
        run: for notes; its trace comes before the answer's own.
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
    exchanges = exchanges_of([_marked(turn, run.settings) for turn in asked.history])
    readings, by = yield from _readings(asked, found, exchanges, run)
    context = context_of(asked.history)
    if found.kind == "open" or (found.kind == "full" and by != "model"):
        return (yield from _answer_alone(asked.question, found, readings, by, context, answer, run))
    best: Answer | None = None
    if readings:
        yield run.note("condense", readings[0].question, f"a follow-up, made full by the {by}")
        tried = []
        for reading in readings:
            tried.append((reading, (yield from answer(reading.question))))
        best = _surest(asked.question, tried, by, run)
        if by == "model" or not best.abstained:
            return best
    asks = "" if found.kind != "ellipsis" else (readings[0].question if readings else context)
    other = yield from _in_context(asked.question, context, readings, answer, run, asks)
    if other is not None and not other.abstained:
        return other
    if best is not None:
        return best
    yield run.note("condense", "declined", f"it cannot be told what {found.word or 'it'!r} refers to")
    return (yield from _decline(asked.question, FOLLOW_UP_UNCLEAR, run))


def _marked(turn: Turn, settings: SelfReflectSettings) -> Turn:
    """Return a turn that knows whether it is an abstention of ours: histories of plain texts do not say so."""
    abstained = turn.abstained or (turn.role == "assistant" and is_abstention(turn.text, settings))
    return dataclasses.replace(turn, abstained=abstained)


def _readings(
    asked: Asked, found: FollowUp, exchanges: Sequence[Exchange], run: QuestionRun
) -> Flow[tuple[list[Rewriting], str]]:
    """Return the full questions that a follow-up may stand for, and whether the model or the rule wrote them."""
    by_rule = rewrite(asked.question, found, exchanges)
    wanted = asked.condense is True or found.needs_history
    if not (wanted and exchanges):
        return by_rule, "rule"
    written = asked.condensed
    if not written and run.abilities.has_model("default"):
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
    return [Rewriting(written, _topics(written, asked.question, by_rule))], "model"


def _topics(written: str, question: str, by_rule: Sequence[Rewriting]) -> tuple[frozenset[str], ...]:
    """Return the topics of the rule's reading that the model's has too, else the names that the model put in."""
    said, asked = frozenset(words_of(written)), frozenset(words_of(question))
    found = next((r.topics for r in by_rule if r.topics and all(topic <= said for topic in r.topics)), ())
    return found or tuple(p.words for p in phrases_of(written) if not p.words <= asked)


def _answer_alone(
    question: str,
    found: FollowUp,
    readings: Sequence[Rewriting],
    by: str,
    context: str,
    answer: Callable[[str], Flow[Answer]],
    run: QuestionRun,
) -> Flow[Answer]:
    """Answer a question that can be understood alone; without names in it, also as one about the topic."""
    alone = yield from answer(question)
    itself = Rewriting(question)
    if found.kind == "full":
        return _surest(question, [(itself, alone)], by, run)
    if own_words(question) >= _MANY_WORDS and not _problem(question, itself, alone):
        return _with_trace(alone, run)
    tried = []
    if readings:
        if not _problem(question, readings[0], alone):
            return _with_trace(alone, run)
        yield run.note("condense", readings[0].question, "asked about the topic too")
        tried.append((readings[0], (yield from answer(readings[0].question))))
        if not _problem(question, *tried[0]):
            return _surest(question, tried, by, run)
    other: Answer | None = None
    if not run.abilities.has_model("default"):  # two more answers, which cost nothing without a model
        other = yield from _in_context(question, context, readings, answer, run)
    if other is not None and not other.abstained:
        same = first_quote(other) == first_quote(alone) and not _problem(question, itself, alone)
        return _with_trace(alone, run) if same else other
    # whether it was meant so is not known, which no calibration of full questions accounts for
    alone = dataclasses.replace(alone, calibrated=False)
    if other is None or own_words(question) > 1:
        return _surest(question, [*tried, (itself, alone)], by, run)
    why = "it may be about what was said before, where something else answers it"
    return _with_trace(alone if alone.abstained else _withheld(alone, why, run), run)


def _in_context(
    question: str,
    context: str,
    readings: Sequence[Rewriting],
    answer: Callable[[str], Flow[Answer]],
    run: QuestionRun,
    asks: str = "",
) -> Flow[Answer | None]:
    """Answer a question as a follow-up among passages on its topic; ``None`` if words that tell either are missing.

    Where the rule put in a name of several words, what was found must be about that too. A fragment ("And for
    juniors?") has no form of its own, so that any sentence with its words would do: what was found must have that of an
    answer to ``asks``, the question that it goes on with.
    """
    if not context or names_only(question) or not frozenset(words_of(question)) - WORDS["plain"] - {"else"}:
        return None
    best, problem = yield from answer_in_context(question, context, answer, run)
    reading = next(filter(_has_full_name, readings), Rewriting(question))
    problem = problem or _problem(question, reading, best)
    if not problem and asks and (missing := form_missing_in(best, asks)):
        problem = f"what was found does not say {missing}"
    return _as_reply(question, best, problem, {CONDENSED: with_topic(question, context), "condensed_by": "rule"}, run)


def _has_full_name(reading: Rewriting) -> bool:
    """Return whether a name that was put in has several words, with capitals: others may be a product's or a form's."""
    names = [phrase.words for phrase in phrases_of(reading.question) if len(phrase.words) > 1]
    return any(topic <= name for topic in reading.topics for name in names)


def _surest(question: str, tried: Sequence[tuple[Rewriting, Answer]], by: str, run: QuestionRun) -> Answer:
    """Return the surest answer that is about the topic and says what is asked, or an abstention."""
    ours = [(reading, only_about(answer, reading.topics)) for reading, answer in tried]
    judged = [(reading, answer, _problem(question, reading, answer)) for reading, answer in ours]
    right = [found for found in judged if not found[2]]
    reading, best, problem = max(right or judged[:1], key=lambda found: found[1].confidence or 0.0)
    more = {} if reading.question == question else {CONDENSED: reading.question, "condensed_by": by}
    return _as_reply(question, best, problem, more, run)


def _as_reply(question: str, answer: Answer, problem: str, more: Mapping[str, str], run: QuestionRun) -> Answer:
    """Return the answer with the user's own question; withheld where there is a problem with it."""
    if problem and not answer.abstained:
        answer = _withheld(answer, problem, run)
    return _with_trace(dataclasses.replace(answer, question=question, metadata={**answer.metadata, **more}), run)


def _problem(question: str, reading: Rewriting, answer: Answer) -> str:
    """Say why an answer cannot be shown for a reading; empty if it can."""
    if answer.abstained:
        return "it was not answered"
    if not is_about(answer, (*reading.topics, *reading.kept)):
        return "what was found is not about what the follow-up refers to"
    missing = missing_in(answer, reading.question, reading.topics, question)
    return f"what was found does not say {missing}" if missing else ""


def _decline(question: str, reason: str, run: QuestionRun) -> Flow[Answer]:
    return (yield from decide(DecisionRequest(question, (), (), pipeline=run.settings.pipeline, reason=reason), run))


def _withheld(answer: Answer, problem: str, run: QuestionRun) -> Answer:
    """Turn an answer about something else, or that says something else, into an abstention.

    The confidence was that of an answer to another question.
    """
    sentence = explain(PASSAGES_DO_NOT_ANSWER)
    dropped = tuple(dataclasses.replace(c, status="dropped", start=None, end=None) for c in answer.claims)
    text = abstention_text(answer.question, PASSAGES_DO_NOT_ANSWER, sentence, dropped, answer.passages, run.settings)
    trace = [
        dataclasses.replace(d, outcome=f"0 of {len(dropped)} claims", reason=problem) if d.kind == "keep" else d
        for d in answer.trace
        if d.kind != "answer"
    ]
    return dataclasses.replace(
        answer,
        text=text,
        claims=dropped,
        abstained=True,
        reason=PASSAGES_DO_NOT_ANSWER,
        utility=0.0,
        confidence=None,
        calibrated=False,
        trace=(*trace, Decision("abstain", PASSAGES_DO_NOT_ANSWER, problem)),
    )


def _with_trace(answer: Answer, run: QuestionRun) -> Answer:
    """Put this run's notes at the head of the answer's trace."""
    return dataclasses.replace(answer, trace=(*run.trace.decisions, *answer.trace))
