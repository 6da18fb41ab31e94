"""The Python of README and docs runs, page by page, as a reader would type it in; models and servers are imitated."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import shared_core.evaluation.fitting as fitting
import shared_core.lm as lms
from shared_core import Passage, SelfReflectEngine, SelfReflectSettings
from shared_core.errors import BackendUnavailableError
from shared_core.lm.openai import OpenAICompatibleLM
from shared_core.lm.scripted import ScriptedLM
from shared_core.lm.transformers import TransformersLM
from shared_core.lm.vllm import VLLM
from shared_core.retrieval import BM25Retriever
from tests.docs_pages import PAGES, ROOT, blocks, python, stand_in
from tests.fakes import PASSAGES
from tests.langchain.lc_fakes import ShelfRetriever, TalkingModel
from tests.pipelines.research_scripts import Model
from tests.pipelines.self_rag_scripts import said, trained

pytest.importorskip("onnxruntime")

LIT = "The lamp was lit in 1871."


def reflecting() -> ScriptedLM:
    """A model with Self-RAG's tokens."""
    return trained(lambda shown: said(f"[Relevant]{LIT}[Fully supported][Utility:5]") if shown else said("[Retrieval]"))


def plain() -> dict[str, Any]:
    """What a reader of the pages about the core has."""
    passages = [*PASSAGES, Passage("bridge", "The Thale was bridged in 1841 by Mira Dorn. The bridge has 3 arches.")]
    return {
        "SelfReflectEngine": SelfReflectEngine, "SelfReflectSettings": SelfReflectSettings,
        "lm": ScriptedLM(lambda request: "Mira Dorn built it in 1841."), "passages": passages,
        "question": "When was the lamp lit?", "retriever": BM25Retriever(passages),
    }  # fmt: skip


def llamaindex() -> dict[str, Any]:
    """What an app over LlamaIndex has."""
    from llama_index.core import Document, MockEmbedding, VectorStoreIndex
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine

    import llamaindex_selfreflect as ours

    documents = [Document(text=p.text) for p in PASSAGES]
    index = VectorStoreIndex.from_documents(documents, embed_model=MockEmbedding(embed_dim=4))
    retriever = index.as_retriever()
    return {
        **{name: getattr(ours, name) for name in ours.__all__}, "RetrieverQueryEngine": RetrieverQueryEngine,
        "index": index, "llm": MockLLM(), "query_engine": ours.SelfReflectQueryEngine(retriever),
        "retriever": retriever,
    }  # fmt: skip


def langchain() -> dict[str, Any]:
    """What an app over LangChain has."""
    import openai
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnableLambda
    from langchain_core.vectorstores import InMemoryVectorStore

    import langchain_selfreflect as ours

    retriever = ShelfRetriever()
    store = InMemoryVectorStore.from_texts([p.text for p in PASSAGES], ours.MiniLMEmbeddings())
    return {
        **{name: getattr(ours, name) for name in ours.__all__}, "BackendUnavailableError": BackendUnavailableError,
        "ChatPromptTemplate": ChatPromptTemplate, "StrOutputParser": StrOutputParser, "llm": TalkingModel(),
        "my_chain": RunnableLambda(lambda _: LIT), "openai": openai,
        "other": ours.SelfReflectChain(retriever=retriever), "retriever": retriever, "store": store,
    }  # fmt: skip


def world(page: str, code: str) -> dict[str, Any]:
    """What stands in for what the reader of this block has besides what the page made before."""
    if page.endswith("langchain.md") or "SelfReflectChain(" in code or "my_chain" in code:
        return langchain()
    if page.endswith("llamaindex.md") or "from_args" in code or "query_engine" in code:
        return llamaindex()
    made = plain()
    if page.endswith(("self_rag.md", "models.md")):
        made["lm"] = reflecting()
    if page.endswith("research.md"):
        made["lm"] = Model([[LIT]]).lm
    return made


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with documents; models that are named by path or address are imitated."""
    from llama_index.core import Settings
    from llama_index.core.llms import MockLLM

    monkeypatch.setattr(Settings, "_llm", MockLLM())  # type: ignore[attr-defined]
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "examples" / "demo_docs" / "money_and_stamps.docx", tmp_path / "docs")
    (tmp_path / "docs" / "museum.md").write_text("# The museum\n\nThe museum was founded by Lavinia Hathe in 1902.\n")
    monkeypatch.chdir(tmp_path)
    for real in (TransformersLM, VLLM, OpenAICompatibleLM):
        monkeypatch.setattr(lms, real.__name__, stand_in(real, reflecting), raising=False)
    # Reading for 96 questions takes a minute; tests/calibration measures with a reader that is played.
    monkeypatch.setattr(fitting, "measure_replies", stand_in(fitting.measure_replies, object))


IMPORTS_ONLY = {"docs/evaluation.md", "docs/serve.md"}
"""Pages whose code needs folders of several runs, or a server; ``tests/evaluation`` and ``tests/serve`` have such."""
PROGRAMS = {page: [(b, code) for b in blocks(page) if (code := python(b)) is not None] for page in PAGES}


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("page", [page for page, programs in PROGRAMS.items() if programs])
def test_the_code_of_a_page_runs_from_top_to_bottom(page: str) -> None:
    names: dict[str, Any] = {}
    for block, code in PROGRAMS[page]:
        program = compile("\n" * (block.line - 1) + code, str(ROOT / page), "exec")
        if page in IMPORTS_ONLY:
            exec("\n".join(line for line in code.splitlines() if line.startswith(("from ", "import "))), {})
            continue
        names = {**names, **world(page, code)} if page == "README.md" else {**world(page, code), **names}
        exec(program, names)


def test_the_readme_answers_from_its_folder(reader: None, capsys: pytest.CaptureFixture[str]) -> None:
    """What the README prints is an answer with a quote, not an abstention."""
    (code,) = [code for _, code in PROGRAMS["README.md"] if "DocumentIndex" in code]
    exec(code, {})
    said = capsys.readouterr().out
    assert "Lavinia Hathe" in said
    assert "None" not in said.splitlines()[0]
