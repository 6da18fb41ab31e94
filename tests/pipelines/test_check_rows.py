"""Checking claims against tables, lists and headings, and showing the sentence that the verdict rests on."""

from __future__ import annotations

from functools import lru_cache

import pytest

from shared_core.facades.checker import SelfReflectChecker
from shared_core.pipelines.evidence import Evidence
from shared_core.reading.base import Verdict
from shared_core.types import Claim, Passage
from tests.fakes import WordCritic

PUMPS = (
    "## Technical data\n\n"
    "Model: AquaLift 200; Power: 250 W; Max. head: 6 m; Weight: 4.1 kg; Price: €89\n"
    "Model: AquaLift 300; Power: 400 W; Max. head: 8.5 m; Weight: 5.3 kg; Price: €129\n"
    "Model: AquaLift 500; Power: 750 W; Max. head: 11 m; Weight: 7.9 kg; Price: €199"
)
OFFICERS = "Officers\n\n- Alice Moreau: treasurer\n- Ben Hart: secretary\n- Cora Lind: chair"
RENT = (
    "The monthly rent is €1,180 and is due on the third working day of each month. "
    "The deposit is €2,360, which is two months' rent."
)
YARD = (
    "Boatyard\n\nService: Cradle hire; Price: £6 per week; Remarks: deposit £50\n"
    "Service: Storage ashore; Price: £1.05 a day; Remarks: first 14 days free for annual berth holders"
)
LEAVING = "Leaving\n\nBerth holders may give up their berth with two months' notice. We refund the rest, less 10%."
HENS = "8. Rule changes\n\n8.2 Hens. A plan was dropped. Up to 6 hens are allowed on a full plot, none on a half plot."


@lru_cache
def the_checker() -> SelfReflectChecker:
    return SelfReflectChecker()


def checked(claim: str, *texts: str) -> Claim:
    passages = [Passage(str(i), text, "Manual") for i, text in enumerate(texts)]
    return the_checker().check(claim, passages=passages).claims[0]


def quotes(claim: Claim) -> list[str]:
    return [s.text for c in claim.citations for s in c.spans]


# --- rows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "right", "row"),
    [
        ("The AquaLift 500 weighs 5.3 kg.", "The AquaLift 500 weighs 7.9 kg.", 4),
        ("The AquaLift 500 costs €129.", "The AquaLift 500 costs €199.", 4),
        ("The AquaLift 200 has a head of 8.5 m.", "The AquaLift 200 has a head of 6 m.", 2),
    ],
)
def test_a_value_of_another_row_is_contradicted_by_the_row_that_the_claim_names(
    wrong: str, right: str, row: int
) -> None:
    """The rows were one window, which held name and value, and both rows were cited as proof."""
    for claim, verdict in ((wrong, "contradicted"), (right, "supported")):
        found = checked(claim, PUMPS)
        assert (found.verdict, quotes(found)) == (verdict, [PUMPS.splitlines()[row]])


@pytest.mark.parametrize(
    ("claim", "verdict", "quote"),
    [
        ("Cora Lind is the secretary.", "contradicted", "- Cora Lind: chair"),
        ("Ben Hart is the treasurer.", "contradicted", "- Ben Hart: secretary"),
        ("Alice Moreau is the treasurer.", "supported", "- Alice Moreau: treasurer"),
        ("Cora Lind is the chair.", "supported", "- Cora Lind: chair"),
    ],
)
def test_so_is_what_a_list_says_of_somebody_else(claim: str, verdict: str, quote: str) -> None:
    found = checked(claim, OFFICERS)
    assert (found.verdict, quotes(found)) == (verdict, [quote])


def test_a_claim_about_two_rows_is_judged_with_both() -> None:
    found = checked("Alice Moreau is treasurer, and Ben Hart is secretary.", OFFICERS)
    assert (found.verdict, len(quotes(found))) == ("supported", 2)


def test_a_row_is_judged_with_the_heading_above_and_without_the_other_rows() -> None:
    passage = Passage("p", f"{PUMPS}\n\nStore the pumps frost-free in winter.", "Manual")
    evidence = Evidence([passage])
    row, prose = evidence.narrowed("The AquaLift 300 weighs 5.3 kg.", evidence.windows)
    lines = PUMPS.splitlines()
    assert row.text == f"Manual\n{lines[0]}\n{lines[3]}"
    assert [s.text for s in prose.sentences] == [lines[0], lines[3], "Store the pumps frost-free in winter."]
    assert lines[4] not in row.around
    assert "frost-free" in row.around


def test_windows_of_prose_stay_as_they_are() -> None:
    evidence = Evidence([Passage("p", RENT)])
    assert evidence.narrowed("The monthly rent is €1,180.", evidence.windows) == evidence.windows


def test_a_claim_that_no_sentence_comes_near_to_is_supported_less_than_its_window_says() -> None:
    class OfWindows(WordCritic):
        def _judge(self, evidence: str, claim: str) -> Verdict | None:
            return Verdict(0.9 if "oil" in evidence and "lamp" in evidence and "fog" in evidence else 0.1, 0.0)

    passages = [Passage("p", "The lamp is old. It burns oil. A horn sounds in fog.")]
    claim = SelfReflectChecker(critic=OfWindows()).check("The lamp burns oil in fog.", passages=passages).claims[0]
    assert claim.support == pytest.approx((0.9 + 0.1) / 2)
    assert claim.verdict == "unsupported"


# --- quotes that are shown ---------------------------------------------------------------------------------------


def test_the_sentence_shown_for_a_supported_claim_is_the_one_that_supports_it() -> None:
    found = checked("Berth holders may give up their berth with two months' notice.", YARD, LEAVING)
    assert found.verdict == "supported"
    assert quotes(found) == ["Berth holders may give up their berth with two months' notice."]


def test_a_claim_is_contradicted_by_the_sentence_about_its_subject() -> None:
    found = checked("The monthly rent is €1,280.", RENT)
    assert (found.verdict, quotes(found)) == ("contradicted", [RENT.split(". ")[0] + "."])


def test_neither_number_nor_text_of_a_heading_supports_a_claim() -> None:
    found = checked("Up to 8 hens are allowed on a full plot.", HENS)
    assert (found.verdict, quotes(found)) == ("contradicted", [HENS.split(". ")[-1]])
    assert checked("Up to 6 hens are allowed on a full plot.", HENS).verdict == "supported"


def test_a_heading_is_never_quoted_by_itself() -> None:
    text = "5. ILLNESS\n\nChildren with a fever stay at home.\n\nEXIT STATUS\n       0      All labels were queued."
    for claim in ("Illness is covered by the insurance.", "The exit status is written to a file."):
        assert not {"5. ILLNESS", "EXIT STATUS"} & set(quotes(checked(claim, text)))


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        ("The waiting list for pontoon A is about 14 months.", "The waiting list for pontoon B is about 14 months."),
        ("Lift 1 also goes to the basement.", "Lift 2 (goods) also goes to the basement. Lift 1 carries six people."),
    ],
)
def test_what_is_said_of_another_letter_or_number_supports_nothing(claim: str, text: str) -> None:
    assert checked(claim, text).verdict != "supported"
