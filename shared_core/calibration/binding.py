"""What a calibration is bound to: the configuration that it was fitted for, compared with the one that asks for it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from shared_core.errors import CalibrationError
from shared_core.lm.identity import WEIGHTS
from shared_core.settings import SelfReflectSettings

BindingValue = str | int | float | bool | None
"""One entry of a configuration; ``None`` is as if it were left out."""


def question_digest(question: str) -> str:
    """What a calibration remembers of a question it was fitted on: 16 hexadecimal digits, not its text.

    Questions that differ in blanks and capitals only are the same.
    """
    return hashlib.sha256(" ".join(question.split()).casefold().encode("utf-8", "replace")).hexdigest()[:16]


def plain_questions(digests: Sequence[str]) -> dict[str, list[str]]:
    """The entry of a file for the questions; none where none are known, so that what is hashed stays what it was."""
    return {"questions": list(digests)} if digests else {}


_BY_NAME = (
    " It knows the model by its name or path only, as earlier versions did: whether that one had these weights cannot "
    "be told."
)
_OLD_SETTINGS = " It was fitted by version 0.1.0, whose settings had other names and places."


def require_same(
    what: str, bound_to: Mapping[str, BindingValue], configuration: Mapping[str, BindingValue], *, hint: str
) -> None:
    """Refuse what was fitted for another configuration.

    Args:
        what: was fitted ("The calibration").
        bound_to: the configuration that it was fitted for.
        configuration: the one that asks for it.
        hint: the way out.

    Raises:
        CalibrationError: they differ; names every difference.
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
