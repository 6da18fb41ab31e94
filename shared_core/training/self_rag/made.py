"""Turn labels into files of rows: repeats and contradictions left out, classes counted and thinned."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from shared_core.settings import Settings
from shared_core.training.rows import write_json_lines
from shared_core.training.self_rag.rows import CriticRow, GeneratorRow, Task, balance
from shared_core.training.self_rag.tasks import INSTRUCTIONS

__all__ = ["Made", "RowSettings", "make_rows", "write_made"]


class RowSettings(Settings):
    """Settings that choose which labels become rows."""

    relevance_share: float = Field(
        0.3, gt=0, le=1, description="Of the relevance rows, of which there are as many as passages (the paper: 0.3)."
    )
    most_per_task: int = Field(20_000, ge=1, description="Rows of a task at most (the paper: 4k to 20k).")
    most_per_verdict: float | None = Field(
        None, ge=1, description="No verdict of a task more than so many times as often as its rarest; None leaves all."
    )


@dataclass(frozen=True)
class Made:
    """Rows of both kinds, and the counts.

    Attributes:
        critic: verdicts.
        generator: answers.
        report: ``balance`` before and after thinning, ``repeated``, ``contradictory``, ``declines``, ``questions``,
            ``without_answer``, ``unknown`` (verdicts that the model did not give).
    """

    critic: list[CriticRow]
    generator: list[GeneratorRow]
    report: dict[str, Any]


def make_rows(records: Sequence[Mapping[str, Any]], settings: RowSettings | None = None, name: str = "") -> Made:
    """Make the rows of records that ``label`` made, in their order; thinning depends only on a row's text.

    Args:
        records: of a run log.
        settings: what is left out.
        name: of the data set, in the generator's rows.
    """
    settings = settings or RowSettings()
    found: dict[tuple[Task, str], str] = {}
    repeated, against = 0, set()
    for one in (one for record in records for one in record["labels"]):
        key = (one["task"], one["input"])
        repeated += key in found
        if found.setdefault(key, one["output"]) != one["output"]:
            against.add(key)
    every = [CriticRow(INSTRUCTIONS[t], i, v, t) for (t, i), v in found.items() if (t, i) not in against]
    critic = _thin(every, settings)
    outputs = [(r["question"], o) for r in records for o in r["outputs"]]
    generator = list(dict.fromkeys(GeneratorRow(q, o["output"], name) for q, o in outputs))
    report = {
        "questions": len(records),
        "without_answer": sum(not r["outputs"] for r in records),
        "declines": sum(o["declines"] for _, o in outputs),
        "critic": len(critic),
        "generator": len(generator),
        "repeated": repeated + len(outputs) - len(generator),
        "contradictory": len(against),
        "unknown": sum(r["unknown"] for r in records),
        "balance_labelled": balance(every),
        "balance": balance([*critic, *generator]),
    }
    return Made(critic, generator, report)


def _thin(rows: Sequence[CriticRow], settings: RowSettings) -> list[CriticRow]:
    kept: set[CriticRow] = set()
    for task, counts in balance(rows).items():
        some = sorted((r for r in rows if r.task == task), key=_lot)
        if task == "relevance":
            some = some[: max(1, round(settings.relevance_share * len(some)))]
        if settings.most_per_verdict is not None:
            counts = balance(some)[task]
            most = int(settings.most_per_verdict * min(counts.values()))
            some = [r for verdict in counts for r in [r for r in some if r.output == verdict][:most]]
        kept |= set(sorted(some, key=_lot)[: settings.most_per_task])
    return [r for r in rows if r in kept]


def _lot(row: CriticRow) -> bytes:
    return hashlib.sha256(f"{row.task}\n{row.input}".encode()).digest()


def write_made(made: Made, folder: Path) -> None:
    """Write ``critic.jsonl`` and ``generator.jsonl`` in the published form."""
    write_json_lines(map(asdict, made.critic), folder / "critic.jsonl")
    write_json_lines(map(asdict, made.generator), folder / "generator.jsonl")
