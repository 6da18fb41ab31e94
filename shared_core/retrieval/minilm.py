"""all-MiniLM-L6-v2 (Apache-2.0) as it ships: six layers in 8 bits, word vectors in 5, word pieces.

``python -m benchmarks.reader.quantise`` in a checkout makes the file from the published weights. Its vectors are near
enough to the published model's to be mixed with them in one index (``docs/retrieval.md``). A process loads it once.
"""

from __future__ import annotations

import threading
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shared_core.errors import MissingDependencyError, ModelLoadError
from shared_core.retrieval.graphs import Graph, each, read_archive
from shared_core.retrieval.tokenizer import DIVIDED
from shared_core.support.markup import blank_unseen
from shared_core.support.regex import lazy_regex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

WEIGHTS = Path(__file__).parent / "weights" / "encoder.npz"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Hash of the published ``model.safetensors``: the identity of the model whose vectors these are."""
DIMENSION = 384
BITS = 5
"""Bits of a number of a word vector: 8 of them are stored in 5 bytes, the first one highest."""
LIGATURES = {letter: unicodedata.normalize("NFKC", letter) for letter in map(chr, range(0xFB00, 0xFB07))}
"""Letters that many PDFs hold as one character, which the word pieces do not know."""
_SURROGATE = lazy_regex("[\ud800-\udfff]")  # half a character: legal in a Python string, not in the tokenizer

_loaded: list[MiniLM] = []
_loading = threading.Lock()


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass.

    Attributes:
        ids: word pieces, including [CLS] and [SEP].
        ranges: half-open, non-empty ranges of them to average.
    """

    ids: Sequence[int]
    ranges: Sequence[tuple[int, int]] = ()


def load_model() -> MiniLM:
    """Load the model at the first call; later calls return the same one.

    Raises:
        ModelLoadError: its file is missing or damaged.
        MissingDependencyError: onnxruntime or tokenizers is not installed.
    """
    with _loading:
        if not _loaded:
            _loaded.append(MiniLM(WEIGHTS))
        return _loaded[0]


class MiniLM:
    """The loaded model; errors as of ``load_model``. Safe to use from several threads at once."""

    def __init__(self, path: Path) -> None:
        archive = read_archive(path)
        self._graph = Graph(archive, "graph")
        try:
            self._codes, self._scales = archive["words"], archive["scales"]
            self._tokenizer = _tokenizer(archive["tokenizer"].tobytes())
        except KeyError as error:
            raise ModelLoadError(f"The weights in {path} lack {error}.", hint="Reinstall the package.") from error
        self.cls, self.sep = (_id_of(self._tokenizer, mark) for mark in ("[CLS]", "[SEP]"))

    def tokenize(self, texts: Sequence[str]) -> list[Encoding]:
        """Split texts into word pieces with offsets in code points, without [CLS] and [SEP].

        Lone surrogates become U+FFFD; targets of links and tags of HTML are left out.
        """
        seen = [blank_unseen(_SURROGATE.sub("\ufffd", t)) for t in texts]
        return self._tokenizer.encode_batch(seen, add_special_tokens=False)

    def number(self, word: str) -> int | None:
        """Return the number of a word in small letters that is one piece, most frequent first; ``None`` for others."""
        number: int | None = self._tokenizer.token_to_id(word)
        return number

    def words(self, ids: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the word vectors of n word pieces: (1, n, 384), the input of a graph's first layer."""
        import numpy as np

        rows = np.asarray(ids, np.int64)
        packed = self._codes[rows].reshape(len(rows), -1, BITS).astype(np.uint64)
        whole = packed[..., 0]
        for i in range(1, BITS):
            whole = whole << np.uint64(8) | packed[..., i]
        codes = whole[..., None] >> np.arange(7 * BITS, -1, -BITS, dtype=np.uint64) & np.uint64(2**BITS - 1)
        centred = codes.reshape(1, len(rows), DIMENSION).astype(np.float32) - np.float32((2**BITS - 1) / 2)
        vectors: NDArray[np.float32] = centred * self._scales[rows].astype(np.float32)[:, None]
        return vectors

    def states(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Compute the last hidden states of n word pieces: (n, 384)."""
        states: NDArray[np.float32] = self._graph(words=self.words(ids))[0][0]
        return states

    def means(self, passes: Sequence[Pass]) -> list[NDArray[np.float32]]:
        """Average each pass's states, over the whole pass and over each of its ranges: (1 + ranges, 384) float32.

        Passes run by themselves, several at a time: the result for one does not depend on the others in any bit.
        """
        return each(self._means, passes)

    def _means(self, one: Pass) -> NDArray[np.float32]:
        import numpy as np

        states = self.states(one.ids)
        return np.stack([states[a:b].mean(axis=0) for a, b in [(0, len(one.ids)), *one.ranges]])


def _tokenizer(stored: bytes) -> Tokenizer:
    try:
        from tokenizers import Regex, Tokenizer, normalizers
    except ImportError as error:
        raise MissingDependencyError("tokenizers", extra="offline", purpose="The embedded network") from error
    tokenizer: Tokenizer = Tokenizer.from_str(zlib.decompress(stored).decode("utf-8"))
    spelt = [normalizers.Replace(one, letters) for one, letters in LIGATURES.items()]
    whole = normalizers.Replace(Regex(DIVIDED), "")
    tokenizer.normalizer = normalizers.Sequence([whole, *spelt, tokenizer.normalizer])
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _id_of(tokenizer: Tokenizer, mark: str) -> int:
    identifier = tokenizer.token_to_id(mark)
    if identifier is None:
        raise ModelLoadError(f"The tokenizer of the encoder has no {mark} token.", hint="Reinstall the package.")
    return identifier
