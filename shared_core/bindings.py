"""What a calibration is bound to: the configuration that it was fitted for, compared with the one that asks for it."""

from __future__ import annotations

from collections.abc import Mapping

from shared_core.errors import CalibrationError

BindingValue = str | int | float | bool | None
"""One entry of a configuration; ``None`` is as if it were left out."""

WEIGHTS = "weights "
"""Stands before the digest in the identity of a model whose weights are at hand (``shared_core.lm.identity``)."""

_BY_NAME = (
    " It knows the model by its name or path only, as earlier versions did: whether that one had these weights cannot "
    "be told."
)


def require_same(
    what: str, bound_to: Mapping[str, BindingValue], configuration: Mapping[str, BindingValue], *, hint: str
) -> None:
    """Refuse what was fitted for another configuration.

    Args:
        what: was fitted ("The calibration").
        bound_to: the configuration that it was fitted for.
        configuration: the one that asks for it.
        hint: the way out.

    Raises:
        CalibrationError: they differ; names every difference.
    """
    names = sorted({*bound_to, *configuration})
    different = [(n, bound_to.get(n), configuration.get(n)) for n in names if bound_to.get(n) != configuration.get(n)]
    if not different:
        return
    told = "; ".join(f"{name} {ours!r}, not {theirs!r}" for name, ours, theirs in different)
    older = any(
        name.endswith("model") and isinstance(ours, str) and WEIGHTS not in ours and WEIGHTS in str(theirs)
        for name, ours, theirs in different
    )
    raise CalibrationError(f"{what} was fitted for {told}.{_BY_NAME if older else ''}", hint=hint)
