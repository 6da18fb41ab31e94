"""Write a passage of JSON (the result of a tool) as statements, each with the places of the text that it is made of.

A judge reads sentences, not braces, and values of two records may not be mixed up: {"orders": [{"id": "A-17", "paid":
false}]} becomes "Order A-17: it is not paid." What is quoted for a claim are the places in the passage's own text.
"""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from shared_core.citation.facts.dates import dates_of
from shared_core.citation.facts.quantities import UNITS, quantities_of
from shared_core.citation.facts.tokens import fold, telling_keys_of, tokens_of
from shared_core.pipelines.json_places import Key, Node, read_json
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage, Span

__all__ = ["WrittenPassage", "label_of", "write_json"]

_CAMEL = lazy_regex(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NAMES = ("name", "title", "label", "id", "number", "code", "sku", "key", "reference", "slug", "username", "email")
"""Fields that name a record, the best first."""
_WRAPPERS = {
    "data", "result", "results", "response", "responses", "payload", "records", "record", "rows", "row",
    "entries", "entry", "list", "values", "value", "output", "body", "attributes", "properties", "fields",
    "nodes", "node", "edges", "edge", "objects", "object",
}  # fmt: skip
"""Keys that name nothing."""
_SHORT = {"qty": "quantity", "amt": "amount", "desc": "description", "addr": "address", "temp": "temperature"}
_MEASURES = {"kmh": "km/h", "kph": "km/h", "pct": "%", "percent": "%", "percentage": "%"}
_AMOUNT, _CURRENCY = frozenset(["amount", "value"]), frozenset(["currency", "unit", "units"])
_KIND = lazy_regex(r" (?:number|name|id|code|no)\Z")
_ID = lazy_regex(r"(?=.*\d)|.*[^\W\d_a-z]")  # a key that names a thing, such as "A-17", and no property
_MONEY = frozenset(("amount", "price", "total", "subtotal", "cost", "fee", "balance", "tax", "refund"))
_CONSTANT = lazy_regex(r"[A-Z]+(?:_[A-Z]+)+|[a-z]+(?:_[a-z]+)+")  # IN_TRANSIT
_TIME = lazy_regex(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_KEY = lazy_regex(r"""\A(["'])[^"']*\1\s*:\s*""")
_JOINED = lazy_regex(r"[\s,:{}\[\]]*")
_FIELDS = 8  # of a statement at most
_NAME = 80  # code points of a name at most
_VERBS = {"is": "is", "has": "has", "can": "can", "was": "was", "are": "are"}

Place = tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    """A part of a statement ("the quantity is 2"), and its places."""

    text: str
    places: tuple[Place, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Statement:
    """A line about a record, with its kind, the places of its names, and its fields."""

    kind: str
    text: str
    names: tuple[Place, ...]
    fields: tuple[_Field, ...]

    def places(self, claim: str) -> list[Place]:
        """Return the places of the names, and of the fields that bear on a claim (all if none does)."""
        some = [f for f in self.fields if _bears_on(claim, f.text)] or self.fields
        return [*self.names, *(place for f in some for place in f.places)]


def _bears_on(claim: str, field: str) -> bool:
    """Whether a field has a word of the claim, or a date or number where the claim has one."""
    if telling_keys_of(claim) & telling_keys_of(field):
        return True
    dates = bool(dates_of(claim)), bool(dates_of(field))
    numbers = [{q.dimension for q in quantities_of(text)} for text in (claim, field)]
    return dates == (True, True) or (dates == (False, False) and bool(numbers[0] & numbers[1]))


@dataclasses.dataclass(frozen=True, slots=True)
class WrittenPassage:
    """The statements of a passage of JSON.

    Attributes:
        passage: has the statements as its text, a line each.
        source: the passage itself.
        starts: where each statement begins in that text.
    """

    passage: Passage
    source: Passage
    starts: tuple[int, ...]
    statements: tuple[_Statement, ...]

    def about(self, words: frozenset[str]) -> list[Span]:
        """Return the statements on the records that a claim names, as parts of the text; none if it names none.

        Of a record that is named, those on what it holds too, unless another of their kind is named.

        Args:
            words: keys of the claim's tokens.
        """
        named = [[place for place in s.names if self._is_named(place, words)] for s in self.statements]
        if not any(named):
            return []
        own = [bool(places) and places[0] == s.names[0] for places, s in zip(named, self.statements, strict=True)]
        kinds = {s.kind for s, is_own in zip(self.statements, own, strict=True) if is_own}
        ends = [*(start - 1 for start in self.starts[1:]), len(self.passage.text)]
        return [
            self.passage.span(start, start + len(self.passage.text[start:end].rstrip()))
            for s, places, is_own, start, end in zip(self.statements, named, own, self.starts, ends, strict=True)
            if is_own or not s.names or (places and s.kind not in kinds)
        ]

    def _is_named(self, place: Place, words: frozenset[str]) -> bool:
        """Whether a claim has all words of a record's name; a mere number may count something else."""
        keys = _keys_of_name(self.source.text[slice(*place)])
        return bool(keys) and keys <= words

    def quoted(self, span: Span, claim: str = "") -> list[Span]:
        """Return what the source has for a part of the statements, as far as it bears on a claim.

        >>> order = Passage("call 1", '{"id": "A-17", "paid": false}')
        >>> written = write_json(order)
        >>> written.passage.text
        'A-17: it is not paid.'
        >>> [quote.text for quote in written.quoted(written.passage.span(0, 21))]
        ['"id": "A-17", "paid": false']
        """
        first, last = (bisect_right(self.starts, at) for at in (span.start, max(span.start, span.end - 1)))
        places = {place for s in self.statements[max(first - 1, 0) : last] for place in s.places(claim)}
        return [self.source.span(a, b) for a, b in _merged(sorted(places), self.source.text)]


@lru_cache(maxsize=8192)
def _keys_of_name(written: str) -> frozenset[str]:
    """Return the keys of the words of a name as a field has it; none of a mere number."""
    name = _KEY.sub("", written)
    return frozenset(t.key for t in tokens_of(name)) if any(map(str.isalpha, name)) else frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class _Owner:
    """The record that others are of: its kind with its name ("order A-17"), and the place of the name."""

    name: str = ""
    places: tuple[Place, ...] = ()


def write_json(passage: Passage) -> WrittenPassage | None:
    """Write a passage whose whole text is JSON with an object; ``None`` for any other text."""
    root = read_json(passage.text)
    found = [] if root is None else list(_records(root, "", _Owner()))
    if not found:
        return None
    text = ""
    starts: list[int] = []
    for _, group in groupby(found, key=lambda statement: statement.kind):
        text += "\n" if text else ""
        for statement in group:
            starts.append(len(text))
            text += f"{statement.text}\n"
    written = dataclasses.replace(passage, text=text.rstrip("\n"))
    return WrittenPassage(written, passage, tuple(starts), tuple(found))


def label_of(path: Sequence[str]) -> str:
    """Convert a path to words: "refundDays" of "plans.0.refundDays" to "plans refund days"."""
    words = " ".join(_CAMEL.sub(" ", part) for part in path if not part.isdigit())
    return " ".join(w if w.isupper() else w.lower() for w in re.split(r"[\s_.-]+", words) if w)


def _merged(places: Sequence[Place], text: str) -> list[Place]:
    """Join places with nothing but punctuation between them."""
    merged: list[Place] = []
    for start, end in places:
        if merged and _JOINED.fullmatch(text, merged[-1][1], max(start, merged[-1][1])):
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


# --- records ---------------------------------------------------------------------------------------------------------


def _records(node: Node, kind: str, owner: _Owner, key: Key | None = None, alike: str = "") -> Iterator[_Statement]:
    """Write an object and all objects in it; of a list each of its objects.

    Args:
        kind: of the object, in words; empty if unknown.
        owner: the record that it is of.
        key: what it is filed under, if that names it.
        alike: the field that tells the objects of its list apart, if none of them has a name.
    """
    if node.items is not None:
        telling = _telling_field(node.items)
        for item in node.items:
            yield from _records(item, _singular(kind), owner, None, telling)
    if node.fields is None:
        return
    name, used = _name_of(node, kind, alike)
    filed = [] if key is None else [_Field(f"the id is {key.text}", ((key.start, key.end),))]
    if key is not None and not used:
        name, filed = _Owner(f"{kind} {key.text}".strip(), filed[0].places), []
    values = list(node.fields.items())
    single = len(values) == 1 and values[0][1].fields is not None  # {"invoice": {…}}
    own = [] if single else [f for k, value in values if k.text != used for f in _fields(value, (k.text,), k.start)]
    yield from _statements(kind, name, owner, [*filed, *_with_currency(own, node)])
    inner = _Owner(name.name, (*name.places, *owner.places)) if name.name else owner
    for child_key, child in _children(node, not single):
        label = "" if child_key.lower() in _WRAPPERS else label_of((child_key,))
        if not _is_by_name(child):
            yield from _records(child, label, inner)
            continue
        for inside, value in (child.fields or {}).items():
            yield from _records(value, _singular(label), inner, inside)


def _children(node: Node, plain: bool) -> Iterator[tuple[str, Node]]:
    """Yield the lists of objects in an object, wherever they are, and its only object if it has nothing else."""
    for key, value in (node.fields or {}).items():
        if value.items is not None:
            if any(v.fields is not None or v.items is not None for v in value.items):
                yield key.text, value
        elif value.fields is not None:
            if not plain or _is_by_name(value):
                yield key.text, value
            else:
                yield from _children(value, plain)


def _is_by_name(node: Node) -> bool:
    """Whether an object maps names of things ("A-17") to objects of one kind."""
    fields = node.fields or {}
    inner = [v.fields for v in fields.values() if v.fields]
    if len(inner) < 2 or len(inner) < len(fields) or not all(_ID.match(k.text) for k in fields):
        return False
    return bool(set.intersection(*({k.text for k in f} for f in inner)))


def _name_of(node: Node, kind: str, alike: str) -> tuple[_Owner, str]:
    """Return the name of an object with its kind, and the key that has it."""
    fields = {k.text: (k, v) for k, v in (node.fields or {}).items()}
    own = [f"{kind} {name}" for name in ("name", "id", "number", "code")] if kind else []
    by_label = {label_of((key,)): key for key in fields}
    for label in (*_NAMES[:3], *own, *_NAMES[3:], label_of((alike,)) if alike else ""):
        key = by_label.get(label)
        value = fields[key][1] if key else None
        if key and value is not None and value.is_value and len(str(value.value)) <= _NAME and value.value != "":
            # "Ann Moor" and "Dune" need no kind, "order A-17" does
            shown = "" if label in _NAMES[:3] else kind or (_KIND.sub("", label) if label not in _NAMES else "")
            return _Owner(f"{shown} {_said(value)}".strip(), ((fields[key][0].start, value.end),)), key
    return _Owner(), ""


def _telling_field(items: Sequence[Node]) -> str:
    """Return the first field with a text of each object of a list that differs in all of them; empty without one."""
    rows = [{k.text: v for k, v in item.fields.items()} for item in items if item.fields]
    for key in rows[0] if len(rows) > 1 else ():
        values = [row[key].value for row in rows if key in row and isinstance(row[key].value, str)]
        if len(values) == len(set(values)) == len(rows):
            return key
    return ""


def _statements(kind: str, name: _Owner, owner: _Owner, fields: Sequence[_Field]) -> Iterator[_Statement]:
    of = f" of {owner.name}" if owner.name else ""
    head = name.name or (f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}" if kind else "an entry" if of else "")
    head, names = f"{head}{of}", (*name.places, *owner.places)
    for i in range(0, len(fields), _FIELDS):
        some = tuple(fields[i : i + _FIELDS])
        said = "; ".join(f.text for f in some)
        text = f"{head[:1].upper()}{head[1:]}: {said}" if head else f"{said[:1].upper()}{said[1:]}"
        yield _Statement(kind, text if text.endswith((".", "!", "?")) else f"{text}.", names, some)
    if not fields and name.name and of:
        yield _Statement(kind, f"{head[:1].upper()}{head[1:]}.", names, ())


# --- fields ----------------------------------------------------------------------------------------------------------


def _fields(node: Node, path: tuple[str, ...], start: int) -> Iterator[_Field]:
    """Write a value, or all values of an object in a record; unknown ones (null) and lists of objects not."""
    if node.fields is not None:
        if (amount := _amount(node)) is not None:
            yield _Field(f"the {_words(path)} is {amount}", ((start, node.end),))
        elif not _is_by_name(node):
            for key, value in node.fields.items():
                yield from _fields(value, (*path, key.text), key.start)
    elif node.items is not None:
        values = [_said(v) for v in node.items if v.is_value]
        if values and len(values) == len(node.items):
            verb = "are" if len(values) > 1 or path[-1].endswith("s") else "is"
            yield _Field(f"the {_words(path)} {verb} {', '.join(values)}", ((start, node.end),))
    elif isinstance(node.value, bool):
        yield _Field(_truth(_words(path), node.value), ((start, node.end),))
    elif node.is_value and str(node.value).strip():
        label, said = _words(path), _said(node)
        *before, last = label.split()
        unit = f"°{last.upper()}" if last in ("c", "f") and "temperature" in before else _MEASURES.get(last, last)
        if before and len(unit) > 1 and fold(unit) in UNITS and isinstance(node.value, int | float):
            label, said = " ".join(before), f"{said} {unit}"  # "duration_minutes": 45
        yield _Field(f"the {label} is {said}", ((start, node.end),))


def _with_currency(fields: Sequence[_Field], node: Node) -> Iterator[_Field]:
    """Put the currency of a record behind its amounts: {"total": 20, "currency": "EUR"}."""
    found = [(k, v) for k, v in (node.fields or {}).items() if label_of((k.text,)) in ("currency", "currency code")]
    key, currency = found[0] if found else (None, None)
    for field in fields:
        label, _, value = field.text.partition(" is ")
        amount = not _MONEY.isdisjoint(label.split()) and re.fullmatch(r"-?[\d.]+", value)
        if key and currency and isinstance(currency.value, str) and amount:
            yield _Field(f"{field.text} {currency.value}", (*field.places, (key.start, currency.end)))
        else:
            yield field


def _words(path: Sequence[str]) -> str:
    words = label_of([p for p in path if p.lower() not in _WRAPPERS] or path[-1:]).split()
    return " ".join(_SHORT.get(w, w) for w in words) or "value"


def _truth(label: str, value: bool) -> str:
    """Write a truth value: "it is not in stock" for "is_in_stock": false."""
    first, _, rest = label.partition(" ")
    verb = _VERBS.get(first, "") if rest else ""
    if verb == "has":
        return f"it {'has' if value else 'does not have'} {rest}"
    if verb == "can":
        return f"it {'can' if value else 'cannot'} {rest}"
    return f"it {'was' if verb == 'was' else 'is'} {'' if value else 'not '}{rest if verb else label}"


def _amount(node: Node) -> str | None:
    """Return "39.9 EUR" for an object with nothing but an amount and its currency or unit."""
    fields = {label_of((k.text,)): v for k, v in (node.fields or {}).items() if v.value is not None}
    amount = next((v for k, v in fields.items() if k in _AMOUNT), None)
    unit = next((v for k, v in fields.items() if k.partition(" ")[0] in _CURRENCY), None)
    if len(fields) != 2 or amount is None or unit is None or not isinstance(unit.value, str):
        return None
    return f"{_said(amount)} {unit.value}"


def _said(node: Node) -> str:
    """Return a value in words: numbers as they are written, constants and times of day as people write them."""
    value = node.value
    if not isinstance(value, str):
        return node.written if not isinstance(value, bool) else "yes" if value else "no"
    text = " ".join(value.split())
    if _CONSTANT.fullmatch(text):
        return text.replace("_", " ").lower()
    return _TIME.sub(lambda m: m[1] if m[2] == "00:00" else f"{m[1]} at {m[2]}", text)


def _singular(words: str) -> str:
    """Return the singular of a plural's last word: "company" for "companies"."""
    if words.endswith("ies") and len(words) > 4:
        return f"{words[:-3]}y"
    if words.endswith("lves"):  # shelves, halves
        return f"{words[:-3]}f"
    if words.endswith(("sses", "xes", "ches", "shes")):
        return words[:-2]
    return words[:-1] if words.endswith("s") and not words.endswith(("ss", "us", "is")) else words
