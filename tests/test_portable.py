"""Parts of the core go to other processes and are copied."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared_core import SelfReflectEngine
from shared_core.documents import DocumentIndex
from shared_core.facades.assembly import default_embedder, default_reader
from shared_core.facades.gated_retriever import GatedRetriever
from shared_core.facades.reranker import SelfReflectReranker
from shared_core.lm import ScriptedLM
from shared_core.lm.openai import OpenAICompatibleLM
from shared_core.reading.extractive import ExtractiveReader
from shared_core.retrieval import BM25Retriever, ChromaRetriever, DenseRetriever, HybridRetriever
from tests.fakes import PASSAGES
from tests.retrieval.hashing_embedder import HashingEmbedder

QUESTION = "When was the lamp lit?"
TWINS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "deepcopy": copy.deepcopy,
    "copy of a copy": lambda x: copy.deepcopy(pickle.loads(pickle.dumps(x))),
}
RETRIEVERS: dict[str, Callable[[], Any]] = {
    "bm25": lambda: BM25Retriever(PASSAGES),
    "dense": lambda: DenseRetriever(PASSAGES, embedder=HashingEmbedder()),
    "hybrid": lambda: HybridRetriever(PASSAGES, embedder=HashingEmbedder()),
}


@pytest.mark.parametrize("twin", TWINS.values(), ids=list(TWINS))
@pytest.mark.parametrize("make", RETRIEVERS.values(), ids=list(RETRIEVERS))
def test_a_retriever_finds_the_same_and_stands_by_itself(make: Callable[[], Any], twin: Callable[[Any], Any]) -> None:
    retriever = make()
    before = retriever.retrieve(QUESTION)
    other = twin(retriever)
    assert other.retrieve(QUESTION) == before
    other.delete([PASSAGES[0].id])
    assert retriever.retrieve(QUESTION) == before


def test_what_has_answered_before_carries_nothing_it_can_load_again() -> None:
    fresh, used = BM25Retriever(PASSAGES), BM25Retriever(PASSAGES)
    used.retrieve(QUESTION)
    assert len(pickle.dumps(used)) == len(pickle.dumps(fresh))


@pytest.mark.parametrize("twin", TWINS.values(), ids=list(TWINS))
def test_the_processs_own_parts_stay_the_only_ones(twin: Callable[[Any], Any]) -> None:
    engine = SelfReflectEngine(BM25Retriever(PASSAGES))
    other = twin(engine)
    assert other.resources.reader is default_reader()
    assert other.resources.embedder is default_embedder()
    assert other.settings == engine.settings


@pytest.mark.parametrize("twin", TWINS.values(), ids=list(TWINS))
def test_facades_answer_as_before(twin: Callable[[Any], Any]) -> None:
    engine = SelfReflectEngine(BM25Retriever(PASSAGES))
    assert twin(engine).answer(QUESTION) == engine.answer(QUESTION)
    reranker = SelfReflectReranker()
    assert twin(reranker).rerank(QUESTION, PASSAGES) == reranker.rerank(QUESTION, PASSAGES)
    gated = GatedRetriever(BM25Retriever(PASSAGES), gate="always")
    assert twin(gated).retrieve(QUESTION) == gated.retrieve(QUESTION)


@pytest.mark.parametrize("twin", TWINS.values(), ids=list(TWINS))
def test_a_guarantee_holds_in_a_copy_too(twin: Callable[[Any], Any]) -> None:
    from tests.engine.test_guarantee import GUARANTEED, engine, fitted

    promising = engine({"guarantee": fitted().calibration}, **GUARANTEED)
    for question in ("What is item 55?", "What is item 98?"):
        assert twin(promising).answer(question) == promising.answer(question)


def test_a_reader_of_ones_own_is_made_again_of_its_arguments() -> None:
    reader = ExtractiveReader(cache_passages=7)
    for twin in TWINS.values():
        other = twin(reader)
        assert other is not reader
        assert other.name == reader.name


def test_models_go_along() -> None:
    assert pickle.loads(pickle.dumps(ScriptedLM(["a", "b"]))).name == ScriptedLM([]).name
    server = OpenAICompatibleLM("http://127.0.0.1:9/v1", "served", api_key="k")
    for twin in TWINS.values():
        other = twin(server)
        assert (other.name, repr(other)) == ("served", repr(server))
        other.close()
    server.close()


def test_a_copy_shares_a_models_weights_and_a_pickle_brings_them(tiny_lm: Any) -> None:
    from shared_core.lm import Generate, Generation, Prompt, SamplingParams

    request = Generate(Prompt.trusted("The river"), SamplingParams(max_tokens=4))
    assert copy.deepcopy(tiny_lm) is tiny_lm
    (there,), (here,) = pickle.loads(pickle.dumps(tiny_lm)).generate([request]), tiny_lm.generate([request])
    assert isinstance(there, Generation)
    assert there.text == here.text


def test_a_model_that_gave_its_states_can_be_pickled_and_gives_them_again(tiny_lm: Any) -> None:
    """transformers leaves closures on the modules of a model that was asked for hidden states or attention weights."""
    from shared_core.lm._hf.model import remove_capturing_hooks

    def states() -> Any:
        return tiny_lm.model(torch.tensor([[1, 2, 3]]), output_hidden_states=True).hidden_states

    torch = pytest.importorskip("torch")
    before = states()
    assert any(m._forward_hooks for m in tiny_lm.model.modules())
    pickle.dumps(tiny_lm)
    assert [s.shape for s in states()] == [s.shape for s in before]
    remove_capturing_hooks(tiny_lm.model)
    assert not any(m._forward_hooks for m in tiny_lm.model.modules())


def test_an_index_in_a_folder_is_opened_again_and_one_in_memory_says_that_it_cannot(tmp_path: Path) -> None:
    pytest.importorskip("chromadb")
    store = ChromaRetriever("lamps", tmp_path, embedder=HashingEmbedder())
    store.add(PASSAGES)
    assert pickle.loads(pickle.dumps(store)).ids() == store.ids()
    lost = ChromaRetriever(embedder=HashingEmbedder())
    with pytest.raises(TypeError, match=r"this process.s memory.*folder or a server"):
        pickle.dumps(lost)
    with pytest.raises(TypeError, match="cannot be copied"):
        copy.deepcopy(lost)


@pytest.mark.parametrize("twin", TWINS.values(), ids=list(TWINS))
def test_an_indexs_retriever_opens_the_index_again(tmp_path: Path, twin: Callable[[Any], Any]) -> None:
    (tmp_path / "lamps.md").write_text(f"# Lamps\n\n{PASSAGES[0].text}\n", encoding="utf-8")
    index = DocumentIndex(tmp_path / "index", dense=False)
    index.update([tmp_path / "lamps.md"])
    engine = SelfReflectEngine(index.retriever())
    assert twin(engine).answer(QUESTION).text == engine.answer(QUESTION).text
    assert "1871" in engine.answer(QUESTION).text
