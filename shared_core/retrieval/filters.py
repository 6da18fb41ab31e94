"""Metadata filters in Chroma's language, with the same meaning in every retriever.

``normalise`` checks a filter and rewrites it as Chroma accepts it; ``compile_filter`` evaluates it in Python. The
meaning is Chroma's: int and float compare as numbers, booleans are not numbers, values of different types are
unequal, and a passage without the key satisfies only ``$ne`` and ``$nin``. ``None`` and numbers that are not finite
count as absent.

Some filters are accepted that Chroma refuses: several keys in one mapping and several operators on one key mean "and",
``$and`` and ``$or`` may have one member, ``$in`` and ``$nin`` may mix types, and ``{}`` filters nothing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shared_core.errors import InputError
from shared_core.retrieval.base import Where, absent
from shared_core.types import MetadataValue

Predicate = Callable[[Mapping[str, MetadataValue]], bool]
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_OPERATORS = ("$eq", "$ne", *_ORDER, "$in", "$nin")


def normalise(where: Where | None) -> dict[str, Any] | None:
    """Rewrite a filter for Chroma: one key per mapping, one operator per key. ``None`` and ``{}`` give ``None``.

    InputError if the filter is invalid.
    """
    if where is None:
        return None
    if not isinstance(where, Mapping):
        raise _refuse(f"must be a mapping, not {type(where).__name__}")
    terms = [term for key, value in where.items() for term in _terms(key, value)]
    return _join("$and", terms) if terms else None


def compile_filter(where: Where | None) -> Predicate | None:
    """Compile a filter into a function that tests metadata; ``None`` without a filter, InputError for an invalid one.

    >>> is_recent = compile_filter({"year": {"$gte": 1990}})
    >>> is_recent({"year": 1995}), is_recent({})
    (True, False)
    """
    normal = normalise(where)
    return None if normal is None else _compile(normal)


def _refuse(problem: str) -> InputError:
    return InputError(
        f"A metadata filter {problem}.",
        hint='Write {"lang": "en"}, {"year": {"$gte": 1990}} or {"$and": [...]}; operators: '
        f"{', '.join(_OPERATORS)}, $and, $or.",
    )


def _join(kind: str, terms: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return terms[0] if len(terms) == 1 else {kind: list(terms)}


def _terms(key: Any, value: Any) -> list[dict[str, Any]]:
    if not isinstance(key, str) or not key:
        raise _refuse(f"has the key {key!r}, which is not the name of a field")
    if key in ("$and", "$or"):
        if isinstance(value, str) or not isinstance(value, Sequence) or not value:
            raise _refuse(f"needs a non-empty list of filters after {key}")
        parts = [normalise(part) for part in value]
        if any(part is None for part in parts):
            raise _refuse(f"has an empty member in {key}")
        return [_join(key, [part for part in parts if part is not None])]
    if key.startswith(("$", "#", "chroma:", "selfreflect:")):
        raise _refuse(f"has the key {key!r}, which is neither a field nor $and/$or")
    if isinstance(value, Mapping):
        if not value:
            raise _refuse(f"has no operator for {key!r}")
        return [_operation(key, op, operand) for op, operand in value.items()]
    return [_operation(key, "$eq", value)]


def _operation(key: str, op: Any, operand: Any) -> dict[str, Any]:
    if op not in _OPERATORS:
        raise _refuse(f"has the unknown operator {op!r} for {key!r}")
    if op in ("$in", "$nin"):
        if isinstance(operand, str) or not isinstance(operand, Sequence | set | frozenset) or not operand:
            raise _refuse(f"needs a non-empty list after {op} for {key!r}")
        groups: dict[type, list[Any]] = {}
        for value in operand:
            groups.setdefault(_kind(_check(key, value)), []).append(value)
        # Chroma wants the members of one list to be of one type.
        same = [{key: {op: [float(v) for v in g] if {*map(type, g)} == {int, float} else g}} for g in groups.values()]
        return _join("$or" if op == "$in" else "$and", same)
    _check(key, operand)
    if op in _ORDER and _kind(operand) is not float:
        raise _refuse(f"can compare numbers only with {op}, not {operand!r}")
    return {key: {op: operand}}


def _check(key: str, value: Any) -> Any:
    if not isinstance(value, str | int | float | bool) or (isinstance(value, float) and not math.isfinite(value)):
        raise _refuse(f"compares {key!r} with {value!r}, which is not a string, finite number or boolean")
    return value


def _kind(value: Any) -> type:
    """str, bool, or float for every number."""
    if isinstance(value, bool):
        return bool
    return str if isinstance(value, str) else float


def _compile(where: Mapping[str, Any]) -> Predicate:
    ((key, value),) = where.items()
    if key in ("$and", "$or"):
        parts = [_compile(part) for part in value]
        combine = all if key == "$and" else any
        return lambda metadata: combine(part(metadata) for part in parts)
    ((op, operand),) = value.items()
    return _compare(key, op, operand)


def _compare(key: str, op: str, operand: Any) -> Predicate:
    if op in _ORDER:
        order = _ORDER[op]

        def ordered(metadata: Mapping[str, MetadataValue]) -> bool:
            value = metadata.get(key)
            return not absent(value) and _kind(value) is float and order(value, operand)

        return ordered
    wanted = {(_kind(v), v) for v in (operand if op in ("$in", "$nin") else (operand,))}
    positive = op in ("$eq", "$in")

    def equal(metadata: Mapping[str, MetadataValue]) -> bool:
        value = metadata.get(key)
        return (not absent(value) and (_kind(value), value) in wanted) is positive

    return equal
