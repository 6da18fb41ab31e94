"""Read documents that are zip archives of XML (DOCX, ODT, PPTX, EPUB) without trusting their sizes.

Members are unpacked in chunks and counted over the whole document, because the sizes that an archive states may be
wrong. Entities are never expanded.
"""

from __future__ import annotations

import io
import posixpath
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from shared_core.documents.loaders.extracted import damaged
from shared_core.documents.loaders.limits import MAX_UNPACKED_BYTES, Budget, read_unpacked
from shared_core.errors import DocumentError

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_END_RECORD = struct.Struct("<4s4H2LH")  # of the archive's directory (zip application note, 4.3.16)
_END_MARK = b"PK\x05\x06"
_MAX_DIRECTORY_BYTES = 4 * 2**20  # some 40,000 members; a document has tens


class Relation(NamedTuple):
    """A reference from one member to another: its id, the last part of its type, the member it leads to."""

    id: str
    kind: str
    target: str


class Archive:
    """An open document.

    Args:
        data: the file.
        kind: its name in error messages (``DOCX``).
        budget: the time it may take.

    Raises:
        DocumentError: not an archive, damaged, protected by a password, or with an oversized directory.
    """

    def __init__(self, data: bytes, kind: str, budget: Budget) -> None:
        self.kind, self._budget = kind, budget
        self._unpacked = 0
        if data.startswith(_OLD_OFFICE):
            raise DocumentError(
                f"The file is in an older format or protected by a password, not a plain {kind}.",
                hint=f"Save it as an unprotected .{kind.lower()}.",
            )
        _check_directory(data, kind)
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, OSError) as error:
            raise damaged(kind, error) from error
        self.names = frozenset(self._archive.namelist())

    def chunks(self, name: str) -> Iterator[bytes]:
        """Unpack a member in chunks.

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

    def tree(self, name: str, *, typed: bool = False) -> Element:
        """Parse a member as XML and return its root element.

        Args:
            name: the member.
            typed: whether it may declare a document type. Office documents never do, and entity bombs need one.

        Raises:
            DocumentError: as for ``chunks``; also if it is not well-formed XML, or nested too deeply.
            MemoryError: the tree does not fit into memory.
        """
        from lxml import etree

        parser = etree.XMLParser(
            resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
        )
        try:
            for chunk in self.chunks(name):
                parser.feed(chunk)
            root: Element = parser.close()
        except etree.LxmlError as error:
            if getattr(error, "code", 0) == etree.ErrorTypes.ERR_NO_MEMORY:
                raise MemoryError from error
            raise damaged(self.kind, error) from error
        if not typed and root.getroottree().docinfo.doctype:
            raise DocumentError(
                f"The {self.kind} declares a document type, which no program writes.", hint="Do not trust it."
            )
        return root

    def relations(self, member: str = "") -> list[Relation]:
        """Return the relations of a member of an Office Open XML document; of the document itself by default."""
        folder, name = posixpath.split(member)
        stated_in = posixpath.join(folder, "_rels", f"{name}.rels")
        if stated_in not in self.names:
            return []
        return [
            Relation(entry.get("Id", ""), posixpath.basename(entry.get("Type", "")), resolved(member, target))
            for entry in self.tree(stated_in).iter("{*}Relationship")
            if (target := entry.get("Target", "")) and entry.get("TargetMode") != "External"
        ]

    def related(self, member: str, kind: str) -> str:
        """Return the first member that has this kind of relation to another; empty if there is none."""
        return next((r.target for r in self.relations(member) if r.kind == kind and r.target in self.names), "")

    def title(self, member: str) -> str:
        """Return the title that a member with the document's properties gives; empty without one."""
        return self.tree(member).findtext(".//{*}title") or "" if member in self.names else ""


def resolved(base: str, reference: str) -> str:
    """Return the member that a reference in the member ``base`` leads to."""
    path = unquote(reference.split("#")[0])
    joined = path.lstrip("/") if path.startswith("/") else posixpath.join(posixpath.dirname(base), path)
    return posixpath.normpath(joined)


def attribute(element: Element | None, name: str, default: str = "") -> str:
    """Return an attribute by its name without namespace (transitional and strict documents use different ones)."""
    if element is not None:
        for key, value in element.attrib.items():
            if str(key).rpartition("}")[2] == name:
                return str(value)
    return default


def _check_directory(data: bytes, kind: str) -> None:
    # zipfile reads the directory whole into memory, so its size is checked first.
    place = data.rfind(_END_MARK, max(0, len(data) - _END_RECORD.size - 65_535))
    if place < 0 or place + _END_RECORD.size > len(data):
        raise damaged(kind, ValueError("the end of the archive is missing"))
    size = int(_END_RECORD.unpack_from(data, place)[5])
    if size > _MAX_DIRECTORY_BYTES:
        raise DocumentError(
            f"The {kind} has a directory of {size:,} bytes, which no document needs.",
            hint=f"Open it in the program that made it and save it as {kind} again.",
        )
