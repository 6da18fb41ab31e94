"""Self-RAG, ReSearch and guarantees through both plug-ins; pages and sections of quotes from any loader's metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from langchain_selfreflect import SelfReflectChain
from llamaindex_selfreflect import SelfReflectCitationQueryEngine, SelfReflectQueryEngine
from shared_core import Answer, SelfReflectSettings
from shared_core.calibration import io as calibration_io
from shared_core.documents import chunk_document, load_document
from shared_core.errors import AbstainedError, CalibrationError
from shared_core.evaluation.fitting import FitOptions, fit
from shared_core.retrieval import BM25Retriever
from tests.contract.facades import QUESTION, Facades
from tests.engine.test_guarantee import Numbered, Rising, questions
from tests.fakes import FirstSentenceReader, published
from tests.langchain.lc_fakes import TalkingModel
from tests.llamaindex.li_fakes import CompletionLLM, NodeShelf
from tests.pipelines.research_scripts import Model, by_words, settings
from tests.pipelines.self_rag_scripts import made, said, trained

LIT, OIL = "The lamp was lit in 1871.", "It burned whale oil."
TEXTS = (f"{LIT} {OIL}", "The Marrow sank off Vessen in 1902.")
FILES = Path(__file__).parents[1] / "documents" / "files"


# --- Self-RAG ------------------------------------------------------------------------------------------------------


def critic(prompt: str, options: Any = None) -> str:
    """A plain model that writes, and answers the critic's questions."""
    if "Write " in prompt and "Passage:" in prompt:
        return LIT if "lamp" in prompt.partition("Passage:")[2].lower() else "NOTHING"
    if "How far" in prompt:
        return "fully"
    if "How useful" in prompt:
        return "5"
    if "leave part" in prompt:
        return "no"
    return "yes" if "lamp" in prompt.partition("Passage:")[2].lower() or "Would passages" in prompt else "no"


def critical(facades: Facades) -> Any:
    """The same as a model of the framework."""
    return CompletionLLM(critic) if facades.name == "llamaindex_selfreflect" else TalkingModel(reply=critic)


async def test_self_rag_runs_on_the_frameworks_model(facades: Facades) -> None:
    engine = facades.engine(
        facades.retriever_of(TEXTS),
        llm=critical(facades),
        settings=published(target_accuracy=0.5),
        pipeline="self_rag",
        reader=None,
    )
    answer = facades.ask(engine, QUESTION)
    assert answer.text.startswith(LIT)
    assert facades.sources(engine, QUESTION)[0][0] == "p0"
    assert (await facades.aask(engine, QUESTION)).text == answer.text


def test_self_rag_runs_on_a_model_with_reflection_tokens(facades: Facades) -> None:
    lm = trained(lambda r: said("[Retrieval]" if not r else f"[Relevant]{LIT}[Fully supported][Utility:5]"))
    engine = facades.engine(facades.retriever_of(TEXTS), llm=lm, settings=made(), reader=None)
    assert facades.ask(engine, QUESTION).text.startswith(LIT)


def test_passages_are_ranked_by_relevance(facades: Facades) -> None:
    ranked = facades.rank(facades.reranker(llm=critical(facades), method="relevance"), QUESTION, TEXTS[::-1])
    assert ranked == list(TEXTS)


# --- ReSearch ------------------------------------------------------------------------------------------------------


def research(facades: Facades, model: Model, *, streaming: bool = False, **options: Any) -> Any:
    judge, reader = by_words({"1871": 0.95, "oil": 0.9}), FirstSentenceReader(0.9)
    more = {"streaming": True} if streaming else {}
    shelf = facades.retriever_of(TEXTS)
    return facades.engine(shelf, llm=model.lm, settings=settings(**options), judge=judge, reader=reader, **more)


def test_a_candidate_comes_with_its_citations(facades: Facades) -> None:
    answer = facades.ask(research(facades, Model([[f"{LIT} {OIL}"]])), QUESTION)
    assert answer.text == f"{LIT} [1] {OIL} [2]"
    assert [answer.text[c.start : c.end] for c in answer.kept_claims] == [LIT, OIL]
    assert [s.passage_id for s in answer.numbered_spans()] == ["p0", "p0"]


def test_streamed_pieces_are_the_text(facades: Facades) -> None:
    model = Model([[f"{LIT} {OIL}"]])
    if facades.name == "llamaindex_selfreflect":
        pieces = list(research(facades, model, streaming=True).query(QUESTION).response_gen)
    else:
        pieces = [chunk.text for chunk in research(facades, model).stream(QUESTION)]
    assert "".join(pieces) == f"{LIT} [1] {OIL} [2]"


def test_an_abstention_says_why(facades: Facades) -> None:
    wrong = facades.ask(research(facades, Model([["Something else."]])), QUESTION)
    assert wrong.abstained
    assert wrong.reason in ("unsupported here", "support below target")
    unknown = facades.ask(research(facades, Model([[LIT]], think=lambda r: "5"), closed_book=True), QUESTION)
    assert (unknown.abstained, unknown.reason) == (True, "model does not know")


@pytest.mark.parametrize("kind", [SelfReflectQueryEngine, SelfReflectCitationQueryEngine, SelfReflectChain])
def test_everything_that_answers_abstains_by_its_target(kind: Any, tmp_path: Path) -> None:
    chain = kind is SelfReflectChain

    def engine(**options: Any) -> Any:
        given = {"judge": by_words({"1871": 0.95}), "reader": FirstSentenceReader(0.9), "pipeline": "research"}
        given |= {"retriever": BM25Retriever(chunks()) if chain else NodeShelf(), "llm": Model([[LIT]]).lm}
        return kind(**{**given, "settings": settings(), **options})

    def ask(engine: Any) -> Answer:
        if chain:
            return Answer.from_dict(engine.invoke(QUESTION).response_metadata["selfreflect"])
        answer: Answer = engine.query(QUESTION).answer
        return answer

    assert ask(engine(target_accuracy=0.5)).text == f"{LIT} [1]"
    strict = ask(engine(target_accuracy=0.97))
    assert (strict.abstained, strict.reason) == (True, "support below target")
    with pytest.raises(AbstainedError):
        ask(engine(target_accuracy=0.97, on_abstain="raise"))
    with pytest.raises(CalibrationError, match="none was fitted"):
        engine(guarantee="conformal_factuality")


def chunks() -> list[Any]:
    from shared_core import Passage

    return [Passage(f"p{i}", text) for i, text in enumerate(TEXTS)]


# --- guarantees ----------------------------------------------------------------------------------------------------


def test_a_guarantee_by_one_argument(facades: Facades, tmp_path: Path) -> None:
    def engine(**options: Any) -> Any:
        return facades.engine(Numbered(), reader=Rising(), **options)

    def ask(engine: Any) -> Answer:
        return facades.ask(engine, "What is item 55?")

    plain = engine(target_accuracy=0.5)
    core = plain._shared if facades.name == "llamaindex_selfreflect" else plain.engine
    fitted = fit("guarantee", core, questions(), FitOptions(guarantee="conformal_factuality"))
    calibration_io.save(tmp_path / "c.json", {"guarantee": fitted.calibration})
    values = SelfReflectSettings(calibration=tmp_path / "c.json", target_accuracy=0.5)
    promising = ask(engine(settings=values, guarantee="conformal_factuality"))
    assert promising.reason == "support below guarantee"
    told: Any = promising.metadata["guarantee"]
    assert told["n"] == 50
    assert not ask(engine(settings=values)).abstained
    with pytest.raises(CalibrationError):
        engine(guarantee="conformal_factuality")
    held: Any = {"guarantee": fitted.calibration}
    given = engine(target_accuracy=0.5, guarantee="conformal_factuality", calibrations=held)
    assert ask(given).reason == "support below guarantee"


# --- pages ---------------------------------------------------------------------------------------------------------


def page_in_langchain(retriever: Any, question: str) -> tuple[Any, Any]:
    message = SelfReflectChain(retriever=retriever, reader=FirstSentenceReader(0.9)).invoke(question)
    block: dict[str, Any] = dict(message.content_blocks[0])
    extras = block["annotations"][0]["extras"]
    return extras.get("page"), extras.get("section")


def page_in_llamaindex(retriever: Any, question: str) -> tuple[Any, Any, Any]:
    response = SelfReflectQueryEngine(retriever, reader=FirstSentenceReader(0.9)).query(question)
    assert response.metadata is not None
    place = response.metadata["selfreflect"]["citations"][0]
    return place["page"], place["section"], response.citations[0].additional_location_info.get("page")


@pytest.mark.parametrize(("metadata", "page"), [
    ({"page": 0, "page_label": "1", "source": "m.pdf"}, "1"),
    ({"page": 11, "total_pages": 20, "source": "m.pdf"}, "12"), ({"source": "m.txt"}, None),
])  # fmt: skip
def test_annotations_of_langchain_name_the_page(metadata: dict[str, Any], page: str | None) -> None:
    class One(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(LIT, id="d", metadata=metadata)]

    assert page_in_langchain(One(), QUESTION)[0] == page


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"page_label": "12", "file_name": "manual.pdf"}, ("12", "", 12)),
        ({"page": 3, "page_label": "iii", "section": "Lamps > Oil"}, ("iii", "Lamps > Oil", None)),
        ({}, ("", "", None)),
    ],
)
def test_citation_blocks_of_llamaindex_name_the_page(metadata: dict[str, Any], expected: tuple[Any, ...]) -> None:
    node = NodeWithScore(node=TextNode(id_="n", text=LIT, metadata=metadata), score=1.0)
    assert page_in_llamaindex(NodeShelf([node]), QUESTION) == expected


def test_pages_of_a_pdf_of_ours() -> None:
    shelf = BM25Retriever(chunk_document(load_document(FILES / "xelatex_report.pdf"))[-1:])
    place = ("2", "2 The fog signal")
    assert page_in_langchain(shelf, "the bell and the brig") == place
    assert page_in_llamaindex(shelf, "the bell and the brig") == (*place, 2)
