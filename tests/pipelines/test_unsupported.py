"""Claims that are not supported: passed, flagged, stripped, or the whole answer refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import SelfReflectSettings
from shared_core.errors import SettingsError
from shared_core.facades.checker import SelfReflectChecker
from shared_core.pipelines.decision.wording import POLICIES, treat_unsupported
from shared_core.types import Answer
from tests.fakes import PASSAGES, WordCritic

CHECKER = SelfReflectChecker(critic=WordCritic(), calibrations={})
LIT, WRONG, FLEW = "The lamp was lit in 1871.", "The lamp was lit in 1950.", "Captain Venn flew to the moon."


def treat(text: str, policy: Any, **settings: Any) -> Answer:
    checked = CHECKER.check(text, passages=PASSAGES)
    return treat_unsupported(checked, policy, SelfReflectSettings(**settings))


def places_hold(answer: Answer) -> bool:
    return all(answer.text[c.start : c.end] == c.text for c in answer.kept_claims)


def test_pass_changes_nothing() -> None:
    answer = treat(f"{LIT} {WRONG}", "pass")
    assert answer.text == f"{LIT} {WRONG}"
    assert answer.metadata["changed"] is False


def test_flag_marks_each_by_what_is_wrong_with_it() -> None:
    answer = treat(f"{WRONG} [1] {LIT} {FLEW} Das ist es.", "flag")
    assert answer.text == f"{WRONG} (contradicted) [1] {LIT} {FLEW} (unsupported) Das ist es. (unverified)"
    assert places_hold(answer)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{LIT} {WRONG}", LIT),
        (f"{WRONG} [1][2] {LIT} [3]", f"{LIT} [3]"),
        (f"{LIT} {WRONG} {FLEW} The lamp was lit.", f"{LIT} The lamp was lit."),
        (f"Facts:\n\n- {LIT}\n- {WRONG} [2]\n- {FLEW}\n\nThe lamp was lit.", f"Facts:\n\n- {LIT}\n\nThe lamp was lit."),
        (f"1. {WRONG}\n2. {LIT}", f"2. {LIT}"),
        (f"{LIT} {FLEW} He lit the lamp. The lamp was lit.", f"{LIT} The lamp was lit."),
    ],
)
def test_strip_takes_out_claims_their_marks_and_their_lines(text: str, left: str) -> None:
    answer = treat(text, "strip")
    assert answer.text == left
    assert places_hold(answer)
    assert answer.confidence == 0.9
    assert not answer.abstained


def test_a_supported_claim_that_leans_on_one_taken_out_goes_too() -> None:
    answer = treat(f"{LIT} Captain Venn flew to the moon. She carried salt.", "strip")
    assert answer.text == LIT
    assert [c.status for c in answer.claims] == ["kept", "dropped", "dropped"]


@pytest.mark.parametrize("policy", ["strip", "refuse"])
def test_where_nothing_is_left_it_is_refused(policy: Any) -> None:
    answer = treat(WRONG, policy)
    assert answer.abstained
    assert WRONG not in answer.text
    assert "1 of 1 is contradicted" in answer.text
    assert answer.reason == "contradicted"
    assert treat(WRONG, policy, abstain_text="Nein: {reason}").text.startswith("Nein: ")


def test_refuse_shows_nothing_of_an_answer_that_is_not_supported_as_a_whole() -> None:
    answer = treat(f"{LIT} {FLEW}", "refuse")
    assert (answer.abstained, answer.reason, answer.kept_claims) == (True, "not all claims supported", ())
    assert LIT not in answer.text
    assert treat(LIT, "refuse").text == LIT


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(SettingsError, match="pass, flag, strip, refuse"):
        treat(LIT, "hide")


PIECES = st.sampled_from(
    [LIT, WRONG, FLEW, "Das ist es.", "She carried salt.", "\n", "\n- ", "\n\n", " [1]", " ", "# H\n"]
)


@given(st.lists(PIECES, min_size=1, max_size=14).map("".join).filter(str.strip), st.sampled_from(POLICIES))
def test_places_hold_and_what_is_not_supported_is_never_shown_unmarked(text: str, policy: Any) -> None:
    answer = treat(text, policy)
    assert places_hold(answer)
    if policy == "strip":
        assert all(c.verdict == "supported" for c in answer.kept_claims)
    if policy == "flag":
        for claim in answer.kept_claims:
            marked = answer.text[claim.end or 0 :].startswith((" (unsupported)", " (contradicted)", " (unverified)"))
            assert marked == (claim.verdict != "supported")
