"""Code, options, files and addresses are compared letter for letter; what only looks like them is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.citation import compare_claim
from shared_core.citation.facts.literals import missing_literals

EVIDENCE = (
    "Register at https://orm.example/register. Questions go to office@orm.example. Use the header `X-Orm-Key`. "
    "The field `weight_grams` is required. Run `parcel sync --all` to update. Requests go to `GET /v2/shipments`. "
    "Set `MAX_RETRIES=5` in `settings.toml`. The field `service` defaults to `standard`. "
    "`DELETE /v2/shipments/{id}` cancels. Lamps are kept in src/lamps/main.py and @keeper gets a mail."
)


@pytest.mark.parametrize(("claim", "missing"), [
    ("Register at https://orm.example/signup.", "https://orm.example/signup"),
    ("Register at https://orm.example/reg.", "https://orm.example/reg"),
    ("Register at www.orm-lamps.example.", "www.orm-lamps.example"),
    ("Questions go to info@orm.example.", "info@orm.example"),
    ("Questions go to office@orm.test.", "office@orm.test"),
    ("Use the header `X-Orm-Token`.", "X-Orm-Token"),
    ("The field `weight_kg` is required.", "weight_kg"),
    ("The field weight_kg is required.", "weight_kg"),
    ("The field `Weight_Grams` is required.", "Weight_Grams"),
    ("Run `parcel update --all` to update.", "parcel update --all"),
    ("Run parcel update --all to update.", "--all"),
    ("Run `parcel sync --force` to update.", "parcel sync --force"),
    ("Requests go to `POST /v2/shipments`.", "POST /v2/shipments"),
    ("Requests go to /v3/shipments.", "/v3/shipments"),
    ("Set `MAX_RETRIES=5` in `config.toml`.", "config.toml"),
    ("Set it in config.toml.", "config.toml"),
    ("Set `MAX_RETRY=5` in `settings.toml`.", "MAX_RETRY=5"),
    ("The service defaults to `express`.", "express"),
    ("@pilot gets a mail.", "@pilot"),
])  # fmt: skip
def test_a_changed_literal_is_missing(claim: str, missing: str) -> None:
    assert list(missing_literals(claim, EVIDENCE)) == [missing]
    found = [m for m in compare_claim(claim, EVIDENCE).mismatches if m.kind == "literal"]
    assert [(m.claimed, m.refuted) for m in found] == [(missing, False)]
    assert compare_claim(claim, EVIDENCE).cap(0.9) <= 0.35


@pytest.mark.parametrize("claim", [
    "See http://www.orm.example/register/ or orm.example.", "Write to Office@Orm.example.", "The `weight_grams` field.",
    "The field weight\\_grams is required.", "weight_grams's value, the weight_gramss", "Weight_grams is required.",
    "Run `parcel sync` with `--all`.", "Use the sync command with --all.", "Pass --all to update.",
    "`MAX_RETRIES` is 5 in **settings.toml**.", "MAX_RETRIES = 5", "The default is `Standard`.",
    "`DELETE /v2/shipments/<id>` cancels.", "`GET` is used.", "Set it to `true`.", "It is `5`.",
    "Lamps are in `main.py` in `src/lamps`.", "Write to office@orm.\nexample.", "`The field` is `required`.",
])  # fmt: skip
def test_the_same_in_another_form_is_not(claim: str) -> None:
    assert list(missing_literals(claim, EVIDENCE)) == []


@pytest.mark.parametrize("claim", [
    "It opens 24/7 and/or on 3/4/2024, e.g. for him/her, i.e. he/she.", "In the U.S. it costs $3.50/month, at 9 a.m.",
    "Version 2.3.1 at 80 km/h.", "The lamp is lit.It burns oil.", "A lamp -- an old one -- burns.",
    "CO_2 rises to x_i.",
    "It costs 30 €/Monat or £30 /month.", "J.R.R. Orm and input/output at 5:30 p.m.", "____ and * * *", "50%/60%",
    "Dr.Orm met the Ph.D. at No.5.", "The lamp burns.\nno oil is left.it is dark.",
])  # fmt: skip
def test_words_with_signs_in_them_are_no_literals(claim: str) -> None:
    assert list(missing_literals(claim, "The lamp is old.")) == []


def test_title_and_question_may_name_it() -> None:
    claim, evidence = "The `weight_kg` is required.", "It is required."
    assert not compare_claim(claim, evidence).agrees
    assert compare_claim(claim, evidence, "weight_kg").agrees


def test_the_claim_as_written_is_looked_at() -> None:
    assert compare_claim("Run it with X.", "Run it with X.").agrees
    assert not compare_claim("Run it with X.", "Run it with X.", "", "Run it with `Y`.").agrees


@given(st.text(alphabet="ab_./@-` :{}<>()*\\\n1", max_size=60), st.text(max_size=20))
def test_nothing_is_missing_of_a_text_in_itself_whatever_surrounds_it(text: str, around: str) -> None:
    assert list(missing_literals(text, f"{around}{text}\n{around}")) == []
