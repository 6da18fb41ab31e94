"""Answer a follow-up among passages on the questions before it, where no rule tells what its words refer to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from shared_core.conversation.numbered import WORDS
from shared_core.conversation.phrases import words_of
from shared_core.conversation.recognise import recognise
from shared_core.conversation.turns import Turn
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.evidence import cited_spans
from shared_core.runtime.flow import Flow, Request, Retrieve, intercept
from shared_core.types import Answer

_READ = 1_000  # characters of a question
_PLAIN = WORDS["plain"] | WORDS["stop"]


def context_of(history: Sequence[Turn]) -> str:
    """Return the last question of the user that tells a topic, behind the one that it refers to itself.

    >>> context_of([Turn("user", "How do I delete a role?"), Turn("assistant", "…"), Turn("user", "And restore it?")])
    'How do I delete a role? And restore it?'
    >>> context_of([Turn("user", "Thanks!")])
    ''
    """
    found: list[str] = []
    for turn in reversed(history):
        text = turn.text[:_READ].strip()
        if turn.role != "user" or (kind := recognise(text)).kind in ("nothing", "about_answer"):
            continue
        found.append(text)
        if not kind.needs_history or len(found) > 1:
            break
    return " ".join(reversed(found))


def with_topic(question: str, context: str) -> str:
    """Return a follow-up with the words of the questions before it.

    >>> with_topic("Can that be undone?", "What happens to the payments if I delete a membership?")
    'Can that be undone (payments delete membership)?'
    """
    known = {*words_of(question), *_PLAIN, *WORDS["vague"]}
    topic = dict.fromkeys(word for word in words_of(context) if word not in known and len(word) > 1)
    return f"{question.rstrip(' ?.!')} ({' '.join(topic)})?" if topic else question


def own_words(question: str) -> int:
    """Return how many words of a question, which may name nothing, tell what it is about.

    >>> own_words("Is there a maximum?"), own_words("What colours can I pick for the badges of an event?")
    (1, 4)
    """
    return len(set(words_of(question)) - _PLAIN - WORDS["vague"])


def answer_in_context(
    question: str, context: str, answer: Callable[[str], Flow[Answer]], run: QuestionRun
) -> Flow[tuple[Answer, str]]:
    """Answer a follow-up as it is and with the words of its topic, both among passages on the questions before it.

    Either alone finds a wrong sentence too often: as it is, the follow-up fits passages on anything; with more words it
    is no longer quite what was asked. Where both find the same sentence it is seldom wrong. Return the surer answer,
    which is not calibrated, and why it cannot be shown; empty if it can.
    """
    full = with_topic(question, context)
    yield run.note("condense", full, "asked as it is and with the words of the topic, of passages on the topic")
    said = yield from _among(f"{context} {question}", question, answer)
    meant = yield from _among(f"{context} {question}", full, answer)
    best = dataclasses.replace(max(said, meant, key=lambda found: found.confidence or 0.0), calibrated=False)
    return best, "" if first_quote(said) & first_quote(meant) else "another sentence answers it with its topic's words"


def _among(query: str, question: str, answer: Callable[[str], Flow[Answer]]) -> Flow[Answer]:
    """Answer a question among the passages of another query."""

    def instead(request: Request) -> Request:
        if isinstance(request, Retrieve) and request.query == question:
            return dataclasses.replace(request, query=query)
        return request

    return intercept(answer(question), before=instead)


def first_quote(answer: Answer) -> frozenset[tuple[str, int, int]]:
    """Return the place of the first claim's quotes."""
    spans = cited_spans(answer.claims[0]) if answer.claims else []
    return frozenset((span.passage_id, span.start, span.end) for span in spans)
