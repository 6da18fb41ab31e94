"""Tables of papers: rules above, below and under the names only, cells close together, errors below estimates."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.documents.pdf_files import At, Rule, from_streams, stream
from tests.documents.reading import read

SIZE, STEP = 10.0, 12.0


def rule(y: float, x0: float = 60, x1: float = 400) -> Rule:
    return (x0, y, x1, y)


def row(y: float, cells: Sequence[str], xs: Sequence[float]) -> list[At]:
    return [(x, y, SIZE, cell) for x, cell in zip(xs, cells, strict=True) if cell]


def rows(top: float, cells: Sequence[Sequence[str]], xs: Sequence[float]) -> list[At]:
    return [at for i, some in enumerate(cells) for at in row(top - STEP * i, some, xs)]


def lines_of(cells: Sequence[At], rules: Sequence[Rule]) -> list[str]:
    text = read(from_streams([stream(cells, rules)]), "a.pdf").text
    return [line for line in text.split("\n") if line]


XS = (65.0, 180.0, 235.0, 290.0, 345.0)
LAMPS = [
    ["Norrhaven", "14.2", "15.1", "610", "1120"],
    ["Ostrand (old)", "9.0", "", "480", ""],
    ["Saltmere + fog", "11.4", "12.0", "505", "907"],
]


def test_names_above_several_columns_are_those_below_their_short_rules() -> None:
    cells = [
        *row(700, ["Range", "Oil per year"], (205.0, 305.0)), *row(692, ["Lamp"], XS[:1]),
        *row(684, ["calm", "storm", "calm", "storm"], XS[1:]), *rows(668, LAMPS, XS),
    ]  # fmt: skip
    rules = [rule(712), rule(696, 178, 262), rule(696, 288, 372), rule(680), rule(638)]
    assert lines_of(cells, rules) == [
        "Lamp: Norrhaven; Range calm: 14.2; Range storm: 15.1; Oil per year calm: 610; Oil per year storm: 1120",
        "Lamp: Ostrand (old); Range calm: 9.0; Oil per year calm: 480",
        "Lamp: Saltmere + fog; Range calm: 11.4; Range storm: 12.0; Oil per year calm: 505; Oil per year storm: 907",
    ]


def test_a_value_across_columns_has_the_name_that_they_share() -> None:
    cells = [
        *row(700, ["Range", "Oil per year"], (205.0, 305.0)),
        *row(684, ["Lamp", "calm", "storm", "calm", "storm"], XS),
        *rows(668, LAMPS, XS), *row(632, ["Vessen", "8.5", "9.1"], XS[:3]), (295.0, 632.0, SIZE, "1,250 to 1,300"),
    ]  # fmt: skip
    rules = [rule(712), rule(696, 178, 262), rule(696, 288, 372), rule(680), rule(626)]
    assert lines_of(cells, rules)[-1] == "Lamp: Vessen; Range calm: 8.5; Range storm: 9.1; Oil per year: 1,250 to 1,300"


def test_columns_as_close_as_words_are_told_apart_below_names() -> None:
    xs = (65.0, 150.0, 178.0, 206.0)
    body = [
        ["Norrhaven", "14.2", "15.1", "16.0"],
        ["Ostrand", "9.0", "10.2", "11.3"],
        ["A much longer", "1.4", "2.5", "3.6"],
    ]
    cells = [*row(700, ["Lamp", "2019", "2020", "2021"], xs), *rows(684, body, xs)]
    rules = [rule(712, x1=230), rule(696, x1=230), rule(654, x1=230)]
    assert lines_of(cells, rules)[0] == "Lamp: Norrhaven; 2019: 14.2; 2020: 15.1; 2021: 16.0"


def test_tables_of_words_have_names_above_the_second_rule() -> None:
    xs = (65.0, 200.0)
    body = [["Byron and Cole (1990)", "Effect of fog on traffic"], ["Cole (1994)", "Effect of the price of oil on the"]]
    cells = [*row(700, ["Study", "Purpose"], xs), *rows(684, body, xs), (200.0, 660.0, SIZE, "number of keepers")]
    assert lines_of(cells, [rule(712), rule(696), rule(654)]) == [
        "Study: Byron and Cole (1990); Purpose: Effect of fog on traffic",
        "Study: Cole (1994); Purpose: Effect of the price of oil on the number of keepers",
    ]


def test_errors_in_brackets_belong_to_the_estimates_above_and_labels_are_whole() -> None:
    xs = (65.0, 220.0, 320.0)
    cells = [
        *row(704, ["(1)", "(2)"], xs[1:]),
        *row(684, ["Fog in the morning", "0.39", "0.40*"], xs), *row(667, ["(0.05)", "(0.06)"], xs[1:]),
        *row(650, ["New lamp (versus old", "-0.12", "0.15"], xs), *row(638, ["lamp)"], (72.0,)),
        *row(633, ["(0.03)", "(0.02)"], xs[1:]),
        *row(616, ["N", "6687", "6687"], xs),
    ]  # fmt: skip
    assert lines_of(cells, [rule(716), rule(697), rule(610)]) == [
        "Fog in the morning; (1): 0.39 (0.05); (2): 0.40* (0.06)",
        "New lamp (versus old lamp); (1): -0.12 (0.03); (2): 0.15 (0.02)",
        "N; (1): 6687; (2): 6687",
    ]


def test_upright_rules_tell_groups_of_columns_and_how_high_a_table_is() -> None:
    cells = [
        *row(700, ["Old lamps", "New lamps"], (205.0, 313.0)),
        *row(684, ["S", "M", "L", "S", "M"], (182.0, 215.0, 250.0, 302.0, 345.0)),
        *rows(
            668, [["range", "1.2", "2.0", "9.5", "22", "28"], ["oil", "18.3", "14.0", "8.8", "1.0", "1.1"],
                  ["crew", "3", "4", "5", "6", "7"]], (65.0, 180.0, 212.0, 247.0, 300.0, 343.0),
        ),
    ]  # fmt: skip
    rules: list[Rule] = [rule(680), rule(652), (150, 640, 150, 712), (285, 640, 285, 712)]
    assert lines_of(cells, rules)[0] == (
        "range; Old lamps S: 1.2; Old lamps M: 2.0; Old lamps L: 9.5; New lamps S: 22; New lamps M: 28"
    )


GRID = [
    ["System", "offline", "in colour", "with sound"],
    ["Norrhaven", "yes", "no", "yes"],
    ["Ostrand", "no", "no", "partially"],
    ["Saltmere", "yes", "yes", "no"],
    ["Vessen", "yes", "no", "no"],
]


def test_names_above_words_that_recur_are_names() -> None:
    xs, ys = (60.0, 150.0, 240.0, 330.0, 420.0), [712.0 - 16 * i for i in range(6)]
    cells = [at for i, some in enumerate(GRID) for at in row(700 - 16 * i, some, [x + 5 for x in xs[:4]])]
    rules: list[Rule] = [(60, y, 420, y) for y in ys] + [(x, ys[-1], x, ys[0]) for x in xs]
    assert lines_of(cells, rules)[1] == "System: Ostrand; offline: no; in colour: no; with sound: partially"


@pytest.mark.parametrize(
    ("cells", "rules"),
    [
        pytest.param(  # the first row holds values like the others
            rows(700, [["First lamp", "3"], ["Second lamp", "4"], ["Third lamp", "5"]], (65.0, 300.0)),
            [rule(712), rule(696), rule(684), rule(672)], id="contents",
        ),
        pytest.param(  # rules part all rows, which hold words only
            rows(700, [["Keeper", "Ada Byron"], ["Mate", "Bert Cole"], ["Cook", "Cy Dale"]], (65.0, 300.0)),
            [rule(712), rule(696), rule(684), rule(672)], id="list",
        ),
        pytest.param(  # bullets stand in front of what is listed
            [*row(700, ["Area", "Gaps"], (65.0, 180.0)),
             *rows(684, [["Doors", "•", "Keys are lost"], ["", "•", "Locks are old"], ["Roof", "•", "It leaks"]],
                   (65.0, 180.0, 195.0))],
            [rule(712), rule(696), rule(654)], id="bullets",
        ),
        pytest.param(  # one title above all columns names none
            [(200.0, 700.0, SIZE, "Introduction"),
             *rows(684, [["Training and", "7 lamps"], ["Storms", "12 lamps"], ["Fog", "3 lamps"]], (65.0, 250.0))],
            [rule(712), rule(696), rule(654)], id="title",
        ),
    ],
)  # fmt: skip
def test_rules_around_something_else_name_no_columns(cells: Sequence[At], rules: Sequence[Rule]) -> None:
    assert not [line for line in lines_of(cells, rules) if ": " in line]
