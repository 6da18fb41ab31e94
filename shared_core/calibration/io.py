"""Read and write calibration files: one JSON file holds several calibrations by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared_core.calibration import FittedGuarantee
from shared_core.calibration.calibration import Calibration
from shared_core.calibration.replies import FittedReplies
from shared_core.calibration.stack import AnyCalibration, Stack
from shared_core.errors import CalibrationError
from shared_core.support.files import replace_file

FORMAT = "selfreflect-calibrations"
VERSION = 1
CLAIMS = "claims"
"""Purpose whose calibration is a stack of signals."""
GUARANTEE = "guarantee"
REPLIES = "replies"

_KINDS: dict[str, type[AnyCalibration]] = {CLAIMS: Stack, GUARANTEE: FittedGuarantee, REPLIES: FittedReplies}
"""Kinds of calibrations by purpose; all others map one score."""
_HINT = "Write it with: selfreflect calibrate"


def save(path: str | Path, calibrations: Mapping[str, AnyCalibration]) -> None:
    """Write calibrations by name, atomically; folders are made.

    CalibrationError if there is nothing to save, a number is not finite, or the file cannot be written.
    """
    if not calibrations:
        raise CalibrationError("There is no calibration to save.", hint=_HINT)
    target = Path(path)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "calibrations": {name: c.to_dict() for name, c in sorted(calibrations.items())},
    }
    try:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        with replace_file(target) as file:
            file.write(text)
    except (OSError, ValueError, TypeError) as error:
        raise CalibrationError(f"The calibrations cannot be saved to {target}: {error}.", hint=_HINT) from error


def load(path: str | Path) -> dict[str, AnyCalibration]:
    """Read a file that ``save`` wrote; CalibrationError if there is none, or it is of no or another version."""
    source = Path(path)
    try:
        content = json.loads(source.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise CalibrationError(f"There is no calibration file {source}.", hint=_HINT) from error
    except (OSError, ValueError, RecursionError) as error:
        raise CalibrationError(f"The calibration file {source} cannot be read: {error}.", hint=_HINT) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT or content.get("version") != VERSION:
        raise CalibrationError(f"{source} is not a calibration file of version {VERSION}.", hint=_HINT)
    entries = content.get("calibrations")
    if not isinstance(entries, dict) or not entries or not all(isinstance(e, dict) for e in entries.values()):
        raise CalibrationError(f"{source} holds no calibrations.", hint=_HINT)
    return {name: _entry(source, name, entry) for name, entry in entries.items()}


def _entry(source: Path, name: str, entry: dict[str, Any]) -> AnyCalibration:
    try:
        return _KINDS.get(name, Calibration).from_dict(entry)
    except CalibrationError as error:
        raise CalibrationError(f"{source}, {name}: {error.message}", hint=error.hint) from error
