"""``selfreflect train research-data``: search for the best answers to many questions, and make rows of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shared_core.cli import common
from shared_core.cli.common import FAILED, answers_closed_book, check_calibration, open_index, reports_errors
from shared_core.cli.console import err, out, question_progress
from shared_core.cli.options import Calibration, DocumentOptions, Limit, Set, Target, with_set
from shared_core.cli.train_rows import show_failures, write_report
from shared_core.errors import InputError
from shared_core.settings import SelfReflectSettings
from shared_core.support.run_log import RUN

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine
    from shared_core.training.research.searches import OnRay

_DEFAULTS = SelfReflectSettings()


@dataclass(frozen=True, kw_only=True)
class SearchOptions(DocumentOptions):
    """Options of ``research-data``: documents, models, settings, and where the work is done.

    >>> SearchOptions(questions=Path("q.jsonl"), output=Path("run")).settings().research.closed_book
    True
    """

    questions: Annotated[Path, typer.Argument(help="Questions: jsonl, json, csv or tsv (.gz too).")]
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of searches and rows; an interrupted run resumes in it.")
    ]
    target_accuracy: Target = _DEFAULTS.target_accuracy
    abstention: Annotated[str, typer.Option(help="Text of an answer that abstains.")] = "I do not know."
    pairs: Annotated[int, typer.Option(min=1, help="Number of best, and of worst, answers paired for DPO.")] = 2
    limit: Limit = None
    batch_size: Annotated[int, typer.Option(min=1, help="Questions searched at once.")] = 8
    ray: Annotated[
        bool, typer.Option("--ray", help="Search on Ray Data, several batches at the same time (needs the extra ray).")
    ] = False
    workers: Annotated[int, typer.Option(min=1, help="With --ray: engines at work at the same time.")] = 2
    ray_gpus: Annotated[float, typer.Option(min=0, help="With --ray: GPUs of each engine.")] = 0.0
    ray_address: Annotated[
        str | None,
        typer.Option(help="With --ray: a running cluster (auto, or its address); without it this machine alone."),
    ] = None
    calibration: Calibration = None
    set: Set = field(default_factory=list)

    def settings(self) -> SelfReflectSettings:
        """Return the settings of the searches; errors as ``with_set``."""
        made = SelfReflectSettings(
            pipeline="research",
            target_accuracy=self.target_accuracy,
            top_k=self.top_k,
            research={"closed_book": not self.reads},
            calibration=self.calibration,
        )
        return with_set(made, self.set)

    def carrier(self) -> OnRay | None:
        """Return the cluster to search on; ``None`` for this process. InputError for options of --ray without it."""
        if not self.ray:
            if self.ray_address is not None or self.ray_gpus:
                raise InputError("--ray-address and --ray-gpus are for --ray.", hint="Add --ray, or leave them out.")
            return None
        from shared_core.training.research.searches import OnRay

        return OnRay(self.workers, self.ray_gpus, self.ray_address)


@reports_errors
def research_data_command(options: SearchOptions) -> None:
    """Search for the answer of highest utility to every question, and make rows of it: sft, dpo and rloo.jsonl.

    Closed book without --docs or --index, else from passages. Searches are logged as they are done: after an
    interruption the same command resumes, and asks again what failed, with or without --ray.

    Exit codes: 0 done, 2 bad usage or input, 1 failure (also if every question failed).
    """
    from shared_core.evaluation.dataset import read_questions
    from shared_core.training.research.rows import make_rows
    from shared_core.training.research.searches import run_searches
    from shared_core.training.rows import write_json_lines, write_rows

    carrier = options.carrier()
    check_calibration(options.calibration)
    questions = read_questions(options.questions)[: options.limit]
    settings = options.settings()
    if not options.has_model:
        raise InputError("A language model searches.", hint="Give --model or --base-url.")
    if not options.reads and not answers_closed_book(settings):
        raise InputError("There are no documents to search from.", hint="Give --docs PATH or --index DIR.")
    engine = _search_engine(options, settings)
    with question_progress(err, len(questions), "Searching") as progress:
        searches, failed = run_searches(
            engine, questions, options.output, abstention=options.abstention, batch_size=options.batch_size,
            progress=progress, carrier=carrier,
        )  # fmt: skip
    show_failures(failed)
    if not searches:
        raise typer.Exit(FAILED)
    made = make_rows(searches, pairs=options.pairs)
    write_rows(made.sft, options.output / "sft.jsonl")
    write_json_lines(made.dpo, options.output / "dpo.jsonl")
    write_json_lines(made.rloo, options.output / "rloo.jsonl")
    costs = {"failed": len(failed), "tokens": sum(s.tokens for s in searches)}
    write_report(options.output / "report.json", {**made.counts, **costs, "utility_sd": made.utility_sd})
    out.print(", ".join(f"{count} {name}" for name, count in made.counts.items()))
    out.print(f"written: {options.output}")


def _search_engine(options: SearchOptions, settings: SelfReflectSettings) -> SelfReflectEngine:
    """Build the engine, comparing each part with the folder's configuration before the next, heavier one is loaded."""
    from shared_core.facades.engine import SelfReflectEngine
    from shared_core.retrieval import BM25Retriever
    from shared_core.training.labelling import check_documents
    from shared_core.training.research.searches import options_of, searches_log

    log = searches_log(options.output)
    log.check({RUN: options_of(settings, options.abstention)})
    reads = options.reads
    retriever = open_index(options.docs, options.index, options.vectors).retriever() if reads else BM25Retriever()
    if not answers_closed_book(settings):
        check_documents(log, retriever)
    judge = options.load_judge()
    model = common.build_model(options.model, options.base_url, options.dtype)
    return SelfReflectEngine(retriever, model, settings, judge=judge)
