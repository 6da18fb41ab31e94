"""The command line end to end, with the embedded default: answers, abstentions, exit codes, bad input."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from shared_core.cli.doctor import PACKAGES
from tests.command import selfreflect, succeeds

Ask = Callable[..., Result]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cli")
    docs = root / "docs"
    docs.mkdir()
    (docs / "museum.md").write_text(
        "# The Tide Museum\n\nThe Tide Museum was founded in 1902 by Lavinia Hathe. It occupies the Customs House.\n\n"
        "The museum keeps 312 tide clocks.\n",
        "utf-8",
    )
    (docs / "station.txt").write_text("The Lowen Gut station was opened on 8 October 1951 by Ida Merrow.\n", "utf-8")
    (docs / "broken.txt").write_bytes(b"\x00\x01\xff\xfe binary")
    result = succeeds("index", docs, "--index", root / "index")
    assert "broken.txt" in result.output
    return root / "index"


@pytest.fixture
def ask(index: Path) -> Ask:
    return lambda *args: selfreflect("ask", "--index", index, *args)


def test_an_answer_comes_with_quote_source_and_offsets(ask: Ask, index: Path) -> None:
    result = ask("Who founded the Tide Museum?", "--json", "-t", "0.2")
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    claim = answer["claims"][0]
    span = claim["citations"][0]["spans"][0]
    passage = next(p for p in answer["passages"] if p["id"] == span["passage_id"])
    assert passage["text"][span["start"] : span["end"]] == span["text"]
    assert "Lavinia Hathe" in span["text"]
    source = index.parent / "docs" / "museum.md"
    offset = passage["metadata"]["start"]
    assert source.read_text("utf-8")[offset + span["start"] : offset + span["end"]] == span["text"]


@pytest.mark.parametrize(("good", "code"), [(2, 0), (1, 1), (0, 2)])
def test_index_tells_by_its_exit_code_how_many_files_failed(tmp_path: Path, good: int, code: int) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").write_bytes(b"The lamp was lit." if number < good else b"\x00\x01\xff\xfe")
    found = selfreflect("index", tmp_path, "--index", tmp_path / "index")
    assert found.exit_code == code, found.output
    said = " ".join(selfreflect("index", "--help").output.replace("│", " ").split())
    assert "2 bad input, or no file can be indexed" in said


def test_files_that_fail_alike_are_named_together_and_the_reason_once(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("The lamp was lit.")
    for number in range(5):
        (tmp_path / f"empty{number}.txt").write_bytes(b"")
    found = selfreflect("index", tmp_path, "--index", tmp_path / "index")
    assert found.output.count("It is empty") == 1
    assert "empty0.txt, empty1.txt, empty2.txt and 2 more" in " ".join(found.output.split())
    (tmp_path / "empty0.txt").unlink()
    (tmp_path / "empty1.txt").unlink()
    found = selfreflect("index", tmp_path, "--index", tmp_path / "index")
    assert found.output.count("It is empty") == 3


def test_the_printed_answer_names_file_and_offsets(ask: Ask) -> None:
    result = ask("Who founded the Tide Museum?", "-t", "0.2", "--trace")
    assert result.exit_code == 0
    assert "[1]" in result.output
    assert "museum.md:" in result.output
    assert "retrieve" in result.output


def test_the_steps_of_an_answer_are_printed_and_in_the_report(tmp_path: Path) -> None:
    docs, page = tmp_path / "docs", tmp_path / "answers.html"
    docs.mkdir()
    (docs / "museum.md").write_text("# Museum\n\nThe museum was founded in 1902 by Lavinia Hathe.\n", "utf-8")
    (docs / "hathe.md").write_text("# Lavinia Hathe\n\nLavinia Hathe was born in Penwick in 1861.\n", "utf-8")
    question = "Where was the founder of the museum born?"
    result = selfreflect("ask", question, "--docs", docs, "--html", page)
    assert result.exit_code == 0, result.output
    for text in (" ".join(result.output.split()), page.read_text("utf-8")):
        assert "Who is the founder of the museum?" in text
        assert "Where was Lavinia Hathe born?" in text
    assert "<b>Penwick</b>" in page.read_text("utf-8")


def test_what_the_documents_do_not_say_is_an_abstention_with_its_reason(ask: Ask) -> None:
    for policy in ("say", "raise"):
        result = ask("Who composed the national anthem of Freedonia?", "-t", "0.8", "--on-abstain", policy)
        assert result.exit_code == 3
        assert "can't answer" in result.output
        assert "abstained:" in result.output


def test_several_questions_share_one_report(ask: Ask, tmp_path: Path) -> None:
    page = tmp_path / "answers.html"
    result = ask("Who founded the Tide Museum?", "Who was Napoleon's barber?", "-t", "0.3", "--html", page, "--json")
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)) == 2
    assert "Customs House" in page.read_text("utf-8")


@pytest.mark.parametrize(("args", "says"), [
    (["   "], "non-empty"), (["q", "-t", "1.5"], "target_accuracy"), (["q", "-t", "0"], "target_accuracy"),
    (["q", "--pipeline", "magic"], "pipeline"), (["q", "--pipeline", "seakr"], "language model"),
    (["q", "--on-abstain", "shrug"], "on_abstain"), (["q", "--top-k", "0"], "top_k"),
    (["q", "--calibration", "nowhere.json"], "nowhere.json"), (["q", "--model", "no/such/model"], "no/such/model"),
    (["q", "--set", "research.samples"], "NAME=VALUE"), (["q", "--set", "research.sampels=4"], "sampels"),
    (["q", "--set", "top_k=none"], "top_k"),
])  # fmt: skip
def test_bad_input_is_named_and_leaves_with_2_or_1(ask: Ask, args: list[str], says: str) -> None:
    result = ask(*args)
    assert result.exit_code == (1 if "no/such/model" in args else 2), result.output
    assert says in result.output.replace("\n", " ")
    assert "Traceback" not in result.output


@pytest.mark.parametrize("args", [
    ["index", "", "--index", "ix"], ["index", "docs", "--index", ""], ["ask", "q", "--docs", ""],
    ["ask", "q", "--index", ""], ["eval", ""], ["check", "x", "--docs", ""],
])  # fmt: skip
def test_an_empty_path_is_no_folder(args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # which must not be read instead
    result = selfreflect(*args)
    assert result.exit_code == 2
    assert "the path is empty" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["ask", "eval"])
def test_a_judge_without_a_model_is_refused(command: str, index: Path, tmp_path: Path) -> None:
    rows = tmp_path / "questions.jsonl"
    rows.write_text('{"question": "Who founded the Tide Museum?", "answers": ["Lavinia Hathe"]}\n', "utf-8")
    asked = "Who founded the Tide Museum?" if command == "ask" else rows
    result = selfreflect(command, asked, "--index", index, "--judge", "/no/such/judge")
    assert result.exit_code == 2
    assert "--judge has no effect" in result.output


def test_ctrl_c_while_the_command_is_imported_shows_no_traceback() -> None:
    code = (
        "import builtins; real = builtins.__import__\n"
        "def stopped(name, *rest):\n"
        "    if name == 'typer': raise KeyboardInterrupt\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = stopped\n"
        "from shared_core.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_no_documents_and_a_missing_index_are_bad_usage(tmp_path: Path) -> None:
    for more, says in (([], "--docs"), (["--index", tmp_path / "none"], "no index")):
        result = selfreflect("ask", "q", *more)
        assert result.exit_code == 2
        assert says in result.output


NAMES = ("Alder", "Birch", "Cedar", "Damson", "Elm", "Fir", "Gorse", "Hazel", "Ivy", "Juniper", "Kale", "Laurel")


@pytest.fixture(scope="module")
def lamps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of twelve lighthouses."""
    root = tmp_path_factory.mktemp("lamps")
    for i, name in enumerate(NAMES):
        (root / f"{name}.txt").write_text(f"The {name} lighthouse was opened in {1801 + i} by Ida Merrow.\n", "utf-8")
    succeeds("index", root, "--index", root / "index")
    return root / "index"


def asked_of_lamps(path: Path, wrong: int) -> Path:
    """Questions on lighthouses; ``wrong`` of the accepted answers are not those of the documents."""
    rows: list[dict[str, Any]] = []
    for i, name in enumerate(NAMES):
        year = str((1700 if i < wrong else 1801) + i)
        rows.append({"question": f"When was the {name} lighthouse opened?", "answers": [year]})
        rows.append({"question": f"Who composed the anthem of {name}?", "answerable": False})
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path


def test_eval_and_calibrate_work_together(lamps: Path, tmp_path: Path) -> None:
    questions = asked_of_lamps(tmp_path / "q.jsonl", wrong=6)
    calibration, metrics = tmp_path / "c.json", tmp_path / "m.json"
    at = ["--index", lamps]
    succeeds("calibrate", questions, *at, "-o", calibration, "--plots", tmp_path)
    assert (tmp_path / "reliability.png").stat().st_size > 1000
    succeeds("eval", questions, *at, "--calibration", calibration, "--json", metrics)
    assert json.loads(metrics.read_text("utf-8"))["metrics"]["questions"] == 24
    other = selfreflect("ask", "q", *at, "--calibration", calibration, "--top-k", "2")
    assert other.exit_code == 1
    assert "fitted for" in other.output


def test_answers_of_one_kind_only_are_a_failure_after_the_work(lamps: Path, tmp_path: Path) -> None:
    questions = asked_of_lamps(tmp_path / "q.jsonl", wrong=12)
    result = selfreflect("calibrate", questions, "--index", lamps, "-o", tmp_path / "c.json")
    assert result.exit_code == 1, result.output
    assert "answered right: it takes 5 or more of each kind" in " ".join(result.output.split())


def test_a_guarantee_is_fitted_and_asked_for(index: Path, tmp_path: Path) -> None:
    rows = [
        {"question": "Who founded the Tide Museum?", "answers": ["Lavinia Hathe"]},
        {"question": "When was the Lowen Gut station opened?", "answers": ["8 October 1951"]},
        {"question": "Who wrote the anthem of Freedonia?", "answerable": False},
    ]
    questions, few = tmp_path / "q.jsonl", tmp_path / "few.jsonl"
    ways = ("", "Please say: ", "Tell me: ", "I ask you: ", "Now: ")  # the same question again would be no evidence
    asked_in = [{**row, "question": f"{way}{row['question']}"} for way in ways for row in rows]
    questions.write_text("\n".join(map(json.dumps, asked_in)))
    few.write_text("\n".join(map(json.dumps, rows)))
    file, at, promise = tmp_path / "c.json", ["--index", index], ["--guarantee", "conformal_factuality"]
    made = succeeds("calibrate", questions, *at, *promise, "-o", file)
    assert "on 15 answers (9 needed)" in made.output
    asking = ["ask", rows[0]["question"], *at, "--calibration", file, *promise]
    asked = selfreflect(*asking, "--json")
    assert asked.exit_code in (0, 3), asked.output
    assert json.loads(asked.stdout)["metadata"]["guarantee"]["n"] == 15
    assert "guarantee (keeps" in selfreflect(*asking).output
    other = selfreflect(*asking, "-t", "0.8")
    assert other.exit_code == 1
    assert "target_accuracy 0.5, not 0.8" in other.output
    refused = selfreflect("calibrate", few, *at, *promise, "-o", tmp_path / "d.json")
    assert refused.exit_code == 1
    assert "at least 9 are needed" in refused.output
    assert not (tmp_path / "d.json").exists()
    for wrong in (["--guarantee", "certainty"], [*promise, "--purpose", "confidence"], [*promise, "--alpha", "2"]):
        assert selfreflect("calibrate", questions, *at, *wrong).exit_code == 2


def test_any_setting_can_be_set(ask: Ask) -> None:
    options = ["--set", "max_claims=1", "--set", "on_abstain=show", "--set", "research.samples=4", "--json"]
    result = ask("Who wrote the anthem of Freedonia?", *options)
    assert result.exit_code == 3, result.output
    assert "nearest passages say" in json.loads(result.stdout)["text"]


def test_doctor_says_what_works() -> None:
    result = succeeds("doctor", "--json")
    report = json.loads(result.stdout)
    assert report["embedded_default"]["ok"]
    assert report["packages"]["chromadb"]
    down = selfreflect("doctor", "--chroma-url", "http://127.0.0.1:9", "--json")
    assert down.exit_code == 1
    assert json.loads(down.stdout)["chroma_server"]["ok"] is False


def test_doctor_names_the_extra_that_the_default_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version

    def version(name: str) -> str:
        if name in ("chromadb", "py3langid", "lxml"):
            raise metadata.PackageNotFoundError(name)
        return real(name)

    def broken() -> dict[str, Any]:
        raise ImportError("No module named 'py3langid'")

    monkeypatch.setattr("shared_core.cli.doctor.importlib.metadata.version", version)
    monkeypatch.setattr("shared_core.cli.doctor._default", broken)
    result = selfreflect("doctor", "--json")
    assert result.exit_code == 1
    default = json.loads(result.stdout)["embedded_default"]
    assert "py3langid, lxml" in default["error"]
    assert "selfreflect-rag[default]" in default["hint"]
    assert "offline, documents" in default["hint"]
    assert "chroma" not in default["error"], "the default does not need it"
    said = selfreflect("doctor")
    assert "fails  embedded default" in said.stderr
    assert "works  documents" in said.stdout


def test_doctors_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = {extra: " ".join(required).lower() for extra, required in extras.items()}
    for package, said in PACKAGES.items():
        for extra in said.split(", "):
            listed = " ".join(project["dependencies"]) if extra == "base" else names[extra]
            assert package.lower() in listed.lower(), (package, extra)
    assert extras["default"] == ["selfreflect-rag[offline,documents]"]


def test_doctor_lists_every_setting() -> None:
    result = succeeds("doctor", "--settings")
    assert "seakr.samples" in result.output


def test_help_loads_no_numbers_and_no_pipelines() -> None:
    """They take most of a second, for which everybody who looks something up would wait."""
    code = "import sys; from shared_core.cli.__main__ import app; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(run.stdout.split()) & {"numpy", "shared_core.pipelines", "shared_core.citation", "shared_core.lm"}
