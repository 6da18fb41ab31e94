"""Rows that teach Self-RAG: answers with verdicts and passages inside (generator), and verdicts by themselves (critic).

Both are read from JSON lines in the published form. What counts in the loss is exact to the token: nothing of the
instruction, nothing strictly between ``<paragraph>`` and ``</paragraph>``, and everything else, every reflection token
and the end of the sequence included. (The published mask ran from the first ``<paragraph>`` to the last
``</paragraph>``, and so hid the segments between them.)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from shared_core.errors import InputError
from shared_core.lm.base import Prompt
from shared_core.pipelines.self_rag.with_tokens import instruction as instruct
from shared_core.reflection import REFLECTION_TOKENS, RELEVANCE_TOKENS, RETRIEVAL_TOKENS, SUPPORT_TOKENS, UTILITY_TOKENS
from shared_core.reflection.tokens import NO_RETRIEVAL, PARAGRAPH_END, PARAGRAPH_START, RETRIEVAL
from shared_core.support.regex import lazy_regex
from shared_core.training.rows import IGNORED, eos_of, read_rows_of, text_of

if TYPE_CHECKING:
    from shared_core.lm.encoding import Encoder

Task = Literal["retrieval", "multi_retrieval", "relevance", "groundedness", "utility"]
TASKS: Mapping[str, tuple[str, ...]] = {
    "retrieval": (RETRIEVAL, NO_RETRIEVAL),
    "multi_retrieval": RETRIEVAL_TOKENS,
    "relevance": RELEVANCE_TOKENS,
    "groundedness": SUPPORT_TOKENS,
    "utility": UTILITY_TOKENS,
}
"""The critic's five tasks, and what each may be answered with."""

_CONTROL = lazy_regex("(" + "|".join(map(re.escape, REFLECTION_TOKENS)) + ")")


@dataclass(frozen=True, slots=True)
class GeneratorRow:
    """An instruction with its answer, reflection tokens and passages inside.

    Attributes:
        output: ``[Retrieval]<paragraph>title⏎text</paragraph>[Relevant]sentence[Fully supported]…[Utility:5]``, or
            ``[No Retrieval]answer[Utility:5]``.
        dataset_name: where it is from.
    """

    role: ClassVar[str] = "generator"
    instruction: str
    output: str
    dataset_name: str = ""

    def __post_init__(self) -> None:
        """Refuse a row that teaches nothing, or whose passages do not close."""
        if not self.instruction.strip():
            raise InputError("A row of the generator needs an instruction.")
        if all(masked for _, masked, _ in _pieces(self.output)):
            raise InputError("A row of the generator needs an output beside its passages.")

    @property
    def source(self) -> str:
        """Data set that the row is from."""
        return self.dataset_name

    @property
    def group(self) -> str:
        """Key of the rows of one instruction."""
        return self.instruction

    def encode(self, encoder: Encoder) -> tuple[list[int], list[int]]:
        """Encode as token ids and labels, the prompt as at inference; labels are -100 outside the loss.

        InputError if a reflection token is not one token of the tokenizer, or it has no EOS.
        """
        ids = encoder.encode(instruct(self.instruction))
        labels = [IGNORED] * len(ids)
        control = ""
        for text, masked, is_control in _pieces(self.output):
            if is_control:
                control = text
                ids.append(_control_id(encoder, text))
                labels.append(ids[-1])
                continue
            # Behind a control token a tokenizer may put a space or none: encoded with it, as at inference.
            found = encoder.encode_continuation(Prompt.trusted(control) + Prompt.untrusted(text))
            found = found[bool(control) :]
            ids += found
            labels += [IGNORED] * len(found) if masked else found
        eos = eos_of(encoder)
        return [*ids, eos], [*labels, eos]


@dataclass(frozen=True, slots=True)
class CriticRow:
    """One verdict.

    Attributes:
        instruction: the task in words.
        input: what is judged.
        output: the verdict, a reflection token.
        task: one of ``TASKS``.
    """

    role: ClassVar[str] = "critic"
    instruction: str
    input: str
    output: str
    task: Task

    def __post_init__(self) -> None:
        """Refuse a verdict that its task does not have."""
        if self.task not in TASKS:
            raise InputError(f"There is no task {self.task!r}.", hint=f"There are: {', '.join(TASKS)}.")
        if self.output not in TASKS[self.task]:
            raise InputError(
                f"{self.output!r} is no verdict of {self.task}.", hint=f"There are: {', '.join(TASKS[self.task])}."
            )

    @property
    def source(self) -> str:
        """Task of the row."""
        return self.task

    @property
    def group(self) -> str:
        """Key of the rows that judge the same."""
        return self.input

    def prompt(self) -> Prompt:
        """Build the critic's prompt; none of the row's text becomes a control token."""
        asked = Prompt.trusted("### Instruction:\n") + Prompt.untrusted(self.instruction)
        asked += Prompt.trusted("\n\n### Input:\n") + Prompt.untrusted(self.input)
        return asked + Prompt.trusted("\n\n### Response:\n")

    def encode(self, encoder: Encoder) -> tuple[list[int], list[int]]:
        """Encode as token ids and labels: only verdict and EOS count. InputError as for ``GeneratorRow``."""
        ids = encoder.encode(self.prompt())
        said = [_control_id(encoder, self.output), eos_of(encoder)]
        return ids + said, [IGNORED] * len(ids) + said


def _control_id(encoder: Encoder, token: str) -> int:
    if encoder.single_id(token) is None:
        raise InputError(
            f"{token} is not one token of the tokenizer.",
            hint="Add the reflection tokens first: add_reflection_tokens(model, tokenizer).",
        )
    return encoder.token_id(token)


def _pieces(output: str) -> list[tuple[str, bool, bool]]:
    """Split an output into (text, inside a passage, is a reflection token); InputError for an open passage.

    What a passage says is text, other reflection tokens among it; it ends at the first ``</paragraph>``.
    """
    pieces: list[tuple[str, bool, bool]] = []
    rest, inside = output, False
    while rest:
        if inside:
            text, end, rest = rest.partition(PARAGRAPH_END)
            if not end:
                raise InputError("A passage in the output is not closed.", hint=f"It ends with {PARAGRAPH_END}.")
            pieces += [(text, True, False)] if text else []
            pieces.append((end, False, True))
            inside = False
            continue
        found = _CONTROL.search(rest)
        text = rest[: found.start()] if found else rest
        pieces += [(text, False, False)] if text else []
        if found is None:
            break
        pieces.append((found[0], False, True))
        rest, inside = rest[found.end() :], found[0] == PARAGRAPH_START
    return pieces


# --- files ---------------------------------------------------------------------------------------------------------


def read_generator_rows(path: str | Path) -> list[GeneratorRow]:
    """Read rows of ``{"instruction", "output", "dataset_name"}``; DocumentError, or InputError with the line."""

    def make(values: Any) -> GeneratorRow:
        if "task" in values:  # it has the generator's fields, too, and would be taught without its input
            raise InputError("a row of the critic, not of the generator.", hint="Give generator.jsonl of the same run.")
        return GeneratorRow(
            text_of(values["instruction"]), text_of(values["output"]), str(values.get("dataset_name", ""))
        )

    return read_rows_of(path, make)


def read_critic_rows(path: str | Path) -> list[CriticRow]:
    """Read rows of ``{"instruction", "input", "output", "task"}``; DocumentError, or InputError with the line."""
    return read_rows_of(
        path,
        lambda v: CriticRow(text_of(v["instruction"]), text_of(v["input"]), text_of(v["output"]).strip(), v["task"]),
    )


def balance(rows: Iterable[CriticRow | GeneratorRow]) -> dict[str, dict[str, int]]:
    """Count the verdicts taught: by task for critic rows, by token for generator rows (outside passages)."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        if isinstance(row, CriticRow):
            counts.setdefault(row.task, Counter())[row.output] += 1
        else:
            said = (text for text, _, control in _pieces(row.output) if control)
            counts.setdefault("generator", Counter()).update(said)
    return {task: dict(sorted(found.items())) for task, found in sorted(counts.items())}
