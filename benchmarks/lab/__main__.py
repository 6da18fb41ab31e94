"""The papers' claims, measured on the closed-world lab with its own model.

    python benchmarks/lab.py [--quick] [--json FILE] [--seed N] [--only PART ...] [--plots DIR] [--model DIR]

Calibrations are fitted on the tuning split (a quarter of the world), figures measured on the test split (another
quarter, which no training row about reading was made from), ``…_other_seed`` on a world with other names. ``--seed``
chooses other questions. Figures:

- ``auroc_ESTIMATOR``: known against unknown facts, answered from memory; ``auroc_answer_ESTIMATOR``: right against
  wrong answers from three retrieved passages; ``auroc_multihop_ESTIMATOR``: the same for questions of two facts,
  answered step by step from a passage for each and a third; ``lowered_by_irrelevant_ESTIMATOR``: share of unknown facts
  whose uncertainty falls beside an irrelevant passage; ``seconds_ESTIMATOR``, ``tokens_ESTIMATOR``,
  ``pairs_ESTIMATOR``: cost of one question beyond its answer: time, tokens read and written by the model, pairs
  compared by the critic. Estimators that compare meanings use the shipped critic (8 samples, fewer questions) and, as
  ``…_by_embedder``, MiniLM's cosines. ``auroc_composed``: the composed confidence, right against wrong.
- ``retrievals_skipped_known``, ``accuracy_lost_by_gate``: SeaKR's gate; ``rerank_hit``: its re-ranking, on questions
  for which BM25's first passage is not the one that answers, but another of its first five is.
- ``verdict_accuracy``: Self-RAG's verdicts against the truth; ``spoof_success_safe``, ``_unsafe``: how often control
  strings in a document change a verdict, with untrusted text kept as text and with all text trusted.
- ``verbatim_share``, ``cas``, ``cas_unconstrained``: ReClaim's quotes; ``quote_answers``: share of questions of which a
  quote holds the answer; ``relevant_gold``, ``relevant_other``: P([Relevant]) after passages that answer, and others.
- ``utility_PIPELINE``: utility per question at ρ* = .5 (1 for right, -1 for wrong, 0 for abstention) on one mixture of
  questions, a quarter of them unanswerable; ``utility_iterative``, ``utility_wide``: ReSearch's texts, true claims
  less false ones.
- ``utility_base``, ``utility_sft``, ``utility_dpo``: answers to ReSearch's prompt without a search, before and after
  training on rows of the model's own searches (needs trl).
- ``abstention_invented``, ``abstention_unanswerable``, ``answerable_lost``: abstention of the composed pipeline.
- ``check_…``: sentences that the documents state, contradict, or do not mention.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import command_line, show_figures, write_figures
from benchmarks.lab import chains
from benchmarks.lab.measure.estimating import cost, estimators, gram_by_state
from benchmarks.lab.measure.pipelines import compare, other_world, outcome
from benchmarks.lab.measure.plots import draw, draw_utilities
from benchmarks.lab.measure.quoting import reclaim
from benchmarks.lab.measure.seakr import gate, rerank
from benchmarks.lab.measure.setting import Counts, Figures, Lab
from benchmarks.lab.measure.tuning import tuned
from benchmarks.lab.measure.verdicts import attack, self_rag, verdicts
from benchmarks.lab.measure.writing import check, iterative_and_wide
from shared_core.calibration import io as calibration_io
from shared_core.lab import World, load_lab_model
from shared_core.lab.setup import CHECKPOINT, calibration_file

PASSAGES = 4
OTHER_SEED = 1


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders for plots and fitted calibrations; ``None`` to write none."""

    plots: Path | None = None
    calibrations: Path | None = None


def known_and_right(lab: Lab, counts: Counts, folders: Folders) -> Figures:
    figures, _, opened = estimators(lab, counts)
    if folders.plots is not None:
        draw(figures, opened, folders.plots)
    return figures | cost(lab, counts) | gram_by_state(lab, counts)


def pipelines(lab: Lab, counts: Counts, folders: Folders) -> Figures:
    figures, fitted = compare(lab, counts, say=lambda line: print(f"  {line}", flush=True))
    if folders.calibrations is not None:
        for pipeline, one in fitted.items():
            calibration_io.save(calibration_file(pipeline, folders.calibrations), one.calibrations)
    questions = lab.mixture(counts.compare, "test")
    for name, chain in (("plain_llamaindex", chains.llamaindex), ("plain_langchain", chains.langchain)):
        figures |= outcome(name, chain(lab, questions, PASSAGES), questions)
    if folders.plots is not None:
        draw_utilities(figures, folders.plots)
    return figures | other_world(lab, fitted["composed"], counts, lab.world.seed + OTHER_SEED)


PARTS: dict[str, Callable[[Lab, Counts, Folders], Figures]] = {
    "estimators": known_and_right,
    "gate": lambda lab, counts, _: gate(lab, counts),
    "rerank": lambda lab, counts, _: rerank(lab, counts),
    "verdicts": lambda lab, counts, _: verdicts(lab, counts) | self_rag(lab, counts),
    "attack": lambda lab, counts, _: attack(lab, counts),
    "quotes": lambda lab, counts, _: reclaim(lab, counts),
    "research": lambda lab, counts, _: iterative_and_wide(lab, counts),
    "check": lambda lab, counts, _: check(lab, counts),
    "pipelines": pipelines,
    "tuned": lambda lab, counts, _: tuned(lab, counts),
}


def main() -> None:
    parser = command_line(__doc__, quick="few questions of each kind", data=False)
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice of questions")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), help="some parts")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="folder for the plots; by default that of the JSON")
    parser.add_argument("--model", type=Path, metavar="DIR", help="another checkpoint of benchmarks.lab.train")
    parser.add_argument("--calibrations", type=Path, metavar="DIR", help="folder for the calibrations of each pipeline")
    options = parser.parse_args()
    lab = Lab(World(0), load_lab_model(options.model), options.seed, options.model or CHECKPOINT)
    counts = Counts.quick() if options.quick else Counts()
    folders = Folders(options.plots or (options.json.parent if options.json else None), options.calibrations)
    figures: Figures = {}
    for name in options.only:
        started = time.monotonic()
        found = PARTS[name](lab, counts, folders)
        show_figures(found, f"{name} ({time.monotonic() - started:.0f} s)")
        figures |= found
        write_figures(figures, options.json)


if __name__ == "__main__":
    main()
