"""Self-RAG through LangChain: chain and compressor, on its own chat models and on ours."""

from __future__ import annotations

from langchain_core.documents import Document

from langchain_selfreflect import SelfReflectChain, SelfReflectCompressor
from tests.fakes import published
from tests.langchain.lc_fakes import QUESTION, ShelfRetriever, TalkingModel, documents
from tests.llamaindex.test_li_self_rag import LIT, critic
from tests.pipelines.self_rag_scripts import made, said, trained


def talking() -> TalkingModel:
    return TalkingModel(reply=lambda prompt: critic(prompt, {}))


async def test_the_pipeline_runs_on_the_frameworks_chat_model() -> None:
    chain = SelfReflectChain(
        retriever=ShelfRetriever(), llm=talking(), settings=published(target_accuracy=0.5), pipeline="self_rag"
    )
    message = chain.invoke(QUESTION)
    assert message.text.startswith(LIT)
    assert (await chain.ainvoke(QUESTION)).text == message.text


def test_the_pipeline_runs_on_a_model_with_reflection_tokens() -> None:
    lm = trained(lambda r: said("[Retrieval]" if not r else f"[Relevant]{LIT}[Fully supported][Utility:5]"))
    chain = SelfReflectChain(retriever=ShelfRetriever(), llm=lm, settings=made())
    assert chain.invoke(QUESTION).text.startswith(LIT)


def test_documents_are_ranked_by_relevance() -> None:
    ship: Document = documents()[1]
    lamp: Document = documents()[0]
    compressor = SelfReflectCompressor(llm=talking(), method="relevance", top_n=1)
    (best,) = compressor.compress_documents([ship, lamp], QUESTION)
    assert best.page_content == lamp.page_content
    assert best.metadata["relevance_score"] > 0.5
