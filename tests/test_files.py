"""Files are written whole or not at all, and can be read by whom they should."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shared_core.calibration import io as calibration_io
from shared_core.calibration.calibration import Calibration
from shared_core.errors import CalibrationError, DocumentError, InputError
from shared_core.evaluation.runner import Evaluation
from shared_core.support.files import replace_file
from shared_core.training.rows import write_json_lines

CALIBRATIONS = {"gate": Calibration("platt", False, {"model": "m"}, slope=-1.0)}
WRITERS: dict[str, tuple[Callable[[Path], object], type[Exception]]] = {
    "calibrations": (lambda path: calibration_io.save(path, CALIBRATIONS), CalibrationError),
    "rows": (lambda path: write_json_lines([{"a": 1}], path), DocumentError),
    "evaluation": (lambda path: Evaluation({"f1": 0.5}, ()).write(path), InputError),
}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.parametrize("kind", sorted(WRITERS))
@pytest.mark.usefixtures("umask")
def test_permissions_are_the_usual_ones_or_those_the_file_had(kind: str, tmp_path: Path) -> None:
    write, _ = WRITERS[kind]
    path = tmp_path / "new" / "file"
    write(path)
    assert mode(path) == 0o640
    path.chmod(0o604)
    write(path)
    assert mode(path) == 0o604
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("kind", sorted(WRITERS))
def test_what_cannot_be_written_is_an_error_of_ours(kind: str, tmp_path: Path) -> None:
    write, error = WRITERS[kind]
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(error):
        write(tmp_path / "file" / "below")


def test_after_an_error_the_old_file_is_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def interrupted() -> None:
        with replace_file(path) as file:
            file.write("half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("old")
    link.symlink_to(path)
    with replace_file(link) as file:
        file.write("new é\n")
    assert link.is_symlink()
    assert path.read_text(encoding="utf-8") == "new é\n"
