"""Read files of questions to evaluate or calibrate with."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared_core.errors import DocumentError, InputError

_FORMATS = ("jsonl", "ndjson", "json", "csv", "tsv")
_NAMES = {
    "question": ("question", "query"),
    "answers": ("answers", "answer", "golds"),
    "answerable": ("answerable",),
    "impossible": ("is_impossible",),
    "id": ("id", "_id", "qid", "question_id"),
}
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_SHAPE = (
    'One JSON object a line, for example {"id": "1", "question": "Who …?", "answers": ["…"], "answerable": true}; '
    "or CSV with these columns (several answers separated by |), or SQuAD's own JSON."
)


@dataclass(frozen=True, slots=True)
class Question:
    """Question with its known answers.

    >>> Question("1", "Who built it?", ("Mira",)).judgeable
    True

    Attributes:
        id: unique in its file; by default the number of the row.
        answers: accepted short answers; empty if there is none, or none is known.
        answerable: whether the documents answer it; ``None`` if unknown. By default true if there are answers.
        metadata: other fields of the row.
    """

    id: str
    question: str
    answers: tuple[str, ...] = ()
    answerable: bool | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def judgeable(self) -> bool:
        """Whether answers can be judged: there are gold answers, or it is known to have none."""
        return bool(self.answers) or self.answerable is False


def read_questions(path: str | Path) -> list[Question]:
    """Read the questions of a UTF-8 jsonl, json, csv or tsv file (``.gz`` too).

    Fields: ``question`` (or ``query``); ``answers`` or ``answer`` (a text or a list; in csv several are separated by
    ``|`` or written as a JSON list); ``answerable``, or its reverse ``is_impossible``; ``id`` (or ``_id``, ``qid``,
    ``question_id``), with any capitals. JSON holds a list of objects, or one object with such a list under
    ``questions`` or ``data``; SQuAD's files (articles, paragraphs, questions) are read as published. CSV may be
    separated by semicolons.

    In JSON a question is unanswerable, too, if its answers are ``[]`` or ``null``, others of the file have answers, and
    none is marked as unanswerable. An empty cell of CSV says nothing.

    Raises:
        DocumentError: (an InputError) the file cannot be read, or has an unknown format.
        InputError: a row cannot be used; the message names the line (the entry, for json).
    """
    path = Path(path)
    suffixes = [s.lower().lstrip(".") for s in path.suffixes]
    kind = next((s for s in reversed(suffixes) if s != "gz"), "")
    if kind not in _FORMATS:
        raise DocumentError(f"{path}: a file of questions must end in {', '.join(_FORMATS)}.", hint=_SHAPE)
    text = read_text(path)
    rows = _json_rows(path, text) if kind == "json" else line_rows(path, text, kind)
    questions: list[Question] = []
    empty: set[int] = set()
    seen: dict[str, str] = {}
    for where, row in rows:
        question = _question(f"{path}, {where}", row, len(questions) + 1)
        if question.id in seen:
            raise InputError(
                f"{path}, {where}: the id {question.id!r} is that of {seen[question.id]}.", hint="Ids must be unique."
            )
        seen[question.id] = where
        if _gives_no_answer(row):
            empty.add(len(questions))
        questions.append(question)
    if not questions:
        raise InputError(f"{path} holds no questions.", hint=_SHAPE)
    if not any(q.answers for q in questions) or any(q.answerable is False for q in questions):
        return questions  # no row has answers, or the file says otherwise which have none
    return [dataclasses.replace(q, answerable=False) if i in empty else q for i, q in enumerate(questions)]


def read_text(path: Path, hint: str = "Give a file of questions.") -> str:
    """Read a UTF-8 file, unpacked if its name ends in ``.gz``; DocumentError if that fails."""
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix.lower() == ".gz" else data
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DocumentError(f"{path}, line {line}: not UTF-8 text.", hint="Save the file as UTF-8.") from error
    except (OSError, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DocumentError(f"{path} cannot be read: {reason}.", hint=hint) from error


def line_rows(path: Path, text: str, kind: str, shape: str = _SHAPE) -> Iterator[tuple[str, Any]]:
    """Yield (place, row) for each line of a jsonl, csv or tsv file; InputError for one that is not of this shape."""
    if kind in ("csv", "tsv"):
        head = text.split("\n", 1)[0]
        parted = "\t" if kind == "tsv" else ";" if ";" in head and "," not in head else ","
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=parted, strict=True)
        try:
            for row in reader:
                if None in row:
                    raise InputError(f"{path}, line {reader.line_num}: more fields than the header has.")
                values = {k: v for k, v in row.items() if v not in (None, "")}
                if values:  # spreadsheets end in rows of separators alone
                    yield f"line {reader.line_num}", values
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num}: {error}.", hint="Check the quotes.") from error
        return
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines: JSON strings may contain U+2028
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except ValueError as error:
                raise InputError(f"{path}, line {number}: not JSON ({error}).", hint=shape) from error


def _json_rows(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: not JSON ({error.msg}).", hint=_SHAPE) from error
    seen = ""
    if isinstance(data, Mapping):
        seen = f" under questions or data; its fields are {_names(data)}"
        data = data.get("questions", data.get("data"))
    if not isinstance(data, list):
        raise InputError(f"{path} holds no list of questions{seen}.", hint=_SHAPE)
    for i, row in enumerate(data, 1):
        if isinstance(row, Mapping) and isinstance(row.get("paragraphs"), list):
            yield from _of_article(f"entry {i}", row["paragraphs"])
        else:
            yield f"entry {i}", row


def _of_article(where: str, paragraphs: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the questions of one SQuAD article."""
    for p, paragraph in enumerate(paragraphs, 1):
        asked = paragraph.get("qas") if isinstance(paragraph, Mapping) else None
        if not isinstance(asked, list):
            raise InputError(f"{where}, paragraph {p}: no list of questions under qas.", hint=_SHAPE)
        yield from ((f"{where}, paragraph {p}, question {q}", row) for q, row in enumerate(asked, 1))


def _names(row: Mapping[str, Any]) -> str:
    """List the fields of a row for an error message."""
    names = [repr(str(name)) for name in row]
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "") if names else "none"


def _question(where: str, row: Any, number: int) -> Question:
    if not isinstance(row, Mapping):
        raise InputError(f"{where}: not an object with fields.", hint=_SHAPE)
    # A name as it is written here goes before one with other capitals, or blanks around it.
    keys = {**{str(key).strip().casefold(): key for key in row}, **{key: key for key in row}}
    used = {
        name: next((keys[n] for n in names if _is_given(row.get(keys.get(n)))), None) for name, names in _NAMES.items()
    }
    values = {name: row[key] for name, key in used.items() if key is not None}
    text = values.get("question")
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{where}: no question; the fields are {_names(row)}.", hint=_SHAPE)
    answerable = _answerable(where, values.get("answerable"))
    impossible = _answerable(where, values.get("impossible"))
    if answerable is None and impossible is not None:
        answerable = not impossible
    answers = _answers(where, values.get("answers")) if answerable is not False else ()
    if answers and answerable is None:
        answerable = True
    metadata = {k: v for k, v in row.items() if k not in used.values()}
    return Question(str(values.get("id", number)), text.strip(), answers, answerable, metadata)


def _gives_no_answer(row: Mapping[str, Any]) -> bool:
    """Whether the row's answers are null or an empty list, not merely left out, and no other field labels it."""
    fields = {str(key).strip().casefold(): value for key, value in row.items()}
    said = [fields[n] for name in ("answerable", "impossible") for n in _NAMES[name] if n in fields]
    said += [fields[n] for n in ("claims", "passage_id", "passage_ids") if n in fields]
    given = [fields[n] for n in _NAMES["answers"] if n in fields]
    texts = [v.get("text") if isinstance(v, Mapping) else v for v in given]
    return not any(_is_given(v) for v in said) and bool(texts) and all(v is None or v == [] for v in texts)


def _is_given(value: Any) -> bool:
    """Whether a field has a value: tables write an empty cell as null or NaN."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _answers(where: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = _split_answers(value)
    elif isinstance(value, Mapping):  # SQuAD as the datasets package has it
        value = value.get("text", ())
    elif isinstance(value, list) and any(isinstance(a, Mapping) for a in value):  # SQuAD as published
        value = [a.get("text") if isinstance(a, Mapping) else a for a in value]
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        value = [str(value)]
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(a, str) for a in value):
        raise InputError(f"{where}: answers must be a text or a list of texts, not {value!r}.", hint=_SHAPE)
    return tuple(dict.fromkeys(a.strip() for a in value if a.strip()))


def _split_answers(text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            parsed = json.loads(text)
        except ValueError:
            parsed = None  # an answer that happens to begin with a bracket
        if isinstance(parsed, list):
            return parsed
    return text.split("|")


def _answerable(where: str, value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    known = _BOOLEANS.get(str(value).strip().lower())
    if known is None:
        raise InputError(f"{where}: answerable must be true or false, not {value!r}.", hint=_SHAPE)
    return known
