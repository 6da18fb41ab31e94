"""Without a framework: index the demo documents, ask, stream, evaluate a batch. Runs offline, without any model."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from shared_core import Answer, SelfReflectEngine, SelfReflectSettings
from shared_core.documents import DocumentIndex

DOCS = Path(__file__).parent / "demo_docs"
QUESTIONS = ("Who founded the Tide Museum?", "Who developed the vaccine against the grey fever?")


def main() -> None:
    with TemporaryDirectory() as folder, DocumentIndex(Path(folder) / "index") as index:
        report = index.update([DOCS])
        print(f"{len(report.added)} documents, {report.passages} passages\n")
        engine = SelfReflectEngine(index.retriever(), settings=SelfReflectSettings(target_accuracy=0.5))
        for question, answer in zip(QUESTIONS, engine.answer_many(QUESTIONS)):
            show(question, answer)
        print("as a stream:", *(event.kind for event in engine.stream(QUESTIONS[0])))


def show(question: str, answer: Answer | Exception) -> None:
    print(question)
    if isinstance(answer, Exception):
        raise answer
    print(f"  {answer.text}")
    for number, span in enumerate(answer.numbered_spans(), 1):
        passage = answer.passage(span.passage_id)
        assert passage.text[span.start : span.end] == span.text
        print(f"  [{number}] {passage.metadata['source']}: “{' '.join(span.text.split())}”")
    print(f"  confidence {answer.confidence:.2f}\n" if answer.confidence is not None else "")


if __name__ == "__main__":
    main()
