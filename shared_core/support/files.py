"""Files written as a whole (a reader sees the old one or the new one, never a part), and lists of a package."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TextIO


@contextlib.contextmanager
def replace_file(path: str | Path) -> Iterator[TextIO]:
    """A UTF-8 text file to write, which takes the place of ``path`` when the ``with`` block ends without an error.

    Folders are made. Permissions are those of the file that was there, else the usual ones (the process's umask).
    A symbolic link stays one, and the file it leads to is replaced. After an error nothing is left or changed.

    Raises:
        OSError: the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    # Not ``tempfile``: its files are for their owner's eyes only, and the umask cannot be asked without changing it.
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        with part.open("x", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # or a crash could leave the new name with nothing behind it
        with contextlib.suppress(FileNotFoundError):
            part.chmod(target.stat().st_mode & 0o777)
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def read_lists(package: str, name: str) -> dict[str, str]:
    """Read a package's file of lists: the text below each line ``[heading]``, without lines that begin with ``#``."""
    text = resources.files(package).joinpath(name).read_text("utf-8")
    _, *parts = re.split(r"^\[(.+)\]\n", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)
    return dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))
