"""Compare the configuration that a calibration was fitted for with the one that asks for it."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Self

from shared_core.errors import CalibrationError
from shared_core.lm.identity import WEIGHTS
from shared_core.settings import SelfReflectSettings

BindingValue = str | int | float | bool | None
"""One entry of a configuration; ``None`` counts as absent."""


class Bound(ABC):
    """Base of what is fitted for one configuration, and travels as a file's plain values."""

    __slots__ = ()
    _what: ClassVar[str]
    _refit: ClassVar[str]
    bound_to: Mapping[str, BindingValue]
    questions: tuple[str, ...]
    signals: Mapping[str, Sequence[float]]

    def _keep_copies(self) -> None:
        """Replace the mappings and sequences given by read-only copies; ValueError if a signal is not finite."""
        object.__setattr__(self, "bound_to", MappingProxyType(dict(self.bound_to)))
        object.__setattr__(self, "questions", tuple(self.questions))
        signals = {name: tuple(map(float, values)) for name, values in self.signals.items()}
        for name, values in signals.items():
            if not all(map(math.isfinite, values)):
                raise ValueError(f"a value of the signal {name!r} is not finite")
        object.__setattr__(self, "signals", MappingProxyType(signals))

    def require(self, **configuration: BindingValue) -> Self:
        """Return itself if it was fitted for exactly this configuration; ``None`` values count as absent.

        CalibrationError, which names every difference, if it was fitted for another.
        """
        require_same(self._what, self.bound_to, configuration, hint=self._refit)
        return self

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values that JSON can hold."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build it from ``to_dict``'s output; CalibrationError for anything else."""

    def __reduce__(self) -> tuple[Any, ...]:  # mapping proxies cannot be pickled
        return (self.from_dict, (self.to_dict(),))


def question_digest(question: str) -> str:
    """Return 16 hexadecimal digits by which a calibration remembers a question without its text.

    Questions that differ only in blanks and capitals have the same digest.
    """
    return hashlib.sha256(" ".join(question.split()).casefold().encode("utf-8", "replace")).hexdigest()[:16]


def plain_questions(digests: Sequence[str], signals: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return the file entries for the questions; empty without any, so that hashes of older files stay valid.

    Args:
        signals: drift signals, one value a question.
    """
    values = {name: list(some) for name, some in signals.items()}
    return {**({"questions": list(digests)} if digests else {}), **({"signals": values} if values else {})}


_BY_NAME = " It identifies the model by name or path only, as earlier versions did; its weights may have been others."
_OLD_LAYER = (
    " Earlier versions did not say which layer of the model the default one was: with an even number of layers it was "
    "the one above today's."
)
_OLD_SETTINGS = " It was fitted by version 0.1.0, whose settings had other names and places."


def require_same(
    what: str, bound_to: Mapping[str, BindingValue], configuration: Mapping[str, BindingValue], *, hint: str
) -> None:
    """Refuse a calibration that was fitted for another configuration; the CalibrationError names every difference.

    ``what`` is its name for the message ("The calibration").
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
    unnamed = before.get("hidden") is not None and before.get("layer") is None and "layer" in [n for n, *_ in different]
    notes = (_BY_NAME if older else "") + (_OLD_LAYER if unnamed else "")
    notes += _OLD_SETTINGS if before.keys() != bound_to.keys() else ""
    settings = [
        f"{n}={ours!r}" for n, ours, _ in different if n in SelfReflectSettings.model_fields and ours is not None
    ]
    if len(settings) == len(different):
        hint = f"{hint.rstrip('.')}; or use the settings that it was fitted for: {', '.join(settings)}"
    raise CalibrationError(f"{what} was fitted for {told}.{notes}", hint=hint)
