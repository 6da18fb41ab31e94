"""CoCoA, RAUQ, claim-conditioned probability, semantic density, kernel language entropy: what always holds of them,
their ends, cases worked out by hand, and what cannot be known."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from shared_core import uncertainty as u
from shared_core.errors import InputError
from shared_core.uncertainty import CONTRADICTS, ENTAILS, NEUTRAL

RELAXED = settings(deadline=None, derandomize=True, max_examples=60)
SHARE = st.floats(0, 1)
LOGPROBS = st.lists(st.floats(-20, 0), min_size=1, max_size=8)
BAD = (math.nan, math.inf, -math.inf)


def squares(least: int = 1) -> Any:
    sizes = st.integers(least, 6).map(lambda k: (k, k))
    return hnp.arrays(np.float64, sizes, elements=SHARE).map(lambda m: (m + m.T) / 2)


# --- CoCoA --------------------------------------------------------------------------------------------------------


@given(LOGPROBS, st.lists(SHARE, min_size=1, max_size=8), st.randoms(use_true_random=False))
@RELAXED
def test_cocoa_lies_between_nothing_and_the_answer_s_own(logprobs: list[float], like: list[float], random: Any) -> None:
    for variant, own in (
        (u.cocoa_msp(logprobs, like), u.max_sequence_probability(logprobs)),
        (u.cocoa_ppl(logprobs, like), u.mean_negative_log_likelihood(logprobs)),
        (u.cocoa_mte([-p for p in logprobs], like), u.mean_token_entropy([-p for p in logprobs])),
    ):
        assert 0 <= variant <= own + 1e-9
    shuffled = random.sample(like, len(like))
    assert u.cocoa_msp(logprobs, shuffled) == pytest.approx(u.cocoa_msp(logprobs, like))
    closer = [min(1.0, s + 0.1) for s in like]
    assert u.cocoa_msp(logprobs, closer) <= u.cocoa_msp(logprobs, like) + 1e-9


def test_cocoa_by_hand_and_at_its_ends() -> None:
    logprobs = [math.log(0.5), math.log(0.25)]
    assert u.cocoa_msp(logprobs, [1.0, 0.5]) == pytest.approx(math.log(8) * 0.25)
    assert u.cocoa_ppl(logprobs, [1.0, 0.5]) == pytest.approx(math.log(8) / 2 * 0.25)
    assert u.cocoa_mte([0.4, 0.8], [0.0, 0.5]) == pytest.approx(0.6 * 0.75)
    assert u.cocoa_msp([-3.0], [1.0, 1.0]) == 0  # all say the same, however improbable its wording
    assert u.cocoa_msp([0.0], [0.0, 0.0]) == 0  # certain, though samples stray
    assert u.cocoa(2.0, [0.0, -0.5]) == 2.0  # opposite is no less alike than unlike


def test_cocoa_knows_what_it_does_not_know() -> None:
    assert u.cocoa(1.0, []) == u.cocoa(math.nan, [0.5]) == u.cocoa(math.inf, [1.0]) == math.inf
    for bad in BAD:
        assert u.cocoa(1.0, [0.5, bad]) == math.inf
    assert u.cocoa_msp([], [1.0]) == u.cocoa_ppl([-1.0, math.nan], [1.0]) == u.cocoa_mte([], [1.0]) == math.inf
    for own, similarity in ((-1.0, np.array([0.5])), (1.0, np.array([7.0])), (1.0, np.array([[0.5]]))):
        with pytest.raises(InputError):
            u.cocoa(own, similarity)
    with pytest.raises(InputError):
        u.cocoa_msp([0.7], [0.5])  # a probability


# --- semantic density ---------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(-200, 0), SHARE), min_size=1, max_size=8), st.floats(-50, 0))
@RELAXED
def test_semantic_density_properties(rows: list[tuple[float, float]], shift: float) -> None:
    values, like = [r[0] for r in rows], [r[1] for r in rows]
    found = u.semantic_density(values, like)
    assert 1 - max(like) - 1e-9 <= found <= 1 - min(like) + 1e-9
    assert u.semantic_density([v + shift for v in values], like) == pytest.approx(found, abs=1e-6)
    assert u.semantic_density(values[::-1], like[::-1]) == pytest.approx(found, abs=1e-9)


def test_semantic_density_by_hand_and_unknown() -> None:
    # The answer (p = .6), one that says the same (.3), one that contradicts it (.1).
    logs = [math.log(p) for p in (0.6, 0.3, 0.1)]
    assert u.semantic_density(logs, [1.0, 1.0, 0.0]) == pytest.approx(0.1)
    assert u.semantic_density(logs, [1.0, 0.5, 0.0]) == pytest.approx(0.25)
    assert u.semantic_density([-1.0], [1.0]) == 0
    assert u.semantic_density([-2000.0, -2000.0], [1.0, 0.0]) == pytest.approx(0.5)  # does not vanish
    assert u.semantic_density([], []) == math.inf
    for bad in (math.nan, -math.inf):
        assert u.semantic_density([-1.0, bad], [1.0, 1.0]) == math.inf
    for bad in BAD:
        assert u.semantic_density([-1.0, -1.0], [1.0, bad]) == math.inf
    for wrong in (([-1.0], [1.0, 0.5]), ([0.5], [1.0]), ([-1.0], [3.0])):
        with pytest.raises(InputError):
            u.semantic_density(*wrong)


def test_semantic_density_counts_each_text_once_and_needs_samples() -> None:
    s = u.SampleStatistics(
        texts=("Orm", "Orm", " Orm ", "Selby", ""),
        token_logprobs=((math.log(0.6),),) * 3 + ((math.log(0.2),), ()),
        answer_text="Orm",
        answer_logprobs=(math.log(0.6),),
        answer_agreement=np.array([1.0, 1.0, 1.0, 0.0, 0.0]),
    )
    estimator = u.get_estimator("semantic_density")
    assert estimator.estimate(s) == pytest.approx(0.25)  # .6 and .2; not the first three times
    silent = dataclasses.replace(s, token_logprobs=((),) * 4 + ((-0.1,),))
    assert estimator.estimate(silent) == math.inf  # the answer agrees with itself, and nobody else spoke


# --- kernel language entropy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [u.kle_heat, u.kle_matern])
@given(matrix=squares())
@RELAXED
def test_kernel_entropies_are_bounded_and_do_not_mind_the_order(estimator: Any, matrix: Any) -> None:
    k = len(matrix)
    found = estimator(matrix)
    assert -1e-9 <= found <= math.log(k) + 1e-9
    order = np.arange(k)[::-1]
    assert estimator(matrix[np.ix_(order, order)]) == pytest.approx(found, abs=1e-8)


@pytest.mark.parametrize("estimator", [u.kle_heat, u.kle_matern])
def test_kernel_entropies_between_agreement_and_contradiction(estimator: Any) -> None:
    values = [estimator(np.full((10, 10), a)) for a in (1.0, 0.5, 0.1, 0.0)]
    assert values == sorted(values)
    assert values[-1] == pytest.approx(math.log(10))  # no edge: the kernel is the identity over k
    assert estimator(np.ones((1, 1))) == pytest.approx(0)
    two = np.kron(np.eye(2), np.ones((5, 5)))  # two meanings of five samples each
    assert values[0] < estimator(two) < values[-1]
    assert u.kle_heat(two, t=100.0) == pytest.approx(math.log(2))  # each meaning has become one
    assert u.kle_heat(np.ones((10, 10)), t=100.0) == pytest.approx(0, abs=1e-9)
    assert u.kle_matern(two, kappa=1e4) == pytest.approx(math.log(2), abs=1e-3)


def test_kernel_entropies_by_hand() -> None:
    """Two samples with agreement a: L has the eigenvalues 0 and 4a, so the kernel's are as 1 to f(4a)."""
    a = 0.25

    def binary(x: float) -> float:
        return -x * math.log(x) - (1 - x) * math.log(1 - x)

    heat, matern = math.exp(-0.3 * 4 * a), (2 / 1 + 4 * a) ** -1 / (2 / 1) ** -1
    assert u.kle_heat([[1, a], [a, 1]]) == pytest.approx(binary(1 / (1 + heat)))
    assert u.kle_matern([[1, a], [a, 1]]) == pytest.approx(binary(1 / (1 + matern)))
    assert u.kle_heat([[0.3, 0.5], [0.0, 0.7]]) == pytest.approx(binary(1 / (1 + heat)))  # symmetrised; no self-loops


@given(squares(2), st.floats(0.05, 2))
@RELAXED
def test_the_heat_kernel_is_the_matrix_exponential(matrix: Any, t: float) -> None:
    from scipy.linalg import expm

    weights = 2 * matrix
    np.fill_diagonal(weights, 0.0)
    kernel = expm(-t * (np.diag(weights.sum(1)) - weights))
    scale = np.sqrt(np.diag(kernel))
    expected = u.von_neumann_entropy(kernel / np.outer(scale, scale) / len(kernel))
    assert u.kle_heat(matrix, t) == pytest.approx(expected, abs=1e-7)


def test_von_neumann_entropy() -> None:
    assert u.von_neumann_entropy(np.eye(4) / 4) == pytest.approx(math.log(4))
    assert u.von_neumann_entropy(np.ones((4, 4)) / 4) == pytest.approx(0, abs=1e-9)
    assert u.von_neumann_entropy(np.diag([0.5, 0.5, 0.0])) == pytest.approx(math.log(2))


@pytest.mark.parametrize("estimator", [u.kle_heat, u.kle_matern])
def test_kernel_entropies_that_cannot_be_known(estimator: Any) -> None:
    for parameter in (0.0, -1.0, math.nan, "x"):
        with pytest.raises(InputError):
            estimator(np.eye(2), parameter)
    assert u.von_neumann_entropy([]) == u.von_neumann_entropy([[math.nan]]) == math.inf


# --- RAUQ ---------------------------------------------------------------------------------------------------------


def test_rauq_by_hand() -> None:
    """One layer; the second head attends more to the token before, so its weights count."""
    p = np.array([0.5, 0.8, 0.1])
    attention = np.array([[[0.9, 0.1, 0.1], [0.0, 0.6, 0.4]]])  # (1, 2, 3)
    c = [0.5]
    for own, weight in zip(p[1:], (0.6, 0.4)):
        c.append(0.2 * own + 0.8 * weight * c[-1])
    assert u.rauq(np.log(p), attention) == pytest.approx(-np.mean(np.log(c)))


def test_rauq_takes_the_most_uncertain_layer_of_the_middle_third() -> None:
    p = np.log([0.9, 0.9, 0.9])
    attention = np.full((9, 2, 3), 0.9)
    even = u.rauq(p, attention)
    for layer, counts in ((0, False), (2, False), (3, True), (6, True), (7, False), (8, False)):
        low = attention.copy()
        low[layer] = 0.1
        assert (u.rauq(p, low) > even) is counts
        assert u.rauq(p, low, layers=[layer]) > even
    low = attention.copy()
    low[4, 0] = 0.1  # one head lets go: the other is the one that is looked at
    assert u.rauq(p, low) == pytest.approx(even)


@given(LOGPROBS, SHARE, SHARE, st.floats(0.05, 1))
@RELAXED
def test_rauq_properties(logprobs: list[float], weight: float, other: float, alpha: float) -> None:
    shape = (3, 2, len(logprobs))
    more, less = max(weight, other), min(weight, other)
    sure, unsure = (u.rauq(logprobs, np.full(shape, w), alpha) for w in (more, less))
    assert sure >= -1e-9
    assert sure <= unsure + 1e-9  # attention to the token before hands confidence on
    own = u.mean_negative_log_likelihood(logprobs)
    assert u.rauq(logprobs, np.full(shape, weight), alpha=1.0) == pytest.approx(own, abs=1e-9)
    assert u.rauq(logprobs[:1], np.full((3, 2, 1), weight), alpha) == pytest.approx(-logprobs[0], abs=1e-9)


def test_rauq_that_cannot_be_known() -> None:
    fine = np.full((3, 2, 2), 0.5)
    assert u.rauq([], np.empty((3, 2, 0))) == u.rauq([-1.0, -1.0], np.empty((0, 0, 0))) == math.inf
    assert u.rauq([-1.0], np.empty((3, 0, 1))) == math.inf
    for bad in (math.nan, -math.inf):
        assert u.rauq([-1.0, bad], fine) == math.inf
    for bad in BAD:
        broken = fine.copy()
        broken[1, 0, 1] = bad
        assert u.rauq([-1.0, -1.0], broken) == math.inf
    assert u.rauq([-1e4, -1e4], np.zeros((3, 2, 2))) == math.inf
    first = fine.copy()
    first[:, :, 0] = math.nan  # nothing before it: not looked at
    assert math.isfinite(u.rauq([-1.0, -1.0], first))
    for wrong in (np.full((3, 2, 3), 0.5), np.full((3, 2), 0.5), np.full((3, 2, 2), 7.0)):
        with pytest.raises(InputError):
            u.rauq([-1.0, -1.0], wrong)
    for alpha in (0.0, 1.5, math.nan):
        with pytest.raises(InputError):
            u.rauq([-1.0, -1.0], fine, alpha)
    with pytest.raises(InputError):
        u.rauq([-1.0, -1.0], fine, layers=[3])


# --- claim-conditioned probability --------------------------------------------------------------------------------

ROWS = [[math.log(0.6), math.log(0.2), math.log(0.1), math.log(0.05)], [math.log(0.9), math.log(0.1)]]
CLASSES = [[ENTAILS, CONTRADICTS, ENTAILS, NEUTRAL], [ENTAILS, NEUTRAL]]


def test_ccp_by_hand() -> None:
    assert u.token_ccp(ROWS, CLASSES) == pytest.approx([math.log(0.7 / 0.9), 0.0])
    assert u.claim_conditioned_probability(ROWS, CLASSES) == pytest.approx(1 - 0.7 / 0.9)
    against = [CLASSES[0], [ENTAILS, CONTRADICTS]]
    assert u.claim_conditioned_probability(ROWS, against) == pytest.approx(1 - 0.7 / 0.9 * 0.9)
    assert u.claim_conditioned_probability(ROWS, against, functional=(True, False)) == pytest.approx(0.1)
    values = u.token_ccp(ROWS, against)
    assert u.claim_uncertainties(values, [[0], [1], [0, 1]]) == pytest.approx((1 - 0.7 / 0.9, 0.1, 0.3))


@given(st.lists(st.lists(st.tuples(st.floats(-20, 0), st.sampled_from([0.0, 1.0, 2.0])), min_size=1), min_size=1))
@RELAXED
def test_ccp_properties(rows: list[list[tuple[float, float]]]) -> None:
    logprobs, classes = [[p for p, _ in row] for row in rows], [[c for _, c in row] for row in rows]
    found = u.claim_conditioned_probability(logprobs, classes)
    assert 0 <= found <= 1
    assert u.claim_conditioned_probability(logprobs[::-1], classes[::-1]) == pytest.approx(found, abs=1e-9)
    swapped = [[row[0], *row[:0:-1]] for row in logprobs], [[row[0], *row[:0:-1]] for row in classes]
    assert u.claim_conditioned_probability(*swapped) == pytest.approx(found, abs=1e-9)  # the rivals' order is nothing
    kind = [[max(c, NEUTRAL) for c in row] for row in classes]
    assert u.claim_conditioned_probability(logprobs, kind) == 0  # nobody contradicts
    neutral = [[*row, -0.1] for row in logprobs], [[*row, NEUTRAL] for row in classes]
    assert u.claim_conditioned_probability(*neutral) == pytest.approx(found)  # other claims do not count
    worse = [[*row, -0.1] for row in logprobs], [[*row, CONTRADICTS] for row in classes]
    assert u.claim_conditioned_probability(*worse) >= found - 1e-9


def test_ccp_that_cannot_be_known() -> None:
    assert u.claim_conditioned_probability([], []) == math.inf
    assert u.claim_conditioned_probability([[]], [[]]) == math.inf
    assert u.claim_conditioned_probability([[math.nan, -1.0]], [[ENTAILS, ENTAILS]]) == math.inf
    assert u.claim_conditioned_probability([[-math.inf, -1.0]], [[ENTAILS, ENTAILS]]) == math.inf
    unknown = [[ENTAILS, math.nan], [ENTAILS, CONTRADICTS]]
    rows = [[-0.1, -3.0], [-0.1, -3.0]]
    assert u.claim_conditioned_probability(rows, unknown) == math.inf
    assert u.claim_conditioned_probability(rows, unknown, functional=(True, False)) < 1
    assert u.claim_uncertainties(u.token_ccp(rows, unknown), [[0], [1], []])[::2] == (math.inf, math.inf)
    for logprobs, classes, flags in (
        ([[-0.1]], [], ()), ([[-0.1, -1.0]], [[2.0]], ()), ([[0.5]], [[2.0]], ()), ([[-0.1, -1.0]], [[2.0, 3.0]], ()),
        ([[-0.1]], [[2.0]], (True, False)),
    ):  # fmt: skip
        with pytest.raises(InputError):
            u.token_ccp(logprobs, classes, functional=flags)
    with pytest.raises(InputError):
        u.claim_uncertainties([-0.1], [[1]])


# --- the registry -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "enough", "short"),
    [
        ("cocoa_msp", {"token_logprobs", "similarity"}, {"token_logprobs"}),
        ("cocoa_ppl", {"token_logprobs", "entailment"}, {"similarity"}),
        ("cocoa_mte", {"token_statistics", "similarity"}, {"token_logprobs", "similarity"}),
        ("semantic_density", {"token_logprobs", "similarity"}, {"token_logprobs"}),
        ("kle_heat", {"similarity"}, {"token_logprobs"}),
        ("kle_matern", {"entailment"}, {"hidden_states"}),
        ("rauq", {"token_logprobs", "attention"}, {"token_logprobs"}),
        ("ccp", {"alternatives", "entailment"}, {"alternatives", "similarity"}),
    ],
)
def test_each_declares_what_it_needs(name: str, enough: set[str], short: set[str]) -> None:
    estimator = u.get_estimator(name)
    assert estimator.available({"text", *enough})
    assert estimator.missing({"text", *short})
    assert u.best_available({"text", *enough}, name)[0] is estimator
    assert u.best_available({"text", *short}, name)[0] is not estimator
