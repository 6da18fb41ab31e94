"""Embed texts and passages with all-MiniLM-L6-v2, without a download and without torch.

A passage goes through the model once, as a whole, and each sentence's vector is the mean of its token vectors in that
pass ("late chunking", Günther et al. 2024, arXiv 2409.04701). A sentence is thus read in its context, where "it" and
"there" have a meaning, and all sentences together cost one pass. A part of the pass's mean is subtracted from each
sentence's mean; otherwise the sentences of a passage would be too similar (``benchmarks/retrieval.py`` measures it).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from shared_core.citation.sentences import split_sentences
from shared_core.errors import InputError
from shared_core.retrieval.base import PassageVectors, batches
from shared_core.retrieval.minilm import DIMENSION, SHA256, MiniLM, Pass, load_model
from shared_core.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ONE_PASS = 384
"""Longest passage read in one pass, in word pieces with title and marks; the model has 512 positions."""
WINDOW = 192
"""Word pieces in a pass over part of a longer passage. Short passes separate sentences better (on passages of 900 word
pieces, recall@1 with windows of 128, 192, 256 and 384 is .767, .751, .739, .684), but a passage slightly longer than
usual is better read at once than cut in two."""
MAX_TITLE = 32
MIN_CHARS = 60
"""Shorter sentences are merged with their neighbours: a quarter fewer vectors, and the same recall."""
CONTEXT = 0.25
"""Share of the pass's mean that is subtracted from a sentence's mean (both of unit norm)."""
_STRETCH = 20_000  # code points tokenized at a time: word pieces take a hundred times the text's memory


class MiniLMEmbedder:
    """An embedder that gives unit vectors of 384 numbers, by all-MiniLM-L6-v2 (Apache-2.0).

    The model ships with the package, in 8 bits (``minilm``). It is loaded at first use, once a process. Safe to use
    from several threads at once.

    ::

        embedder = MiniLMEmbedder()
        question, answer = embedder.embed(["Who built it?", "Mira Dorn built the bridge."])
        cosine = question @ answer
    """

    @property
    def name(self) -> str:
        """Name of the published model and the start of its hash; an index is bound to it."""
        return f"all-MiniLM-L6-v2@{SHA256[:12]}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts: (len(texts), 384) float32, rows of unit norm.

        Each text runs by itself, so its vector is the same to the last bit whatever else is embedded with it, and a
        question finds the same passages alone and among others. Texts longer than the model reads are embedded in
        pieces and averaged by length, so nothing is cut off.

        Raises:
            InputError: an item is not a string.
            ModelLoadError: the file of weights is missing or damaged.
            MissingDependencyError: onnxruntime or tokenizers is not installed.
        """
        import numpy as np

        if isinstance(texts, str) or not all(isinstance(t, str) for t in texts):
            raise InputError("embed takes a list of strings.", hint="For a single text: embed([text])[0].")
        out = np.zeros((len(texts), DIMENSION), np.float32)
        if not len(texts):
            return out
        model = load_model()
        passes = [(i, piece) for i, text in enumerate(texts) for piece in _cut_evenly(model, text)]
        for (i, piece), means in zip(passes, model.means([piece for _, piece in passes])):
            out[i] += means[0] * len(piece.ids)
        return _unit(out)

    def embed_passages(self, passages: Sequence[Passage]) -> list[PassageVectors]:
        """Embed the sentences of passages in context, and each passage as a whole (see the module), with its errors.

        Each passage runs by itself, so its vectors do not depend on the others. Long ones are read in windows of whole
        sentences, each preceded by the title; nothing is cut off. A passage without text gets the vector of its title,
        without both that of its id.
        """
        model = load_model()
        plans = [_plan(model, passage) for passage in passages]
        means = iter(model.means([window.one for plan in plans for window in plan]))
        return [_vectors(plan, list(islice(means, len(plan)))) for plan in plans]


@dataclass(frozen=True, slots=True)
class _Window:
    """A pass over a part of a passage, with the code points of each of its ranges."""

    one: Pass
    spans: list[tuple[int, int]]


@dataclass(slots=True)
class _Sentence:
    """Word pieces of a sentence, or of part of a sentence longer than a pass."""

    ids: list[int]
    start: int
    end: int


def _plan(model: MiniLM, passage: Passage) -> list[_Window]:
    """Plan the passes over a passage, at least one."""
    text, title = passage.text, passage.title.strip()
    if not text.strip():
        return [_Window(one, []) for one in _cut_evenly(model, title or passage.id)]
    heading = model.tokenize([title[:_STRETCH]])[0].ids[:MAX_TITLE] if title else []
    prefix = [model.cls, *heading, model.sep] if heading else [model.cls]
    spans = merge_short(text, split_sentences(text), MIN_CHARS) or [(0, len(text))]
    windows: list[_Window] = []
    for group in _pack(_sentences(model, text, spans, WINDOW - len(prefix) - 1), len(prefix) + 1):
        ids, ranges = list(prefix), []
        for sentence in group:
            ranges.append((len(ids), len(ids) + len(sentence.ids)))
            ids += sentence.ids
        windows.append(_Window(Pass([*ids, model.sep], ranges), [(s.start, s.end) for s in group]))
    return windows or [_Window(Pass([*prefix, model.sep]), [])]


def _sentences(model: MiniLM, text: str, spans: Sequence[tuple[int, int]], room: int) -> list[_Sentence]:
    """Tokenize each span, in parts of at most ``room`` word pieces; spans without any are left out."""
    out: list[_Sentence] = []
    parts = [(a, min(a + _STRETCH, end)) for start, end in spans for a in range(start, end, _STRETCH)]
    for some in batches(parts, _STRETCH // MIN_CHARS):
        for (start, _), encoding in zip(some, model.tokenize([text[a:b] for a, b in some])):
            ids, offsets = encoding.ids, encoding.offsets
            for at, last in _even_parts(len(ids), room):
                out.append(_Sentence(ids[at:last], start + offsets[at][0], start + offsets[last - 1][1]))
    return out


def _even_parts(count: int, room: int) -> list[tuple[int, int]]:
    """Cut ``count`` word pieces into as few ranges of at most ``room`` as possible, of about the same size."""
    if not count:
        return []
    size = -(-count // -(-count // room))  # both rounded up
    return [(at, min(at + size, count)) for at in range(0, count, size)]


def _pack(sentences: Sequence[_Sentence], marks: int) -> list[list[_Sentence]]:
    """Put all sentences into one pass if they fit, else into windows of about the same size."""
    total = sum(len(s.ids) for s in sentences)
    if total <= ONE_PASS - marks:
        return [list(sentences)] if sentences else []
    room = WINDOW - marks
    target = total / -(-total // room)
    groups: list[list[_Sentence]] = []
    used = 0
    for sentence in sentences:
        if not groups or used >= target or used + len(sentence.ids) > room:
            groups.append([])
            used = 0
        groups[-1].append(sentence)
        used += len(sentence.ids)
    return groups


def _vectors(plan: Sequence[_Window], means: Sequence[NDArray[np.float32]]) -> PassageVectors:
    """Compute a passage's vectors from the (1 + ranges, 384) means of its passes."""
    import numpy as np

    sizes = np.array([len(window.one.ids) for window in plan], np.float32)
    whole = _unit((np.stack([m[0] for m in means]) * sizes[:, None]).sum(axis=0, keepdims=True))[0]
    spans = [span for window in plan for span in window.spans]
    if len(spans) < 2:
        return PassageVectors(whole[None], tuple(spans or [(0, 0)]), whole)
    own = [_unit(m[1:]) - CONTEXT * _unit(m[:1]) for m in means if len(m) > 1]
    return PassageVectors(_unit(np.concatenate(own)), tuple(spans), whole)


def _cut_evenly(model: MiniLM, text: str) -> list[Pass]:
    """Plan passes over a text regardless of its sentences, at least one."""
    room = ONE_PASS - 2
    out: list[Pass] = []
    for start in range(0, max(1, len(text)), _STRETCH):
        ids = model.tokenize([text[start : start + _STRETCH]])[0].ids
        for at, last in _even_parts(len(ids), room) or [(0, 0)]:
            out.append(Pass([model.cls, *ids[at:last], model.sep]))
    return out


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    norms = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    unit: NDArray[np.float32] = (vectors / norms).astype(np.float32, copy=False)
    return unit


LEAST_CHARS = 25
"""Shorter sentences are merged with the next one: ``St.``, ``No.`` and headings mean nothing by themselves."""
MAX_COST = 200
"""Longest window in estimated word pieces, well below the limit of common models."""


def windows(passage: Passage) -> list[str]:
    """List the texts to embed for a passage: sentences that together cover its text, then the whole; at least one.

    One vector for a whole passage blurs its sentences, and most models silently truncate long texts. So each sentence
    gets a vector too, and a passage is as near to a query as the nearest of its windows (MaxP, Dai and Callan 2019). An
    embedder with ``embed_passages`` (``base.PassageEmbedder``, such as MiniLM) does better.
    """
    title = passage.title.strip()
    text = passage.text.strip()
    whole = f"{title}\n{text}".strip()
    if not text:
        return [whole or passage.id]
    spans = merge_short(text, split_sentences(text), LEAST_CHARS) or [(0, len(text))]
    parts = [part for start, end in spans for part in _limit(text[start:end])]
    return parts if parts == [whole] else [*parts, whole]


def merge_short(text: str, spans: Iterable[tuple[int, int]], least: int) -> list[tuple[int, int]]:
    """Merge sentences shorter than ``least`` with the next one, the last one with the one before.

    ``least`` counts ASCII characters; a character of another script counts as four.
    """
    out: list[tuple[int, int]] = []
    for start, end in spans:
        if out and _cost(text[out[-1][0] : out[-1][1]]) * 4 < least:
            out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    if len(out) > 1 and _cost(text[out[-1][0] : out[-1][1]]) * 4 < least:
        out[-2:] = [(out[-2][0], out[-1][1])]
    return out


def _limit(text: str) -> list[str]:
    """Cut a text into pieces of at most ``MAX_COST``, at white space if possible."""
    out: list[str] = []
    while _cost(text) > MAX_COST:
        end = _reach(text)
        blank = text.rfind(" ", end // 2, end)
        end = blank if blank > 0 else end
        out.append(text[:end].strip())
        text = text[end:].strip()
    if text:
        out.append(text)
    return out


def _cost(text: str) -> float:
    """Estimate word pieces: four ASCII characters, or one other character, make one."""
    other = 0 if text.isascii() else sum(1 for c in text if c > "\x7f")
    return (len(text) - other) / 4 + other


def _reach(text: str) -> int:
    """Return how many characters of a text that is too long fit into ``MAX_COST``, at least one."""
    costs = accumulate(0.25 if char <= "\x7f" else 1.0 for char in text)
    return max(next(i for i, cost in enumerate(costs) if cost > MAX_COST), 1)
