"""ReSearch's training on the model's own searches: supervised and by preference, against the untrained model."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.lab.measure.pipelines import fit, outcome
from benchmarks.lab.measure.setting import Counts, Figures, Lab, as_asked
from benchmarks.lab.rows.candidates import DECLINED
from shared_core.abstention.refusals import is_refusal
from shared_core.lab.questions import Question
from shared_core.lab.setup import CARD, lab_settings, load_lab_model
from shared_core.lm.base import Generation, LanguageModel, SamplingParams
from shared_core.pipelines.research.asking import write_prompt
from shared_core.runtime.flow import Generate
from shared_core.training.recipes import recipe, train
from shared_core.training.research.preferences import train_preferences
from shared_core.training.research.rows import Preference, Rows, make_rows
from shared_core.training.research.searches import run_searches
from shared_core.training.settings import PreferenceSettings

_TOKENS = 64
SFT = {"learning_rate": 1e-4, "epochs": 2, "max_steps": None, "batch_size": 16, "save_every": 0}
DPO = {"learning_rate": 3e-5, "max_steps": 60, "batch_size": 16, "save_every": 0}
"""Learning rates for five million weights; the recipes' defaults are for models a thousand times as large."""


def tuned(lab: Lab, counts: Counts) -> Figures:
    """Measure ``utility_base``, ``_sft`` and ``_dpo`` at ρ* = .5 of the answers that each model writes without search.

    The training searches (calibrated, from passages) use questions of the tuning split; the models answer those of the
    test split with ReSearch's prompt. "The passages do not say" counts as abstention.
    """
    fitted = fit(lab, "research", counts)
    engine = lab.engine(fitted.settings, fitted.calibrations)
    questions = lab.mixture(counts.compare, "test")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        asked = as_asked(lab.mixture(counts.tuned, "tune"))
        searches, failed = run_searches(engine, asked, place / "searches", abstention=DECLINED)
        rows = make_rows(searches)
        figures = {
            "searches_failed": float(len(failed)),
            "rows_abstaining": rows.counts["abstentions"] / max(1, rows.counts["sft"]),
        }
        figures |= _written("base", lab.lm, lab, questions)
        figures |= _written("sft", _supervised(rows, lab, place), lab, questions)
        if rows.dpo:  # none if no answer to any question is worth more than the others
            figures |= _written("dpo", _preferred(rows, lab, place), lab, questions)
    return figures


def _supervised(rows: Rows, lab: Lab, place: Path) -> LanguageModel:
    train(rows.sft, str(lab.checkpoint), place / "sft", recipe("research", **SFT))
    return _load(place / "sft", lab)


def _preferred(rows: Rows, lab: Lab, place: Path) -> LanguageModel:
    pairs = [Preference.from_dict(row) for row in rows.dpo]
    train_preferences(pairs, str(lab.checkpoint), place / "dpo", PreferenceSettings(**DPO))
    return _load(place / "dpo", lab)


def _load(folder: Path, lab: Lab) -> LanguageModel:
    (folder / CARD).write_bytes((lab.checkpoint / CARD).read_bytes())  # load_lab_model requires it
    return load_lab_model(folder)


def _written(name: str, model: LanguageModel, lab: Lab, questions: Sequence[Question]) -> Figures:
    options = lab_settings("research")
    found = [lab.retriever.retrieve(q.text, options.top_k) for q in questions]
    prompts = [write_prompt(q.text, p, (), options.research) for q, p in zip(questions, found)]
    texts = []
    for start in range(0, len(prompts), 8):
        some = [Generate(p, SamplingParams(max_tokens=_TOKENS)) for p in prompts[start : start + 8]]
        for result in model.generate(some):
            if not isinstance(result, Generation):
                raise result
            text = result.text.strip()
            texts.append("" if is_refusal(text) else text)
    return outcome(name, texts, questions)
