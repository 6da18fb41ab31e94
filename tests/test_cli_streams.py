"""The command line as a program among others: pipes, standard input, exit codes, hostile text."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import Result

from shared_core import Answer
from shared_core.cli import ask as asking
from shared_core.cli import common, console, main
from shared_core.cli.common import BuiltEngine
from shared_core.cli.console import PlainConsole
from shared_core.errors import AbstainedError, QuestionError, SelfReflectError
from shared_core.pipelines import PIPELINES
from shared_core.pipelines.decision.wording import UNCITED
from shared_core.types import Citation, Claim, Finished, Passage
from tests.command import selfreflect

CONTROLS = "\x1b\x07\x9b\u202e\u202c"
EVIL = "Red \x1b[31mtext\x07 and \u202egnirts\u202c [bold]no markup[/bold] \x9b2J"
LONG = "It was written on a single very long line " * 8 + "that must not be wrapped."


class FakeEngine:
    """Answers each question with a quote of one passage, or as told."""

    def __init__(self, text: str = "The lamp was lit.", **metadata: Any) -> None:
        self.passage = Passage("p", text, "Title", {"source": "a.pdf", "start": 10, **metadata})
        self.asked: list[list[str]] = []

    def answer_many(self, questions: list[str], on_event: Any = None) -> list[Answer | Exception]:
        self.asked.append(list(questions))
        return [self._answer(question) for question in questions]

    def _answer(self, question: str) -> Answer | Exception:
        if question == "bad":
            return QuestionError("This cannot be asked.", hint="Ask something else.")
        if question in ("nothing", "raise"):
            abstained = Answer(question, "I can't answer.", (), (), abstained=True, reason="nothing was found")
            return AbstainedError(abstained) if question == "raise" else abstained
        citation = Citation((self.passage.span(0, len(self.passage.text)),))
        claim = Claim(self.passage.text, support=0.9, citations=(citation,))
        return Answer(question, self.passage.text, (claim,), (self.passage,), confidence=0.9)


Fake = Callable[..., FakeEngine]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Have commands build an engine of the kind given, by default a ``FakeEngine``."""

    def install(*args: Any, kind: type[FakeEngine] = FakeEngine, **metadata: Any) -> FakeEngine:
        engine = kind(*args, **metadata)
        index = SimpleNamespace(document_text=lambda source: None)
        built = BuiltEngine(engine, index)  # type: ignore[arg-type]
        monkeypatch.setattr("shared_core.cli.options.DocumentOptions.build", lambda *_, **__: built)
        return engine

    return install


def ask(*arguments: object, stdin: str | bytes = "") -> Result:
    return selfreflect("ask", *arguments, input=stdin)


# --- questions -----------------------------------------------------------------------------------------------------


def test_questions_come_from_standard_input_one_a_line(fake: Fake) -> None:
    engine = fake()
    result = ask("-", "--json", stdin="\ufeffFirst?\n\n  Second?  \r\n")
    assert result.exit_code == 0, result.output
    assert engine.asked == [["First?", "Second?"]]
    assert [a["question"] for a in json.loads(result.stdout)] == ["First?", "Second?"]
    assert ask("--json", stdin="Third?\n").exit_code == 0  # without a dash, as something is piped in
    assert engine.asked[-1] == ["Third?"]
    ask("Fourth?", stdin="not read\n")
    assert engine.asked[-1] == ["Fourth?"]


def test_many_questions_are_asked_in_batches(fake: Fake) -> None:
    engine = fake()
    result = ask("-", stdin="\n".join(f"Question {i}?" for i in range(40)))
    assert [question for batch in engine.asked for question in batch] == [f"Question {i}?" for i in range(40)]
    assert max(map(len, engine.asked)) == asking.BATCH
    assert result.stdout.count("## Question") == 40


def test_json_answers_are_printed_as_they_come(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer is on standard output before the next question is done."""
    printed: list[str] = []

    class Slow(FakeEngine):
        def answer_many(self, questions: list[str], on_event: Any = None) -> list[Answer | Exception]:
            for number in (1, 0, 2):  # the second is done first, and waits for its turn
                answer = self._answer(questions[number])
                assert isinstance(answer, Answer)
                on_event(number, Finished(answer))
                printed.append(stream.getvalue())
            return [self._answer(question) for question in questions]

    stream = io.StringIO()
    fake(kind=Slow)
    monkeypatch.setattr(console.out, "_file", stream)
    assert ask("a", "b", "c", "--json").exit_code == 0
    assert [text.count('"question"') for text in printed] == [0, 2, 3]
    assert [a["question"] for a in json.loads(stream.getvalue())] == ["a", "b", "c"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_answer_that_cannot_be_written_is_a_failure(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """The engine takes errors of a listener for the question's own; this one is not."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    class Listened(FakeEngine):
        def answer_many(self, questions: list[str], on_event: Any = None) -> list[Answer | Exception]:
            answer = self._answer(questions[0])
            assert isinstance(answer, Answer)
            try:
                on_event(0, Finished(answer))
            except OSError as error:
                return [error]
            return [answer]

    fake(kind=Listened)
    monkeypatch.setattr(console.out, "_file", Full())
    result = ask("a", *options)
    assert result.exit_code == 1
    assert "the disk is full" in result.stderr


def test_a_list_is_closed_even_if_nothing_could_be_asked(fake: Fake) -> None:
    class Broken(FakeEngine):
        def answer_many(self, questions: list[str], on_event: Any = None) -> list[Answer | Exception]:
            raise QuestionError("These cannot be asked.")

    fake(kind=Broken)
    result = ask("a", "b", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (2, [])


def test_an_answer_without_a_quote_says_so_on_the_terminal(fake: Fake) -> None:
    engine = fake()
    uncited = Answer(
        "Q?", f"It was 1911. {UNCITED}", (Claim("It was 1911.", support=0.9, start=0, end=12),), (), confidence=0.9
    )
    engine._answer = lambda question: uncited  # type: ignore[method-assign]
    assert UNCITED in ask("Q?").stdout


def test_mistyped_paths_are_bad_usage_and_make_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The lamp is lit.")
    report = tmp_path / "nope" / "report.html"
    said = refused("Q?", "--docs", tmp_path / "a.txt", "--html", report)
    assert "there is no folder" in said
    assert not report.parent.exists()
    assert "There is no model at" in refused("Q?", "--docs", tmp_path / "a.txt", "--model", tmp_path / "nope")


@pytest.mark.parametrize("stdin", ["", "\n \n", b"caf\xe9?\n"])
def test_standard_input_without_a_question_is_bad_usage(fake: Fake, stdin: str | bytes) -> None:
    fake()
    result = ask("-", stdin=stdin)
    assert result.exit_code == 2
    assert "hint:" in result.stderr


def test_a_question_that_fails_leaves_the_others_alone(fake: Fake) -> None:
    fake()
    result = ask("good", "bad", "also good")
    assert result.exit_code == 2
    assert result.stdout.count("[1] “The lamp was lit.”") == 2
    assert "This cannot be asked." in result.stderr
    told = json.loads(ask("good", "bad", "--json").stdout)
    assert (told[0]["question"], told[1]["error"]) == ("good", "This cannot be asked.")
    alone = ask("bad", "--json")
    assert (alone.exit_code, alone.stdout) == (2, "")


@pytest.mark.parametrize(
    ("questions", "code"),
    [(["a"], 0), (["nothing"], 3), (["raise"], 3), (["nothing", "a"], 0), (["nothing", "raise"], 3)],
)
def test_exit_codes(fake: Fake, questions: list[str], code: int) -> None:
    fake()
    assert ask(*questions).exit_code == code


# --- what is refused before any work -------------------------------------------------------------------------------


def refused(*arguments: object) -> str:
    """What is said on standard error by a command that must leave with 2, having done nothing."""
    result = ask(*arguments)
    assert result.exit_code == 2, result.output
    assert "hint:" in result.stderr
    return result.stderr


def test_bad_paths_are_named_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared_core.cli.options.DocumentOptions.build", lambda *_, **__: pytest.fail("work was done"))
    (tmp_path / "good").mkdir()
    (tmp_path / "file").write_text("x")
    assert "missing" in refused("Q?", "--docs", tmp_path / "good", "--docs", tmp_path / "missing")
    said = refused("Q?", "--docs", tmp_path / "file", tmp_path / "good")
    assert "good" in said
    assert "--docs A --docs B" in said
    assert "nowhere.json" in refused("Q?", "--docs", tmp_path / "good", "--calibration", tmp_path / "nowhere.json")
    (tmp_path / "odd.json").write_text("[]")
    assert "odd.json" in refused("Q?", "--docs", tmp_path / "good", "--calibration", tmp_path / "odd.json")
    said = refused("Q?", "--docs", tmp_path / "good", "--html", tmp_path / "good")
    assert "is a folder" in said
    assert "Name a file in it: --html" in said
    assert ".html" not in said  # the hint is of every command's: a calibration is no page
    assert "cannot be written" in refused("Q?", "--docs", tmp_path / "good", "--html", tmp_path / "file" / "a.html")


def test_a_report_that_cannot_be_written_in_the_end(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    fake()
    monkeypatch.setattr("shared_core.evaluation.report.write_report", full)
    result = ask("Q?", "--html", tmp_path / "a.html")
    assert result.exit_code == 2
    assert "The lamp was lit." in result.stdout
    assert "No space left" in result.stderr


def test_the_place_of_the_index_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lamp.txt").write_text("The lamp at the harbour is kept by Agnes Rowe.")
    first = ask("Who keeps the lamp?", "--docs", tmp_path / "lamp.txt", "-t", "0.1")
    assert str(tmp_path / "cache" / "selfreflect") in first.stderr
    assert "cache" not in ask("Who keeps the lamp?", "--docs", "lamp.txt", "-t", "0.1").stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "lamp.txt"]


# --- what is printed -----------------------------------------------------------------------------------------------


def test_page_section_and_offsets_stand_below_a_quote(fake: Fake) -> None:
    fake(page=3, page_label="iii", section="Lamps > Oil")
    assert "    a.pdf, p. iii:10-27 · Lamps > Oil\n" in ask("Q?").stdout


def test_a_quote_is_one_line_in_a_pipe(fake: Fake) -> None:
    fake(LONG.replace("single", "\n single"))
    lines = ask("Q?").stdout.splitlines()
    assert f"[1] “{LONG}”" in lines


def test_nothing_printed_steers_the_terminal(fake: Fake) -> None:
    fake(EVIL, source=EVIL, section=EVIL)
    for arguments in (["Q?"], [EVIL, "--trace"], ["Q?", EVIL], ["Q?", "--json"], ["bad", EVIL]):
        result = ask(*arguments)
        assert result.exit_code in (0, 2)
        assert not set(CONTROLS) & set(result.stdout + result.stderr)
    assert "[bold]no markup[/bold]" in ask("Q?").stdout
    assert json.loads(ask("Q?", "--json").stdout)["passages"][0]["text"] == EVIL  # nothing lost


def test_a_terminal_is_wrapped_and_coloured_and_still_safe() -> None:
    stream = io.StringIO()
    console = PlainConsole(file=stream, force_terminal=True, width=40, highlight=False, legacy_windows=False)
    console.print(f"{LONG} {EVIL}", markup=False, style="red")
    lines = stream.getvalue().splitlines()
    assert len(lines) > 8
    assert "\x1b[31mIt was" in stream.getvalue()  # ours
    assert "\x1b[31mtext" not in stream.getvalue()  # the document's
    assert "\x07" not in stream.getvalue()


def test_the_report_shows_the_page_and_no_hidden_characters(tmp_path: Path) -> None:
    from shared_core.evaluation.report import write_report

    engine = FakeEngine(EVIL, page=3, page_label="iii", section="Lamps")
    (answer,) = engine.answer_many(["Q?"])
    assert isinstance(answer, Answer)
    page = write_report([answer], tmp_path / "a.html").read_text("utf-8")
    assert "[1] p. iii, Lamps, characters 0–" in page
    assert not set(CONTROLS) & set(page)


# --- as a process --------------------------------------------------------------------------------------------------


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shared_core.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


def test_usage_errors_leave_with_2_and_cannot_steer_the_terminal() -> None:
    result = run("ask", "--no-such-\x1b[31moption", "Q?")
    assert result.returncode == 2
    assert "\x1b" not in result.stderr
    assert "--help" in result.stderr
    assert run("nonsense").returncode == 2


def test_a_command_without_words_prints_its_help_and_no_empty_error() -> None:
    for words in ((), ("train", "self-rag")):
        result = run(*words)
        assert (result.returncode, "error" in result.stderr) == (2, False)
        assert "Usage:" in result.stdout + result.stderr
    assert run("--version").returncode == 0
    assert run("ask", "--help").returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux's device that is always full")
def test_output_that_a_full_disk_refuses_at_the_end_is_a_failure() -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "shared_core.cli", "--version"]
    with open("/dev/full", "wb") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=buffered)
    assert (result.returncode, "the disk is full" in result.stderr) == (1, True)
    assert "Exception" not in result.stderr


def test_what_the_encoding_of_a_pipe_lacks_is_escaped_as_in_json() -> None:
    text = "A “lamp” – 🔥."
    code = (
        "from shared_core.cli import __main__ as command\nfrom shared_core.cli.console import out, write_json\n"
        f"command.app = lambda **_: (out.print({text!r}), write_json([{text!r}]))[1]\ncommand.main()"
    )
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    said, _, written = done.stdout.partition("\n")
    assert said.startswith(r"A \u201clamp\u201d")
    assert json.loads(written) == [text]


def test_standard_input_that_is_not_utf_8_is_refused_in_every_locale(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shared_core.cli", "ask", "-", "--index", str(tmp_path)]
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, input=b"caf\xe9?\n", capture_output=True, check=False, env=env)
    assert (done.returncode, b"not UTF-8" in done.stderr) == (2, True)


def test_a_reader_that_has_seen_enough_is_no_failure_of_ours() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "shared_core.cli", "doctor", "--settings"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read().decode()
    process.wait(timeout=60)
    assert "Traceback" not in said


def test_every_command_is_quiet_and_verbose_on_request() -> None:
    for command in ("ask", "index", "eval run", "eval merge", "calibrate default", "calibrate gate", "doctor"):
        said = selfreflect(*command.split(), "--help", env={"COLUMNS": "200", "TERM": "dumb"}).output
        assert "--quiet" in said, command
        assert "--verbose" in said, command


def test_the_help_names_the_pipelines_that_there_are() -> None:
    said = " ".join(selfreflect("ask", "--help", env={"COLUMNS": "300"}).output.split())
    assert all(name in said for name in PIPELINES)
    assert "self_rag" not in said or "self_rag" in PIPELINES


def test_completion_is_offered() -> None:
    assert "--install-completion" in selfreflect("--help", env={"COLUMNS": "200"}).output
    shown = run("--show-completion", "bash", env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"})
    assert shown.returncode == 0
    assert "complete" in shown.stdout


def test_main_leaves_with_a_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, code in ((["--version"], 0), (["ask", "--nonsense"], 2), (["doctor", "--index", "/nowhere/x"], 1)):
        monkeypatch.setattr(sys, "argv", ["selfreflect", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        assert caught.value.code == code, arguments
    capsys.readouterr()


@pytest.mark.parametrize("terminal", [True, False])
def test_bars_of_libraries_are_drawn_on_a_terminal_only(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    from transformers.utils import logging as bars

    monkeypatch.setattr(console.err, "_force_terminal", terminal)
    monkeypatch.delenv("HF_HUB_DISABLE_PROGRESS_BARS", raising=False)
    bars.enable_progress_bar()
    try:
        with pytest.raises(SelfReflectError):
            common.build_model("no/such/model", None)
        assert bars.is_progress_bar_enabled() == terminal
    finally:
        bars.enable_progress_bar()
        monkeypatch.delenv("HF_HUB_DISABLE_PROGRESS_BARS", raising=False)
