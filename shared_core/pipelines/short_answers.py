"""Judge short answers in a check: "1871" states nothing that a critic could compare, but a reader finds answers.

Beside a critic that was trained on sentences, the reader's own answer to the question is a second opinion: a short
answer that it finds in the passages, too, is as probable as the reader holds it to be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared_core.errors import LimitError, SelfReflectError
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.extractive import QUOTES
from shared_core.pipelines.support import support_method
from shared_core.reading.base import Reading, ReadResult
from shared_core.runtime.flow import Flow, Read
from shared_core.types import Passage

_EMPTY = frozenset({"a", "an", "the", "in", "on", "at", "of", "by", "to", "for", "from", "about", "it", "was", "is"})


def find_short_answers(
    question: str, answers: Sequence[str], passages: Sequence[Passage], run: QuestionRun
) -> Flow[list[Reading | None]]:
    """Return the reader's reading of each short answer: the best one that says the same, ``None`` if there is none.

    Nobody is asked without a question, a reader or passages; nor where the engine was given a judge of its own, or
    only support counts (``signals="support_only"``).
    """
    alone = run.settings.signals == "support_only" or support_method(run.abilities) == "judge"
    if not (question and answers and passages and run.abilities.has_reader) or alone or run.trace.limit is not None:
        return [None] * len(answers)
    try:
        found: ReadResult = yield Read(question, tuple(passages), QUOTES, run.abilities.expected.value)
    except LimitError as error:
        yield run.stop(error)
        return [None] * len(answers)
    except SelfReflectError as error:  # a signal that fails is unknown; the critic's still counts
        yield run.note("read", "unknown", error.message)
        return [None] * len(answers)
    asked = set(_words(question)) | _EMPTY
    known = [r for r in found.readings if r.probability is not None and r.short_answer is not None]
    known.sort(key=lambda r: -(r.probability or 0.0))
    return [next((r for r in known if _says(answer, r, asked)), None) for answer in answers]


def _says(answer: str, reading: Reading, asked: set[str]) -> bool:
    """Return whether an answer holds the reader's words and no others, but for those of the question."""
    said = _words(answer)
    short = _words(reading.short_answer.text) if reading.short_answer is not None else []
    content = set(short) - asked
    return bool(content) and content <= set(said) and set(said) <= asked | set(short)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())
