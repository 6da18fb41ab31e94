"""Reading files of labelled claims: quote, claim, and whether the quote supports the claim."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared_core.errors import DocumentError, InputError
from shared_core.evaluation.dataset import line_rows, read_text

_SHAPE = 'One JSON object a line, {"quote": "…", "claim": "…", "label": true}; or CSV with these columns.'
_LABELS = {
    "true": True, "1": True, "yes": True, "supported": True, "entailment": True,
    "false": False, "0": False, "no": False, "unsupported": False, "not supported": False, "contradiction": False,
    "neutral": False,
}  # fmt: skip


def read_labelled_claims(path: str | Path) -> list[tuple[str, str, bool]]:
    """(quote, claim, label) rows of a jsonl, csv or tsv file.

    Labels are booleans, 0/1, yes/no, supported/unsupported, or NLI's entailment/neutral/contradiction.

    Raises:
        DocumentError: the file cannot be read, or is in no known format.
        InputError: a row cannot be used; the message names the line.
    """
    path = Path(path)
    kind = next((s.lower().lstrip(".") for s in reversed(path.suffixes) if s.lower() != ".gz"), "")
    if kind not in ("jsonl", "ndjson", "csv", "tsv"):
        raise DocumentError(f"{path} is no file of labelled claims: its name must end in jsonl, csv, tsv.", hint=_SHAPE)
    rows = [_row(f"{path}, {where}", row) for where, row in line_rows(path, read_text(path), kind)]
    if not rows:
        raise InputError(f"{path} holds no labelled claims.", hint=_SHAPE)
    return rows


def _row(where: str, row: Any) -> tuple[str, str, bool]:
    if not isinstance(row, Mapping):
        raise InputError(f"{where}: not an object with fields.", hint=_SHAPE)
    quote, claim = row.get("quote"), row.get("claim")
    if not all(isinstance(t, str) and t.strip() for t in (quote, claim)):
        raise InputError(f"{where}: quote and claim must be texts.", hint=_SHAPE)
    label = _LABELS.get(str(row.get("label")).strip().lower())
    if label is None:
        raise InputError(f"{where}: label must be true or false, not {row.get('label')!r}.", hint=_SHAPE)
    return str(quote), str(claim), label
