"""Checks of arguments that all retrievers share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from shared_core.errors import InputError, PassageError, QuestionError
from shared_core.types import MetadataValue, Passage


def check_query(query: str) -> str:
    """Strip white space from a query, which may be empty; QuestionError if it is not a string."""
    if not isinstance(query, str):
        raise QuestionError(f"A query must be a string, not {type(query).__name__}.", hint="Pass the question as text.")
    return query.strip()


def check_k(k: int) -> int:
    """Return ``k``; InputError if it is not a whole number of at least 1."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"k must be a whole number of at least 1, not {k!r}.", hint="Ask for at least one passage.")
    return k


def collect(passages: Iterable[Passage]) -> dict[str, Passage]:
    """Collect passages by id, in order, without scores; a passage given twice is kept once.

    Raises:
        PassageError: an item is not a passage or cannot be stored (nested metadata, invalid Unicode), or two different
            passages share an id.
    """
    if isinstance(passages, Passage | str | Mapping):
        raise PassageError(
            f"Expected several passages, not one {type(passages).__name__}.", hint="Pass a list: add([passage])."
        )
    out: dict[str, Passage] = {}
    for passage in passages:
        if not isinstance(passage, Passage):
            raise PassageError(
                f"Expected a Passage, not {type(passage).__name__}.",
                hint="Create one: Passage(id=..., text=..., title=..., metadata=...).",
            )
        _check_storable(passage)
        plain = passage if passage.score is None else passage.with_score(None)
        if out.setdefault(plain.id, plain) != plain:
            raise PassageError(
                f"Two different passages share the id {plain.id!r}.",
                hint="Give each passage a unique id; to replace a passage, add the new one in a later call.",
            )
    return out


def collect_ids(ids: Iterable[str]) -> list[str]:
    """List ids without repetitions; InputError for a single string, which is probably a mistake."""
    if isinstance(ids, str):
        raise InputError(f"Expected several ids, not the string {ids!r}.", hint=f"Pass a list: [{ids!r}].")
    out = list(dict.fromkeys(ids))
    if not all(isinstance(i, str) for i in out):
        raise InputError("Ids of passages are strings.")
    return out


def _check_storable(passage: Passage) -> None:
    for part in (passage.id, passage.text, passage.title):
        _check_unicode(part, passage)
    for key, value in passage.metadata.items():
        if not isinstance(key, str) or not key or key.startswith(("chroma:", "selfreflect:")):
            raise PassageError(
                f"Metadata of passage {passage.id!r} has the key {key!r}, which cannot be stored.",
                hint="Keys are non-empty strings that do not start with 'chroma:' or 'selfreflect:'.",
            )
        if not isinstance(value, str | int | float | bool | type(None)):
            raise PassageError(
                f"Metadata {key!r} of passage {passage.id!r} is a {type(value).__name__}.",
                hint="Metadata values are strings, numbers, booleans or None; join lists into one string.",
            )
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise PassageError(f"Metadata {key!r} of passage {passage.id!r} does not fit 64 bits.")
        for text in (key, value):
            if isinstance(text, str):
                _check_unicode(text, passage)


def _check_unicode(text: str, passage: Passage) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise PassageError(
            f"Passage {passage.id!r} holds text that is not valid Unicode: {error}.",
            hint="Read the file with errors='replace', or remove lone surrogates.",
        ) from error


def absent(value: MetadataValue) -> bool:
    """Whether filters treat a value as absent: None and numbers that are not finite."""
    return value is None or (isinstance(value, float) and not math.isfinite(value))
