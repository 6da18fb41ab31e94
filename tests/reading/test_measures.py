"""Questions for measures, and rows of named cells that give none."""

from __future__ import annotations

import pytest

from shared_core.reading.measures import lacks_measure
from shared_core.types import Passage
from tests.reading.asking import chance, read

MAST = "id: orm-mast; name: Orm Mast; latitude: 58.256; year_built: 1902; status: in use; kind: lattice"


@pytest.mark.parametrize(
    ("question", "row"),
    [
        ("How tall is Orm Mast?", MAST),
        ("What is the height of Orm Mast?", MAST),
        ("How high is Orm Mast?", "Name: Orm; Coordinates: 37°54′40″N 75°21′21″W / 37.9111; Year: 1833"),
        ("How heavy is the HX-60?", "Model: HX-60; Price: 290; Colours: 3; Year: 2019"),
        ("How far is Saltby from Orm?", "Town: Saltby; County: Vale; Mayor: Bo Day; People: 4100"),
        ("How long is the yoga course?", "Course: yoga; Teacher: Bo Lind; Room: 3"),
    ],
)
def test_a_row_without_the_measure_asked_for_lacks_it(question: str, row: str) -> None:
    assert lacks_measure(question, row)


@pytest.mark.parametrize(
    ("question", "row"),
    [
        ("How tall is Orm Mast?", f"{MAST}; height: 30"),
        ("How tall is Orm Mast?", f"{MAST}; lattice (ft): 98"),
        ("How tall is Orm Mast?", f"{MAST}; notes: 30 m of steel"),
        ("How tall is Orm Mast?", "Name: Orm Mast; Top: 12' 6\"; Year: 1833"),
        ("How tall is Orm Mast?", "Orm Mast: it was built in 1902."),
        ("How high is the rent?", "Flat: 3; Rent: 300; Floor: 2"),
        ("How high is the fine?", "Case: 3; Sum: £300; Floor: 2"),
        ("How long is the yoga course?", "Course: yoga; First: 3 May; Last: 9 June"),
        ("How long is the Orm trail?", "Trail: Orm; Miles: 3; Grade: easy"),
        ("How long has he been mayor?", "Town: Saltby; County: Vale; Mayor: Bo Day"),
        ("How much does the HX-60 weigh?", "Model: HX-60; Price: 290; Mass: 3"),
        ("Where is Orm Mast?", MAST),
    ],
)
def test_a_row_with_it_and_other_questions_are_not_judged(question: str, row: str) -> None:
    assert not lacks_measure(question, row)


def test_a_latitude_is_no_height() -> None:
    rows = [Passage("a", MAST, "Masts", {"row": 1}), Passage("b", MAST.replace("Orm", "Saltby"), "Masts", {"row": 2})]
    assert chance("How tall is Orm Mast?", *rows) < 0.3
    given = read("How tall is Orm Mast?", Passage("a", f"{MAST}; height: 31 m", "Masts", {"row": 1})).readings[0]
    assert given.short_answer is None or "31" in given.short_answer.text
    assert chance("How tall is Orm Mast?", Passage("a", f"{MAST}; height: 31 m", "Masts", {"row": 1})) > 0.5
