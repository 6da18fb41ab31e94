"""How the reader's network is trained: examples, targets, loss, and that padding changes nothing."""

from __future__ import annotations

import random

import numpy as np
import pytest

from shared_core.errors import CalibrationError
from shared_core.evaluation.confidence import auroc
from shared_core.reading.candidates import FIGURES
from shared_core.reading.confidence import Logistic
from shared_core.reading.encoder import Encoded
from shared_core.reading.features import RARITY_BUCKETS, Tokens, surface, words_of
from shared_core.reading.network import Inputs, Outputs, forward, initial
from shared_core.training.reader.batches import Piece, stack, stacked, targets
from shared_core.training.reader.build import loss
from shared_core.training.reader.confidence import LEAST, fit
from shared_core.training.reader.data import OPPOSITE, Row, rarities, replaced, rows_of, swapped
from shared_core.types import Passage

torch = pytest.importorskip("torch")

RARITY = np.full(RARITY_BUCKETS, 0.5, dtype=np.float32)
WIDTH = 16


def encoded(text: str, seed: int) -> tuple[Encoded, Tokens, object]:
    words = words_of(text, RARITY)
    rng = np.random.default_rng(seed)
    n = len(words)
    states = rng.normal(size=(n, WIDTH)).astype(np.float16)
    e = Encoded(words.exact % 1000, words.starts, words.ends, states, np.zeros(WIDTH, np.float32))
    sentences = [(0, text.index(".") + 1), (text.index(".") + 1, len(text))] if "." in text else [(0, len(text))]
    return e, Tokens.of(words, e.ids, e.starts, sentences), words


def piece(question: str, text: str, answer: str = "", seed: int = 0) -> Piece:
    q, asked, qwords = encoded(question, seed)
    w, tokens, words = encoded(text, seed + 1)
    seen = surface(qwords, asked, words, tokens, np.zeros(0, dtype=np.int64))  # type: ignore[arg-type]
    spans = [(text.index(answer), text.index(answer) + len(answer))] if answer else []
    return Piece(w, q, seen, *targets(w, tokens, spans))


PIECES = [
    piece("Who built the tower", "Anna Veldt built the tower. It is very old and it stands by the sea", "Anna Veldt"),
    piece("When", "Nobody knows. Nothing", seed=5),
    piece("Where does the last keeper of the light live now", "In Corrow. He sold the house", "Corrow", seed=9),
]


def in_float(inputs: Inputs) -> Inputs:
    return Inputs(*(v if v.dtype == torch.bool else v.float() for v in inputs))


def test_targets_mark_the_answer_and_its_sentence() -> None:
    p = PIECES[0]
    assert np.flatnonzero(p.start).tolist() == [0]
    assert np.flatnonzero(p.end).tolist() == [1]
    assert np.flatnonzero(p.sentence).tolist() == [0, 1, 2, 3, 4]
    assert not PIECES[1].start.any()


def test_padding_changes_nothing() -> None:
    parameters = initial(WIDTH, size=32, blocks=2, seed=3)
    inputs, _ = stack(PIECES)
    together = forward(parameters, in_float(inputs))
    for i, p in enumerate(PIECES):
        alone_inputs, _ = stack([p])
        alone = forward(parameters, in_float(alone_inputs))
        n = len(p.window.ids)
        for name in ("start", "end", "sentence"):
            padded = getattr(together, name)[i]
            assert torch.allclose(padded[:n], getattr(alone, name)[0], atol=1e-4)
            assert torch.isneginf(padded[n:]).all()
        assert torch.allclose(together.window[i], alone.window[0], atol=1e-4)


def test_batches_have_few_shapes_and_score_as_their_pieces() -> None:
    parameters = initial(WIDTH, size=32, blocks=1, seed=3)
    inputs, wanted, groups = stacked([PIECES[:2], PIECES[2:]])
    assert inputs.match.shape == (8, 32, 16)
    assert wanted["start"].shape == (8, 32)
    assert [i for group in groups for i in group] == list(range(len(PIECES)))
    plain, right = stack(PIECES)
    padded = loss(forward(parameters, in_float(inputs)), wanted, groups)
    assert padded.item() == pytest.approx(loss(forward(parameters, in_float(plain)), right, groups).item(), abs=1e-4)


def test_loss_is_the_likelihood_over_all_pieces_and_no_answer() -> None:
    inf = float("-inf")
    logits = torch.tensor([[2.0, 0.0], [1.0, inf], [0.5, -1.0]])
    out = Outputs(logits, logits, logits, torch.zeros(3))
    right = torch.tensor([[True, False], [False, False], [False, False]])
    value = loss(out, {"start": right, "end": right, "sentence": right}, [[0, 1], [2]])
    answered = np.log(np.exp(2) + 1 + np.exp(1) + 1) - 2
    unanswered = np.log(np.exp(0.5) + np.exp(-1) + 1)
    assert value.item() == pytest.approx(3 * (answered + unanswered) / 2, abs=1e-4)


def test_the_network_can_learn() -> None:
    parameters = initial(WIDTH, size=32, blocks=1, seed=0)
    for value in parameters.values():
        value.requires_grad_(True)
    optimizer = torch.optim.Adam(parameters.values(), lr=3e-3)
    inputs, wanted = stack(PIECES)
    inputs = in_float(inputs)
    values = []
    for _ in range(60):
        value = loss(forward(parameters, inputs), wanted, [[0], [1], [2]])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < 0.2 * values[0]
    out = forward(parameters, inputs)
    assert out.start[0].argmax() == 0
    assert out.start[1].max() < 0  # "no answer" wins


def test_swapped_questions_differ_in_one_place_and_have_no_answer() -> None:
    passages = {"p": Passage("p", "In 1874 Anna Veldt met Tom Hale in Corrow. In 1911 they left.", "Corrow")}
    rows = [
        Row("When did Anna Veldt arrive before 1900?", "p", ("1874",), ((3, 7),)),
        Row("Where did Tom Hale live first in 1911?", "p", ("Corrow",), ((35, 41),)),
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
        Row("How many keepers lived in Corrow?", "p", ("Forty",), ((0, 5),)),
        Row("How many women lived here?", "p", ("nine",), ((18, 22),)),
        Row("How many trees lived there?", "q", (), ()),  # of another article, and not in the paragraph
        Row("Who left?", "p", (), ()),
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


def test_fit_sees_what_two_figures_say_together() -> None:
    rng = np.random.default_rng(1)
    tables = [rng.normal(size=(1, len(FIGURES))) for _ in range(1500)]
    labels = [[bool(t[0, 0] * t[0, 5] > 0)] for t in tables]
    logistic = Logistic.from_dict(fit(tables, labels)["correct"])
    p = np.array([logistic.probability(t, FIGURES)[0] for t in tables], dtype=float)
    assert auroc(p, [label[0] for label in labels]) > 0.8


def test_fit_ranks_right_above_wrong() -> None:
    rng = np.random.default_rng(0)
    tables, labels = [], []
    for _ in range(300):
        right = bool(rng.random() < 0.5)
        table = rng.normal(size=(3, len(FIGURES)))
        table[0, 0] += 2 * right
        tables.append(table)
        labels.append([right, False, False])
    models = fit(tables, labels)
    logistic = Logistic.from_dict(models["correct"])
    p = np.array([logistic.probability(t[:1], FIGURES)[0] for t in tables], dtype=float)
    assert auroc(p, [label[0] for label in labels]) > 0.8
    again = fit(tables, labels)
    assert again == models
    with pytest.raises(CalibrationError, match="too few"):
        fit(tables[: LEAST - 1], labels[: LEAST - 1])
    with pytest.raises(CalibrationError, match="all right or all wrong"):
        fit(tables, [[False] * 3] * 300)
