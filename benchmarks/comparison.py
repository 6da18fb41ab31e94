"""Ask the same questions through other ways of answering with sources or checking answers, and through ours.

    python benchmarks/comparison.py [--quick] [--each N] [--models KIND …] [--json FILE] [--write]

Questions: SQuAD 2.0's (half of them without an answer; `--data` names the folder) and the demo's. Every system reads
the same five passages of BM25, with the same model: simulated ones (benchmarks/models.py) that reply as their kind
does, or a released one (`--model smollm2`, over `--real N` questions). Counted are answers shown that hold an accepted
answer, wrong ones shown, and questions left without an answer; calls of the model, and CPU time of everything but a
simulated model. A system whose package is not installed is left out and named. `--write` puts the tables into
docs/comparison.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import ROOT, command_line, models
from benchmarks.models import Case, Retrieved
from shared_core.documents.store import DocumentIndex
from shared_core.evaluation.baselines import declines, plain_prompt
from shared_core.evaluation.dataset import read_questions
from shared_core.evaluation.metrics.qa import contains_answer
from shared_core.facades.checker import SelfReflectChecker
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm import Generate, Prompt, SamplingParams
from shared_core.lm.base import LanguageModel
from shared_core.reading.extractive import ExtractiveReader
from shared_core.settings import SelfReflectSettings

PAGE = ROOT / "docs/comparison.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
TOP_K = 5
Ask = Callable[[str], str | None]
"""Answers a question; ``None`` shows nothing."""


class Model:
    """A language model behind plain functions, counting its calls and its time.

    Prompts of other frameworks end in ``Query: …``; the simulated models look for ``Question: …``.
    """

    def __init__(self, lm: LanguageModel) -> None:
        self.lm, self.calls, self.seconds = lm, 0, 0.0

    def write(self, prompt: str) -> str:
        start = time.process_time()
        head, found, query = prompt.rpartition("\nQuery: ")
        if found and "\nQuestion: " not in query:
            sources = head.strip("-\n ").rpartition("------")[2]  # without the template's instructions
            prompt = f"{sources}\nQuestion: {query}"
        params = SamplingParams(max_tokens=256, stop=("\nQuestion:",))
        reply = self.lm.generate([Generate(Prompt.trusted(prompt, role="user"), params)])[0]
        self.calls += 1
        self.seconds += time.process_time() - start
        if isinstance(reply, Exception):
            raise reply
        return reply.text.strip()


@dataclass(frozen=True)
class System:
    """A way of answering: its name, the lines that an app changes for it, and how it is made for a model."""

    name: str
    lines: str
    make: Callable[[Model, Retrieved, ExtractiveReader], Ask]
    needs: str = ""
    uses_model: bool = True


# --- systems -------------------------------------------------------------------------------------------------------


def langchain_plain(model: Model, retriever: Retrieved, reader: ExtractiveReader) -> Ask:
    from langchain_core.documents import Document
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough

    def find(question: str) -> list[Document]:
        return [Document(p.text, metadata={"source": p.id}) for p in retriever.retrieve(question, TOP_K)]

    def join(documents: list[Document]) -> str:
        return "\n\n".join(d.page_content for d in documents)

    prompt = ChatPromptTemplate.from_template(
        "Answer the question from the context. If it is not there, say: I do not know.\n\n{context}\n\n"
        "Question: {question}"
    )
    context = {"context": RunnableLambda(find) | join, "question": RunnablePassthrough()}
    chain = context | prompt | RunnableLambda(lambda value: model.write(value.to_string())) | StrOutputParser()
    return _unless_declined(chain.invoke)


def llamaindex_citations(model: Model, retriever: Retrieved, reader: ExtractiveReader) -> Ask:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
    from llama_index.core.query_engine import CitationQueryEngine
    from llama_index.core.schema import NodeWithScore, TextNode

    class Wrapped(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(context_window=32_000, num_output=256)

        def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
            return CompletionResponse(text=model.write(prompt))

        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            yield CompletionResponse(text=model.write(prompt))

    class Passages(BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
            found = retriever.retrieve(query_bundle.query_str, TOP_K)
            return [NodeWithScore(node=TextNode(text=p.text, id_=p.id), score=1.0) for p in found]

    engine = CitationQueryEngine(retriever=Passages(), llm=Wrapped(), citation_chunk_size=512)
    return _unless_declined(lambda question: str(engine.query(question)))


def ours(model: Model | None, retriever: Retrieved, reader: ExtractiveReader) -> Ask:
    settings = SelfReflectSettings(top_k=TOP_K, candidates=models.TOP_K, deadline=None)
    engine = SelfReflectEngine(retriever, model.lm if model is not None else None, settings, reader=reader)

    def ask(question: str) -> str | None:
        answer = engine.answer(question)
        if model is not None:
            model.calls += answer.usage.calls
        return None if answer.abstained else answer.text

    return ask


def ours_checking(model: Model, retriever: Retrieved, reader: ExtractiveReader) -> Ask:
    checker = SelfReflectChecker(retriever, settings=SelfReflectSettings(top_k=TOP_K))

    def ask(question: str) -> str | None:
        passages = retriever.retrieve(question, TOP_K)
        reply = model.write(plain_prompt(question, passages).text)
        if declines(reply) or not reply:
            return None
        return None if checker.check(reply, question, passages).abstained else reply

    return ask


def _unless_declined(ask: Callable[[str], str | None]) -> Ask:
    def shown(question: str) -> str | None:
        answer = ask(question)
        return None if answer is None or not answer.strip() or declines(answer) else answer

    return shown


SYSTEMS = (
    System("LangChain, plain chain", "-", langchain_plain, "langchain_core"),
    System("LlamaIndex, CitationQueryEngine", "-", llamaindex_citations, "llama_index"),
    System("plain chain, our checker", "2", ours_checking),
    System("ours, without a model", "1", lambda _, retriever, reader: ours(None, retriever, reader), uses_model=False),
    System("ours, composed with the model", "1", ours),
)


# --- questions -----------------------------------------------------------------------------------------------------


def demo(each: int, folder: Path) -> list[Case]:
    """Return the demo's questions with passages of its documents."""
    index = DocumentIndex(folder, dense=False)
    index.update(ROOT / "examples/demo_docs")
    questions = read_questions(ROOT / "examples/demo_questions.jsonl")
    chosen = random.Random(7).sample(questions, min(each, len(questions)))
    found = index.retriever()
    return [
        Case(
            q.question, q.answers if q.answerable is not False else (), tuple(found.retrieve(q.question, models.TOP_K))
        )
        for q in chosen
    ]


# --- run -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figures:
    """Shares of the questions, and cost a question."""

    right: float
    wrong: float
    silent: float
    calls: float
    cpu: float


def measure(system: System, lm: LanguageModel, cases: Sequence[Case], reader: ExtractiveReader) -> Figures:
    model = Model(lm)
    ask = system.make(model, Retrieved(cases), reader)
    start = time.process_time()
    right = wrong = 0
    for case in cases:
        shown = ask(case.question)
        if shown is not None:
            held = contains_answer(shown, case.answers)
            right, wrong = right + held, wrong + (not held)
    n = len(cases)
    simulated = lm.name.startswith("simulated")
    cpu = time.process_time() - start - (model.seconds if simulated else 0.0)
    return Figures(right / n, wrong / n, 1 - (right + wrong) / n, model.calls / n, cpu / n)


def run(options: argparse.Namespace) -> dict[str, float]:
    each = options.each or (12 if options.quick else 60)
    cases = list(models.squad(options.data, each, "tune"))
    with tempfile.TemporaryDirectory() as folder:
        cases += demo(min(40, each), Path(folder) / "index")
    reader = ExtractiveReader(cache_passages=8192)
    console, out = Console(), dict[str, float]()
    missing = [s for s in SYSTEMS if s.needs and importlib.util.find_spec(s.needs) is None]
    for system in missing:
        console.print(f"left out: {system.name} ({system.needs} is not installed)")
    tables = []
    for name, lm, some in models.models_of(options, cases):
        rows: list[tuple[System, Figures]] = []
        for system in SYSTEMS:
            if system in missing:
                continue
            figures = measure(system, lm, some, reader)
            rows.append((system, figures))
            key = re.sub(r"\W+", "_", f"{name} {system.name}")
            out |= {f"{kind}_{key}": value for kind, value in vars(figures).items()}
            console.print(f"{name}, {system.name}: {figures}")
        tables.append(table(name, len(some), rows))
        _show(console, name, rows)
    if options.write:
        text = PAGE.read_text("utf-8")
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        PAGE.write_text(before + BEGIN + "\n\n" + "\n".join(tables) + "\n" + END + after, "utf-8")
    return out


def table(name: str, n: int, rows: Sequence[tuple[System, Figures]]) -> str:
    """Write a Markdown table."""
    lines = [
        f"**{name}**, {n} questions",
        "",
        "| system | right | wrong shown | silent | calls | CPU s | lines to swap |",
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for system, f in rows:
        calls = f"{f.calls:.1f}" if system.uses_model else "0"
        cells = (f"{f.right:.0%}", f"{f.wrong:.0%}", f"{f.silent:.0%}", calls, f"{f.cpu:.2f}", system.lines)
        lines.append(f"| {system.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _show(console: Console, name: str, rows: Sequence[tuple[System, Figures]]) -> None:
    shown = Table(title=name, title_justify="left")
    for column in ("system", "right", "wrong", "silent", "calls", "CPU s"):
        shown.add_column(column, justify="left" if column == "system" else "right")
    for system, f in rows:
        shown.add_row(system.name, *(f"{value:.2f}" for value in vars(f).values()))
    console.print(shown)


def main() -> None:
    parser = command_line(__doc__, quick="12 questions of each set")
    parser.add_argument("--each", type=int, help="questions of SQuAD 2.0, and at most 40 of the demo's")
    usual, known = ["strong", "bold", "liar"], sorted(models.KINDS)
    parser.add_argument("--models", dest="only", nargs="*", default=usual, choices=known, help="simulated models")
    parser.add_argument("--model", action="append", default=[], help="a released model: smollm2, a path, a GGUF file")
    parser.add_argument("--real", type=int, default=20, help="questions asked of a released model")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/comparison.md")
    models.run_and_write(parser.parse_args(), run)


if __name__ == "__main__":
    main()
