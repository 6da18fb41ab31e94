"""Cache an embedder's vectors, for benchmarks and training runs that embed the same texts repeatedly."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared_core.retrieval.base import Embedder, PassageVectors
from shared_core.retrieval.dense import passage_vectors
from shared_core.retrieval.embedding import MiniLMEmbedder
from shared_core.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class CachedEmbedder:
    """Wrapper of an embedder that caches its vectors, optionally in a file.

    Args:
        path: numpy file of the cache, read if it exists and written by ``save``; ``None`` caches in memory only.
        embedder: the embedder to wrap; MiniLM by default. A file belongs to one embedder.
    """

    def __init__(self, path: Path | None, embedder: Embedder | None = None) -> None:
        import numpy as np

        self._inner = embedder if embedder is not None else MiniLMEmbedder()
        self._path = path
        self._known: dict[str, NDArray[np.float32]] = {}
        self._passages: dict[str, PassageVectors] = {}
        if path is not None and path.exists():
            with np.load(path) as file:
                self._known = dict(zip(file["keys"].tolist(), file["vectors"]))
                if "passages" in file:
                    self._passages = _unpacked(*(file[name] for name in _PARTS))

    @property
    def name(self) -> str:
        """Return the name of the wrapped embedder."""
        return self._inner.name

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (len(texts), d) float32 rows of unit norm; only texts not in the cache are embedded."""
        import numpy as np

        keys = [_key(t) for t in texts]
        new = {key: text for key, text in zip(keys, texts) if key not in self._known}
        if new:
            self._known.update(zip(new, self._inner.embed(list(new.values()))))
        return np.stack([self._known[key] for key in keys])

    def embed_passages(self, passages: Sequence[Passage]) -> list[PassageVectors]:
        """Embed passages as the wrapped embedder does; only passages not in the cache are embedded."""
        keys = [_key(f"{p.title}\x1f{p.text}" if p.text.strip() else f"{p.title}\x1f\x1f{p.id}") for p in passages]
        new = {key: passage for key, passage in zip(keys, passages) if key not in self._passages}
        if new:
            self._passages.update(zip(new, passage_vectors(self._inner, list(new.values()))))
        return [self._passages[key] for key in keys]

    def save(self) -> None:
        """Write the cache to its file, if it has one."""
        import numpy as np

        if self._path is None or not (self._known or self._passages):
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any] = {
            "keys": np.array(list(self._known)),
            "vectors": np.stack(list(self._known.values())) if self._known else np.empty((0, 0), np.float32),
        }
        if self._passages:
            arrays |= _packed(self._passages)
        np.savez(self._path, **arrays)


_PARTS = ("passages", "sentences", "counts", "spans", "span_counts", "wholes")


def _packed(known: dict[str, PassageVectors]) -> dict[str, NDArray[np.generic]]:
    import numpy as np

    every = list(known.values())
    return {
        "passages": np.array(list(known)),
        "sentences": np.concatenate([v.sentences for v in every]),
        "counts": np.array([len(v.sentences) for v in every]),
        "spans": np.array([span for v in every for span in v.spans], np.int64).reshape(-1, 2),
        "span_counts": np.array([len(v.spans) for v in every]),
        "wholes": np.stack([v.whole for v in every]),
    }


def _unpacked(
    keys: NDArray[np.str_],
    sentences: NDArray[np.float32],
    counts: NDArray[np.int64],
    spans: NDArray[np.int64],
    span_counts: NDArray[np.int64],
    wholes: NDArray[np.float32],
) -> dict[str, PassageVectors]:
    import numpy as np

    rows = np.split(sentences, np.cumsum(counts)[:-1])
    places = np.split(spans, np.cumsum(span_counts)[:-1])
    return {
        str(key): PassageVectors(mine, tuple((int(a), int(b)) for a, b in at), whole)
        for key, mine, at, whole in zip(keys, rows, places, wholes)
    }


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
