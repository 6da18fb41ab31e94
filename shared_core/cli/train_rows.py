"""``selfreflect train reclaim-rows | reclaim-answers | self-rag rows``: make rows to train on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from shared_core.cli import common
from shared_core.cli.common import FAILED, open_index, reports_errors
from shared_core.cli.console import err, out, question_progress
from shared_core.cli.options import BaseUrl, Docs, Index, Limit, Model, Vectors
from shared_core.cli.train import show_balance
from shared_core.errors import InputError
from shared_core.support.files import replace_file

if TYPE_CHECKING:
    from shared_core.evaluation.dataset import Question
    from shared_core.runtime.flow import Flow, Resources
    from shared_core.support.run_log import RunLog
    from shared_core.training.labelling import Labelled
    from shared_core.types import Passage


# --- ReClaim's rows from answers -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """Options of ``reclaim-rows`` that are settings of the rows.

    >>> RowOptions(segments="sentence").max_sentences
    3
    """

    nli_threshold: Annotated[float, typer.Option(help="Probability from which a clause counts as entailed.")] = 0.5
    segments: Annotated[str, typer.Option(help="clause or sentence.")] = "clause"
    mode: Annotated[str, typer.Option(help="sentence or span: what may be cited.")] = "sentence"
    max_sentences: Annotated[int, typer.Option(help="Maximum sentences of a reference.")] = 3
    max_pairs: Annotated[int | None, typer.Option(help="Maximum pairs of an answer.")] = None
    on_drop: Annotated[str, typer.Option(help="skip, truncate or discard an answer that loses a segment.")] = "skip"


@reports_errors
def reclaim_rows_command(
    sources: Annotated[Path, typer.Argument(help="Answers with passages, JSON lines (docs/reclaim.md).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the rows.")],
    options: RowOptions,
    dropped: Annotated[Path | None, typer.Option(help="Also write what was left out, with reasons.")] = None,
    report: Annotated[Path | None, typer.Option(help="Also write the counts as JSON.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Selects citations where answers carry no labels: name or path.")
    ] = None,
    base_url: BaseUrl = None,
    nli: Annotated[
        Path | None, typer.Option("--nli", help="NLI classifier (folder): keeps clauses that their quotes entail.")
    ] = None,
    form: Annotated[
        Literal["conversational", "text"], typer.Option(help="For `train reclaim`, or for other trainers.")
    ] = "conversational",
) -> None:
    """Make rows for ReClaim's reference, claim and unified models from answers.

    Cited sentences must be in the passages word for word, and with --nli each must entail its clause. Everything else
    is left out, counted, and written to --dropped.
    """
    from shared_core.reading.support import CrossEncoderSupportScorer
    from shared_core.runtime.flow import Resources
    from shared_core.training.reclaim.rows import RowSettings, build_rows
    from shared_core.training.reclaim.sources import read_sources
    from shared_core.training.rows import write_json_lines, write_rows

    settings = RowSettings(**vars(options))
    given = read_sources(sources)
    lm = common.build_model(model, base_url)
    judge = None if nli is None else CrossEncoderSupportScorer(nli)
    resources = Resources(models={} if lm is None else {"selection": lm}, judge=judge)
    with question_progress(err, len(given), "Answers") as show:
        made = build_rows(given, settings, resources, progress=lambda done: show(done, len(given)))
    if dropped is not None:
        write_json_lines(map(dataclasses.asdict, made.drops), dropped)
    if report is not None:
        write_report(report, dataclasses.asdict(made.report))
    out.print(made.report.summary())
    if not made.rows:
        raise InputError("No rows are left.", hint="The reasons are counted above; --dropped FILE writes each of them.")
    write_rows(made.rows, output, form=form)
    out.print(f"written: {output}")


# --- questions that a model labels or answers ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LabellingOptions:
    """Options of the commands that have a model label or answer questions, and resume.

    >>> LabellingOptions(questions=Path("q.jsonl"), output=Path("run"), model="smollm2").top_k
    5
    """

    questions: Annotated[
        Path,
        typer.Argument(help='Questions (jsonl, json, csv, tsv), optionally with their own "passages" and "output".'),
    ]
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of labels and rows; an interrupted run resumes in it.")
    ]
    docs: Docs = field(default_factory=list)
    index: Index = None
    vectors: Vectors = None
    model: Model = None
    base_url: BaseUrl = None
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="Passages retrieved.")] = 5
    declines: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Share of the questions also asked with another's passages, to learn to decline."
        ),
    ] = 0.1
    max_calls: Annotated[int | None, typer.Option(min=1, help="Maximum requests to models, over all runs.")] = None
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Maximum tokens read and written, over all runs.")] = (
        None
    )
    limit: Limit = None
    batch_size: Annotated[int, typer.Option(min=1, help="Questions processed at once.")] = 8

    def read(self) -> list[Question]:
        """Read the questions."""
        from shared_core.evaluation.dataset import read_questions

        return read_questions(self.questions)[: self.limit]

    def open(self, log: RunLog, asked: Sequence[Question], critic: str | None = None) -> Resources:
        """Open the documents, compare them with the log's, and load the models last: they take the longest.

        InputError if no model is named, questions have neither passages nor documents, or the log is of others.
        """
        from shared_core.runtime.flow import Resources
        from shared_core.training.labelling import check_documents

        if self.model is None and self.base_url is None:
            raise InputError("A language model labels.", hint="Give --model or --base-url.")
        alone = [q.id for q in asked if _own_passages(q) is None]
        reads = bool(self.docs) or self.index is not None
        if alone and not reads:
            raise InputError(
                f"{len(alone)} questions have no passages of their own ({', '.join(alone[:3])}).",
                hint="Give --docs PATH or --index DIR to retrieve them from.",
            )
        retriever = open_index(self.docs, self.index, self.vectors).retriever() if reads else None
        check_documents(log, retriever)
        models = {"default": common.build_model(self.model, self.base_url)}
        if critic is not None:
            models["judge"] = common.build_model(critic, None)
        return Resources(models={role: lm for role, lm in models.items() if lm is not None}, retriever=retriever)

    def label(
        self,
        what: str,
        asked: Sequence[Question],
        ask: Callable[[Question], Flow[dict[str, Any]]],
        resources: Resources,
        log: RunLog,
        settings: Mapping[str, Any],
    ) -> Labelled:
        """Make the missing records with a progress bar, and report failures; exit if there is no record."""
        from shared_core.training.labelling import label_all

        with question_progress(err, len(asked), what) as show:
            done = label_all(
                asked, ask, resources, log, settings, max_calls=self.max_calls, max_tokens=self.max_tokens,
                batch_size=self.batch_size, progress=show,
            )  # fmt: skip
        show_failures(done.failed)
        if done.left:
            message = f"{done.left} questions are left: the budget is spent. Run the command again with a larger one."
            err.print(message, style="yellow")
        if not done.records:
            if done.left and not done.failed:
                hint = "Raise --max-calls or --max-tokens."
                raise InputError("The budget does not suffice for one question.", hint=hint)
            raise typer.Exit(FAILED)
        return done

    def report(self, done: Labelled, counts: Mapping[str, Any]) -> None:
        """Write ``report.json``: counts, failures and cost."""
        costs = {"failed": len(done.failed), "left": done.left, **dataclasses.asdict(done.spent)}
        write_report(self.output / "report.json", {**counts, **costs})


@dataclass(frozen=True, kw_only=True)
class CriticOptions:
    """Options of ``self-rag rows``: how labels are made, and which of them become rows.

    >>> CriticOptions(per_task=4000).relevance_share
    0.7
    """

    critic: Annotated[
        str | None, typer.Option(help="Trained critic that judges (name or path); --model still writes.")
    ] = None
    judged: Annotated[int, typer.Option(min=1, help="Passages whose support for a sentence is judged.")] = 2
    max_sentences: Annotated[int, typer.Option(min=1, help="Maximum sentences of an answer.")] = 5
    certainty: Annotated[float, typer.Option(min=0, max=0.99, help="Leave out verdicts less probable than this.")] = 0.0
    abstention: Annotated[str, typer.Option(help="Text of an answer that declines.")] = "I do not know."
    relevance_share: Annotated[float, typer.Option(help="Share of [Relevant] rows kept; every [Irrelevant] is.")] = 0.7
    per_task: Annotated[int, typer.Option(min=1, help="Maximum critic rows of a task.")] = 20_000
    per_verdict: Annotated[
        float | None, typer.Option(min=1, help="Maximum rows of a verdict, as a multiple of its task's rarest.")
    ] = None


@reports_errors
def self_rag_rows_command(run: LabellingOptions, how: CriticOptions) -> None:
    """Label questions for Self-RAG: critic.jsonl and generator.jsonl for `train self-rag critic|generator`.

    A model judges and writes; passages are the retriever's. Labels are logged as they are made: after an interruption,
    or a spent budget, the same command resumes, and asks again what failed.

    Exit codes: 0 done, 2 bad usage or input, 1 failure (also if every question failed, or the model gives each task one
    verdict whatever it judges: such rows are not written).
    """
    from shared_core.training.labelling import open_log
    from shared_core.training.self_rag.label import LabelSettings, Subject, label
    from shared_core.training.self_rag.tasks import RowSettings, make_rows, write_made

    thinning = RowSettings(
        relevance_share=how.relevance_share, most_per_task=how.per_task, most_per_verdict=how.per_verdict
    )
    settings = LabelSettings(
        critic="prompted" if how.critic is None else "tokens",
        top_k=run.top_k,
        judged=how.judged,
        max_sentences=how.max_sentences,
        certainty=how.certainty,
        abstention=how.abstention,
    )
    recorded = {**settings.model_dump(mode="json"), "declines": run.declines}
    asked = run.read()
    log = open_log(run.output, "labels", recorded)
    resources = run.open(log, asked, how.critic)
    others = _others(asked, run.declines if resources.retriever is not None else 0)

    def ask(question: Question) -> Flow[dict[str, Any]]:
        given = str(question.metadata.get("output") or "")
        subject = Subject(question.question, given, _own_passages(question), others.get(question.id, ""))
        return label(subject, settings, resources)

    done = run.label("Labelling", asked, ask, resources, log, recorded)
    made = make_rows(done.records, thinning, run.questions.stem)
    run.report(done, made.report)
    show_balance(made.report["balance"])
    for task, verdict in made.report["one_verdict"].items():
        told = f"warning: every row of {task} says {verdict}: a critic cannot learn from them when to say otherwise."
        err.print(told, style="yellow")
    if made.shortfall:
        told = f"not written: {made.shortfall}. Label with a larger model (--model, --critic) into another folder."
        err.print(told, style="red")
        raise typer.Exit(FAILED)
    write_made(made, run.output)
    counts = f"{len(made.critic)} critic rows, {len(made.generator)} generator rows"
    out.print(f"{counts} ({made.report['declines']} decline)")
    out.print(f"written: {run.output}")


@reports_errors
def reclaim_answers_command(
    run: LabellingOptions,
    max_sentences: Annotated[int, typer.Option(min=1, help="Maximum sentences of an answer.")] = 3,
) -> None:
    """Have a model answer questions from passages, with marks, or decline: answers.jsonl for `train reclaim-rows`.

    Answers are logged as they are made: after an interruption, or a spent budget, the same command resumes.

    Exit codes: 0 done, 2 bad usage or input, 1 failure (also if every question failed).
    """
    from shared_core.training.labelling import open_log
    from shared_core.training.reclaim.sources import AnswerSettings, write_answer
    from shared_core.training.rows import write_json_lines

    settings = AnswerSettings(top_k=run.top_k, max_sentences=max_sentences)
    recorded = {**settings.model_dump(mode="json"), "declines": run.declines}
    asked = run.read()
    log = open_log(run.output, "written", recorded)
    resources = run.open(log, asked)
    others = _others(asked, run.declines if resources.retriever is not None else 0)

    def ask(question: Question) -> Flow[dict[str, Any]]:
        return write_answer(question.question, _own_passages(question), others.get(question.id, ""), settings)

    done = run.label("Answering", asked, ask, resources, log, recorded)
    sources = [
        {"id": r["id"] if not i else f"{r['id']} declines", **s}
        for r in done.records
        for i, s in enumerate(r["sources"])
    ]
    write_json_lines(sources, run.output / "answers.jsonl")
    declined = sum("declines" in s for s in sources)
    counts = {"answers": len(sources) - declined, "declines": declined, "questions": len(done.records)}
    run.report(done, counts)
    out.print(f"{counts['answers']} answers, {declined} that decline")
    out.print(f"written: {run.output / 'answers.jsonl'}")


# --- parts ---------------------------------------------------------------------------------------------------------


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


def _others(asked: Sequence[Question], share: float) -> dict[str, str]:
    """For a share of the questions, pick another question whose passages are used as distractors."""

    def lot(question: Question) -> int:  # by the question's text, so that a resumed run picks the same
        return int.from_bytes(hashlib.sha256(question.question.encode()).digest()[:4], "big")

    chosen = [i for i, q in enumerate(asked) if lot(q) < share * 2**32] if len(asked) > 1 else []
    step: Callable[[Question], int] = lambda q: 1 + lot(q) % (len(asked) - 1)  # noqa: E731
    return {asked[i].id: asked[(i + step(asked[i])) % len(asked)].question for i in chosen}


def show_failures(failed: Mapping[str, str]) -> None:
    """Print each error once, with the questions that it hit."""
    for why in sorted(set(failed.values())):
        ids = [i for i, e in failed.items() if e == why]
        err.print(f"failed ({len(ids)}: {', '.join(ids[:5])}): {why}", style="yellow")


def write_report(path: Path, values: Mapping[str, Any]) -> None:
    """Write plain values as a JSON file."""
    with replace_file(path) as file:
        file.write(json.dumps(values, indent=2, ensure_ascii=False) + "\n")
