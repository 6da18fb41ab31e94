"""Documents that are archives of XML (DOCX, ODT, PPTX, EPUB): opened and read without trusting their sizes.

Members are read in chunks that go straight to a parser; what they unpack to is counted over the whole document, as the
sizes in an archive may lie. The parser keeps no tree and expands no entities.
"""

from __future__ import annotations

import io
import posixpath
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Protocol
from urllib.parse import unquote

from shared_core.documents.loaders.base import damaged
from shared_core.documents.loaders.limits import MAX_UNPACKED_BYTES, Budget, read_unpacked
from shared_core.errors import DocumentError, MissingDependencyError

_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_END_RECORD = struct.Struct("<4s4H2LH")  # of the archive's directory (zip application note, 4.3.16)
_END_MARK = b"PK\x05\x06"
_MAX_DIRECTORY_BYTES = 4 * 2**20  # some 40,000 members; a document has tens


class Target(Protocol):
    """What is told of a document's tags: names are ``{namespace}name``."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        ...

    def end(self, tag: str) -> None:
        """An element ends."""
        ...

    def data(self, text: str) -> None:
        """Text."""
        ...

    def close(self) -> None:
        """The end."""
        ...


class Package:
    """An open document.

    Args:
        data: the file.
        kind: what it is called in errors (``DOCX``).
        budget: its time.

    Raises:
        DocumentError: not an archive, damaged, protected by a password, or with a directory beyond all measure.
    """

    def __init__(self, data: bytes, kind: str, budget: Budget) -> None:
        self.kind, self._budget = kind, budget
        self._unpacked = 0
        if data.startswith(_OLD_OFFICE):
            raise DocumentError(
                f"The file is of an older kind or protected by a password, not a plain {kind}.",
                hint=f"Save it as an unprotected .{kind.lower()}.",
            )
        _check_directory(data, kind)
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, OSError) as error:
            raise damaged(kind, error) from error
        self.names = frozenset(self._archive.namelist())

    def read(self, name: str) -> bytes:
        """A small member at once."""
        return b"".join(self.chunks(name))

    def chunks(self, name: str) -> Iterator[bytes]:
        """A member in chunks.

        Raises:
            DocumentError: it is missing, damaged or encrypted, or the document unpacks to too much.
        """
        try:
            with self._archive.open(name) as stream:
                for chunk in read_unpacked(stream, self._budget, MAX_UNPACKED_BYTES, before=self._unpacked):
                    self._unpacked += len(chunk)
                    yield chunk
        except DocumentError:
            raise
        except KeyError as error:
            raise damaged(self.kind, ValueError(f"it has no {name}")) from error
        except RuntimeError as error:  # zipfile's way of saying that a password is needed
            raise DocumentError(
                f"The {self.kind} is protected by a password.", hint="Save a copy without the password."
            ) from error
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError) as error:
            raise damaged(self.kind, error) from error

    def parse(self, name: str, target: Target, *, typed: bool = False) -> None:
        """Tell ``target`` of a member's tags.

        Args:
            name: the member.
            target: is told.
            typed: whether it may declare a document type. Office documents never do, and bombs are made of it.

        Raises:
            DocumentError: as for ``chunks``; also if it is no well-formed XML.
            MissingDependencyError: lxml is not installed.
        """
        try:
            from lxml import etree
        except ImportError as error:
            raise MissingDependencyError("lxml", extra="documents", purpose=f"Reading {self.kind} files") from error
        parser = etree.XMLParser(
            target=_Guard(target, "" if typed else self.kind),
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            huge_tree=False,
        )
        try:
            for chunk in self.chunks(name):
                parser.feed(chunk)
            parser.close()
        except etree.LxmlError as error:
            raise damaged(self.kind, error) from error

    def resolved(self, base: str, target: str) -> str:
        """The member that a reference in the member ``base`` leads to."""
        path = unquote(target.split("#")[0])
        joined = path.lstrip("/") if path.startswith("/") else posixpath.join(posixpath.dirname(base), path)
        return posixpath.normpath(joined)


class _Guard:
    """Hands everything on, and refuses a document type declaration if a kind of document is named."""

    def __init__(self, target: Target, kind: str) -> None:
        self.start, self.end, self.data, self.close = target.start, target.end, target.data, target.close
        self._kind = kind

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        if self._kind:
            raise DocumentError(
                f"The {self._kind} declares a document type ({name}), which no program writes.", hint="Do not trust it."
            )

    def comment(self, text: str) -> None:
        """Nothing to see."""

    def pi(self, target: str, data: str | None = None) -> None:
        """Nothing to see."""


def _check_directory(data: bytes, kind: str) -> None:
    """The directory is read whole into memory by zipfile, so its size is looked at first."""
    place = data.rfind(_END_MARK, max(0, len(data) - _END_RECORD.size - 65_535))
    if place < 0 or place + _END_RECORD.size > len(data):
        raise damaged(kind, ValueError("the end of the archive is missing"))
    size = int(_END_RECORD.unpack_from(data, place)[5])
    if size > _MAX_DIRECTORY_BYTES:
        raise DocumentError(
            f"The {kind} has a directory of {size:,} bytes, which no document needs.",
            hint=f"Open it in the program that made it and save it as {kind} again.",
        )


def local(tag: str) -> str:
    """A tag's name without its namespace."""
    return tag.rpartition("}")[2]


def attribute(attributes: Mapping[str, str], name: str, default: str = "") -> str:
    """An attribute by its name without namespace (transitional and strict documents have different ones)."""
    for key, value in attributes.items():
        if key.rpartition("}")[2] == name:
            return value
    return default
