"""True claims of a text, each changed in one fact: what a check has to notice.

A true claim is a sentence taken verbatim from a passage. A change is one of ``KINDS``: a number's digits, a name
replaced by another of the same passage, a month, a unit, a negation inserted or removed, two names that change places,
a clause of another passage appended. The changes are made by plain patterns that share no code with the check.
"""

from __future__ import annotations

import calendar
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from shared_core.citation import split_sentences

MONTHS = tuple(calendar.month_name[1:])
UNITS = [
    ("metres", "feet"), ("meters", "feet"), ("feet", "metres"), ("kilometres", "miles"), ("km", "miles"),
    ("miles", "km"), ("kilometers", "miles"), ("kg", "pounds"), ("pounds", "kg"), ("tonnes", "pounds"),
    ("hours", "days"), ("days", "hours"), ("years", "months"), ("months", "years"), ("weeks", "days"),
    ("minutes", "hours"), ("million", "billion"), ("billion", "million"), ("percent", "million"), ("acres", "hectares"),
]  # fmt: skip
_NUMBER = re.compile(r"(?<![\w.,-])\d{1,3}(?:,\d{3})+(?![\w,])|(?<![\w.,-])\d+(?:\.\d+)?(?![\w.,-]*\w)")
_NAME = re.compile(r"(?<![.!?:] )(?<=[a-z,;(] )[A-Z][a-zéèüöäçñ]+(?: [A-Z][a-zéèüöäçñ]+)*")
_BE = re.compile(r"\b(is|are|was|were|can|could|will|would|had|has|have)\b(?! not| never| no | also n)")
_NO = re.compile(r"\b(is|are|was|were|did|do|does|could|can|would|will|had|has|have) not\b|\bnever ")
_CALENDAR = {*MONTHS, *calendar.day_name}
_MIN, _MAX = 40, 260


@dataclass(frozen=True, slots=True)
class ChangedClaim:
    """A claim beside its evidence: true as it stands, or changed in one fact."""

    kind: str
    claim: str
    true: str
    evidence: str


def change_number(claim: str, passage: str, other: str, rng: random.Random) -> str | None:
    found = list(_NUMBER.finditer(claim))
    if not found:
        return None
    match = rng.choice(found)
    digits = [i for i, c in enumerate(match.group()) if c.isdigit()]
    at = rng.choice(digits[1:] or digits)
    new = rng.choice([d for d in "123456789" if d != match.group()[at]])
    number = match.group()[:at] + new + match.group()[at + 1 :]
    return None if number in passage else claim[: match.start()] + number + claim[match.end() :]


def names_in(text: str) -> list[re.Match[str]]:
    return [m for m in _NAME.finditer(text) if not set(m.group().split()) & _CALENDAR]


def change_name(claim: str, passage: str, other: str, rng: random.Random) -> str | None:
    found = names_in(claim)
    others = sorted({m.group() for m in names_in(passage)} - {m.group() for m in found})
    others = [o for o in others if not any(w in claim for w in o.split())]
    if not found or not others:
        return None
    match = rng.choice(found)
    return claim[: match.start()] + rng.choice(others) + claim[match.end() :]


def change_month(claim: str, passage: str, other: str, rng: random.Random) -> str | None:
    found = [m for month in MONTHS for m in re.finditer(rf"\b{month}\b(?= \d|,? \d{{4}})|(?<=\d ){month}\b", claim)]
    if not found:
        return None
    match = rng.choice(found)
    new = rng.choice([m for m in MONTHS if m != match.group()])
    return claim[: match.start()] + new + claim[match.end() :]


def change_unit(claim: str, passage: str, other: str, rng: random.Random) -> str | None:
    pairs = [(re.search(rf"(?<=\d ){a}\b", claim), b) for a, b in UNITS]
    found = [(m, b) for m, b in pairs if m]
    if not found:
        return None
    match, new = rng.choice(found)
    return claim[: match.start()] + new + claim[match.end() :]


def change_negation(claim: str, passage: str, other: str, rng: random.Random) -> str | None:
    if match := _NO.search(claim):
        kept = match.group().removesuffix(" not").removesuffix("never ")
        return claim[: match.start()] + kept + claim[match.end() :]
    found = list(_BE.finditer(claim))
    if not found:
        return None
    match = found[0]
    return f"{claim[: match.end()]} not{claim[match.end() :]}"


def swap_roles(claim: str, passage: str, other: str, rng: random.Random) -> str | None:
    found = [m for m in re.finditer(r"[A-Z][a-zéèüöäçñ]+(?: [A-Z][a-zéèüöäçñ]+)*", claim) if m.group() not in _CALENDAR]
    pairs = [
        (a, b)
        for a, b in pairwise(found)
        if a.group() != b.group()
        and re.search(r" [a-z]+ed | defeated | wrote | led | won | gave | took | made ", claim[a.end() : b.start()])
        and not re.search(r"\b(and|or|with|married|met)\b|[,;]", claim[a.end() : b.start()])
        and (
            a.start() > 0 or a.group().split()[0] not in {"The", "In", "He", "She", "It", "They", "This", "After", "On"}
        )
    ]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    return claim[: a.start()] + b.group() + claim[a.end() : b.start()] + a.group() + claim[b.end() :]


def add_fact(claim: str, passage: str, other: str, rng: random.Random) -> str | None:
    tails = [m.group(1) for m in re.finditer(r"(?:, (?:and|which|who|where) |; )([a-z][^.;,]{25,90})(?=[.,])", other)]
    if not tails or not claim.endswith("."):
        return None
    return f"{claim[:-1]}, and {rng.choice(tails).strip()}."


KINDS: dict[str, Callable[[str, str, str, random.Random], str | None]] = {
    "number": change_number,
    "name": change_name,
    "month": change_month,
    "unit": change_unit,
    "negation": change_negation,
    "role": swap_roles,
    "addition": add_fact,
}


def changed_claims(passages: Sequence[str], each: int, *, seed: int = 0) -> list[ChangedClaim]:
    """Up to ``each`` changed claims of every kind, each from a passage of its own kind's order."""
    out: list[ChangedClaim] = []
    for kind, change in KINDS.items():
        rng = random.Random(f"{seed} {kind}")
        order = rng.sample(range(len(passages)), len(passages))
        found = _of_kind(kind, change, [passages[i] for i in order], rng)
        out += islice(found, each)
    return out


def _of_kind(
    kind: str, change: Callable[[str, str, str, random.Random], str | None], passages: Iterable[str], rng: random.Random
) -> Iterator[ChangedClaim]:
    before = ""
    for passage in passages:
        sentences = [passage[a:b] for a, b in split_sentences(passage)]
        rng.shuffle(sentences)
        for sentence in sentences:
            if not (_MIN <= len(sentence) <= _MAX and sentence[0].isupper() and sentence.endswith(".")) or not before:
                continue
            changed = change(sentence, passage, before, rng)
            if changed is not None and changed != sentence:
                yield ChangedClaim(kind, changed, sentence, passage)
                break
        before = passage
