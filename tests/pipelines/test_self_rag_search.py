"""The segment beam search against a search over all paths, on scripted models that use every branch of it."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.base import Sample
from shared_core.types import Passage
from tests.pipelines.scripts import entries
from tests.pipelines.self_rag_scripts import Fixed, made, said, trained

SHELF = (
    Passage("a", "Alpha stands here.", "A"),
    Passage("b", "Beta stands here.", "B"),
    Passage("c", "Gamma stands here.", "C"),
)
DEPTH = 3
THRESHOLD = 0.2
WORDS = 0.7
WEIGHTS = (1.0, 0.8, 0.6)


@dataclass(frozen=True)
class Turn:
    """What the model says at one place: a sentence, its verdicts, and what it wants next."""

    text: str
    relevant: float
    support: tuple[float, float, float]  # fully, partly, not
    after: str  # retrieve | continue | none | useful | stop | empty | cut
    retrieve: float
    utility: tuple[float, ...]

    @property
    def verdict(self) -> int:
        return max(range(3), key=lambda i: self.support[i])


class Oracle:
    """A model whose every turn is drawn at random from its prompt, so that it is the same whenever it is asked."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.branches: set[str] = set()

    def turn(self, prompt: str) -> Turn:
        draw = random.Random(f"{self.seed}|{prompt}")
        kinds = ["retrieve", "continue", "none", "useful", "stop", "empty", "cut"]
        after = draw.choices(kinds, weights=[5, 3, 2, 3, 1, 1, 1])[0]
        support = _shares(draw, 3)
        return Turn(
            f"Sentence {draw.randrange(10**6)} of it.",
            draw.uniform(0.05, 0.95),
            (support[0], support[1], support[2]),
            after,
            draw.uniform(0.01, 0.6),
            _shares(draw, 5),
        )

    def reply(self, prompt: str) -> Sample:
        if not prompt:
            return said("[Retrieval]", {"[Retrieval]": 0.7, "[No Retrieval]": 0.2})
        turn = self.turn(prompt)
        grounded = not prompt.endswith("[No Retrieval]")
        rows: list[dict[str, float]] = []
        text = ""
        if prompt.endswith("</paragraph>"):
            text += "[Relevant]"
            rows.append({"[Relevant]": turn.relevant, "[Irrelevant]": 1 - turn.relevant})
        if turn.after != "empty":
            text += turn.text
        if grounded and turn.after != "cut":
            names = ("[Fully supported]", "[Partially supported]", "[No support / Contradictory]")
            text += names[turn.verdict]
            rows.append(dict(zip(names, turn.support)))
        self.branches.add(turn.after if grounded else f"{turn.after} without a passage")
        if turn.after == "cut":  # in the middle of the sentence after
            text += " And then th"
            return dataclasses.replace(said(text, *rows, words=WORDS), finish_reason="length")
        if turn.after in ("retrieve", "continue", "none"):
            name = {"retrieve": "[Retrieval]", "continue": "[Continue to Use Evidence]", "none": "[No Retrieval]"}
            rows.append(_decision(turn))
            text += name[turn.after]
        elif turn.after in ("useful", "empty"):
            rows.append({f"[Utility:{i}]": p for i, p in enumerate(turn.utility, 1)})
            text += f"[Utility:{1 + max(range(5), key=lambda i: turn.utility[i])}]"
        return said(text, *rows, words=WORDS)


def _decision(turn: Turn) -> dict[str, float]:
    if turn.after == "continue":
        return {"[Continue to Use Evidence]": 0.7, "[Retrieval]": 0.2, "[No Retrieval]": 0.1}
    retrieve = 0.5 + turn.retrieve / 2 if turn.after == "retrieve" else turn.retrieve / 4
    return {"[Retrieval]": retrieve, "[No Retrieval]": 0.9 - retrieve, "[Continue to Use Evidence]": 0.1}


def _shares(draw: random.Random, n: int) -> tuple[float, ...]:
    values = [draw.random() + 0.01 for _ in range(n)]
    return tuple(v / sum(values) for v in values)


# --- the search over all paths, written without any of the project's code ------------------------------------------


@dataclass(frozen=True)
class Branch:
    prompt: str
    texts: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    passage: Passage | None = None
    wants: str = "retrieve"
    open: bool = True

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores)


def brute_force(oracle: Oracle, *, hard: bool, branch: Branch = Branch("")) -> Iterator[Branch]:
    """Every path that ends: by itself, at the depth, or because nothing follows it."""
    if not branch.open or len(branch.texts) == DEPTH:
        yield branch
        return
    grown = list(_grow(oracle, branch, hard))
    if not grown and branch.texts:
        yield branch
    for longer in grown:
        yield from brute_force(oracle, hard=hard, branch=longer)


def _grow(oracle: Oracle, branch: Branch, hard: bool) -> Iterator[Branch]:
    passages: tuple[Passage | None, ...] = SHELF if branch.wants == "retrieve" else (branch.passage,)
    for passage in passages:
        lead, used = "[No Retrieval]", None
        if branch.wants == "retrieve" and passage is not None:
            lead, used = f"[Retrieval]<paragraph>{passage.title}\n{passage.text}</paragraph>", passage
        elif branch.wants == "continue":
            lead, used = "[Continue to Use Evidence]", passage
        turn = oracle.turn(branch.prompt + lead)
        grounded = lead != "[No Retrieval]"
        contradicted = grounded and turn.after != "cut" and turn.verdict == 2
        if turn.after == "empty" or (hard and contradicted):
            continue
        yield _step(branch, lead, turn, used, grounded)


def _step(branch: Branch, lead: str, turn: Turn, used: Passage | None, grounded: bool) -> Branch:
    relevance = turn.relevant if lead.startswith("[Retrieval]") else None
    support = turn.support[0] + turn.support[1] / 2 if grounded and turn.after != "cut" else None
    use = sum(w * p for w, p in zip((-1, -0.5, 0, 0.5, 1), turn.utility)) if turn.after == "useful" else None
    critique = sum(w * p for w, p in zip(WEIGHTS, (relevance, support, use)) if p is not None)
    written = ("[Relevant]" if relevance is not None else "") + turn.text
    if support is not None:
        written += ("[Fully supported]", "[Partially supported]", "[No support / Contradictory]")[turn.verdict]
    wants = turn.after
    if turn.after in ("retrieve", "continue", "none"):
        row = _decision(turn)
        p = row["[Retrieval]"] / (row["[Retrieval]"] + row["[No Retrieval]"])
        if turn.after != "continue" or used is None:
            wants = "retrieve" if p > THRESHOLD else "none"
    ended = wants not in ("retrieve", "continue", "none")
    return Branch(
        branch.prompt + lead + written,
        (*branch.texts, turn.text),
        (*branch.scores, critique + WORDS),  # exp(mean log p) of tokens that all have this probability
        used,
        wants,
        not ended,
    )


def search(oracle: Oracle, width: int, *, hard: bool = True, compare: str = "mean") -> Any:
    settings = made(
        beam_width=width,
        max_depth=DEPTH,
        hard_constraint=hard,
        compare=compare,
        retrieval_threshold=THRESHOLD,
        weight_relevance=WEIGHTS[0],
        weight_support=WEIGHTS[1],
        weight_usefulness=WEIGHTS[2],
    ).replace(top_k=len(SHELF), max_claims=10)
    return SelfReflectEngine(Fixed(*SHELF), trained(oracle.reply), settings).answer("What stands here?")


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("hard", [True, False])
@pytest.mark.parametrize("compare", ["mean", "sum"])
def test_a_beam_as_wide_as_the_tree_finds_the_best_of_all_paths(seed: int, hard: bool, compare: str) -> None:
    oracle = Oracle(seed)
    answer = search(oracle, 64, hard=hard, compare=compare)
    every = list(brute_force(oracle, hard=hard))
    (found,) = entries(answer, "path")
    if not every:
        assert answer.abstained
        assert not answer.claims
        return
    best = max(every, key=lambda b: b.mean if compare == "mean" else sum(b.scores))
    claims = sorted(answer.claims, key=lambda c: best.texts.index(c.text))
    assert tuple(c.text for c in claims) == best.texts
    assert found.values["score"] == pytest.approx(sum(best.scores), abs=1e-5)
    assert found.values["mean_score"] == pytest.approx(best.mean, abs=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_a_beam_of_one_is_greedy_and_never_better_than_all_paths(seed: int) -> None:
    oracle = Oracle(seed)
    answer = search(oracle, 1)
    every = list(brute_force(oracle, hard=True))
    (found,) = entries(answer, "path")
    if every and found.values["mean_score"] is not None:
        branch = Branch("")
        while branch.open and len(branch.texts) < DEPTH:
            grown = list(_grow(oracle, branch, True))
            if not grown:
                break
            branch = max(grown, key=lambda b: b.mean)
        assert found.values["mean_score"] == pytest.approx(branch.mean, abs=1e-5)
        assert branch.mean <= max(b.mean for b in every) + 1e-9


def test_the_scripts_use_every_branch() -> None:
    seen: set[str] = set()
    for seed in range(40):
        oracle = Oracle(seed)
        search(oracle, 64, hard=False)
        seen |= oracle.branches
    assert seen >= {"retrieve", "continue", "none", "useful", "stop", "empty", "cut"}
    assert seen & {"retrieve without a passage", "continue without a passage", "none without a passage"}


def test_finished_paths_compete_with_growing_ones() -> None:
    """A short answer of high score is kept while a longer one goes on, and wins by its mean."""
    good = "[Relevant]Alpha stands here.[Fully supported][Utility:5]"

    def reply(prompt: str) -> Sample:
        if "<paragraph>A" in prompt:
            return said(good)
        n = prompt.count("<paragraph>")
        first = {"[Relevant]": 0.6, "[Irrelevant]": 0.4}
        return said(f"[Relevant]Beta {n} stands here.[Fully supported][Retrieval]", first)

    shelf = Fixed(*SHELF[:2])
    answers = {}
    for compare in ("mean", "sum"):
        settings = made(mode="always", compare=compare, max_depth=3).replace(max_claims=10)
        answers[compare] = SelfReflectEngine(shelf, trained(reply), settings).answer("What stands here?")
    assert [c.text for c in answers["mean"].claims] == ["Alpha stands here."]
    assert len(answers["sum"].claims) == 3


def test_the_papers_form_is_log_probability_and_sum() -> None:
    def reply(prompt: str) -> Sample:
        return said("[Relevant]Alpha stands here.[Fully supported]", words=0.5)

    settings = made(mode="always", sequence="paper", compare="sum")
    answer = SelfReflectEngine(Fixed(SHELF[0]), trained(reply), settings).answer("What stands here?")
    tokens = 5  # verdicts included
    expected = 0.9 + 0.9 + 0.5 * 0.05 + tokens * math.log(0.5)
    assert entries(answer, "path")[0].values["score"] == pytest.approx(expected, abs=1e-5)
