"""What always holds of the estimators, and what they do with nothing, one sample, equal samples, and no numbers."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from shared_core import uncertainty as u
from shared_core.errors import CapabilityError, InputError

RELAXED = settings(deadline=None, derandomize=True, max_examples=60)
STATES = hnp.arrays(np.float64, st.tuples(st.integers(2, 6), st.integers(3, 12)), elements=st.floats(-50, 50, width=32))
LOGPROBS = st.lists(st.floats(-30, 0), min_size=1, max_size=12)
BAD = (math.nan, math.inf, -math.inf)


def random_states(k: int, d: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(k, d))


# --- hidden states ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "value"), [(20, -6.413), (10, -5.987), (5, -5.204)])
def test_gram_of_identical_rows(k: int, value: float) -> None:
    row = np.array([1.0, -1.0, 0.0, 0.0]) / math.sqrt(2)  # centred norm² 1
    expected = ((k - 1) * math.log(1e-3) + math.log(k + 1e-3)) / k
    assert u.gram_uncertainty([row] * k) == pytest.approx(expected, abs=1e-9)
    assert expected == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6, 1e9])
def test_gram_stays_exact_where_norms_are_large(scale: float) -> None:
    row = np.array([1.0, -1.0, 0.0, 0.0]) * scale / math.sqrt(2)
    expected = (4 * math.log(1e-3) + math.log(5 * scale**2 + 1e-3)) / 5
    assert u.gram_uncertainty([row] * 5) == pytest.approx(expected, abs=1e-5)
    states = random_states(5, 40)
    reference = float(np.mean(np.log(np.linalg.svd((states - states.mean(1, keepdims=True)) * scale)[1] ** 2 + 1e-3)))
    assert u.gram_uncertainty(states * scale) == pytest.approx(reference, abs=1e-6)


@given(STATES)
@RELAXED
def test_gram_properties(states: Any) -> None:
    value = u.gram_uncertainty(states)
    assert value >= math.log(1e-3) - 1e-9
    assert u.gram_uncertainty(states[::-1]) == pytest.approx(value, abs=1e-6)
    assert u.gram_uncertainty(states + np.arange(len(states))[:, None]) == pytest.approx(value, abs=1e-5)
    assert u.gram_uncertainty(states, alpha=1.0) >= value - 1e-6
    identity = math.log(states.shape[1] - 1) + math.log(10) * u.eigenscore(states, 1e-3 / (states.shape[1] - 1))
    assert value == pytest.approx(identity, abs=1e-6)


def test_gram_grows_with_spread() -> None:
    base, noise = random_states(1, 64), random_states(10, 64, 1)
    values = [(u.gram_uncertainty(base + s * noise), u.normalized_gram(base + s * noise)) for s in (0, 0.1, 0.5, 2)]
    assert values == sorted(values)
    assert len(set(values)) == 4


def test_normalized_gram_ends_scale_and_k() -> None:
    orthogonal = np.kron(np.eye(6), [1.0, -1.0])
    assert u.normalized_gram(orthogonal) == pytest.approx(1)
    for k in (2, 5, 20):
        assert u.normalized_gram([random_states(1, 16)[0]] * k) == pytest.approx(0, abs=1e-9)
    states = random_states(8, 16) + random_states(1, 16, 3)
    full = u.normalized_gram(states)
    scaled = states * np.geomspace(1e-3, 1e6, 8)[:, None] + 5.0
    assert u.normalized_gram(scaled) == pytest.approx(full, abs=1e-7)
    # The mean over all subsets of k' samples is the value of k: on average k does not matter.
    for size in (2, 3, 5):
        parts = [u.normalized_gram(states[list(c)]) for c in itertools.combinations(range(8), size)]
        assert np.mean(parts) == pytest.approx(full)


@given(STATES)
@RELAXED
def test_normalized_gram_lies_in_the_unit_interval_or_is_unknown(states: Any) -> None:
    value = u.normalized_gram(states)
    assert 0 <= value <= 1 or value == math.inf


@pytest.mark.parametrize("estimator", [u.gram_uncertainty, u.eigenscore, u.normalized_gram])
def test_states_that_cannot_be_used(estimator: Any) -> None:
    states = random_states(4, 8)
    for bad in BAD:
        broken = states.copy()
        broken[1, 2] = bad
        assert estimator(broken) == math.inf
    assert estimator(np.empty((0, 8))) == estimator([]) == estimator(np.empty((3, 0))) == math.inf
    assert estimator(states * 1e200) != -math.inf
    for wrong in ([1.0, 2.0], np.ones((2, 2, 2)), [[1.0], [1.0, 2.0]], "ab"):
        with pytest.raises(InputError):
            estimator(wrong)
    for alpha in (0.0, -1.0, math.nan, "x"):
        with pytest.raises(InputError):
            estimator(states, alpha)
    assert estimator(states.astype(np.float32)) == pytest.approx(estimator(states), abs=1e-5)


def test_overflow_is_unknown_not_confident() -> None:
    assert u.gram_uncertainty(random_states(3, 8) * 1e200) == math.inf
    assert u.normalized_gram(random_states(3, 8) * 1e200) == pytest.approx(u.normalized_gram(random_states(3, 8)))
    assert (
        u.normalized_gram(np.ones((3, 8))) == u.normalized_gram(np.zeros((3, 8))) == math.inf
    )  # rows without direction
    assert u.gram_uncertainty(np.ones((1, 8))) == pytest.approx(math.log(1e-3))  # one row: only its own norm


# --- tokens -------------------------------------------------------------------------------------------------------


@given(LOGPROBS, st.lists(LOGPROBS, min_size=1, max_size=5))
@RELAXED
def test_token_estimators_are_consistent(one: list[float], many: list[list[float]]) -> None:
    assert u.perplexity(one) >= 1
    assert math.log(u.perplexity(one)) == pytest.approx(u.mean_negative_log_likelihood(one), abs=1e-9)
    assert u.max_sequence_probability(one) == pytest.approx(len(one) * u.mean_negative_log_likelihood(one), abs=1e-9)
    assert u.length_normalized_entropy([one] * 3) == pytest.approx(u.mean_negative_log_likelihood(one), abs=1e-9)
    assert u.multi_perplexity(many) >= math.exp(u.length_normalized_entropy(many)) - 1e-9  # Jensen
    assert 0 <= u.min_token_probability(one) <= 1
    assert u.min_token_probability([*one, -40.0]) >= u.min_token_probability(one)
    assert u.length_normalized_entropy([*many, []]) == u.length_normalized_entropy(many)


@pytest.mark.parametrize(
    "estimator",
    [u.perplexity, u.max_sequence_probability, u.monte_carlo_entropy, u.min_token_probability,
     u.mean_negative_log_likelihood, u.energy, u.mean_token_entropy],
)  # fmt: skip
def test_values_that_cannot_be_used(estimator: Any) -> None:
    assert estimator([]) == math.inf
    for bad in BAD:
        if bad != math.inf or estimator in (u.energy, u.mean_token_entropy):
            assert estimator([-0.0, bad]) == math.inf
    with pytest.raises(InputError):
        estimator([[-1.0, -2.0]])
    with pytest.raises(InputError):
        estimator("likely")


def test_samples_that_cannot_be_used() -> None:
    for estimator in (u.length_normalized_entropy, u.multi_perplexity):
        assert estimator([]) == estimator([[], []]) == math.inf
        assert estimator([[-1.0], [math.nan]]) == math.inf
    with pytest.raises(InputError, match="at most 0"):
        u.perplexity([0.9, 0.8])  # probabilities
    with pytest.raises(InputError):
        u.mean_token_entropy([-1.0])
    assert u.perplexity([1e-6]) == 1  # rounding above 0
    assert u.perplexity([-1e6]) == math.inf


def test_p_true() -> None:
    assert u.p_true(math.log(0.3), math.log(0.1)) == pytest.approx(0.25)
    assert u.p_true(-1000.0, -2000.0) == pytest.approx(0)
    assert u.p_true(-math.inf, -1.0) == 1
    for pair in ((math.nan, -1.0), (-1.0, math.inf), (-math.inf, -math.inf)):
        assert u.p_true(*pair) == math.inf


def test_dragin_scores() -> None:
    assert u.dragin_scores([1, 3], [2, 1]) == pytest.approx([1.0, 1.5])
    assert u.dragin([1, 3], [2, 1]) == pytest.approx(1.5)
    assert u.dragin([], []) == u.dragin([0, 0], [1, 1]) == u.dragin([1, math.nan], [1, 1]) == math.inf
    for wrong in (([1.0], [1.0, 2.0]), ([-1.0], [1.0])):
        with pytest.raises(InputError):
            u.dragin(*wrong)


# --- meanings -----------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(-900, 0), st.integers(0, 4)), min_size=1, max_size=10), st.floats(-100, 100))
@RELAXED
def test_semantic_entropy_properties(rows: list[tuple[float, int]], shift: float) -> None:
    values, ids = [r[0] for r in rows], [r[1] for r in rows]
    entropy = u.semantic_entropy(values, ids)
    assert 0 <= entropy <= math.log(len(set(ids))) + 1e-9
    assert u.semantic_entropy([v + shift for v in values], ids) == pytest.approx(entropy, abs=1e-6)
    assert u.semantic_entropy([-1.0] * len(ids), ids) == pytest.approx(u.discrete_semantic_entropy(ids), abs=1e-9)
    merged = u.semantic_entropy(values, [0 if i == 1 else i for i in ids])
    assert merged <= entropy + 1e-9


@pytest.mark.parametrize("nats", [0.0, 1.0, 705.0, 709.0])
def test_perplexity_is_finite_where_its_number_is(nats: float) -> None:
    assert u.perplexity([-nats]) == pytest.approx(math.exp(nats))
    assert u.multi_perplexity([[-nats]] * 3) == pytest.approx(math.exp(nats))
    assert u.perplexity([-710.0]) == u.multi_perplexity([[-710.0]]) == math.inf


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_tensors_are_numbers_of_whatever_type(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    rows = torch.tensor([[0.5, -2.0, 1.0], [1.5, 0.25, -1.0]], dtype=getattr(torch, dtype), requires_grad=True)
    expected = u.gram_uncertainty(rows.detach().double().numpy())
    assert u.gram_uncertainty(rows) == u.gram_uncertainty(list(rows)) == expected
    assert u.perplexity(-rows[0].abs()) == u.perplexity([-0.5, -2.0, -1.0])
    assert u.multi_perplexity([-row.abs() for row in rows]) == u.multi_perplexity([[-0.5, -2, -1], [-1.5, -0.25, -1]])
    assert u.perplexity(torch.tensor([-1e-9], dtype=torch.float64)) > 1.0  # nothing of a float64 is lost
    with pytest.raises(InputError, match="axes"):
        u.perplexity(-rows.abs())


def test_one_meaning_has_an_entropy_of_nothing_without_a_sign() -> None:
    for value in (u.semantic_entropy([-1.0, -2.0], ["a", "a"]), u.discrete_semantic_entropy(["a", "a"])):
        assert math.copysign(1.0, value) == 1.0


def test_semantic_unknowns() -> None:
    assert u.semantic_entropy([], []) == u.discrete_semantic_entropy([]) == u.number_of_semantic_sets([]) == math.inf
    for bad in BAD:
        assert u.semantic_entropy([-1.0, bad], [0, 1]) == math.inf
    assert u.semantic_entropy([-1.0], ["a"]) == 0
    with pytest.raises(InputError):
        u.semantic_entropy([-1.0], [0, 1])


@given(hnp.arrays(np.float64, st.integers(1, 6).map(lambda k: (k, k)), elements=st.floats(0, 1)))
@RELAXED
def test_graph_estimators(matrix: Any) -> None:
    k = len(matrix)
    assert 0 <= u.degree_matrix(matrix) <= 1 - 1 / k + 1e-9
    assert 1 - 1e-9 <= u.eigenvalue_laplacian(matrix) <= k + 1e-9
    assert u.eccentricity(matrix) >= 0
    order = np.arange(k)[::-1]
    assert u.degree_matrix(matrix[np.ix_(order, order)]) == pytest.approx(u.degree_matrix(matrix))


@pytest.mark.parametrize("estimator", [u.degree_matrix, u.eigenvalue_laplacian, u.eccentricity])
def test_graph_ends(estimator: Any) -> None:
    alike, apart = estimator(np.ones((4, 4))), estimator(np.eye(4))
    assert alike == pytest.approx(1.0 if estimator is u.eigenvalue_laplacian else 0.0, abs=1e-7)
    assert apart > alike
    assert estimator([[1.0, -0.3], [-0.3, 1.0]]) == estimator(np.eye(2))  # opposite is not less than unlike


@pytest.mark.parametrize(
    "estimator", [u.degree_matrix, u.eigenvalue_laplacian, u.eccentricity, u.kle_heat, u.kle_matern]
)
def test_graphs_that_cannot_be_known(estimator: Any) -> None:
    assert estimator(np.empty((0, 0))) == estimator([]) == math.inf
    for bad in BAD:
        assert estimator([[1.0, bad], [0.5, 1.0]]) == math.inf
        assert estimator([[bad, 0.5], [0.5, 1.0]]) == math.inf
    for wrong in (np.ones((2, 3)), [[1.0, 7.0], [7.0, 1.0]], [1.0]):
        with pytest.raises(InputError):
            estimator(wrong)


# --- text ---------------------------------------------------------------------------------------------------------


def test_lexical_similarity() -> None:
    assert u.lexical_similarity(["The red house."] * 3) == -1
    assert u.lexical_similarity(["red", "blue"]) == 0
    assert u.lexical_similarity(["a b c", "a c b"]) == pytest.approx(-2 / 3)  # order counts
    assert u.lexical_similarity(["a b c", "a c b"], "rouge1") == -1
    assert u.lexical_similarity(["Он родился в 1945", "Она умерла до 1945"]) > -0.5  # not by its digits alone
    for unknown in ([], ["one"], ["", ""], ["!", "?"]):
        assert u.lexical_similarity(unknown) == math.inf
    for wrong in ("text", ["a", "b"]):
        with pytest.raises(InputError):
            u.lexical_similarity(wrong, "bleu" if isinstance(wrong, list) else "rougeL")  # type: ignore[arg-type]


def test_rouge_against_the_reference_package() -> None:
    from rouge_score import rouge_scorer

    rng = np.random.default_rng(0)
    words = "river running rivers bridge bridges built building in of the 1841 was old"
    vocabulary = words.split()
    texts = [" ".join(rng.choice(vocabulary, rng.integers(1, 90))) for _ in range(8)]
    scorer = rouge_scorer.RougeScorer(["rougeL", "rouge1"], use_stemmer=True)
    for metric in ("rougeL", "rouge1"):
        ours = u.rouge_similarity(texts, metric)  # type: ignore[arg-type]
        for i, j in itertools.combinations(range(8), 2):
            assert ours[i, j] == pytest.approx(scorer.score(texts[i], texts[j])[metric].fmeasure, abs=1e-9)


@pytest.mark.parametrize(("text", "value"), [
    ("85", 0.85), ("Confidence: 85%", 0.85), ("I am 90% sure it was in 1850.", 0.9), ("85/100", 0.85),
    ("85 out of 100", 0.85), ("confidence is 70 percent, the year 1990", 0.7), ("99.5", 0.995), ("0", 0.0),
    ("100", 1.0), ("0.5%", 0.005), ("My confidence in this answer would be 40.", 0.4), ("", None), ("very sure", None),
    ("150", None), ("-5", None), ("0.9", None), ("between 60 and 80", None), ("60% or 80%", None), ("nan", None),
    ("in 1850", None), ("1.0", None),
])  # fmt: skip
def test_stated_confidence(text: str, value: float | None) -> None:
    assert u.verbalised_uncertainty([text]) == (math.inf if value is None else pytest.approx(1 - value))


def test_what_the_model_says_of_itself() -> None:
    assert u.verbalised_uncertainty(["90", "no idea", "70"]) == pytest.approx(0.2)
    assert u.verbalised_uncertainty("95%") == pytest.approx(0.05)
    assert u.verbalised_uncertainty([]) == u.verbalised_uncertainty(["sure!"]) == math.inf
    assert u.sufficiency_uncertainty(["Yes.", "no", "Answer: yes", "well"]) == pytest.approx(1 / 3)
    assert u.sufficiency_uncertainty(["perhaps"]) == math.inf
    assert u.sufficiency_uncertainty(["Notable"]) == math.inf
    assert u.sufficiency_uncertainty(["**No**, I lack it"]) == 1.0


# --- clusters -----------------------------------------------------------------------------------------------------


def test_pairs_are_asked_once() -> None:
    plan = u.plan_pairs(["Paris", "Lyon ", "Paris", "", "Lyon"])
    assert plan.unique == ("Paris", "Lyon", "")
    assert plan.pairs == (("Paris", "Lyon"), ("Lyon", "Paris"))
    matrix = plan.matrix([0.9, 0.2])
    assert matrix.shape == (5, 5)
    assert (matrix[0, 2], matrix[0, 1], matrix[1, 0], matrix[0, 3], matrix[3, 3]) == (1, 0.9, 0.2, 0, 1)
    assert u.cluster_by_entailment(matrix) == (0, 1, 0, 2, 1)
    once = u.plan_pairs(["a", "b"], question="Which? ", symmetric=True)
    assert once.pairs == (("Which? a", "Which? b"),)
    assert u.cluster_by_similarity(once.matrix([0.9]), 0.8) == (0, 0)
    assert u.cluster_by_entailment(once.matrix([None])) == (0, 1)  # unknown: not the same
    assert u.plan_pairs(["x"] * 20).pairs == ()
    assert plan.expand(np.eye(3))[1, 4] == 1
    for call in (lambda: plan.matrix([0.1]), lambda: plan.expand(np.eye(2)), lambda: u.plan_pairs("ab")):
        with pytest.raises(InputError):
            call()


def test_conflicts_between_clusters() -> None:
    same = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1]])
    assert u.greedy_clusters(same) == (0, 1, 0)
    assert u.greedy_clusters(same, on_conflict="last") == (0, 1, 1)  # the published code


# --- the registry -------------------------------------------------------------------------------------------------


def full(k: int = 4) -> u.SampleStatistics:
    return u.SampleStatistics(
        texts=tuple(f"answer {i % 2}" for i in range(k)),
        token_logprobs=tuple((-0.1 * (i + 1), -0.5) for i in range(k)),
        states=random_states(k, 8),
        similarity=np.full((k, k), 0.5),
        cluster_ids=tuple(i % 2 for i in range(k)),
        answer_logprobs=(-0.2, -0.1), answer_entropies=(0.3, 0.4), answer_logsumexp=(10.0, 12.0),
        word_attention=(0.5, 0.5), word_entropies=(0.3, 0.4),
        verbalised=("80",), sufficiency=("yes",), p_true=(-0.1, -2.0),
        agreement=np.full((k, k), 0.5), answer_text="answer 0", answer_similarity=np.full(k, 0.5),
        answer_agreement=np.full(k, 0.5), previous_attention=np.full((3, 2, 2), 0.5),
        alternative_logprobs=((-0.2, -2.0), (-0.1,)), alternative_classes=((2.0, 0.0), (2.0,)),
    )  # fmt: skip


@pytest.mark.parametrize("name", u.ESTIMATORS)
def test_every_estimator_works_from_one_pass_and_refuses_what_was_not_gathered(name: str) -> None:
    estimator = u.get_estimator(name)
    assert math.isfinite(estimator.estimate(full()))
    with pytest.raises(InputError) as caught:
        dataclasses.replace(estimator, min_samples=0).estimate(u.SampleStatistics())
    assert caught.value.hint
    if estimator.min_samples > 1:
        assert estimator.estimate(full(1)) == math.inf  # one sample cannot agree with itself
    assert estimator.summary
    assert estimator.needs


def test_estimates_are_the_functions() -> None:
    s = full()
    values = {name: estimator.estimate(s) for name, estimator in u.ESTIMATORS.items()}
    assert values["gram"] == u.gram_uncertainty(s.states)  # type: ignore[arg-type]
    assert values["perplexity"] == u.perplexity([-0.2, -0.1])
    assert values["semantic_entropy"] == u.semantic_entropy([-0.3, -0.35, -0.4, -0.45], [0, 1, 0, 1])
    assert values["verbalised"] == pytest.approx(0.2)
    without = dataclasses.replace(s, answer_logprobs=None)
    assert u.get_estimator("perplexity").estimate(without) == u.perplexity([-0.1, -0.5])  # the first sample


def test_empty_samples_are_never_confidence() -> None:
    empty = u.SampleStatistics(texts=("", ""), token_logprobs=((), ()), cluster_ids=(0, 0))
    names = ["perplexity", "multi_perplexity", "length_normalized_entropy", "monte_carlo_entropy", "semantic_entropy",
             "max_sequence_probability", "min_token_probability", "lexical_similarity"]  # fmt: skip
    assert {u.get_estimator(name).estimate(empty) for name in names} == {math.inf}
    assert empty.empty_samples == 2
    some = u.SampleStatistics(token_logprobs=((), (-1.0,), (-3.0,)), cluster_ids=(0, 1, 2))
    assert u.get_estimator("monte_carlo_entropy").estimate(some) == 2
    assert u.get_estimator("semantic_entropy").estimate(some) < math.log(2)
    assert some.empty_samples == 1


def test_statistics_are_frozen_and_fit_together() -> None:
    states = random_states(3, 4)
    s = u.SampleStatistics(states=states)
    states[:] = 0
    assert s.states is not None
    assert s.states.any()
    with pytest.raises(ValueError):
        s.states[0, 0] = 1.0
    with pytest.raises(InputError):
        u.SampleStatistics(states=random_states(3, 4), texts=("a",))


@pytest.mark.parametrize(("capabilities", "expected"), [
    (("text", "hidden_states", "token_logprobs"), "gram"),
    (("text", "token_logprobs", "similarity"), "length_normalized_entropy"),
    (("text", "entailment"), "discrete_semantic_entropy"), (("text", "similarity"), "discrete_semantic_entropy"),
    (("text",), "verbalised"),
])  # fmt: skip
def test_fallback_is_open(capabilities: tuple[str, ...], expected: str) -> None:
    estimator, reason = u.best_available(capabilities)
    assert estimator.name == expected
    assert ("hidden states" in reason) == (expected != "gram")
    assert expected in reason


def test_fallback_keeps_what_was_asked_for_and_refuses_the_unknown() -> None:
    assert u.best_available(("text", "score"), "p_true")[0].name == "p_true"
    assert u.best_available(("text", "hidden_states"), "dragin")[0].name == "gram"
    with pytest.raises(InputError, match="no estimator"):
        u.best_available(("text",), "magic")
    with pytest.raises(CapabilityError):
        u.best_available((), "gram")


# --- samples that say nothing --------------------------------------------------------------------------------------


def test_two_empty_samples_do_not_agree() -> None:
    assert u.lexical_similarity(["", "", "", "a"]) == 0.0
    assert np.array_equal(u.rouge_similarity(["", " ", "a"]), np.eye(3))
    plan = u.plan_pairs(["", " ", "a", "a"])
    matrix = plan.matrix([])
    assert matrix[0, 1] == matrix[1, 0] == 0.0
    assert matrix[2, 3] == matrix[0, 0] == 1.0
    assert u.cluster_by_entailment(matrix) == (0, 1, 2, 2)
