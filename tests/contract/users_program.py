"""A user's program over both plug-ins; ``test_contract_types`` has it checked by ``mypy --strict``. It is not run.

Every line that mypy must refuse ends in ``# wrong`` with the error's code in front.
"""

from __future__ import annotations

from typing import TypedDict

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStoreRetriever
from llama_index.core import VectorStoreIndex
from llama_index.core.llms import LLM, ChatMessage
from llama_index.core.schema import NodeWithScore

import langchain_selfreflect as lc
import llamaindex_selfreflect as li
from shared_core import SelfReflectSettings
from shared_core.lm import ScriptedLM
from shared_core.retrieval import BM25Retriever, HybridRetriever


def llamaindex(index: VectorStoreIndex, llm: LLM) -> str:
    engine = li.SelfReflectQueryEngine.from_args(index.as_retriever(similarity_top_k=8), llm=llm, deadline=20)
    engine = li.SelfReflectQueryEngine(BM25Retriever(), llm=llm, pipeline="reclaim", abstain_text="No.").warm_up()
    response = engine.query("When was the lamp lit?")
    exact: li.SelfReflectResponse = engine.query([ChatMessage("When?")])
    if response.abstained or exact.confidence is None:
        return response.reason
    nodes: list[NodeWithScore] = response.source_nodes
    citing = li.SelfReflectCitationQueryEngine.from_args(index, llm=llm, similarity_top_k=3, max_citation_chunks=9)
    gate = li.SelfReflectRetriever(
        index.as_retriever(), llm=llm, gate="flare", rerank=li.SelfReflectRerank(top_n=3, method="reading")
    )
    engine = li.SelfReflectQueryEngine(gate, node_postprocessors=[li.SelfReflectRerank(top_n=2)])
    li.MiniLMEmbedding(embed_batch_size=8)
    return str(citing.query("Who?").citations) + str(nodes) + str(engine.query("What?").answer)


async def llamaindex_async(engine: li.SelfReflectQueryEngine) -> bool:
    response = await engine.aquery({"messages": [ChatMessage("When?")]})
    if isinstance(response, li.SelfReflectAsyncStreamingResponse):
        return bool([piece async for piece in response.async_response_gen()])
    return response.abstained


def langchain(store: VectorStoreRetriever, other: BaseRetriever, llm: BaseChatModel) -> str:
    chain = lc.SelfReflectChain(retriever=store, llm=llm, target_accuracy=0.8, deadline=20, include_passages=True)
    chain = lc.SelfReflectChain(retriever=HybridRetriever(), llm=llm.with_retry(), pipeline="seakr").warm_up()
    chain = lc.SelfReflectChain(retriever=other, llm=ScriptedLM([]), settings=SelfReflectSettings(top_k=3))
    message: AIMessage = chain.invoke("When was the lamp lit?")
    chain.invoke([HumanMessage("When?")])
    chain.invoke({"messages": [HumanMessage("When?")]})
    text: str = (chain | StrOutputParser()).invoke("When?")
    documents: list[Document] = chain.with_sources().invoke("When?")["context"]
    gate = lc.SelfReflectRetriever(retriever=store, llm=llm, gate="uncertainty", rerank="reading", k=3)
    compressor = lc.SelfReflectCompressor(top_n=3, method="uncertainty", llm=llm)
    lc.CompressionRetriever(base_retriever=gate, base_compressor=compressor)
    return str(message.text) + text + str(documents)


class State(TypedDict):
    """As of a graph of LangGraph."""

    messages: list[AnyMessage]
    tenant: str


def langchain_typed(store: VectorStoreRetriever, state: State) -> tuple[str, list[Document], AIMessage]:
    chain = lc.SelfReflectChain(retriever=store, llm="openai:gpt-4o", models={"judge": "openai:gpt-4o-mini"})
    chain.invoke(state)
    lc.SelfReflectChecker(llm="openai:gpt-4o")
    sourced: lc.SourcedAnswer = chain.with_sources().invoke({"question": "When?", "tenant": "a"})
    return sourced["answer"], sourced["context"], sourced["message"]


async def llamaindex_chat(chat: li.SelfReflectChatEngine) -> tuple[float | None, str]:
    response = await chat.achat("When?")
    stream = chat.stream_chat("When?", target_accuracy=0.9)
    return response.answer.confidence, stream.answer.text


def llamaindex_settings(index: VectorStoreIndex) -> None:
    li.SelfReflectQueryEngine(index.as_retriever(), settings={"top_k": 3})


def mistakes(index: VectorStoreIndex, store: VectorStoreRetriever) -> None:
    li.SelfReflectQueryEngine(index.as_retriever(), target_acuracy=0.8)  # call-arg # wrong
    li.SelfReflectQueryEngine(index.as_retriever(), pipeline="self-rag")  # arg-type # wrong
    li.SelfReflectCitationQueryEngine(index.as_retriever(), lm=None)  # call-arg # wrong
    li.SelfReflectRetriever(index.as_retriever(), gate="wooden")  # arg-type # wrong
    li.SelfReflectRerank(topn=3)  # call-arg # wrong
    li.MiniLMEmbedding(batch=3)  # call-arg # wrong
    lc.SelfReflectChain(llm=None)  # call-arg # wrong
    lc.SelfReflectChain(retriever=store, retreiver=store)  # call-arg # wrong
    lc.SelfReflectChain(retriever=store, pipeline="magic")  # arg-type # wrong
    lc.SelfReflectChain(retriever=3)  # arg-type # wrong
    lc.SelfReflectRetriever(retriever=store, k="three")  # arg-type # wrong
    lc.SelfReflectRetriever(retriever=store, gates="always")  # call-arg # wrong
    lc.SelfReflectCompressor(method="magic")  # arg-type # wrong
    lc.CompressionRetriever(base_retriever=store)  # call-arg # wrong
