"""Rows of supervised fine-tuning: a prompt as a pipeline sends it, and the completion to learn.

A row keeps which parts of its prompt are untrusted, so that training reads it exactly as inference does: the same
``Encoder`` makes the ids of both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from shared_core.errors import DocumentError, InputError
from shared_core.evaluation.dataset import line_rows, read_text
from shared_core.lm.base import Part, Prompt
from shared_core.lm.encoding import plain_text
from shared_core.support.files import replace_file

if TYPE_CHECKING:
    from shared_core.lm.encoding import Encoder

T = TypeVar("T")
IGNORED = -100
"""Label of tokens that do not count in the loss (torch's and TRL's convention)."""
_HINT = 'Each line: {"role": …, "prompt": […], "completion": […], "untrusted": […], "ends": …}, as write_rows does.'


class Grouped(Protocol):
    """A row that can be held out with its group."""

    @property
    def source(self) -> str:
        """Id of the source that the row was made from."""
        ...

    @property
    def group(self) -> str:
        """Key of rows about one thing, which are all trained on or all evaluated on."""
        ...


class Trainable(Grouped, Protocol):
    """A row that a recipe can train on."""

    @property
    def role(self) -> str:
        """Role of the model that the row is for."""
        ...

    def encode(self, encoder: Encoder) -> tuple[list[int], list[int]]:
        """Encode as token ids and labels of equal length; labels are ``IGNORED`` outside the loss."""
        ...


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One prompt with its completion.

    Attributes:
        role: of the model it is for (``reference``, ``claim``, ``unified``, …).
        prompt: as the pipeline sends it, a chat or raw text; given token ids are refused.
        completion: the text that should follow directly; may be empty if ``ends``.
        ends: the model must end here: the tokenizer's EOS follows the completion.
        source: id of what it was made from.
    """

    role: str
    prompt: Prompt
    completion: str
    ends: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        """Refuse a row that teaches nothing or cannot be written down."""
        if not self.completion and not self.ends:
            raise InputError("A training row needs a completion, or must end.")
        if any(p.token_ids is not None for p in self.prompt.parts):
            raise InputError("A training row's prompt must be text, not token ids.")

    @property
    def key(self) -> tuple[str, str, str, bool]:
        """Key that is equal for rows that teach the same."""
        return (self.role, json.dumps(store_prompt(self.prompt)), self.completion, self.ends)

    @property
    def group(self) -> str:
        """The source; a row without one is a group of its own."""
        return self.source or repr(self.key)

    def encode(self, encoder: Encoder) -> tuple[list[int], list[int]]:
        """Encode as token ids and labels (-100 on the prompt), as the model reads and writes them.

        The prompt's ids are those of inference. What a model writes is text, never a control token, so the completion
        is encoded as untrusted; EOS follows where the row ends (InputError if there is none). Prompt and completion are
        encoded apart: at inference no token straddles the place where generation starts.
        """
        prompt = encoder.encode(self.prompt)
        answer = encoder.encode_continuation(Prompt.untrusted(self.completion)) if self.completion else []
        if self.ends:
            answer = [*answer, eos_of(encoder)]
        return prompt + answer, [IGNORED] * len(prompt) + answer

    def render(self) -> dict[str, str]:
        """Render ``prompt`` and ``completion`` as texts, for models without a chat template (without BOS and EOS)."""
        return {"prompt": plain_text(self.prompt), "completion": self.completion}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; ``prompt`` and ``completion`` are in TRL's format, conversational for chats.

        Where the output so far belongs to the prompt, its last message is the assistant's, to be continued.
        """
        completion = [{"role": "assistant", "content": self.completion}] if self.prompt.is_chat else self.completion
        head = {"role": self.role, "completion": completion, "ends": self.ends, "source": self.source}
        return {**head, **store_prompt(self.prompt)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TrainingRow:
        """Reverse ``to_dict``; KeyError, TypeError or InputError for anything else."""
        completion = data["completion"]
        if not isinstance(data["prompt"], str):
            (completion,) = (m["content"] for m in completion)
        ends, source = data.get("ends", False), str(data.get("source", ""))
        if not isinstance(ends, bool):
            raise TypeError(f"ends must be true or false, not {ends!r}")
        return cls(str(data["role"]), restore_prompt(data), text_of(completion), ends, source)


def text_of(value: object) -> str:
    """Return a text as it is; TypeError for anything else, which would be taught as ``None`` or ``5``."""
    if not isinstance(value, str):
        raise TypeError(f"expected text, not {value!r}")
    return value


def eos_of(encoder: Encoder) -> int:
    """Return the id that ends a row; InputError if the tokenizer has none."""
    eos = encoder.tokenizer.eos_token_id
    if eos is None:
        raise InputError("The tokenizer has no EOS token, and a row has to end with it.")
    return int(eos)


def store_prompt(prompt: Prompt) -> dict[str, Any]:
    """Store a prompt as plain values: ``prompt``, messages or one text, and ``untrusted``, the ranges of each."""
    messages: list[dict[str, str]] = []
    untrusted: list[list[list[int]]] = []
    for part in prompt.parts:
        role = part.role or (messages[-1]["role"] if messages else "user")
        if not messages or messages[-1]["role"] != role:
            messages.append({"role": role, "content": ""})
            untrusted.append([])
        start = len(messages[-1]["content"])
        messages[-1]["content"] += part.text
        if not part.trusted and part.text:
            ranges, end = untrusted[-1], start + len(part.text)
            if ranges and ranges[-1][1] == start:
                ranges[-1][1] = end
            else:
                ranges.append([start, end])
    whole: Any = messages if prompt.is_chat else messages[0]["content"] if messages else ""
    return {"prompt": whole, "untrusted": untrusted}


def restore_prompt(data: Mapping[str, Any]) -> Prompt:
    """Reverse ``store_prompt``; KeyError, TypeError or InputError for anything else."""
    given = data["prompt"]
    messages = [{"role": None, "content": given}] if isinstance(given, str) else given
    parts: list[Part] = []
    for message, ranges in zip(messages, data["untrusted"], strict=True):
        text, role, at = text_of(message["content"]), message["role"], 0
        for start, end in ranges:
            if not at <= start < end <= len(text):
                raise InputError(f"[{start}, {end}) is no stretch of a message of {len(text)} characters.")
            parts += [Part(text[at:start], trusted=True, role=role), Part(text[start:end], trusted=False, role=role)]
            at = end
        parts.append(Part(text[at:], trusted=True, role=role))
    return Prompt(tuple(p for p in parts if p.text))


# --- files ---------------------------------------------------------------------------------------------------------


def write_rows(
    rows: Iterable[TrainingRow], path: str | Path, *, form: Literal["conversational", "text"] = "conversational"
) -> int:
    """Write rows as JSON lines and return how many.

    Args:
        rows: in the order to write.
        path: replaced as a whole, once everything is written.
        form: ``conversational`` is what ``read_rows`` and the recipes read. ``text`` has ``prompt`` and ``completion``
            as rendered texts for other trainers; it does not tell trusted from untrusted, and cannot be read back.
    """
    if form not in ("conversational", "text"):
        raise InputError(f"form must be 'conversational' or 'text', not {form!r}.")
    lines = (r.to_dict() if form == "conversational" else {"role": r.role, **r.render(), "ends": r.ends} for r in rows)
    return write_json_lines(lines, path)


def write_json_lines(values: Iterable[Mapping[str, Any]], path: str | Path) -> int:
    """Write one JSON object a line, whole or not at all; returns how many. DocumentError if it cannot be written."""
    target = Path(path)
    count = 0
    try:
        with replace_file(target) as file:
            for value in values:
                file.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")
                count += 1
    except (OSError, UnicodeEncodeError) as error:
        raise DocumentError(f"{target} cannot be written: {error}.") from error
    return count


def read_rows(path: str | Path) -> list[TrainingRow]:
    """Read the rows of a file that ``write_rows`` wrote.

    Raises:
        DocumentError: the file cannot be read.
        InputError: a line is no row; the message names it.
    """
    return read_rows_of(path, TrainingRow.from_dict, _HINT)


def read_rows_of(path: str | Path, make: Callable[[Any], T], hint: str = "") -> list[T]:
    """Read rows of any kind from JSON lines; errors as ``read_rows``.

    Args:
        make: makes a row of a line's values; KeyError, TypeError, ValueError or AttributeError for anything else.
        hint: of the error about such a line.
    """
    rows = []
    for where, value in read_json_lines(path):
        try:
            rows.append(make(value))
        except InputError as error:
            raise InputError(f"{where}: {error.message}", hint=error.hint or hint) from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{where}: no row of this kind ({type(error).__name__}: {error}).", hint=hint) from error
    return rows


def read_json_lines(path: str | Path) -> Iterator[tuple[str, Any]]:
    """Yield (place, value) of each line that is not blank; DocumentError or InputError as ``read_rows``."""
    path = Path(path)
    text = read_text(path, "Give a file of JSON lines.")
    yield from ((f"{path}, {where}", value) for where, value in line_rows(path, text, "jsonl", _HINT))
