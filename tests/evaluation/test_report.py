"""The HTML report: every claim leads to its highlighted quote, nothing of a document can run in it."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.cli.ask import _mark
from shared_core.evaluation.report import write_report
from shared_core.reading.base import Reading, ReadResult
from shared_core.types import Answer, Citation, Claim, Passage
from tests.fakes import FirstSentenceReader, Shelf, WordCritic

TEXT = (
    "Preface. " * 300
    + "The lamp was lit in 1871.\nIt burned whale oil. <script>alert(1)</script>"
    + " Afterword." * 300
)
START = TEXT.index("The lamp")
PASSAGE = Passage("p", TEXT[START : START + 80], "Lamps & more", {"source": "a<b>.md", "start": START})


class Page(HTMLParser):
    """Collects ids, links, the text of marks, and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.marked = ""
        self.scripts = 0
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids += [values["id"]] if values.get("id") else []  # type: ignore[list-item]
        self.links += [values["href"]] if tag == "a" and values.get("href") else []  # type: ignore[list-item]
        self.scripts += tag == "script"
        self._depth += tag == "mark"

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "mark"

    def handle_data(self, data: str) -> None:
        self.marked += data if self._depth else ""


def report(folder: Path, *answers: Answer, document: str | None = None) -> str:
    """The report of answers whose quotes are from this document."""
    path = write_report(answers, folder / "deep" / "r.html", document_text=lambda source: document)
    return path.read_text("utf-8")


def page(html: str) -> Page:
    parsed = Page()
    parsed.feed(html)
    return parsed


def answer() -> Answer:
    return SelfReflectEngine(Shelf((PASSAGE,)), reader=FirstSentenceReader(0.9)).answer("When was the lamp lit?")


def test_every_number_leads_to_its_highlighted_quote(tmp_path: Path) -> None:
    found = page(report(tmp_path, answer(), document=TEXT))
    assert found.links == ["#a1-q1"]
    assert "a1-q1" in found.ids
    assert found.marked == "The lamp was lit in 1871."


def test_the_short_answer_is_one_line_and_marked_where_its_source_breaks_it(tmp_path: Path) -> None:
    class Breaking:
        name = "breaking"

        def read(self, requests: Any) -> list[ReadResult]:
            (passage,) = requests[0].passages
            at = passage.text.index("Ila")
            short = passage.span(at, passage.text.index(" lit"))
            return [ReadResult((Reading(passage.span(0, len(passage.text)), 0.9, 0.0, short),), 0.9)]

    broken = Passage("p", "It was\nIla  \r\n\tVenn lit the lamp.")
    asked = SelfReflectEngine(Shelf((broken,)), reader=Breaking(), settings=SelfReflectSettings())
    found = asked.answer("Who lit the lamp?")
    (claim,) = found.kept_claims
    assert (claim.text, claim.short_answer) == ("It was Ila Venn lit the lamp.", "Ila Venn")
    assert claim.citations[0].quote == broken.text
    html = report(tmp_path, found)
    marked = re.findall(r"<b>([^<]*Venn)</b>", html)
    assert [" ".join(words.split()) for words in marked] == ["Ila Venn"] * 2  # in the answer, and in its source


def test_a_quote_is_shown_within_its_document(tmp_path: Path) -> None:
    html = report(tmp_path, answer(), document=TEXT)
    assert "Preface. <mark" in html
    assert "Afterword" in html
    assert html.count("Preface") < 100, "a long document is cut around its quotes"


def test_offsets_that_do_not_hold_fall_back_to_the_passage(tmp_path: Path) -> None:
    html = report(tmp_path, answer(), document="changed")
    assert "changed" not in html
    assert re.search(r"<mark[^>]*>The lamp was lit in <", html)


def test_nothing_of_a_document_or_question_runs(tmp_path: Path) -> None:
    hostile = Answer(
        "<script>alert('q')</script>",
        "x",
        (Claim("<img src=x onerror=alert(1)>", 0.9, (Citation((PASSAGE.span(0, 25),)),)),),
        (PASSAGE,),
    )
    html = report(tmp_path, hostile, document=TEXT)
    assert page(html).scripts == 0
    assert "<img src=x" not in html


def test_an_abstention_shows_its_reason_and_what_was_considered(tmp_path: Path) -> None:
    engine = SelfReflectEngine(
        Shelf((PASSAGE,)), settings=SelfReflectSettings(target_accuracy=0.8), reader=FirstSentenceReader(0.3)
    )
    html = report(tmp_path, engine.answer("When was the lamp lit?"))
    assert "No answer: support below target" in html
    assert "Considered and left out (1)" in html
    assert "0.30" in html


def test_several_answers_have_links_of_their_own(tmp_path: Path) -> None:
    parsed = page(report(tmp_path, answer(), answer()))
    assert parsed.links == ["#a1-q1", "#a2-q1"]
    assert len(parsed.ids) == len(set(parsed.ids))


def test_a_checked_answer_is_shown_whole_with_a_verdict_for_each_claim(tmp_path: Path) -> None:
    text = "Note <b>:\n\n- The lamp was lit in 1871. [1]\n- The lamp was lit in 1950.\n- Ila flew.\n- Das ist <i>es."
    checked = SelfReflectEngine(Shelf((PASSAGE,)), critic=WordCritic()).check(text, passages=[PASSAGE])
    html = report(tmp_path, checked, document=TEXT)
    assert "1 supported · 1 contradicted · 1 unsupported · 1 unknown" in html
    for verdict in ("supported", "contradicted", "unsupported", "unknown"):
        assert f'<span class="{verdict}"' in html
    parsed = page(html)
    assert set(parsed.links) <= {f"#{i}" for i in parsed.ids}
    assert "<i>es" not in html
    body = html[html.index('<p class="answer checked">') : html.index("</p>", html.index('<p class="answer checked">'))]
    assert unescape(re.sub(r"<sup>.*?</sup>|<[^>]+>", "", body)) == text


def test_a_quote_that_contradicts_the_answer_is_called_that(tmp_path: Path) -> None:
    other = Passage("o", "The lamp was lit in 1872.", "Lamps")
    spans = PASSAGE.span(0, 25), other.span(0, 25)
    claims = [Claim(s.text, 0.5, (Citation((s,)),)) for s in spans]
    claims[1] = replace(claims[1], status="flagged", verdict="contradicted")
    answer = Answer("When?", " ".join(c.text for c in claims), tuple(claims), passages=(PASSAGE, other))
    assert "contradicts the answer before" in report(tmp_path, answer)
    assert "contradicts the answer before" in _mark(claims[1], answer).plain
