"""Measure the cost of uncertainty: the Gram score by k×k against the published d×d form, and every estimator's time.

With a random model, also one decision and one re-ranking against the usual implementations.

    python benchmarks/uncertainty.py [--quick] [--json FILE]

Each function in ``FIGURES`` returns a flat mapping of figures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import alternate, command_line, show_figures, write_figures
from shared_core import uncertainty as u

K, D = 20, 4096
Figures = dict[str, float]


def milliseconds(run: Callable[[], object], repeat: int) -> float:
    """Return the median time of ``run``; the first call is a warm-up."""
    run()
    return alternate({"run": run}, repeat)["run"] * 1e3


def published_form(states: Any, alpha: float = 1e-3) -> float:
    """Compute the score as SeaKR's published code does: Z J Zᵀ with the d×d centring matrix J."""
    k, d = states.shape
    centring = np.eye(d) - np.ones((d, d)) / d
    return float(np.linalg.slogdet(states @ centring @ states.T + alpha * np.eye(k))[1] / k)


def gram(quick: bool) -> Figures:
    states = np.random.default_rng(0).normal(size=(K, D))
    single = states.astype(np.float32)  # as a backend returns it
    alike = 100 * (states[:1] + 1e-6 * states)  # long and nearly equal: rounding forces the second route
    assert abs(u.gram_uncertainty(states) - published_form(states)) < 1e-6
    repeat = 50 if quick else 300
    ours = milliseconds(lambda: u.gram_uncertainty(single), repeat)
    published = milliseconds(lambda: published_form(states), 2 if quick else 5)
    return {
        "gram_ms": ours,
        "gram_nearly_equal_ms": milliseconds(lambda: u.gram_uncertainty(alike), repeat),
        "normalized_gram_ms": milliseconds(lambda: u.normalized_gram(single), repeat),
        "gram_published_form_ms": published,
        "gram_speedup_vs_published_form": published / ours,
    }


def sample_statistics(k: int = K, d: int = D, length: int = 40) -> u.SampleStatistics:
    """Make random statistics of k samples, shaped like one sampling pass of a 7B model."""
    rng = np.random.default_rng(0)
    vocabulary = [f"word{i}" for i in range(60)]
    texts = tuple(" ".join(rng.choice(vocabulary, length)) for _ in range(k))
    logprobs = tuple(tuple(map(float, -rng.exponential(0.5, length))) for _ in range(k))
    similarity = rng.random((k, k))
    return u.SampleStatistics(
        texts=texts, token_logprobs=logprobs, states=rng.normal(size=(k, d)), similarity=similarity,
        cluster_ids=u.cluster_by_similarity(similarity, 0.7), answer_logprobs=logprobs[0],
        answer_entropies=tuple(map(float, rng.random(length))), answer_logsumexp=tuple(map(float, rng.random(length))),
        word_attention=tuple(map(float, rng.random(length))), word_entropies=tuple(map(float, rng.random(length))),
        verbalised=("80",) * k, sufficiency=("yes",) * k, p_true=(-0.1, -2.0),
        agreement=similarity, answer_text=texts[0], answer_similarity=similarity[0], answer_agreement=similarity[0],
        previous_attention=rng.random((32, 32, length)),
        alternative_logprobs=tuple(tuple(map(float, -rng.exponential(3.0, 10))) for _ in range(length)),
        alternative_classes=tuple(tuple(map(float, rng.integers(0, 3, 10))) for _ in range(length)),
    )  # fmt: skip


def estimators(quick: bool) -> Figures:
    pass_ = sample_statistics()
    repeat = 5 if quick else 30
    return {f"ms_{name}": milliseconds(lambda e=e: e.estimate(pass_), repeat) for name, e in u.ESTIMATORS.items()}  # type: ignore[misc]


def model(quick: bool) -> Figures:
    try:
        from uncertainty_model import with_model
    except ImportError as error:
        print(f"figures with a model left out: {error}")
        return {}
    found: Figures = with_model(quick)
    return found


FIGURES: tuple[Callable[[bool], Figures], ...] = (gram, estimators, model)


def main() -> None:
    parser = command_line(__doc__, quick="fewer repetitions", data=False)
    arguments = parser.parse_args()
    figures: Figures = {}
    for part in FIGURES:
        figures |= part(arguments.quick)
    show_figures(figures, f"k = {K} samples, d = {D}")
    write_figures(figures, arguments.json)


if __name__ == "__main__":
    main()
