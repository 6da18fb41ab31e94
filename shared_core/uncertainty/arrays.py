"""Checks shared by the estimators. Arguments of the wrong shape raise; numbers that cannot be used become "unknown"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shared_core.errors import InputError

Float64 = NDArray[np.float64]

_LOGPROB_SLACK = 1e-3  # rounding of low-precision backends; anything above is no log-probability


def numbers(values: ArrayLike, name: str, ndim: int) -> Float64:
    """``values`` as a float64 array of ``ndim`` axes; InputError otherwise. An empty list is an empty array.

    Tensors of torch may be of any type and on any device, and may require gradients.
    """
    try:
        array = np.asarray(_in_memory(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} must be numbers in {ndim} axes: {error}", hint="Rows must be of equal length."
        ) from error
    if array.size == 0 and array.ndim <= ndim:
        return array.reshape((0,) * ndim) if array.ndim < ndim else array
    if array.ndim != ndim:
        raise InputError(f"{name} must have {ndim} axes, not shape {array.shape}.")
    return array


def _in_memory(values: Any) -> Any:
    """A tensor (of which numpy knows no bfloat16) as an array, also within lists; else the values."""
    if isinstance(values, (list, tuple)):
        return [_in_memory(v) for v in values]
    return values.detach().cpu().double().numpy() if hasattr(values, "detach") else values


def log_probabilities(values: ArrayLike, name: str = "logprobs") -> Float64:
    """A vector of natural-log probabilities; InputError if one is above 0 by more than rounding."""
    array = numbers(values, name, 1)
    if array.size and np.any(array > _LOGPROB_SLACK):
        raise InputError(
            f"{name} holds {float(np.nanmax(array)):g}, and a log-probability is at most 0.",
            hint="Give natural-log probabilities, not probabilities or logits.",
        )
    return np.minimum(array, 0.0)


def square(matrix: ArrayLike, name: str) -> Float64:
    """``matrix`` as a (k, k) float64 array; InputError if it is not square."""
    array = numbers(matrix, name, 2)
    if array.shape[0] != array.shape[1]:
        raise InputError(f"{name} must be square, not of shape {array.shape}.")
    return array


def shares(array: Float64, name: str) -> Float64 | None:
    """``array`` clipped to [0, 1]; ``None`` (unknown) if it is empty or an entry is not finite.

    InputError for an entry outside [-1, 1].
    """
    if np.any(np.abs(array[np.isfinite(array)]) > 1.0 + 1e-4):
        raise InputError(f"{name} must lie in [-1, 1].", hint="Use cosine similarities or entailment probabilities.")
    return np.clip(array, 0.0, 1.0) if array.size and finite(array) else None


def similarity_matrix(matrix: ArrayLike, name: str = "similarity") -> Float64 | None:
    """A (k, k) similarity matrix: symmetrised, clipped to [0, 1], ones on its diagonal; unknown as ``shares``.

    Raises:
        InputError: not square, or an entry outside [-1, 1].
    """
    array = square(matrix, name)
    if shares(array, name) is None:
        return None
    array = np.clip((array + array.T) / 2.0, 0.0, 1.0)
    np.fill_diagonal(array, 1.0)
    return array


def finite(array: NDArray[Any]) -> bool:
    """Whether every entry is finite."""
    return bool(np.isfinite(array).all())


def positive(value: float, name: str) -> float:
    """``value`` if it is a finite number above 0; InputError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise InputError(f"{name} must be a number, not {value!r}.")
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} must be a finite number above 0, not {value!r}.")
    return float(value)


def known(value: float) -> float:
    """``value``, or +inf (unknown) where it is not a number."""
    return math.inf if math.isnan(value) else float(value)


def nothing_agrees(similarity: Float64, texts: Sequence[str]) -> Float64:
    """The matrix with 0 between every two different samples that are empty: silence is not agreement.

    Args:
        similarity: (k, k); changed in place. The diagonal stays.
        texts: k samples.
    """
    empty = np.array([not t.strip() for t in texts], dtype=bool)  # (k,)
    both = np.outer(empty, empty) & ~np.eye(len(texts), dtype=bool)  # (k, k)
    similarity[both] = 0.0
    return similarity
