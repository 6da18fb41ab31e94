"""What a calibration was fitted for, compared with what it is to be used for."""

from __future__ import annotations

from collections.abc import Mapping

from shared_core.errors import CalibrationError
from shared_core.types import MetadataValue


def require_same(
    what: str, fitted: Mapping[str, MetadataValue], wanted: Mapping[str, MetadataValue], hint: str
) -> None:
    """Nothing, if the two configurations are the same; a value of ``None`` is as if left out.

    Args:
        what: was fitted (``The calibration``), for the message.
        fitted: the configuration it is bound to; wanted: the one it meets.
        hint: what to do where they differ.

    Raises:
        CalibrationError: they differ; names every difference.
    """
    different = [n for n in sorted({*fitted, *wanted}) if fitted.get(n) != wanted.get(n)]
    if different:
        told = "; ".join(f"{n} {fitted.get(n)!r}, not {wanted.get(n)!r}" for n in different)
        raise CalibrationError(f"{what} was fitted for {told}.", hint=hint)
