"""Compare the configuration that a calibration was fitted for with the one that asks for it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from shared_core.errors import CalibrationError
from shared_core.lm.identity import WEIGHTS
from shared_core.settings import SelfReflectSettings

BindingValue = str | int | float | bool | None
"""One entry of a configuration; ``None`` counts as absent."""


def question_digest(question: str) -> str:
    """Return 16 hexadecimal digits by which a calibration remembers a question without its text.

    Questions that differ only in blanks and capitals have the same digest.
    """
    return hashlib.sha256(" ".join(question.split()).casefold().encode("utf-8", "replace")).hexdigest()[:16]


def plain_questions(digests: Sequence[str], signals: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return the file entries for the questions; empty without any, so that hashes of older files stay valid.

    Args:
        digests: of the questions (``question_digest``).
        signals: drift signals, one value a question.
    """
    values = {name: list(some) for name, some in signals.items()}
    return {**({"questions": list(digests)} if digests else {}), **({"signals": values} if values else {})}


_BY_NAME = " It identifies the model by name or path only, as earlier versions did; its weights may have been others."
_OLD_SETTINGS = " It was fitted by version 0.1.0, whose settings had other names and places."


def require_same(
    what: str, bound_to: Mapping[str, BindingValue], configuration: Mapping[str, BindingValue], *, hint: str
) -> None:
    """Refuse a calibration that was fitted for another configuration.

    Args:
        what: name for the message ("The calibration").
        bound_to: configuration that it was fitted for.
        configuration: configuration that asks for it.

    Raises:
        CalibrationError: they differ; the message names every difference.
    """
    before = SelfReflectSettings.upgrade(bound_to)
    names = sorted({*before, *configuration})
    different = [(n, before.get(n), configuration.get(n)) for n in names if before.get(n) != configuration.get(n)]
    if not different:
        return
    told = "; ".join(f"{name} {ours!r}, not {theirs!r}" for name, ours, theirs in different)
    older = any(
        name.endswith("model") and isinstance(ours, str) and WEIGHTS not in ours and WEIGHTS in str(theirs)
        for name, ours, theirs in different
    )
    notes = (_BY_NAME if older else "") + (_OLD_SETTINGS if before.keys() != bound_to.keys() else "")
    raise CalibrationError(f"{what} was fitted for {told}.{notes}", hint=hint)
