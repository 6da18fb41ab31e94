"""An embedder that remembers: for benchmarks and training runs over the same texts again and again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shared_core.retrieval.base import Embedder
from shared_core.retrieval.embedding import MiniLMEmbedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class CachedEmbedder:
    """Another embedder with a memory that can be kept in a file.

    Args:
        path: a numpy file to remember in, read if it exists and written by ``save``; ``None`` keeps it in memory.
        embedder: whose vectors to remember; MiniLM's if not given. A file belongs to one embedder.
    """

    def __init__(self, path: Path | None, embedder: Embedder | None = None) -> None:
        import numpy as np

        self._inner = embedder if embedder is not None else MiniLMEmbedder()
        self._path = path
        self._known: dict[str, NDArray[np.float32]] = {}
        if path is not None and path.exists():
            with np.load(path) as file:
                self._known = dict(zip(file["keys"].tolist(), file["vectors"]))

    @property
    def name(self) -> str:
        """Of the embedder whose vectors these are."""
        return self._inner.name

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), d) float32, rows of unit norm; only texts not seen before are embedded."""
        import numpy as np

        keys = [hashlib.sha256(t.encode()).hexdigest() for t in texts]
        new = {key: text for key, text in zip(keys, texts) if key not in self._known}
        if new:
            self._known.update(zip(new, self._inner.embed(list(new.values()))))
        return np.stack([self._known[key] for key in keys])

    def save(self) -> None:
        """Write the file, if there is one."""
        import numpy as np

        if self._path is not None and self._known:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(self._path, keys=np.array(list(self._known)), vectors=np.stack(list(self._known.values())))
