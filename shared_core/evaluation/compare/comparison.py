"""A comparison and the files that it is kept in: JSON, CSV, plots, a page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared_core.errors import InputError
from shared_core.evaluation.compare.compared import Compared
from shared_core.evaluation.compare.comparison_page import write_page
from shared_core.evaluation.compare.comparison_plots import draw
from shared_core.evaluation.compare.rows import Row
from shared_core.support.files import replace_file


class Comparison(Compared):
    """``Compared`` with what writes it; what ``compare`` and ``merge`` give."""

    def write(self, path: str | Path) -> Path:
        """Write ``to_dict`` as JSON, whole or not at all. InputError if the file cannot be written."""
        return _write(Path(path), json.dumps(self.to_dict(), ensure_ascii=False, indent=2, default=str) + "\n")

    def write_table(self, path: str | Path) -> Path:
        """Write ``table`` as CSV; InputError if the file cannot be written."""
        return _write(Path(path), _as_csv(self.table()))

    def write_answers(self, path: str | Path) -> Path:
        """Write a line for each question and configuration as CSV; InputError if the file cannot be written."""
        return _write(Path(path), _as_csv([_flat(row) for i in range(len(self.questions)) for row in self._at(i)]))

    def _at(self, number: int) -> list[Row]:
        return [self.rows[name][number] for name in self.names]

    def plot(self, folder: str | Path) -> list[Path]:
        """Draw risk–coverage, reliability, utility and cost into a folder, all configurations in each; those for which
        there is something to draw."""
        return draw(self, Path(folder))

    def save(self, folder: str | Path) -> list[Path]:
        """Write ``comparison.json``, ``figures.csv``, ``answers.csv``, the plots and ``report.html``, which holds them.

        Raises:
            InputError: a file cannot be written.
            MissingDependencyError: matplotlib is not installed.
        """
        folder = Path(folder)
        written = [
            self.write(folder / "comparison.json"),
            self.write_table(folder / "figures.csv"),
            self.write_answers(folder / "answers.csv"),
        ]
        plots = self.plot(folder)
        return [*written, *plots, write_page(self, plots, folder / "report.html")]


def _flat(row: Row) -> dict[str, Any]:
    record = row.record
    usage = row.usage
    plain = {name: getattr(record, name) for name in record.__slots__ if name not in ("id", "seconds", "error")}
    return {
        "id": record.id,
        "configuration": row.configuration,
        "position": row.position,
        **plain,
        "answers": "|".join(record.answers),
        "text": row.text,
        "retrieved": row.retrieved,
        "calls": usage.calls if usage else None,
        "prompt_tokens": usage.prompt_tokens if usage else None,
        "generated_tokens": usage.generated_tokens if usage else None,
        "seconds": record.seconds,
        **row.measures,
        "error": record.error,
    }


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: _cell(v) for k, v in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Unknown is empty, as spreadsheets read it; lone surrogates, which no file can hold, are marked."""
    if value is None:
        return ""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _write(path: Path, text: str) -> Path:
    try:
        with replace_file(path) as file:
            file.write(text.encode("utf-8", "replace").decode())
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error
    return path
