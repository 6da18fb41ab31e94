"""From an ordinary LlamaIndex app to one that answers only what it can stand behind: one line changes.

Runs without a network, a key or a language model: ``python examples/llamaindex_swap.py ["A question?" …]``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from llama_index.core import SimpleDirectoryReader, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.query_engine import RetrieverQueryEngine

from llamaindex_selfreflect import MiniLMEmbedding, SelfReflectQueryEngine, SelfReflectRerank, SelfReflectResponse

DOCS = Path(__file__).parent / "demo_docs"
QUESTIONS = (
    "Why was the Ellisk Race project cancelled?",
    "What is the greatest depth of Lake Ivenmere?",
    "Who won the chess championship of Tavarrin in 1988?",  # not in the documents
)


def main(questions: list[str]) -> None:
    # An ordinary app: documents, an index, a retriever, a query engine with a language model (here one that only
    # repeats its prompt; put yours in its place).
    documents = SimpleDirectoryReader(str(DOCS), required_exts=[".md"]).load_data()
    index = VectorStoreIndex.from_documents(
        documents, embed_model=MiniLMEmbedding(), transformations=[SentenceSplitter(chunk_size=256, chunk_overlap=32)]
    )
    retriever = index.as_retriever(similarity_top_k=5)
    ordinary = RetrieverQueryEngine.from_args(retriever, llm=MockLLM(max_tokens=8))

    # The swap:
    # - engine = RetrieverQueryEngine.from_args(retriever, llm=llm)
    # + engine = SelfReflectQueryEngine.from_args(retriever, llm=llm)
    # Without llm= it answers in the documents' own sentences; with your LLM it writes claims after quotes.
    engine = SelfReflectQueryEngine.from_args(retriever)

    for question in questions:
        print(f"\nQ: {question}")
        print(f"   ordinary : {ordinary.query(question)}")
        response = engine.query(question)
        assert isinstance(response, SelfReflectResponse)
        confidence = "unknown" if response.confidence is None else f"{response.confidence:.2f}"
        print(f"   reflected: {response}   (confidence {confidence})")
        for number, (node, block) in enumerate(zip(response.source_nodes, response.citations), 1):
            place = block.additional_location_info
            quote = node.node.get_content()[place["start"] : place["end"]]
            print(f"     [{number}] {node.node.metadata['file_name']} {place['start']}–{place['end']}: “{quote}”")
        if response.abstained:
            print(f"     abstained: {response.reason}")

    # The other swap: keep your query engine, re-rank what it reads.
    ranked = RetrieverQueryEngine.from_args(
        retriever, llm=MockLLM(max_tokens=8), node_postprocessors=[SelfReflectRerank(top_n=3)]
    )
    print("\nRe-ranked for the first question:")
    for found in ranked.query(questions[0]).source_nodes:
        print(f"   {found.node.metadata['file_name']}: {found.node.metadata['selfreflect_reason']}")


if __name__ == "__main__":
    main(sys.argv[1:] or list(QUESTIONS))
