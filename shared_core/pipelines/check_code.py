"""Find addresses in an answer's code that the passages do not have: "/v3/orders" where they say "/v2/orders".

Code is not checked otherwise: what it names besides is its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from shared_core.abstention.statements import Statement, Statements
from shared_core.citation.facts.literals import has_address
from shared_core.pipelines.decision.links import Addresses
from shared_core.pipelines.evidence import Evidence
from shared_core.support.regex import lazy_regex

__all__ = ["lines_with_unknown_addresses", "unknown_address"]

_PLACE = r"(?:/(?:\{[^{}\s]{1,60}\}|<[^<>\s]{1,60}>|\$\{?\w{1,60}\}?|:\w{1,60}|[\w.~%@+-]{1,100})){1,20}"
_URL = lazy_regex(rf"https?://([^\s/\"'`<>()\[\]]{{1,200}})({_PLACE})?", re.IGNORECASE)
_REQUEST = lazy_regex(
    rf"(?:\b(?:GET|POST|PUT|PATCH|DELETE|HEAD)\b\s{{1,4}}[\"'`]?|(?:\.|\b)(?:get|post|put|patch|delete|request|fetch|route)"
    rf"\(\s?(?:[\"']\w{{3,7}}[\"'],\s?)?[rf]?[\"'`])({_PLACE})"
)
_ANY = lazy_regex(r"[{<$:].*|\d+|(?=.*\d)[\da-f-]{8,}|YOUR_\w+|[A-Z]+_?ID", re.IGNORECASE)
_STAND_INS = lazy_regex(
    r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0|(?:[\w-]+\.)*example(?:\.\w+)?|.*(?:[{<$]|your|my-?domain|\bhost\b).*)(?::\d+)?\Z",
    re.IGNORECASE,
)


def lines_with_unknown_addresses(
    answer: str, cut: Statements, question: str, evidence: Evidence
) -> tuple[list[Statement], Statements]:
    """Make statements of the lines of code with such an address, which are no longer left out then."""
    if not cut.code or not evidence.windows:
        return [], cut
    known = Addresses(question, evidence.passages).text
    found = [(a, b) for a, b in cut.code if unknown_address(answer[a:b], known)]
    lines = [Statement(answer[a:b], a, b, answer[a:b], written=answer[a:b]) for a, b in found]
    return lines, replace(cut, left_out=_without(cut.left_out, found))


def _without(ranges: Sequence[tuple[int, int]], taken: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges without others that lie within them."""
    out: list[tuple[int, int]] = []
    for start, end in ranges:
        for a, b in (t for t in taken if start <= t[0] and t[1] <= end):
            out.append((start, a))
            start = b
        out.append((start, end))
    return tuple((a, b) for a, b in out if a < b)


def unknown_address(code: str, known: str) -> str:
    """Return the first address of a line of code that is not in a text with addresses; empty if there is none.

    Numbers and placeholders in it may be any ("/orders/7" for "/orders/{id}"). A text without addresses knows none, and
    so says nothing of others.

    >>> unknown_address("curl https://api.orm.example/v3/orders/7", "`GET /v2/orders/{id}` on https://api.orm.example")
    'https://api.orm.example/v3/orders/7'
    >>> unknown_address("curl https://api.orm.example/v2/orders/7", "`GET /v2/orders/{id}` on https://api.orm.example")
    ''
    """
    places = _places(known)
    for found in _URL.finditer(code):
        host, place = found[1], found[2] or ""
        if has_address(found[0], known):
            continue
        if place and places and not _is_known(place, places):
            return found[0]
        if not place and places and not (_STAND_INS.match(host) or has_address(host, known)):
            return found[0]
    for found in _REQUEST.finditer(code):
        if places and not _is_known(found[1], places):
            return found[1]
    return ""


@lru_cache(maxsize=16)
def _places(text: str) -> frozenset[tuple[str, ...]]:
    """Paths of a text, in their parts."""
    paths = [m[2] for m in _URL.finditer(text) if m[2]]
    paths += [m[0] for m in re.finditer(rf"(?<![\w/.:<~]){_PLACE}", text)]
    return frozenset(parts for path in paths if (parts := _parts(path)))


def _parts(path: str) -> tuple[str, ...]:
    """Parts of a path; an empty one stands for any."""
    return tuple("" if _ANY.fullmatch(p) else p.rstrip(".").lower() for p in path.strip("/").split("/") if p)


def _is_known(path: str, places: frozenset[tuple[str, ...]]) -> bool:
    """Return whether a path is one of these, or goes on before one: a server's own folder may lead to it."""
    own = _parts(path)
    return not any(own) or any(_fits(own, place) for place in places)


def _fits(own: Sequence[str], place: Sequence[str]) -> bool:
    if not any(place) or len(place) > len(own):
        return False
    tail = own[len(own) - len(place) :]
    before = own[: len(own) - len(place)]
    # "/v3/orders" is no "/orders" below another folder where the text names versions
    return all(a == b or not a or not b for a, b in zip(tail, place, strict=True)) and len(before) <= 1
