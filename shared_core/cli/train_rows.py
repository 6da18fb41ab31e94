"""``selfreflect train self-rag rows`` and ``train reclaim-answers``: what to train on, labelled by a model."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shared_core.cli.common import FAILED, build_model, open_index, reports_errors
from shared_core.cli.console import err, out
from shared_core.cli.options import BaseUrl, Docs, Index, Limit, Model, Vectors
from shared_core.cli.progress import question_progress
from shared_core.errors import InputError
from shared_core.support.files import replace_file

if TYPE_CHECKING:
    from shared_core.evaluation.dataset import Question
    from shared_core.runtime.flow import Flow, Resources
    from shared_core.support.run_log import RunLog
    from shared_core.training.labelling import Labelled
    from shared_core.types import Passage

Questions = Annotated[
    Path,
    typer.Argument(
        help='Questions (jsonl, json, csv, tsv), with "passages" and "output" of their own where they have.'
    ),
]
Folder = Annotated[
    Path, typer.Option("--output", "-o", help="Folder of labels and rows; a run that was ended goes on in it.")
]
MaxCalls = Annotated[int | None, typer.Option("--max-calls", min=1, help="Requests to models at most, all runs added.")]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", min=1, help="Tokens read and written at most, likewise.")
]
TopK = Annotated[int, typer.Option("--top-k", "-k", min=1, help="Passages retrieved.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Questions worked on at once.")]
Share = Annotated[
    float,
    typer.Option(
        min=0, max=1, help="Share of the questions that are also shown passages of another, to learn to decline."
    ),
]


@reports_errors
def self_rag_rows_command(
    questions: Questions,
    output: Folder,
    docs: Docs = [],  # noqa: B006 - typer's way of a repeatable option
    index: Index = None,
    vectors: Vectors = None,
    model: Model = None,
    base_url: BaseUrl = None,
    critic: Annotated[
        str | None, typer.Option(help="A critic trained on such rows judges (name or path); --model still writes.")
    ] = None,
    top_k: TopK = 5,
    judged: Annotated[int, typer.Option(min=1, help="Passages whose support for a sentence is judged.")] = 2,
    max_sentences: Annotated[int, typer.Option(min=1, help="Of an answer.")] = 5,
    certainty: Annotated[float, typer.Option(min=0, max=0.99, help="Leave out verdicts less probable.")] = 0.0,
    declines: Share = 0.1,
    abstention: Annotated[str, typer.Option(help="What declining says.")] = "I do not know.",
    relevance_share: Annotated[float, typer.Option(help="Of the relevance rows, which are many.")] = 0.3,
    per_task: Annotated[int, typer.Option(min=1, help="Critic rows of a task at most.")] = 20_000,
    per_verdict: Annotated[
        float | None, typer.Option(min=1, help="No verdict more than so many times as often as a task's rarest.")
    ] = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    limit: Limit = None,
    batch_size: BatchSize = 8,
) -> None:
    """Label questions for Self-RAG: critic.jsonl and generator.jsonl for `train self-rag critic|generator`.

    A model judges and writes; passages are the retriever's. Labels are kept as they come: ended at any moment, or by
    its budget, the same command goes on where it was, and asks again what failed.

    Exit codes: 0 done, 2 bad usage or input, 1 failure (also if every question failed).
    """
    from shared_core.training.labelling import open_log
    from shared_core.training.self_rag.label import LabelSettings, Subject, label
    from shared_core.training.self_rag.made import RowSettings, make_rows, write_made

    thinning = RowSettings(relevance_share=relevance_share, most_per_task=per_task, most_per_verdict=per_verdict)
    options = LabelSettings(
        critic="prompted" if critic is None else "tokens",
        top_k=top_k,
        judged=judged,
        max_sentences=max_sentences,
        certainty=certainty,
        abstention=abstention,
    )
    asked = _read(questions, limit)
    configuration = {**options.model_dump(mode="json"), "declines": declines}
    log = open_log(output, "labels", configuration)
    resources = _resources(asked, docs, index, vectors, model, base_url, critic)
    others = _others(asked, declines if resources.retriever is not None else 0)

    def ask(question: Question) -> Flow[dict[str, Any]]:
        given = str(question.metadata.get("output") or "")
        subject = Subject(question.question, given, _own_passages(question), others.get(question.id, ""))
        return label(subject, options, resources)

    done = _label_all(
        "Labelling",
        asked,
        ask,
        resources,
        log,
        configuration,
        max_calls=max_calls,
        max_tokens=max_tokens,
        batch_size=batch_size,
    )
    made = make_rows(done.records, thinning, questions.stem)
    write_made(made, output)
    _write_report(output, {**made.report, **_costs(done)})
    for task, counts in made.report["balance"].items():
        shares = ", ".join(f"{token} {count}" for token, count in counts.items())
        out.print(f"{task}: {shares}", markup=False, highlight=False)
    told = f"{len(made.critic)} critic rows, {len(made.generator)} generator rows ({made.report['declines']} decline)"
    out.print(told, markup=False, highlight=False)
    out.print(f"written: {output}", markup=False, highlight=False)


@reports_errors
def reclaim_answers_command(
    questions: Questions,
    output: Folder,
    docs: Docs = [],  # noqa: B006
    index: Index = None,
    vectors: Vectors = None,
    model: Model = None,
    base_url: BaseUrl = None,
    top_k: TopK = 5,
    max_sentences: Annotated[int, typer.Option(min=1, help="Of an answer.")] = 3,
    declines: Share = 0.1,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    limit: Limit = None,
    batch_size: BatchSize = 8,
) -> None:
    """Have a model answer questions from passages, with marks, or decline: answers.jsonl for `train reclaim-rows`.

    Answers are kept as they come: ended at any moment, or by its budget, the same command goes on where it was.

    Exit codes: 0 done, 2 bad usage or input, 1 failure (also if every question failed).
    """
    from shared_core.training.labelling import open_log
    from shared_core.training.reclaim.answers import AnswerSettings, write_answer
    from shared_core.training.rows import write_json_lines

    options = AnswerSettings(top_k=top_k, max_sentences=max_sentences)
    asked = _read(questions, limit)
    configuration = {**options.model_dump(mode="json"), "declines": declines}
    log = open_log(output, "written", configuration)
    resources = _resources(asked, docs, index, vectors, model, base_url, None)
    others = _others(asked, declines if resources.retriever is not None else 0)

    def ask(question: Question) -> Flow[dict[str, Any]]:
        return write_answer(question.question, _own_passages(question), others.get(question.id, ""), options)

    done = _label_all(
        "Answering",
        asked,
        ask,
        resources,
        log,
        configuration,
        max_calls=max_calls,
        max_tokens=max_tokens,
        batch_size=batch_size,
    )
    sources = [
        {"id": r["id"] if not i else f"{r['id']} declines", **s}
        for r in done.records
        for i, s in enumerate(r["sources"])
    ]
    write_json_lines(sources, output / "answers.jsonl")
    declined = sum("declines" in s for s in sources)
    counts = {"answers": len(sources) - declined, "declines": declined, "questions": len(done.records)}
    _write_report(output, {**counts, **_costs(done)})
    out.print(f"{counts['answers']} answers, {declined} that decline", markup=False, highlight=False)
    out.print(f"written: {output / 'answers.jsonl'}", markup=False, highlight=False)


# --- parts ---------------------------------------------------------------------------------------------------------


def _read(path: Path, limit: int | None) -> list[Question]:
    from shared_core.evaluation.dataset import read_questions

    return read_questions(path)[:limit]


def _own_passages(question: Question) -> tuple[Passage, ...] | None:
    from shared_core.training.reclaim.sources import read_passage

    given = question.metadata.get("passages")
    if given is None:
        return None
    try:
        return tuple(read_passage(i, p) for i, p in enumerate(given, 1))
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"The passages of question {question.id!r} cannot be used: {error}.",
            hint='A list of texts, or of objects {"id": …, "title": …, "text": …}.',
        ) from error


def _resources(
    asked: Sequence[Question],
    docs: Sequence[Path],
    index: Path | None,
    vectors: str | None,
    model: str | None,
    base_url: str | None,
    critic: str | None,
) -> Resources:
    """Models and, where a question has no passages of its own, the retriever; everything is looked at before."""
    from shared_core.runtime.flow import Resources

    if model is None and base_url is None:
        raise InputError("A language model labels.", hint="Give --model or --base-url.")
    alone = [q.id for q in asked if _own_passages(q) is None]
    reads = bool(docs) or index is not None
    if alone and not reads:
        raise InputError(
            f"{len(alone)} questions have no passages of their own ({', '.join(alone[:3])}).",
            hint="Give --docs PATH or --index DIR to retrieve them from.",
        )
    retriever = open_index(docs, index, vectors).retriever() if reads else None
    lm = build_model(model, base_url)
    assert lm is not None
    models = {"default": lm}
    if critic is not None:
        judge = build_model(critic, None)
        assert judge is not None
        models["judge"] = judge
    return Resources(models=models, retriever=retriever)


def _others(asked: Sequence[Question], share: float) -> dict[str, str]:
    """For a share of the questions another one, whose passages they shall be shown; told by what they ask."""

    def lot(question: Question) -> int:
        return int.from_bytes(hashlib.sha256(question.question.encode()).digest()[:4], "big")

    chosen = [i for i, q in enumerate(asked) if lot(q) < share * 2**32] if len(asked) > 1 else []
    step: Callable[[Question], int] = lambda q: 1 + lot(q) % (len(asked) - 1)  # noqa: E731
    return {asked[i].id: asked[(i + step(asked[i])) % len(asked)].question for i in chosen}


def _label_all(
    what: str,
    asked: Sequence[Question],
    ask: Callable[[Question], Flow[dict[str, Any]]],
    resources: Resources,
    log: RunLog,
    configuration: dict[str, Any],
    *,
    max_calls: int | None,
    max_tokens: int | None,
    batch_size: int,
) -> Labelled:
    """Make the records that are missing, with a progress bar, and report failures."""
    from shared_core.training.labelling import label_all

    with question_progress(err, len(asked), what) as tell:
        done = label_all(
            asked,
            ask,
            resources,
            log,
            configuration,
            max_calls=max_calls,
            max_tokens=max_tokens,
            batch_size=batch_size,
            progress=tell,
        )
    _tell(done)
    return done


def _tell(done: Labelled) -> None:
    for why in sorted(set(done.failed.values())):
        ids = [i for i, e in done.failed.items() if e == why]
        told = f"failed ({len(ids)}: {', '.join(ids[:5])}): {why}"
        err.print(told, style="yellow", markup=False, highlight=False)
    if done.left:
        told = f"{done.left} questions are left: the budget is spent. The same command with a larger one goes on."
        err.print(told, style="yellow", highlight=False)
    if not done.records:
        if done.left and not done.failed:
            raise InputError("The budget does not suffice for one question.", hint="Raise --max-calls or --max-tokens.")
        raise typer.Exit(FAILED)


def _costs(done: Labelled) -> dict[str, Any]:
    return {"failed": len(done.failed), "left": done.left, **dataclasses.asdict(done.spent)}


def _write_report(folder: Path, report: dict[str, Any]) -> None:
    with replace_file(folder / "report.json") as file:
        file.write(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
