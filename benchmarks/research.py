"""Measure ReSearch: iterating, the target accuracy, and guarantees.

    python benchmarks/research.py [--quick] [--json FILE] [--plots DIR] [--data DIR]

The search runs on a simulated model: a program that replaces the weights and nothing else. It writes, splits and judges
through the same requests as any backend, and the whole pipeline (prompts, splitter, cache, self-consistency, search,
selection) is the product's own. The program "knows" a share of the facts about each of many invented people in three
tiers (popular, obscure, invented names); it writes facts it knows and makes up others. Its stated probability averages
0.7 for known facts and 0.2 ("discerning") or 0.4 ("overconfident") for made-up ones, with a standard deviation of 0.15
between claims and 0.1 between repeated requests, and up to 0.3 more or less where its sentences agree or disagree.
These figures compare search strategies with each other; they predict nothing about a real model.

- iterative: K rounds of J candidates; wide: one round with as many candidates as the same tokens buy (Figure 7 of the
  paper). `utility_iterative`, `utility_wide`, `tokens_iterative`, `tokens_wide`: realised utility (true claims count 1,
  false ones -λ, at ρ* = 0.5) and tokens per question. The prefix `overconfident_` marks the overconfident model.
- `calibrated_utility_iterative`, `calibrated_utility_wide` (and with `overconfident_` before): the same after the
  model's probabilities for its own claims were calibrated on other people (`selfreflect calibrate`, self_evaluation),
  with as many candidates; `calibrated_calibration_error`: as below, after calibration.
- accuracy, claims, abstention and utility by tier (`TIER_accuracy`, …), and over ρ* (`RHO_accuracy`, …).
- `calibration_error` of the stated probabilities, before any calibration.
- `coverage_at_90`: conformal factuality on real claims (`data/claims/biographies`, 211 biographies with judged claims,
  and a simple score of a claim's position, length and digits): share of answers in which at least 70 % of the kept
  claims are true, guaranteed at level 90 %, mean over 500 random splits; `kept_share_at_90`: share of claims kept;
  `risk_control_false_share`: mean false share of kept claims where at most 30 % is guaranteed.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import command_line, write_figures
from benchmarks.reader.data import read_lines
from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.calibration import GUARANTEES, fit_guarantee
from shared_core.calibration.calibration import Calibration
from shared_core.evaluation import SelfRestraint, self_restraint
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.fitting import FitOptions, fit
from shared_core.evaluation.metrics.confidence import expected_calibration_error
from shared_core.evaluation.plots import figure_of
from shared_core.lm.base import Generate
from shared_core.lm.scripted import ScriptedLM
from shared_core.retrieval import BM25Retriever
from shared_core.types import Answer

TARGETS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)
TIERS = {"popular": 0.8, "obscure": 0.25, "invented": 0.0}
"""Share of a person's facts that the simulated model knows."""
FACTS = 12
SENTENCES = 4


def _dice(*parts: object) -> random.Random:
    """Return a generator seeded by the given parts only."""
    return random.Random(hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest())


@dataclass(frozen=True)
class Person:
    """Invented person; the model knows the first ``known`` of the facts."""

    name: str
    tier: str

    def fact(self, number: int, *, true: bool = True, variant: int = 0) -> str:
        """Return a sentence about the person; a false one has a different number."""
        figure = _dice(self.name, number, true, 0 if true else variant).randrange(1000, 10_000)
        return f"{self.name} is listed in register {chr(65 + number)} under {figure}."

    @property
    def known(self) -> list[int]:
        """Indices of the facts that the model knows."""
        return [i for i in range(FACTS) if _dice(self.name, i, "known").random() < TIERS[self.tier]]

    def truth(self) -> set[str]:
        """All true facts; empty for invented names."""
        return set() if self.tier == "invented" else {self.fact(i) for i in range(FACTS)}


def people(count: int) -> list[Person]:
    """Generate the same number of people of each tier, alternating."""
    return [Person(f"{tier.title()} Person {i}", tier) for i in range(count) for tier in TIERS]


MADE_UP = {"discerning": 0.2, "overconfident": 0.4}
"""Mean probability stated for made-up facts."""


class Simulated:
    """Deterministic program in place of a model's weights."""

    def __init__(self, known: Sequence[Person], made_up: float) -> None:
        self._made_up = made_up
        self._people = {p.name: p for p in known}
        self.lm = ScriptedLM(self._reply, name="simulated")

    def _reply(self, request: Generate) -> Any:
        text = request.prompt.text
        found = re.search(r"\w+ Person \d+", text)
        assert found is not None, "every prompt names its person"
        person = self._people[found.group()]
        if "Please breakdown" in text:
            return text.split(" Sentence: ")[1].removesuffix(" Claims:")
        if "probability of the following claim" in text:
            return self._stated(person, text)
        facts = re.findall(rf"{person.name} is listed in register \w under \d+\.", text)
        return [self._written(person, facts, request.params.seed, i) for i in range(request.params.n)]

    def _written(self, person: Person, facts: Sequence[str], seed: int | None, number: int) -> str:
        """Write the given facts that fit, then known or made-up ones."""
        dice = _dice(person.name, seed, number, len(facts))
        wanted = dice.sample(list(dict.fromkeys(facts)), min(len(set(facts)), SENTENCES))
        # the facts to include leave room for more
        room = max(SENTENCES + len(wanted) // 2 - len(wanted), 1)
        for i in dice.sample(range(FACTS), room):
            true = i in person.known and dice.random() < 0.85
            wanted.append(person.fact(i, true=true, variant=dice.randrange(6)))
        return " ".join(dict.fromkeys(wanted))

    def _stated(self, person: Person, text: str) -> str:
        """State a probability: higher for known facts and where earlier sentences agree, lower otherwise."""
        sources, asked = text.split("the probability of the following claim", 1)
        claim = asked.split("Claim: ")[1].split(" Probability:")[0]
        knows = claim in {person.fact(i) for i in person.known}
        own = _dice(person.name, claim, "own").gauss(0.7 if knows else self._made_up, 0.15)
        noise = _dice(person.name, claim, sources).gauss(0.0, 0.1)
        same = sources.count(claim.rsplit(" under", 1)[0])  # sentences about the same fact
        agreement = 2 * sources.count(claim) / same - 1 if same else 0.0
        value = round(100 * min(max(own + noise + 0.3 * agreement, 0.0), 1.0))
        return str(value) if _dice(sources, claim, "says").random() > 0.03 else "It is hard to say."


@dataclass(frozen=True)
class Outcome:
    """Answers to the questions about all people."""

    people: Sequence[Person]
    answers: Sequence[Answer]
    target: float

    def labels(self, tier: str | None = None) -> list[list[bool] | None]:
        """For each answer, whether each claim is true; ``None`` for an abstention."""
        return [
            None if a.abstained else [c.text in p.truth() for c in a.kept_claims]
            for p, a in zip(self.people, self.answers)
            if tier in (None, p.tier)
        ]

    @property
    def tokens(self) -> float:
        """Tokens read and written per question."""
        return float(np.mean([a.usage.prompt_tokens + a.usage.generated_tokens for a in self.answers]))

    def calibration_error(self) -> float:
        """Calibration error of the probabilities of all claims, shown or dropped."""
        said = [(c.support or 0.0, c.text in p.truth()) for p, a in zip(self.people, self.answers) for c in a.claims]
        return expected_calibration_error([s for s, _ in said], [float(t) for _, t in said])

    def restraint(self, tier: str | None = None) -> SelfRestraint:
        """Metrics of the amount of claims and their truth."""
        return self_restraint(self.labels(tier), self.target)

    def figures(self, tier: str | None = None) -> dict[str, float]:
        """Return accuracy, claims, abstention and utility."""
        found = self.restraint(tier)
        return {
            "accuracy": found.accuracy,
            "claims": found.claims_per_answer,
            "abstention": found.abstention_rate,
            "utility": found.utility,
        }


@dataclass(frozen=True)
class Setup:
    """People asked about, and parameters of the simulated model."""

    known: Sequence[Person]
    temperament: str = "discerning"


def engine_of(
    setup: Setup, *, rounds: int, samples: int, target: float = 0.5, fitted: Calibration | None = None
) -> SelfReflectEngine:
    """Build a closed-book engine with the paper's prompts; ``fitted`` calibrates the model's probabilities."""
    research: dict[str, Any] = {"closed_book": True, "rounds": rounds, "samples": samples, "patience": None}
    research["published"] = {"prompts": "biography"}
    settings = SelfReflectSettings(pipeline="research", target_accuracy=target, research=research)
    lm = Simulated(setup.known, MADE_UP[setup.temperament]).lm
    calibrations = {} if fitted is None else {"self_evaluation": fitted}
    return SelfReflectEngine(BM25Retriever(), lm, settings, calibrations=calibrations)


def ask(setup: Setup, *, rounds: int, samples: int, target: float = 0.5, fitted: Calibration | None = None) -> Outcome:
    """Ask about every person."""
    known = setup.known
    engine = engine_of(setup, rounds=rounds, samples=samples, target=target, fitted=fitted)
    answers = engine.answer_many([p.name for p in known])
    failed = [a for a in answers if not isinstance(a, Answer)]
    if failed:
        raise failed[0]
    return Outcome(known, [a for a in answers if isinstance(a, Answer)], target)


def calibrate(setup: Setup, *, rounds: int, samples: int) -> Calibration:
    """Calibrate the model's probabilities for its own claims on these people."""
    truth = {p.name: p.truth() for p in setup.known}
    fitted = fit(
        "self_evaluation",
        engine_of(setup, rounds=rounds, samples=samples),
        [Question(name, name, (name,)) for name in truth],
        FitOptions(label=lambda question, claim: claim.text in truth[question.question]),
    )
    assert isinstance(fitted.calibration, Calibration)
    return fitted.calibration


def wide_at(setup: Setup, tokens: float, samples: int) -> Outcome:
    """Run one round with the most candidates that fit the token budget, found by bisection up to ``samples``."""
    low, high, best = 1, samples, ask(setup, rounds=1, samples=1)
    while low <= high:
        middle = (low + high) // 2
        found = ask(setup, rounds=1, samples=middle)
        if found.tokens <= tokens:
            low, best = middle + 1, found
        else:
            high = middle - 1
    return best


# --- guarantees on real claims ---------------------------------------------------------------------------------------


def biographies(path: Path) -> Iterator[tuple[list[float], list[bool]]]:
    """Load (scores, labels) of the claims of each biography."""
    for row in read_lines(path):
        texts = [c["message"] for c in row["claims"]]
        scores = [simple_score(t, i, len(texts)) for i, t in enumerate(texts)]
        yield scores, [c["annotation"] == "T" for c in row["claims"]]


def simple_score(text: str, place: int, count: int) -> float:
    """Score a claim in (0, 1), higher if early, short and without digits: a deliberately weak score."""
    early, short = 1 - place / max(count, 1), 1 / (1 + len(text.split()) / 8)
    return 0.5 * early + 0.3 * short + 0.2 * (re.search(r"\d", text) is None)


def coverage(path: Path, splits: int) -> dict[str, float]:
    """Return the figures of the guarantees over random splits into calibration (120) and test answers."""
    answers = list(biographies(path))
    rng = np.random.default_rng(0)
    held, kept, false = [], [], []
    for _ in range(splits):
        order = rng.permutation(len(answers))
        first, rest = [answers[i] for i in order[:120]], [answers[i] for i in order[120:]]
        scores, labels = [s for s, _ in first], [t for _, t in first]
        factual = fit_guarantee(GUARANTEES[0], scores, labels, target_accuracy=0.7, alpha=0.1).threshold
        left = [[t for s, t in zip(*one) if s > factual] for one in rest]
        held.append(np.mean([not one or np.mean(one) >= 0.7 for one in left]))
        kept.append(sum(map(len, left)) / sum(len(s) for s, _ in rest))
        controlled = fit_guarantee(GUARANTEES[1], scores, labels, target_accuracy=0.7).threshold
        left = [[t for s, t in zip(*one) if s > controlled] for one in rest]
        false.append(np.mean([1 - np.mean(one) if one else 0.0 for one in left]))
    return {
        "coverage_at_90": float(np.mean(held)),
        "kept_share_at_90": float(np.mean(kept)),
        "risk_control_false_share": float(np.mean(false)),
    }


# --- the whole -------------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> dict[str, float]:
    """Measure all figures, printing each part when it is ready."""
    console = Console()
    rounds, samples, count = (3, 4, 10) if options.quick else (3, 8, 20)
    every = people(2 * count)
    known, others = every[: 3 * count], every[3 * count :]
    figures, outcomes = dict[str, float](), dict[str, Outcome]()
    for temperament in MADE_UP:
        setup, prefix = Setup(known, temperament), "" if temperament == "discerning" else f"{temperament}_"
        iterative = outcomes[temperament] = ask(setup, rounds=rounds, samples=samples)
        wide = wide_at(setup, iterative.tokens, samples=2 * rounds * samples)
        base = ask(setup, rounds=1, samples=1)
        fitted = calibrate(Setup(others, temperament), rounds=rounds, samples=samples)
        width = int(wide.answers[0].metadata["search"]["candidates"])
        sure = {
            "wide": ask(setup, rounds=1, samples=width, fitted=fitted),
            "iterative": ask(setup, rounds=rounds, samples=samples, fitted=fitted),
        }
        outcomes[f"{temperament} calibrated"] = sure["iterative"]
        rows = {"one candidate": base, "wide": wide, f"iterative, {rounds} × {samples}": iterative}
        rows |= {f"{name}, calibrated": found for name, found in sure.items()}
        columns = ("search", "tokens", "candidates", *base.figures())
        table = Table(*columns, title=f"Search, a {temperament} model")
        for name, found in rows.items():
            candidates = found.answers[0].metadata["search"]["candidates"]
            table.add_row(name, f"{found.tokens:.0f}", str(candidates), *(f"{v:.3f}" for v in found.figures().values()))
        console.print(table)
        figures |= {
            f"{prefix}utility_one": base.figures()["utility"],
            f"{prefix}utility_iterative": iterative.figures()["utility"],
            f"{prefix}utility_wide": wide.figures()["utility"],
            f"{prefix}tokens_iterative": iterative.tokens,
            f"{prefix}tokens_wide": wide.tokens,
            **{f"{prefix}calibrated_utility_{name}": found.figures()["utility"] for name, found in sure.items()},
        }
    iterative, setup = outcomes["discerning"], Setup(known)
    tiers = Table("tier", *iterative.figures(), title="By tier")
    for tier in TIERS:
        of_tier = iterative.figures(tier)
        figures |= {f"{tier}_{name}": value for name, value in of_tier.items()}
        tiers.add_row(tier, *(f"{v:.3f}" for v in of_tier.values()))
    console.print(tiers)
    asked = [ask(setup, rounds=rounds, samples=samples, target=rho) for rho in TARGETS]
    curve = [found.figures() for found in asked]
    pareto = Table("ρ*", *curve[0], title="Over the target accuracy")
    for rho, at in zip(TARGETS, curve):
        figures |= {f"{rho}_{name}": value for name, value in at.items()}
        pareto.add_row(str(rho), *(f"{v:.3f}" for v in at.values()))
    console.print(pareto)
    figures["calibration_error"] = iterative.calibration_error()
    figures["calibrated_calibration_error"] = outcomes["discerning calibrated"].calibration_error()
    data = options.data / "claims/biographies.jsonl.gz"
    if data.exists():
        figures |= coverage(data, 100 if options.quick else 500)
    else:
        console.print(f"{data} is not there: no figures on guarantees")
    for name in (
        "calibration_error",
        "calibrated_calibration_error",
        "coverage_at_90",
        "kept_share_at_90",
        "risk_control_false_share",
    ):
        if name in figures:
            console.print(f"{name}: {figures[name]:.3f}")
    if options.plots:
        points = [(rho, found.restraint()) for rho, found in zip(TARGETS, asked)]
        draw_targets(points, options.plots / "research_pareto.png")
    return figures


def draw_targets(points: Sequence[tuple[float, SelfRestraint]], path: Path) -> None:
    """Plot accuracy against claims per answer over the target accuracy ρ*; right and up is better."""
    shown = [(rho, found) for rho, found in points if found.claims_per_answer > 0]
    with figure_of(path, "Claims and their accuracy over ρ*") as axes:
        axes.plot([f.claims_per_answer for _, f in shown], [f.accuracy for _, f in shown], marker="o")
        for rho, found in shown:
            axes.annotate(
                f"{rho:g}", (found.claims_per_answer, found.accuracy), xytext=(6, 4), textcoords="offset points"
            )
        axes.set(xlabel="claims per answer", ylabel="accuracy of claims", xlim=(0, None), ylim=(0, 1.06))


def main() -> None:
    """Run the command line."""
    parser = command_line(__doc__, quick="fewer people, candidates and splits")
    parser.add_argument("--plots", type=Path, help="folder to draw the plots into")
    options = parser.parse_args()
    figures = run(options)
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
