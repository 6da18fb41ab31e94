"""Answers to learn from, and their segments: the sentences or clauses that each become one claim.

An answer may carry marks ``[2]`` or ``[1][3]``, ``[1, 3]`` behind what they back (WebGLM-QA does): they cut clauses and
say which passages to look in. Or its segments come labelled with the sentences that support them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from shared_core.citation import split_sentences
from shared_core.errors import GenerationError, InputError, SelfReflectError
from shared_core.lm.base import Generation, Prompt, SamplingParams
from shared_core.pipelines.evidence import ours, theirs
from shared_core.pipelines.reclaim.prompts import numbered_passages
from shared_core.runtime.flow import Flow, Generate, Retrieve, Together
from shared_core.settings import Settings
from shared_core.support.regex import lazy_regex
from shared_core.training.rows import read_json_lines
from shared_core.types import Passage

Unit = Literal["sentence", "clause"]

_NUMBERS = r"\d{1,3}(?:\s*[,;]\s*\d{1,3})*"
_MARKS = lazy_regex(rf"(?:\s*\[{_NUMBERS}\])+")
_SEMICOLON = lazy_regex(r";(?=\s)")
_EDGES = " \t\r\n,;:–—"
_SHAPE = (
    'Each line: {"question": …, "passages": [{"id": …, "text": …, "title": …}, …], "answer": "… [1]."}, or with '
    '"segments": [{"text": …, "sentences": [0, 3]}, …] instead of the answer; sentences by number, from 0 over all '
    'passages, or as texts; or "declines": true instead of both, where the passages do not answer.'
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of an answer.

    Attributes:
        text: what is claimed, without marks, on one line.
        sentences: what supports it, as numbers of the passages' sentences (from 0, over all passages in order, as
            ``CitationIndex.sentences`` numbers them) or as quoted texts; ``None`` if a model has to select them.
        passages: numbers (from 1) of the passages it cites; empty if it does not say.
    """

    text: str
    sentences: tuple[int | str, ...] | None = None
    passages: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """A question, passages, and an answer to learn from.

    Attributes:
        id: unique among the sources; rows and reports name it.
        passages: in the order in which a pipeline would show them.
        answer: with or without marks; unused where segments are given.
        segments: labelled, in order; empty to have the answer cut.
        declines: the passages do not answer the question, and that is what is to be learnt: nothing is written.
    """

    id: str
    question: str
    passages: tuple[Passage, ...]
    answer: str = ""
    segments: tuple[Segment, ...] = ()
    declines: bool = False

    def __post_init__(self) -> None:
        """Refuse a source that no row can be made from."""
        if not self.question.strip():
            raise InputError(f"The source {self.id!r} has no question.", hint=_SHAPE)
        if not self.passages:
            raise InputError(f"The source {self.id!r} has no passages.", hint=_SHAPE)
        if self.declines and (self.segments or self.answer.strip()):
            raise InputError(f"The source {self.id!r} declines but has an answer.", hint=_SHAPE)
        if not self.declines and not self.segments and not self.answer.strip():
            raise InputError(f"The source {self.id!r} has neither an answer nor segments.", hint=_SHAPE)


def segment_answer(answer: str, unit: Unit = "clause") -> list[Segment]:
    """Cut an answer into sentences or clauses, and remove its marks.

    Clauses end at the ends of sentences, at marks inside of them, and at semicolons. A mark belongs to the segment
    that contains it or directly precedes it. Commas, dashes and colons at the edges of a clause are removed; a stretch
    without any letter or digit stays a separate segment, so that no text is lost.

    Raises:
        InputError: another unit.
    """
    if unit not in ("sentence", "clause"):
        raise InputError(f"unit must be 'sentence' or 'clause', not {unit!r}.")
    text, marks = _without_marks(answer)
    found: list[Segment] = []
    for start, end in split_sentences(text):
        cuts = _clause_cuts(text, start, end, marks) if unit == "clause" else []
        for low, high in zip([start, *cuts], [*cuts, end]):
            least = low if found else -1  # a mark before the first word belongs to it
            numbers = dict.fromkeys(n for at, many in marks for n in many if least < at <= high)
            piece = re.sub(r"\s+", " ", text[low:high]).strip()
            found.append(Segment(piece.strip(_EDGES) or piece, None, tuple(numbers)))
    return found


def _without_marks(answer: str) -> tuple[str, list[tuple[int, list[int]]]]:
    """Remove the marks, and return them with their places in the remaining text."""
    text, marks, last = "", [], 0
    for match in _MARKS.finditer(answer):
        text += answer[last : match.start()]
        marks.append((len(text), [int(n) for n in re.findall(r"\d+", match[0])]))
        last = match.end()
    return text + answer[last:], marks


def _clause_cuts(text: str, start: int, end: int, marks: Sequence[tuple[int, list[int]]]) -> list[int]:
    places = [at for at, _ in marks if start < at < end]
    places += [m.end() for m in _SEMICOLON.finditer(text, start, end)]
    cuts: list[int] = []
    for place in sorted(set(places)):  # punctuation alone is no clause
        before, after = text[cuts[-1] if cuts else start : place], text[place:end]
        if any(map(str.isalnum, before)) and any(map(str.isalnum, after)):
            cuts.append(place)
    return cuts


# --- files ---------------------------------------------------------------------------------------------------------


def read_sources(path: str | Path) -> list[SourceAnswer]:
    """Read sources from JSON lines.

    Each line has ``question``; ``passages`` (objects or texts; also ``references``); ``answer`` or ``segments`` or
    ``declines``; ``id`` (else the number of the line).

    Raises:
        DocumentError: the file cannot be read.
        InputError: a line cannot be used, or two share an id; the message names the line.
    """
    sources: list[SourceAnswer] = []
    seen: dict[str, str] = {}
    for where, value in read_json_lines(path):
        source = _source(where, value, str(len(sources) + 1))
        if source.id in seen:
            raise InputError(f"{where}: the id {source.id!r} is that of {seen[source.id]}.", hint="Ids must be unique.")
        seen[source.id] = where
        sources.append(source)
    if not sources:
        raise InputError(f"{path} holds no sources.", hint=_SHAPE)
    return sources


def _source(where: str, value: Any, number: str) -> SourceAnswer:
    try:
        if not isinstance(value, Mapping):
            raise InputError("not an object with fields.")
        passages = value["passages"] if "passages" in value else value["references"]
        return SourceAnswer(
            str(value.get("id", number)),
            _text(value["question"]),
            tuple(read_passage(i, p) for i, p in enumerate(passages, 1)),
            _text(value.get("answer") or ""),
            tuple(_segment(s) for s in value.get("segments") or ()),
            _flag(value.get("declines", False)),
        )
    except KeyError as error:
        raise InputError(f"{where}: no {error.args[0]}.", hint=_SHAPE) from error
    except (SelfReflectError, TypeError) as error:
        raise InputError(f"{where}: {getattr(error, 'message', error)}", hint=_SHAPE) from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, not {value!r}.")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"declines must be true or false, not {value!r}.")
    return value


def read_passage(number: int, value: Any) -> Passage:
    """Read a passage, given as a text or an object; TypeError, KeyError or AttributeError for anything else."""
    if isinstance(value, str):
        return Passage(str(number), value)
    return Passage(str(value.get("id", number)), _text(value["text"]), _text(value.get("title") or ""))


def _segment(value: Any) -> Segment:
    labels = value.get("sentences")
    if labels is not None and not all(isinstance(s, str) or type(s) is int for s in labels):
        raise TypeError(f"sentences must be numbers or texts, not {labels!r}.")
    text = re.sub(r"\s+", " ", _text(value["text"])).strip()
    return Segment(text, None if labels is None else tuple(labels), tuple(map(int, value.get("passages") or ())))


NO_ANSWER = "NO ANSWER"
_NO_ANSWER = lazy_regex(rf"\W*{NO_ANSWER}\b\W*", re.IGNORECASE)
_EXAMPLE = (
    "Example:\n[1] The harbour of Ostby\nThe harbour wall of Ostby was finished in 1842. It is 300 metres long.\n\n"
    "[2] Ferries\nThe first ferry to Ostby sailed in 1851.\n\n"
    "Question: When was the harbour wall of Ostby finished, and when did the first ferry sail?\n"
    "Answer: The harbour wall was finished in 1842 [1]. The first ferry sailed in 1851 [2].\n\n"
    "Question: Who designed the harbour wall?\nAnswer: NO ANSWER\n\nEnd of the example.\n\n"
)


class AnswerSettings(Settings):
    """Settings of written answers."""

    top_k: int = Field(5, ge=1, description="Passages retrieved for a question.")
    max_sentences: int = Field(3, ge=1)
    max_tokens: int = Field(256, ge=16)
    seed: int | None = 0


def answer_prompt(question: str, passages: Sequence[Passage], most: int) -> Prompt:
    """Build the prompt for an answer with citation marks."""
    told = (
        f"Answer the question from the numbered passages alone, in at most {most} short sentences. Behind each "
        "sentence put the number of the passage it rests on, like [2]. If the passages do not answer it, write only: "
        f"{NO_ANSWER}\n\n"
    )
    prompt = ours(told + _EXAMPLE) + numbered_passages(passages)
    return prompt + ours("Question: ") + theirs(question) + ours("\nAnswer:")


def write_answer(
    question: str, passages: tuple[Passage, ...] | None, unrelated: str, options: AnswerSettings
) -> Flow[dict[str, Any]]:
    """Have a model answer a question from passages, and perhaps decline on those of an ``unrelated`` question.

    ``sources`` of the result are answers as ``read_sources`` reads them, one for the question, and one that declines if
    the model finds no answer in the unrelated passages.

    Raises:
        GenerationError: the reply was cut off before its first sentence ended, or is empty.
        LimitError: a budget does not suffice.
        SelfReflectError: the model or the retriever failed.
    """
    if passages is None:
        passages = yield Retrieve(question, options.top_k)
    shelves = [passages]
    if unrelated:
        others: tuple[Passage, ...] = yield Retrieve(unrelated, options.top_k)
        here = {p.id for p in passages}
        shelves.append(tuple(p for p in others if p.id not in here))
    asked = [s for s in shelves if s]
    params = SamplingParams(max_tokens=options.max_tokens, seed=options.seed)
    requests = tuple(Generate(answer_prompt(question, s, options.max_sentences), params) for s in asked)
    written: list[Generation] = (yield Together(requests)) if requests else []
    found = [_written_source(question, shelf, generation) for shelf, generation in zip(asked, written)]
    own = found[:1] if passages else []
    return {"sources": [*own, *(s for s in found[len(own) :] if s.get("declines"))]}


def _written_source(question: str, passages: Sequence[Passage], generation: Generation) -> dict[str, Any]:
    sample = generation.samples[0]
    text = re.sub(r"\s+", " ", sample.text).strip()
    shown = [{"id": p.id, "title": p.title, "text": p.text} for p in passages]
    if _NO_ANSWER.fullmatch(text):
        return {"question": question, "passages": shown, "declines": True}
    if sample.finish_reason == "length":
        text = text[: max(text.rfind(end) for end in (". ", "] ", "! ", "? ")) + 1].strip()
    if not text:
        raise GenerationError("The model wrote no whole sentence.", hint="Raise max_tokens, or use another model.")
    return {"question": question, "passages": shown, "answer": text}
