"""What users make of the plug-ins, in no framework's words: engines, retrievers and re-rankers of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.retrievers import BaseRetriever as LangChainBase
from llama_index.core.base.base_retriever import BaseRetriever as LlamaIndexBase
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import Field

import langchain_selfreflect as lc
import llamaindex_selfreflect as li
from llamaindex_selfreflect._events import SelfReflectAnswerEvent, SelfReflectDecisionEvent
from shared_core import Answer
from shared_core.lm import Generate, Generation, LanguageModel, Prompt
from shared_core.types import Decision
from tests.fakes import PASSAGES, FirstSentenceReader, WordCritic
from tests.retrieval.hashing_embedder import HashingEmbedder

QUESTION = "When was the lamp lit?"
TEXTS = tuple(p.text for p in PASSAGES)
MANUAL = Path(__file__).parents[1] / "documents" / "files" / "pandoc_handbook.docx"


class _Shared:
    """What both plug-ins' facades have in common: readers that quote the first sentence."""

    def reader(self, *probabilities: float) -> FirstSentenceReader:
        return FirstSentenceReader(*(probabilities or (0.9,)))


# --- LlamaIndex ----------------------------------------------------------------------------------------------------


class _Nodes(LlamaIndexBase):
    def __init__(self, texts: Sequence[str], k: int | None) -> None:
        self.texts = texts
        if k is not None:
            self.similarity_top_k = k
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = [NodeWithScore(node=TextNode(id_=f"p{i}", text=t), score=1.0) for i, t in enumerate(self.texts)]
        return found[: getattr(self, "similarity_top_k", None)]


class LlamaIndexFacades(_Shared):
    """LlamaIndex's plug-in.

    Attributes:
        name: of the plug-in's package.
        owner: the class that answers, by name.
    """

    name, owner = "llamaindex_selfreflect", "SelfReflectQueryEngine"

    def retriever_of(self, texts: Sequence[str] = TEXTS, k: int | None = None) -> Any:
        """The framework's own retriever, which gives the first ``k`` texts; it does not say its k where it is none."""
        return _Nodes(texts, k)

    def llm(self) -> Any:
        return MockLLM(max_tokens=3)

    def engine(self, retriever: Any = None, **options: Any) -> Any:
        """What answers; by the sentence that comes first, unless it has an ``llm``."""
        options.setdefault("reader", self.reader())
        return li.SelfReflectQueryEngine(self.retriever_of() if retriever is None else retriever, **options)

    def ask(self, engine: Any, given: Any) -> Answer:
        answer: Answer = engine.query(given).answer
        return answer

    async def aask(self, engine: Any, given: Any) -> Answer:
        answer: Answer = (await engine.aquery(given)).answer
        return answer

    def sources(self, engine: Any, given: Any) -> list[tuple[str, str]]:
        """(id, text) of what an answer stands on or was read for it, as the framework gives it."""
        return [(n.node.node_id, n.node.get_content()) for n in engine.query(given).source_nodes]

    def gated(self, retriever: Any = None, **options: Any) -> Any:
        return li.SelfReflectRetriever(self.retriever_of() if retriever is None else retriever, **options)

    def find(self, retriever: Any, query: str) -> list[str]:
        """Texts that the retriever gives."""
        return [n.node.get_content() for n in retriever.retrieve(query)]

    def reranker(self, **options: Any) -> Any:
        return li.SelfReflectRerank(**options)

    def rank(self, reranker: Any, query: str, texts: Sequence[str] = TEXTS) -> list[str]:
        nodes = _Nodes(texts, None).retrieve(query)
        return [n.node.get_content() for n in reranker.postprocess_nodes(nodes, query_str=query)]

    def load(self, path: Path, **options: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(id, text, metadata) of each passage of a file or folder, as the loader gives them."""
        return ((d.id_, d.text, d.metadata) for d in li.SelfReflectReader(**options).lazy_load_data(path))

    def human(self, text: str) -> Any:
        return ChatMessage(role="user", content=text)

    def ai(self, text: str) -> Any:
        return ChatMessage(role="assistant", content=text)

    def system(self, text: str) -> Any:
        return ChatMessage(role="system", content=text)

    def public(self) -> dict[str, tuple[Any, Callable[[Any], Any]]]:
        """One of every public class, and what to try on it to see that it works: it gives a plain value."""
        whole = self.engine().query(QUESTION)
        decision, shelf = Decision("gate", "open", "because", {"p": 0.5}), self.retriever_of()
        reader = self.reader()

        def ask(e: Any) -> Answer:
            return self.ask(e, QUESTION)

        return {
            "LlamaIndexLM": (li.LlamaIndexLM(self.llm()), _written),
            "MiniLMEmbedding": (li.MiniLMEmbedding(HashingEmbedder()), lambda e: e.get_text_embedding("a lamp")),
            "PassageRetriever": (li.PassageRetriever(_shelf(), 1), lambda r: self.find(r, QUESTION)),
            "SelfReflectAnswerEvent": (SelfReflectAnswerEvent.of(whole.answer), lambda e: e.question),
            "SelfReflectAsyncStreamingResponse": (li.SelfReflectAsyncStreamingResponse(whole), str),
            "SelfReflectCitationQueryEngine": (li.SelfReflectCitationQueryEngine(shelf, reader=reader), ask),
            "SelfReflectDecisionEvent": (SelfReflectDecisionEvent.of(decision), lambda e: (e.kind, e.values)),
            "SelfReflectQueryEngine": (self.engine(node_postprocessors=[self.reranker(reader=reader)]), ask),
            "SelfReflectChatEngine": (
                li.SelfReflectChatEngine(_shelf(), reader=reader),
                lambda c: str(c.chat(QUESTION)),
            ),
            "SelfReflectChatResponse": (li.SelfReflectChatResponse("Lit. [1]", answer=whole.answer), str),
            "SelfReflectStreamingChatResponse": (
                li.SelfReflectStreamingChatResponse(li.SelfReflectChatResponse("Lit.", answer=whole.answer)),
                lambda r: "".join(r.response_gen),
            ),
            "SelfReflectGuard": (li.SelfReflectGuard("flag", critic=WordCritic()), lambda g: str(g.check(whole))),
            "SelfReflectTool": (li.SelfReflectTool(self.engine()), lambda t: t.call(QUESTION).content),
            "SelfReflectChecker": (
                li.SelfReflectChecker(critic=WordCritic()),
                lambda c: c.evaluate(QUESTION, TEXTS[0], list(TEXTS)).score,
            ),
            "SelfReflectEvaluation": (
                li.SelfReflectChecker(critic=WordCritic()).evaluate(QUESTION, TEXTS[0], list(TEXTS)),
                lambda e: (e.passing, e.answer.text),
            ),
            "SelfReflectRerank": (
                self.reranker(reader=reader, top_n=1),
                lambda r: (self.rank(r, QUESTION), r.top_n, r._reranker._resources.reader.name),
            ),
            "SelfReflectResponse": (whole, lambda r: (str(r), r.answer, r.citations)),
            "SelfReflectReader": (li.SelfReflectReader(max_chars=90), lambda r: [d.text for d in r.load_data(MANUAL)]),
            "SelfReflectRetriever": (self.gated(llm=self.llm(), gate="always"), lambda r: self.find(r, QUESTION)),
            "SelfReflectStreamingResponse": (li.SelfReflectStreamingResponse(whole), str),
        }


# --- LangChain -----------------------------------------------------------------------------------------------------


class _Documents(LangChainBase):
    texts: Sequence[str] = TEXTS

    def _get_relevant_documents(self, query: str, *, run_manager: Any, **options: Any) -> list[Document]:
        return [Document(t, id=f"p{i}") for i, t in enumerate(self.texts)]


class _SomeDocuments(_Documents):
    k: int = Field(default=4)

    def _get_relevant_documents(self, query: str, *, run_manager: Any, **options: Any) -> list[Document]:
        return super()._get_relevant_documents(query, run_manager=run_manager)[: self.k]


class LangChainFacades(_Shared):
    """LangChain's plug-in, by the same methods."""

    name, owner = "langchain_selfreflect", "SelfReflectChain"

    def retriever_of(self, texts: Sequence[str] = TEXTS, k: int | None = None) -> Any:
        return _Documents(texts=texts) if k is None else _SomeDocuments(texts=texts, k=k)

    def llm(self) -> Any:
        return FakeListChatModel(responses=["I know that."])

    def engine(self, retriever: Any = None, **options: Any) -> Any:
        options.setdefault("reader", self.reader())
        return lc.SelfReflectChain(retriever=self.retriever_of() if retriever is None else retriever, **options)

    def ask(self, engine: Any, given: Any) -> Answer:
        return Answer.from_dict(engine.invoke(given).response_metadata["selfreflect"])

    async def aask(self, engine: Any, given: Any) -> Answer:
        return Answer.from_dict((await engine.ainvoke(given)).response_metadata["selfreflect"])

    def sources(self, engine: Any, given: Any) -> list[tuple[str, str]]:
        return [(d.id, d.page_content) for d in engine.with_sources().invoke(given)["context"]]

    def gated(self, retriever: Any = None, **options: Any) -> Any:
        return lc.SelfReflectRetriever(retriever=self.retriever_of() if retriever is None else retriever, **options)

    def find(self, retriever: Any, query: str) -> list[str]:
        return [d.page_content for d in retriever.invoke(query)]

    def reranker(self, **options: Any) -> Any:
        return lc.SelfReflectCompressor(**options)

    def rank(self, reranker: Any, query: str, texts: Sequence[str] = TEXTS) -> list[str]:
        return [d.page_content for d in reranker.compress_documents([Document(t) for t in texts], query)]

    def load(self, path: Path, **options: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
        return ((str(d.id), d.page_content, d.metadata) for d in lc.SelfReflectLoader(path, **options).lazy_load())

    def human(self, text: str) -> Any:
        return HumanMessage(text)

    def ai(self, text: str) -> Any:
        return AIMessage(text)

    def system(self, text: str) -> Any:
        return SystemMessage(text)

    def public(self) -> dict[str, tuple[Any, Callable[[Any], Any]]]:
        compressor = self.reranker(reader=self.reader(), top_n=1)
        compressing = lc.CompressionRetriever(base_retriever=self.retriever_of(), base_compressor=compressor)
        return {
            "CompressionRetriever": (compressing, lambda r: self.find(r, QUESTION)),
            "LangChainLM": (lc.LangChainLM(self.llm()), _written),
            "MiniLMEmbeddings": (lc.MiniLMEmbeddings(HashingEmbedder()), lambda e: e.embed_query("a lamp")),
            "SelfReflectChain": (self.engine(), lambda c: self.ask(c, QUESTION)),
            "SelfReflectChecker": (
                lc.SelfReflectChecker(retriever=self.retriever_of(), critic=WordCritic(), on_unsupported="flag"),
                lambda c: str(c.invoke(TEXTS[0]).text),
            ),
            "SelfReflectCompressor": (compressor, lambda c: (self.rank(c, QUESTION), c.top_n)),
            "SelfReflectLoader": (
                lc.SelfReflectLoader(MANUAL, max_chars=90),
                lambda r: [d.page_content for d in r.load()],
            ),
            "SelfReflectRetriever": (self.gated(reader=self.reader()), lambda r: self.find(r, QUESTION)),
            "SourcedAnswer": (self.engine().with_sources().invoke(QUESTION), lambda a: a["answer"]),
            "SourcedChain": (self.engine().with_sources(), lambda c: self.sources(c.chain, QUESTION)),
        }


def _written(lm: LanguageModel) -> tuple[Any, ...]:
    (result,) = lm.generate([Generate(Prompt.trusted("Say it: "))])
    assert isinstance(result, Generation), result
    return lm.name, result.text


def _shelf() -> Any:
    from shared_core.retrieval import BM25Retriever

    return BM25Retriever(PASSAGES)


Facades = LlamaIndexFacades | LangChainFacades
"""One plug-in: what holds for both is tested on each."""
FACADES: dict[str, type[LlamaIndexFacades] | type[LangChainFacades]] = {
    LlamaIndexFacades.name: LlamaIndexFacades,
    LangChainFacades.name: LangChainFacades,
}
