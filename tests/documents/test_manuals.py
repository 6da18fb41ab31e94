"""A folder of manuals: what a question asks of an option is found in that option's own text, whatever the format."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared_core.documents.store import DocumentIndex
from shared_core.facades.engine import SelfReflectEngine
from tests.documents.pdf_files import At, pdf
from tests.documents.reading import write

pytest.importorskip("pypdfium2")
pytest.importorskip("lxml")
pytest.importorskip("onnxruntime")

WINCH = {
    "--drum": "Sets the drum that is turned. The default is the starboard drum.",
    "--speed": "Sets the speed of the winch. The default is nine metres a minute.",
    "--brake": "Sets the force at which the brake closes. The default is four kilonewtons.",
    "--quiet": "Suppresses the bell that rings before the drum turns.",
    "--log": "Names the file in which each haul is recorded. The default is winch.log.",
}
LAMP = {
    "burner_limit": "The greatest number of burners that are lit together. The default value is twelve burners.",
    "spare_burners": "Burners that are kept for the keeper. The default value is two burners.",
    "trim_interval": "The time between two trimmings of the wick. The default value is four hours.",
    "fog_signal": "The signal that sounds while fog is reported. The default value is one blast a minute.",
}
BUOY = {
    "-a, --all": "Prints the buoys that are out of service too.",
    "-d, --depth=DEPTH": "Prints only buoys in water of at least this depth, which is given in fathoms.",
    "-s, --sort": "Sorts the buoys by the year in which they were laid.",
    "-w, --wait": "Waits until the tide has turned before the list is printed.",
}
FILES = {
    "~/.chartrc": "The settings of the reader, which are read at every start of the chart table.",
    "~/.chart_marks": "The file in which the marks of the last chart are kept when it is closed.",
    "/etc/chart.conf": "The settings of the station, which only the harbour master may change.",
}
ASKED = [
    ("What is the default speed of the winch?", "nine metres a minute"),
    ("In which file is each haul recorded by default?", "winch.log"),
    ("What is the default value of spare_burners?", "two burners"),
    ("What is the default of trim_interval?", "four hours"),
    ("What does the option --sort of buoy do?", "Sorts the buoys by the year"),
    ("What does the option -w of buoy do?", "tide has turned"),
    ("What does buoy -s do?", "Sorts the buoys by the year"),
    ("In which unit is the DEPTH of buoy given?", "fathoms"),
    ("What is kept in ~/.chart_marks?", "the marks of the last chart"),
    ("Who may change /etc/chart.conf?", "harbour master"),
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> SelfReflectEngine:
    folder: Path = tmp_path_factory.mktemp("manuals")
    options = "".join(f"<dt><code>{term}</code></dt><dd><p>{text}</p></dd>" for term, text in WINCH.items())
    write(
        folder,
        "winch.html",
        f"<title>winch</title><h1>winch</h1><p>Turns a drum.</p><h2>Options</h2><dl>{options}</dl>",
    )
    rows = "".join(f"<tr><td>{name}</td><td>{text}</td></tr>" for name, text in LAMP.items())
    write(
        folder,
        "lamp.html",
        f"<h1>Settings of the lamp</h1><table><tr><th>Setting</th><th>Meaning</th></tr>{rows}</table>",
    )
    page = "".join(f".TP\n.B {term}\n{text}\n" for term, text in BUOY.items()).replace("-", "\\-")
    write(folder, "buoy.man", f".TH BUOY 1\n.SH NAME\nbuoy \\- list the buoys of a bay\n.SH OPTIONS\n{page}")
    placed: list[At] = [(60, 740, 11, "The chart table reads and writes these files.")]
    for i, (term, text) in enumerate(FILES.items()):
        placed += [(60, 714 - 26 * i, 11, term), (100, 701 - 26 * i, 11, text)]
    write(folder, "chart.pdf", pdf([placed], title="chart"))
    index = DocumentIndex(None)
    assert not index.update(folder).failed
    return SelfReflectEngine(index.retriever())


def test_the_options_own_text_is_quoted_and_no_neighbours(engine: SelfReflectEngine) -> None:
    answers = [engine.answer(question) for question, _ in ASKED]
    for (_, said), answer in zip(ASKED, answers, strict=True):
        assert any(said in passage.text for passage in answer.passages[:2])
    shown = [(said, answer.claims[0].text) for (_, said), answer in zip(ASKED, answers) if not answer.abstained]
    assert [pair for pair in shown if pair[0] not in pair[1]] == []
    assert len(shown) >= len(ASKED) - 3  # of "-w" the confidence is low, but its own text is the nearest quote
    assert all(said in answer.claims[0].text for (_, said), answer in zip(ASKED, answers, strict=True))
