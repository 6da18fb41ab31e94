"""Answers checked against JSON, as agents get it from tools: quotes are places in it, values stay with records."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage

from langchain_selfreflect.middleware import evidence_of
from shared_core import Passage, SelfReflectChecker
from shared_core.pipelines.json_passages import write_json
from shared_core.types import Claim

TRIPS = {
    "bookings": [
        {
            "id": "K-31",
            "isPaid": True,
            "train": {"status": "departed", "date": "2026-05-07", "platform": None},
            "seats": [{"name": "Window", "qty": 2, "price": {"amount": 24.5, "currency": "EUR"}}],
        },
        {
            "id": "K-32",
            "isPaid": False,
            "train": {"status": "NOT_BOARDED", "date": "2026-05-12", "operator": "Nordrail"},
            "seats": [{"name": "Couchette", "qty": 1, "price": {"amount": 80, "currency": "EUR"}}],
        },
    ]
}
STAFF = {
    "staff": {
        "s-1": {"name": "Ann Moor", "role": "baker", "working": True, "hired_on": "2019-02-03"},
        "s-2": {"name": "Ben Hart", "role": "cashier", "working": False, "hired_on": None},
    }
}
WAYS: list[Callable[[Any], str]] = [json.dumps, lambda value: json.dumps(value, indent=2), repr]


def claim_on(text: str, claim: str) -> Claim:
    (found,) = SelfReflectChecker().check(claim, passages=[Passage("call 1", text)]).claims
    for citation in found.citations:
        assert all(text[s.start : s.end] == s.text for s in citation.spans)
    return found


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize(
    ("claim", "right"),
    [
        ("Booking K-31 is paid.", True),
        ("Booking K-32 is paid.", False),
        ("Booking K-32 has not been paid.", True),
        ("The train of booking K-31 departed on 7 May 2026.", True),
        ("The train of booking K-31 departed on 7 June 2026.", False),
        ("The train of booking K-31 departed on 12 May 2026.", False),
        ("You booked two window seats at 24.50 EUR each.", True),
        ("You booked two window seats at 80 EUR each.", False),
        ("The couchette costs 80 EUR.", True),
        ("The window seats cost 80 EUR.", False),
        ("Nordrail is the operator of booking K-32.", True),
        ("The train of booking K-31 departs from platform 4.", False),  # null is unknown
    ],
)
def test_claims_are_held_against_their_own_record(claim: str, right: bool, write: Callable[[Any], str]) -> None:
    assert (claim_on(write(TRIPS), claim).verdict == "supported") is right


@pytest.mark.parametrize(
    ("claim", "right"),
    [
        ("Ann Moor is a baker.", True),
        ("Ben Hart is a baker.", False),
        ("Ann Moor was hired on 3 February 2019.", True),
        ("Ben Hart was hired on 3 February 2019.", False),
        ("Ben Hart is not working.", True),
        ("Ben Hart is working.", False),
    ],
)
def test_objects_filed_under_their_ids_are_records(claim: str, right: bool) -> None:
    assert (claim_on(json.dumps(STAFF), claim).verdict == "supported") is right


STOCK = {
    "shelves": [
        {"code": "R-4", "state": "SEALED", "opened": "2026-02-11", "tools": [{"name": "Plane", "price_eur": 75}]},
        {"code": "R-9", "state": "DUSTY", "opened": None, "tools": [{"name": "Rasp", "price_eur": 12}]},
    ]
}


@pytest.mark.parametrize(
    ("claim", "quoted"),
    [
        ("The rasp costs 75 EUR.", "Rasp"),
        ("The plane costs 12 EUR.", "Plane"),
        ("Shelf R-9 was opened on 11 February 2026.", "R-9"),
        ("The rasp of shelf R-4 costs 75 EUR.", "Rasp"),
    ],
)
def test_the_value_of_another_record_supports_nothing(claim: str, quoted: str) -> None:
    found = claim_on(json.dumps(STOCK), claim)
    assert found.verdict != "supported"
    assert all(quoted in citation.spans[0].text + citation.spans[-1].text for citation in found.citations)


def test_what_a_named_record_holds_is_its_own() -> None:
    written = write_json(Passage("call 1", json.dumps(STOCK)))
    assert written is not None

    def about(*words: str) -> list[str]:
        return [span.text.partition(":")[0] for span in written.about(frozenset(words))]

    assert about("r", "4") == ["Shelf R-4", "Plane of shelf R-4"]
    assert about("rasp") == ["Rasp of shelf R-9"]
    assert about("rasp", "r", "4") == ["Shelf R-4", "Rasp of shelf R-9"]
    assert about("saw", "4") == []


def test_the_quote_is_the_fields_that_the_claim_is_about_with_the_record_s_name() -> None:
    found = claim_on(json.dumps(TRIPS), "The train of booking K-31 departed on 7 May 2026.")
    assert [s.text for s in found.citations[0].spans] == ['"id": "K-31"', '"status": "departed", "date": "2026-05-07"']


def test_the_result_of_a_tool_is_read_as_json() -> None:
    results = evidence_of([ToolMessage(json.dumps(TRIPS), tool_call_id="1", name="bookings")])
    checked = SelfReflectChecker().check("Booking K-31 is paid. Booking K-32 is paid.", passages=results)
    assert [claim.verdict for claim in checked.claims] == ["supported", "contradicted"]
    assert checked.passages[0].text == json.dumps(TRIPS)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"temp_c": 4.5, "windSpeedKmh": 14}, "The temperature is 4.5 °C; the wind speed is 14 km/h."),
        ({"is_open": False, "hasParking": True, "canBeMoved": False},
         "It is not open; it has parking; it cannot be moved."),
        ({"starts_at": "2026-04-03T10:00:00+02:00"}, "The starts at is 2026-04-03 at 10:00."),
        ({"total": 12.5, "currency": "EUR"}, "The total is 12.5 EUR; the currency is EUR."),
        ({"tags": ["red", "blue"], "state": "ON_HOLD"}, "The tags are red, blue; the state is on hold."),
        ({"data": {"shop": {"name": "Orm", "city": None, "floor": 2}}}, "Orm: the floor is 2."),
        ([{"city": "Ost", "high": 4}, {"city": "Tarn", "high": 9}],
         "City Ost: the high is 4.\nCity Tarn: the high is 9."),
    ],
)  # fmt: skip
def test_fields_are_written_in_words(value: Any, written: str) -> None:
    found = write_json(Passage("call 1", json.dumps(value)))
    assert found is not None
    assert found.passage.text == written


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "[1, 2]", '{"a": 1', '{"a": 1} and more', "{a: 1}", "[" * 5000 + "]" * 5000, "{'a': f(1)}",
     '{"a": "\\u12"}', "The lamp is lit.", "{braces} in a text, [1]"],
)  # fmt: skip
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert write_json(Passage("p", text)) is None


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(max_size=8), _VALUES, max_size=4), st.sampled_from(WAYS))
def test_every_statement_has_places_in_the_text(value: Any, write: Callable[[Any], str]) -> None:
    text = write(value)
    found = write_json(Passage("p", text))
    if found is not None:
        for start, statement in zip(found.starts, found.statements, strict=True):
            quotes = found.quoted(found.passage.span(start, start + len(statement.text)))
            assert quotes
            assert all(q.text == text[q.start : q.end] for q in quotes)
