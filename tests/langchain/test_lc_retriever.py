"""The gated retriever, the compressor and the retriever with a compressor behind it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.documents.compressor import BaseDocumentCompressor
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

from langchain_selfreflect import CompressionRetriever, SelfReflectChain, SelfReflectCompressor, SelfReflectRetriever
from shared_core import SeakrSettings, SelfReflectSettings
from shared_core.errors import OptionError, QuestionError, SettingsError
from shared_core.lm.base import Capabilities, Sample
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.gating import query
from shared_core.reading.base import Read, Reading, ReadResult
from tests.fakes import FirstSentenceReader, Shelf
from tests.langchain.lc_fakes import QUESTION, AsyncEar, Ear, KRetriever, ShelfRetriever, TalkingModel, documents


class LastReader:
    """Finds the later passages better."""

    name = "last"

    def read(self, requests: Any) -> list[Any]:
        return [self._one(r) for r in requests]

    def _one(self, request: Read) -> ReadResult:
        found = [
            Reading(p.span(0, p.text.index(".") + 1), 0.1 * (i + 1), float(i)) for i, p in enumerate(request.passages)
        ]
        return ReadResult(tuple(reversed(found)))


def sure(logprob: float) -> ScriptedLM:
    """A model whose every token has this log-probability."""
    sample = Sample(" 1871.", (1, 2), "stop", ".", (logprob, logprob), (" 1871", "."))
    return ScriptedLM(lambda request: sample, capabilities=Capabilities(token_logprobs=True))


def retriever(**kwargs: Any) -> SelfReflectRetriever:
    kwargs.setdefault("reader", LastReader())
    kwargs.setdefault("retriever", KRetriever(k=3))
    return SelfReflectRetriever(**kwargs)


PERPLEXITY = SelfReflectSettings(seakr=SeakrSettings(estimator="perplexity", threshold=2.0))


class TestStandard(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return SelfReflectRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"retriever": KRetriever(k=2), "reader": LastReader()}

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


class TestStandardCompression(TestStandard):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return _Compressing


class _Compressing(CompressionRetriever):
    """Takes k when made, as the standard tests want it."""

    def __init__(self, retriever: Any = None, reader: Any = None, k: int | None = None, **kwargs: Any) -> None:
        kwargs.setdefault("base_retriever", retriever)
        kwargs.setdefault("base_compressor", SelfReflectCompressor(reader=reader, top_n=k))
        if k:
            kwargs["base_retriever"] = KRetriever(k=3)
        super().__init__(**kwargs)


# --- retriever -----------------------------------------------------------------------------------------------------


async def test_without_a_model_it_always_retrieves_and_ranks_by_reading() -> None:
    inner = KRetriever(k=3)
    before = copy.deepcopy(inner.docs)
    made = retriever(retriever=inner, k=2)
    found = made.invoke(QUESTION)
    assert [d.page_content for d in found] == [d.page_content for d in reversed(before[1:])]
    assert [d.metadata["relevance_score"] for d in found] == [2.0, 1.0]
    assert found[0].metadata["selfreflect_gate"] == "always"
    assert found[0].metadata["selfreflect_reason"]
    assert found[0].metadata["selfreflect_rank_reason"] == "holds the sentence that answers best"
    assert found[0].metadata["selfreflect_best_sentence"] == "A second lamp was lit in 1899."
    assert found[1].metadata["page"] == 3
    assert inner.docs == before
    assert inner.asked == [3]  # more than wanted: the best of them are to be found
    assert await made.ainvoke(QUESTION) == found


@pytest.mark.parametrize(("settings", "count"), [
    (SelfReflectSettings().replace(seed=1), 2), (SelfReflectSettings(top_k=1), 1),
    (SelfReflectSettings().replace(top_k=3), 3),
])  # fmt: skip
def test_the_retrievers_own_k_holds_unless_the_settings_were_given_one(
    settings: SelfReflectSettings, count: int
) -> None:
    assert len(retriever(retriever=KRetriever(k=2), settings=settings).invoke(QUESTION)) == count
    assert len(retriever(retriever=KRetriever(k=2), settings=settings, k=1).invoke(QUESTION)) == 1


@pytest.mark.parametrize("rerank", [False, "reading"])
def test_documents_without_text_come_last(rerank: Any) -> None:
    image = Document("", metadata={"image": "lamp.png"})
    shelf = KRetriever(docs=[image, *documents()], k=4)
    found = retriever(retriever=shelf, rerank=rerank).invoke(QUESTION)
    assert [d.page_content for d in found if d.page_content] == [d.page_content for d in found[:3]]
    assert found[3] == image
    assert found[3] is not image
    with_text = retriever(retriever=KRetriever(docs=documents(), k=3), rerank=rerank).invoke(QUESTION)
    assert [d.metadata.get("selfreflect_rank_reason") for d in found[:3]] == [
        d.metadata.get("selfreflect_rank_reason") for d in with_text
    ]


def test_all_are_ranked_of_a_retriever_that_takes_no_number() -> None:
    shelf = [*(Document(f"The lamp {i} was green.") for i in range(9)), Document("The lamp was lit in 1871.")]
    assert len(retriever(retriever=ShelfRetriever(docs=shelf)).invoke(QUESTION)) == 10
    best = retriever(retriever=ShelfRetriever(docs=shelf), k=1).invoke(QUESTION)
    assert [d.page_content for d in best] == ["The lamp was lit in 1871."]


@pytest.mark.parametrize(("logprob", "count"), [(-3.0, 3), (-0.01, 0)])
async def test_the_gate_opens_when_the_model_is_unsure(logprob: float, count: int) -> None:
    assert len(retriever(llm=sure(logprob), gate="flare").invoke(QUESTION)) == count
    made = retriever(llm=sure(logprob), settings=PERPLEXITY)
    found = made.invoke(QUESTION)
    assert len(found) == count
    assert await made.ainvoke(QUESTION) == found
    for document in found:
        assert document.metadata["selfreflect_gate"] == "uncertainty"
        assert document.metadata["selfreflect_uncertainty"] > 2.0
        assert document.metadata["selfreflect_query"] == QUESTION
        assert "relevance_score" not in document.metadata  # nothing ranked it


async def test_a_model_without_a_threshold_makes_the_order_no_worse(caplog: pytest.LogCaptureFixture) -> None:
    query._warn_of_no_threshold.cache_clear()
    model = TalkingModel()
    made = retriever(llm=model, k=2)
    found, plain = made.invoke(QUESTION), retriever(k=2).invoke(QUESTION)
    assert [d.page_content for d in found] == [d.page_content for d in plain]
    assert [d.metadata["relevance_score"] for d in found] == [2.0, 1.0]
    assert "calibrate gate" in found[0].metadata["selfreflect_reason"]
    assert await made.ainvoke(QUESTION) == found
    assert model.seen == []
    assert len([r for r in caplog.records if "selfreflect calibrate gate" in r.getMessage()]) == 1
    unranked = retriever(llm=model, k=2, rerank=False).invoke(QUESTION)
    assert [d.page_content for d in unranked] == [d.page_content for d in documents()[:2]]


def test_gates_need_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("langchain_selfreflect.retriever.has_default_models", lambda: False)
    made = SelfReflectRetriever(retriever=KRetriever(k=3), llm=TalkingModel(), k=2)
    assert [d.page_content for d in made.invoke(QUESTION)] == [d.page_content for d in documents()[:2]]


async def test_a_closed_gate_is_heard_of() -> None:
    ear, late = Ear(), AsyncEar()
    made = retriever(llm=sure(-0.01), settings=PERPLEXITY)
    assert made.invoke(QUESTION, {"callbacks": [ear]}) == []
    await made.ainvoke(QUESTION, {"callbacks": [late]})
    assert [d["outcome"] for n, d, _ in ear.events if d["kind"] == "gate"] == ["know"]
    assert [d["outcome"] for n, d in late.events if d["kind"] == "gate"] == ["know"]


def test_children_hang_under_the_retrievers_run() -> None:
    ear = Ear()
    model = TalkingModel(reply=lambda p: "1871")
    retriever(llm=model, gate="uncertainty", rerank="uncertainty", settings=_few()).invoke(
        QUESTION, {"callbacks": [ear]}
    )
    outer, inner = ear.runs[0], [r for r in ear.runs if r[0] == "retriever"][1]
    assert inner[2] == outer[1]
    assert set(ear.parents("llm")) == {outer[1]}


def _few() -> SelfReflectSettings:
    return SelfReflectSettings(seakr=SeakrSettings(estimator="verbalised", samples=2))


def test_rerank_by_uncertainty_prefers_what_makes_the_model_sure() -> None:
    def reply(request: Any) -> Sample:
        level = -0.01 if "Ila Venn" in request.prompt.text else -2.0
        return Sample(" 1871.", (1,), "stop", ".", (level,), (" 1871.",))

    lm = ScriptedLM(reply, capabilities=Capabilities(token_logprobs=True))
    settings = SelfReflectSettings(seakr=SeakrSettings(estimator="perplexity"))
    made = retriever(llm=lm, gate="always", rerank="uncertainty", settings=settings, k=1)
    (found,) = made.invoke(QUESTION)
    assert found.id == "ship"
    assert "lower than" in found.metadata["selfreflect_rank_reason"]
    compressor = SelfReflectCompressor(method="uncertainty", llm=lm, settings=settings, top_n=1)
    assert [d.id for d in compressor.compress_documents(documents(), QUESTION)] == ["ship"]


def test_our_own_retriever_can_be_wrapped() -> None:
    (found,) = retriever(retriever=Shelf(), rerank=False).invoke("captain")
    assert (found.id, found.metadata["source"], found.metadata["relevance_score"]) == ("ship", "ships.txt", 1.0)


def test_it_serves_the_chain() -> None:
    made = SelfReflectChain(retriever=retriever(k=2), reader=FirstSentenceReader(0.9))
    assert made.invoke(QUESTION).text.startswith("A second lamp was lit in 1899. [1]")


@pytest.mark.parametrize("k", [0, -1, 2.5, True])
async def test_a_wrong_k_of_a_call_is_refused(k: Any) -> None:
    behind = SelfReflectCompressor(reader=LastReader())
    for made in (retriever(), CompressionRetriever(base_retriever=ShelfRetriever(), base_compressor=behind)):
        with pytest.raises(OptionError, match="k must be a whole number"):
            made.invoke(QUESTION, k=k)
        with pytest.raises(OptionError, match="k must be a whole number"):
            await made.ainvoke(QUESTION, k=k)


@pytest.mark.parametrize("kwargs", [{"rerank": "uncertainty"}, {"k": 0}])
def test_what_cannot_work_is_refused_when_it_is_made(kwargs: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as caught:
        retriever(**kwargs)
    assert caught.value.hint


# --- compressor ----------------------------------------------------------------------------------------------------


async def test_the_compressor_keeps_the_best_and_changes_nothing() -> None:
    docs = documents()
    before = copy.deepcopy(docs)
    compressor = SelfReflectCompressor(reader=LastReader(), top_n=2)
    assert isinstance(compressor, BaseDocumentCompressor)
    kept = compressor.compress_documents(docs, QUESTION)
    assert [d.page_content for d in kept] == [docs[2].page_content, docs[1].page_content]
    assert [d.metadata["relevance_score"] for d in kept] == [2.0, 1.0]
    assert kept[0].metadata["selfreflect_reason"]
    assert kept[0].metadata["selfreflect_probability"] == pytest.approx(0.3)
    assert kept[1].id == "ship"
    assert docs == before
    assert await compressor.acompress_documents(docs, QUESTION) == kept


def test_the_compressor_at_its_edges() -> None:
    compressor = SelfReflectCompressor(reader=LastReader(), top_n=None)
    assert compressor.compress_documents([], QUESTION) == []
    assert len(compressor.compress_documents([*documents(), *documents()], QUESTION)) == 3
    with pytest.raises(QuestionError):
        compressor.compress_documents(documents(), " ")


async def test_callbacks_reach_the_compressors_model() -> None:
    ear = Ear()
    compressor = SelfReflectCompressor(method="uncertainty", llm=TalkingModel(), settings=_few())
    compressor.compress_documents(documents(), QUESTION, callbacks=[ear])
    sync = len(ear.ids("llm"))
    await compressor.acompress_documents(documents(), QUESTION, callbacks=[ear])
    assert sync > 0
    assert len(ear.ids("llm")) == 2 * sync


def test_the_compressor_asks_a_model_once_what_it_can_do() -> None:
    model = TalkingModel(gives_logprobs=True)
    compressor = SelfReflectCompressor(method="uncertainty", llm=model, settings=_few(), logprobs="probe")
    for _ in range(2):
        compressor.compress_documents(documents(), QUESTION)
    assert sum(call.prompt == "Say yes." for call in model.seen) == 1


async def test_the_compression_retriever_puts_one_behind_the_other() -> None:
    ear = Ear()
    made = CompressionRetriever(
        base_retriever=ShelfRetriever(), base_compressor=SelfReflectCompressor(reader=LastReader(), top_n=1)
    )
    (found,) = made.invoke(QUESTION, {"callbacks": [ear]})
    assert found.metadata["id"] == "lamp-2"
    assert await made.ainvoke(QUESTION) == [found]
    assert ear.runs[1][2] == ear.runs[0][1]
    assert made.invoke("zebra") == []
    assert made.k == 1


def test_the_compression_retriever_takes_any_compressor() -> None:
    class Shortest(BaseDocumentCompressor):
        def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> list[Document]:
            return sorted(documents, key=lambda d: len(d.page_content))[:1]

    made = CompressionRetriever(base_retriever=KRetriever(k=3), base_compressor=Shortest())
    assert made.invoke(QUESTION) == documents()[:1]
