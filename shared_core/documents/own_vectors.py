"""The vectors of an index of files that keeps them itself.

Sentence vectors lie in the manifest, where they go when their passage goes, and are all that a question needs. Chroma,
embedded in the index's folder, holds a record for each passage with the vector of the whole and the metadata, without
the text: strings are kept twice there, and indexed word by word, which would make the index several times as large.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from shared_core.documents.manifest import Manifest
from shared_core.errors import StoreError
from shared_core.retrieval.base import Embedder
from shared_core.retrieval.chroma_client import connect, open_collection
from shared_core.retrieval.chroma_rows import Rows, slim_row
from shared_core.retrieval.dense import embed_passages
from shared_core.types import Passage


class OwnVectors:
    """What of the manifest's passages has vectors, to be made equal to what there is; a ``PassageSet``.

    Args:
        manifest: that holds passages and vectors.
        folder: of embedded Chroma, made if missing; ``None`` leaves Chroma out, for an index in memory.
        embedder: of passages.

    Raises:
        MissingDependencyError, StoreError, IndexCorruptedError: as ``ChromaRetriever``.
    """

    def __init__(self, manifest: Manifest, folder: Path | None, embedder: Embedder) -> None:
        self._manifest, self._folder, self._embedder = manifest, folder, embedder
        self._rows = None if folder is None else _open(folder, manifest.identity, embedder.name)

    def ids(self) -> set[str]:
        """Ids of passages whose vectors are there; of gone ones, whose record is still in Chroma, too."""
        here = self._manifest.passage_ids() - self._manifest.without_vectors()
        if self._rows is None:
            return here
        recorded = set(self._rows.ids())
        return recorded - (self._manifest.passage_ids() - here)

    def add(self, passages: Iterable[Passage]) -> None:
        """Embed and store passages."""
        batch = list(passages)
        embedded = embed_passages(self._embedder, batch, "sentence")
        self._manifest.put_vectors((p.id, one.coded.to_bytes()) for p, one in zip(batch, embedded))
        if self._rows is not None:
            self._rows.write([slim_row(p, one) for p, one in zip(batch, embedded)])
            self.restrict()

    def delete(self, ids: Iterable[str]) -> None:
        """Remove the records of passages that are gone."""
        if self._rows is not None:
            self._rows.delete(ids)

    def restrict(self) -> None:
        """Take from others the right to read Chroma's files: they tell of documents that others may not read."""
        if self._folder is None:
            return
        for place, _, files in os.walk(self._folder):
            for path in (place, *(os.path.join(place, name) for name in files)):
                mode = os.lstat(path).st_mode
                if mode & 0o077 and os.path.exists(path):
                    os.chmod(path, mode & 0o700)


def _open(folder: Path, identity: str, embedder: str) -> Rows:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreError(f"The folder {folder} cannot be made: {error}.", hint="Check permissions.") from error
    client = connect(folder, None, create=True)
    bound = {"selfreflect:embedder": embedder, "selfreflect:holds": "passages without text"}
    collection = open_collection(client, f"selfreflect-{identity}", bound, str(folder), create=True)
    return Rows(client, collection, str(folder))
