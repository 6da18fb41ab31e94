"""all-MiniLM-L6-v2 by our own few lines: the published vectors, and what is made of a passage."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.cached_embedder import CachedEmbedder
from benchmarks.reader.quantise import pack
from shared_core.errors import InputError, ModelLoadError
from shared_core.retrieval import DenseRetriever, Embedder, MiniLMEmbedder
from shared_core.retrieval.base import PassageEmbedder
from shared_core.retrieval.embedding import merge_short
from shared_core.retrieval.minilm import WEIGHTS, MiniLM, load_model
from shared_core.types import Passage

pytest.importorskip("onnxruntime")

TEXTS = [
    "A cat sat on the mat.", "東京タワー", "", "A kitten rests on a rug. " * 3, "Stock prices fell.", "\ud800 \x00",
]  # fmt: skip
STORY = Passage(
    "s",
    "The ferry left Lowen at noon with ninety passengers and a cargo of salt. It sank off the cape within the hour, in "
    "calm weather and in sight of the harbour. Nobody was hurt, but the owners of the salt never forgave the captain. "
    "\n\n* * *\n\nShe was raised in 1934.",
    "Ferries",
)


@pytest.fixture(scope="module")
def embedder() -> MiniLMEmbedder:
    return MiniLMEmbedder()


@pytest.mark.parametrize("part", [0, 0.5, 0.999])
def test_a_file_cut_short_is_named(tmp_path: Path, part: float) -> None:
    whole = WEIGHTS.read_bytes()
    file = tmp_path / "encoder.npz"
    file.write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(ModelLoadError, match=r"encoder\.npz") as failed:
        MiniLM(file)
    assert "Reinstall" in (failed.value.hint or "")


def test_a_process_ends_while_a_thread_embeds() -> None:
    program = """if True:
        import threading, time
        from shared_core.retrieval import MiniLMEmbedder
        embedder = MiniLMEmbedder()
        embedder.embed(["warm"])
        def embed():
            while True:
                embedder.embed(["given up at a deadline " * 60])
        threading.Thread(target=embed, daemon=True).start()
        time.sleep(0.2)"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


def test_bad_input_is_refused(embedder: MiniLMEmbedder) -> None:
    with pytest.raises(InputError):
        embedder.embed("text")
    with pytest.raises(InputError):
        embedder.embed([3])  # type: ignore[list-item]


@pytest.mark.train
def test_vectors_are_near_those_of_sentence_transformers(embedder: MiniLMEmbedder) -> None:
    """An index made of one kind is searched with the other, so they must stand together."""
    library = pytest.importorskip("sentence_transformers")
    from benchmarks.reader.base import find_base

    model = library.SentenceTransformer(str(find_base()), device="cpu", local_files_only=True)
    expected = model.encode(TEXTS[:5], normalize_embeddings=True)
    assert (embedder.embed(TEXTS[:5]) * expected).sum(axis=1).min() > 0.98


def test_vectors_are_unit_and_do_not_depend_on_the_batch(embedder: MiniLMEmbedder) -> None:
    vectors = embedder.embed(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), 384), np.float32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    for text, vector in zip(TEXTS, vectors):
        assert (embedder.embed([text])[0] == vector).all()
    assert vectors[0] @ vectors[3] > vectors[0] @ vectors[4] + 0.2
    assert embedder.embed([]).shape == (0, 384)
    assert "MiniLM" in embedder.name
    assert isinstance(embedder, Embedder)
    assert isinstance(embedder, PassageEmbedder)


def test_the_tail_of_a_long_text_counts(embedder: MiniLMEmbedder) -> None:
    head = "The weather was mild and the streets were quiet. " * 80
    query = embedder.embed(["volcano eruption"])[0]
    without, with_tail = embedder.embed([head, head + "The volcano erupted violently. " * 50])
    assert with_tail @ query > without @ query + 0.02  # cut off, they would be equal


def test_a_passage_has_a_vector_for_each_sentence_in_its_context(embedder: MiniLMEmbedder) -> None:
    (made,) = embedder.embed_passages([STORY])
    shown = [STORY.text[a:b] for a, b in made.spans]
    assert [s.split()[0] for s in shown] == ["The", "It", "Nobody"]  # what is short goes with its neighbour
    assert made.sentences.shape == (3, 384)
    assert np.linalg.norm(made.sentences, axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    assert np.linalg.norm(made.whole) == pytest.approx(1, abs=1e-5)
    query = embedder.embed(["Which ship sank near the cape?"])[0]
    assert int(np.argmax(made.sentences @ query)) == 1
    stranger = Passage("t", STORY.text.replace("The ferry", "The meteorite").replace("passengers", "craters"))
    changed = embedder.embed_passages([stranger])[0]
    assert changed.sentences[1] @ made.sentences[1] < 0.99  # the same words in another context


def test_a_passage_alone_among_others_and_on_several_threads_is_the_same(
    embedder: MiniLMEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [Passage(f"o{n}", "Salt and rope. " * n, "Stores") for n in range(1, 30)]
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        found += [embedder.embed_passages([STORY])[0], embedder.embed_passages([*others, STORY])[-1]]
    for made in found[1:]:
        assert made.spans == found[0].spans
        assert (made.sentences == found[0].sentences).all()
        assert (made.whole == found[0].whole).all()


def test_word_vectors_are_unpacked_as_they_were_packed() -> None:
    rng = np.random.default_rng(0)
    words = rng.normal(size=(20, 384)).astype(np.float32) * rng.uniform(0.01, 3, (20, 1)).astype(np.float32)
    model = load_model()
    packed = pack(words)
    copy: MiniLM = MiniLM.__new__(MiniLM)
    copy._codes, copy._scales = packed["words"], packed["scales"]
    ids = [3, 19, 3, 0]
    error = copy.words(ids)[0] - words[ids]
    assert np.linalg.norm(error) < 0.08 * np.linalg.norm(words[ids])  # 32 levels
    assert model.words([101]).shape == (1, 1, 384)


def test_onnxruntime_leaves_the_encoders_sums_apart(tmp_path: Path) -> None:
    """The node that it would put in their place takes six times as long."""
    onnx = pytest.importorskip("onnx")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    with np.load(WEIGHTS) as archive:
        graph = archive["graph"].tobytes()
    onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    kinds = [node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node]
    assert "SkipLayerNormalization" not in kinds
    assert kinds.count("LayerNormalization") == 13


def test_a_passage_longer_than_a_pass_is_read_to_its_end(embedder: MiniLMEmbedder) -> None:
    filler = " ".join(f"Item {i} of the list of stores is rope of {i} fathoms and some tar." for i in range(60))
    long = Passage("l", f"{filler} Zebras graze in the meadows behind the lighthouse every morning. {filler}")
    (made,) = embedder.embed_passages([long])
    assert made.spans[0][0] == 0
    assert made.spans[-1][1] == len(long.text)
    assert all(b <= c for (_, b), (c, _) in itertools.pairwise(made.spans))
    best = int(np.argmax(made.sentences @ embedder.embed(["Where do zebras graze?"])[0]))
    assert "Zebras" in long.text[slice(*made.spans[best])]


ODD = {
    "empty": "", "blank": " \n\t ", "one word": "Lowen", "markup only": "<div><br/></div> *** --- ``` | | |",
    "surrogate": "half \ud83c a character", "control": "\x00\x01\x1b[31m", "no spaces": "x" * 30_000,
    "no sentences": "word " * 1_500, "no spaces, no sentences": "東京" * 700, "many short lines": "- a\n" * 900,
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_texts(embedder: MiniLMEmbedder, name: str) -> None:
    text = ODD[name]
    for title in ("", "Title", "T\udfff" * 3_000):
        (made,) = embedder.embed_passages([Passage("p", text, title)])
        assert made.sentences.shape == (len(made.spans), 384)
        assert np.linalg.norm(made.sentences, axis=1) == pytest.approx(np.ones(len(made.spans)), abs=1e-4)
        assert all(0 <= a <= b <= len(text) for a, b in made.spans)
    assert np.linalg.norm(embedder.embed([text])[0]) == pytest.approx(1, abs=1e-4)


def test_a_passage_without_text_stands_for_its_title(embedder: MiniLMEmbedder) -> None:
    (made,) = embedder.embed_passages([Passage("p", " ", "Tide tables")])
    assert made.whole == pytest.approx(embedder.embed(["Tide tables"])[0], abs=0.02)


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 40), max_size=20), st.integers(1, 60))
def test_short_sentences_go_with_their_neighbours(lengths: list[int], least: int) -> None:
    text, spans = "", []
    for length in lengths:
        spans.append((len(text), len(text) + length))
        text += "x" * length + " "
    merged = merge_short(text, spans, least)
    assert [merged[0][0], merged[-1][1]] == [spans[0][0], spans[-1][1]] if spans else merged == []
    assert all(b - a >= least for a, b in merged) or len(merged) == 1
    assert {a for a, _ in merged} <= {a for a, _ in spans}


def test_a_cached_embedder_gives_the_same(embedder: MiniLMEmbedder, tmp_path: Path) -> None:
    passages = [STORY, Passage("e", ""), Passage("f", "")]
    file = tmp_path / "kept.npz"
    cached = CachedEmbedder(file, embedder)
    first = [cached.embed_passages(passages) for _ in range(2)]
    cached.embed(["a question"])
    cached.save()

    class Broken(MiniLMEmbedder):
        def embed_passages(self, passages: object) -> object:  # type: ignore[override]
            raise AssertionError("remembered passages are not embedded again")

    again = CachedEmbedder(file, Broken()).embed_passages(passages)
    plain = embedder.embed_passages(passages)
    for made in (*first, again):
        for one, other in zip(made, plain):
            assert one.spans == other.spans
            assert one.sentences == pytest.approx(other.sentences, abs=0.02)
            assert one.whole == pytest.approx(other.whole, abs=0.02)
    query = "Which ship sank?"
    assert DenseRetriever(passages, embedder=cached).retrieve(query, 1)[0].id == "s"
