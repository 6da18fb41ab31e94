"""The extractive reader on documents of our own: finds, cites exactly, knows what it does not know."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared_core.errors import InputError, ModelLoadError, QuestionError
from shared_core.reading.base import Read, Reader, ReadResult
from shared_core.reading.extractive import ExtractiveReader
from shared_core.reading.weights import WEIGHTS
from shared_core.retrieval.minilm import WEIGHTS as ENCODER
from shared_core.types import Passage

pytest.importorskip("onnxruntime")

LIGHTHOUSE = Passage(
    "light",
    "The lighthouse at Corrow Point was built in 1874 by Anna Veldt. It stands 41 metres high. "
    "The last keeper left the tower in 1962, when the lamp was made automatic.",
    "Corrow Point",
)
FERRY = Passage(
    "ferry",
    "The ferry to Corrow sails twice a day in summer. A ticket costs $12 for adults and $5 for children. "
    "The harbour master is Tom Hale, who took over from his sister Mary in 2011.",
    "Harbour guide",
)
BOTH = (LIGHTHOUSE, FERRY)


@pytest.fixture(scope="module")
def reader() -> ExtractiveReader:
    return ExtractiveReader()


def ask(reader: ExtractiveReader, question: str, *passages: Passage, limit: int = 5) -> ReadResult:
    (result,) = reader.read([Read(question, passages or BOTH, limit)])
    assert isinstance(result, ReadResult), result
    return result


@pytest.mark.parametrize(
    ("question", "inside", "short"),
    [
        ("Who built the lighthouse at Corrow Point?", "built in 1874", "Anna Veldt"),
        ("When was the lighthouse built?", "built in 1874", "1874"),
        ("Who is the harbour master?", "harbour master", "Tom Hale"),
        ("How often does the ferry sail in summer?", "sails twice", "twice"),
    ],
)
def test_finds_the_sentence_and_the_words(reader: ExtractiveReader, question: str, inside: str, short: str) -> None:
    result = ask(reader, question)
    first = result.readings[0]
    assert inside in first.quote.text
    assert first.short_answer is not None
    assert short in first.short_answer.text
    assert first.probability is not None
    assert first.probability > (result.readings[1].probability or 0)


def test_a_question_the_passages_do_not_answer_gets_a_lower_probability(reader: ExtractiveReader) -> None:
    answered = ask(reader, "Who built the lighthouse at Corrow Point?")
    for decoy in ("Who built the cathedral at Corrow Point?", "Which team won the cup final in 1990?"):
        other = ask(reader, decoy)
        assert (other.readings[0].probability or 0) < (answered.readings[0].probability or 0)
        assert (other.answerable or 0) < (answered.answerable or 0)


def test_the_retrievers_order_counts(reader: ExtractiveReader) -> None:
    filler = [Passage(str(i), f"Nothing is said here of what number {i} wants to know.") for i in range(3)]
    question = "Who is the harbour master?"
    first, last = ask(reader, question, FERRY, *filler), ask(reader, question, *filler, FERRY)
    assert first.readings[0].quote == last.readings[0].quote  # what is said counts for more
    taken_off = first.readings[0].score - last.readings[0].score
    assert taken_off == pytest.approx(reader.loaded()[1].rank_prior * math.log(4))
    assert taken_off > 0


def test_it_is_a_reader(reader: ExtractiveReader) -> None:
    assert isinstance(reader, Reader)
    assert reader.name.startswith("extractive-reader@")


def test_the_order_of_requests_and_what_else_is_read_change_nothing(reader: ExtractiveReader) -> None:
    requests = [
        Read("Who built the lighthouse?", BOTH),
        Read("What does a ticket cost?", (FERRY, LIGHTHOUSE)),
        Read("When did the keeper leave?", (LIGHTHOUSE,)),
    ]
    alone = [ExtractiveReader(cache_passages=0).read([r])[0] for r in requests[:2]] + reader.read(requests[2:])
    assert reader.read(requests) == alone
    assert reader.read(requests[::-1]) == alone[::-1]


def test_one_failing_request_fails_alone(reader: ExtractiveReader) -> None:
    good, empty, bad = reader.read([Read("Who built it?", BOTH), Read("  ", BOTH), Read("Who?", BOTH, limit=0)])
    assert isinstance(good, ReadResult)
    assert isinstance(empty, QuestionError)
    assert isinstance(bad, InputError)


@pytest.mark.parametrize("passages", [(), (Passage("e", ""),), (Passage("e", " \n\t "), Passage("f", "\u200b"))])
def test_nothing_to_read(reader: ExtractiveReader, passages: tuple[Passage, ...]) -> None:
    (result,) = reader.read([Read("Who built the lighthouse?", passages)])
    assert isinstance(result, ReadResult)
    assert all(not r.quote.text.strip(" \n\t\u200b") for r in result.readings)


@pytest.mark.parametrize(
    "question",
    ["Wer hat den Leuchtturm von Corrow gebaut?", "灯台は誰が建てましたか", "Кто построил маяк?", "???", "12"],
)
def test_what_cannot_be_judged_is_unknown_not_confident(reader: ExtractiveReader, question: str) -> None:
    result = ask(reader, question)
    if question == "12":  # a word, but no question: whatever it gives is a probability
        assert all(r.probability is not None for r in result.readings)
        return
    assert result.answerable is None
    assert all(r.probability is None for r in result.readings)


def test_a_sentence_in_another_script_is_unknown(reader: ExtractiveReader) -> None:
    result = ask(reader, "Who built the lighthouse?", Passage("ja", "灯台は一八七四年に建てられた。"))
    assert [r.probability for r in result.readings] == [None]


def test_the_same_sentence_in_overlapping_chunks_counts_once(reader: ExtractiveReader) -> None:
    question = "Who built the lighthouse?"
    copy = dataclasses.replace(LIGHTHOUSE, id="copy")
    once, twice = ask(reader, question, LIGHTHOUSE), ask(reader, question, LIGHTHOUSE, copy)
    assert [r.quote for r in twice.readings] == [r.quote for r in once.readings]
    assert twice.readings[0].probability == pytest.approx(once.readings[0].probability, abs=1e-9)


@pytest.mark.parametrize("mark", ["# ", "** ", "== "])
def test_a_heading_is_no_answer_whatever_marks_it(reader: ExtractiveReader, mark: str) -> None:
    text = f"{mark}Performance of the winch improved\n\nThe drum turns twice as fast."
    passage = Passage("p", text, "Notes", {"section": "Performance of the winch improved"})
    (result,) = reader.read([Read("What improved the performance of the winch?", (passage,))])
    assert [r.quote.text for r in result.readings] == ["The drum turns twice as fast."]


def test_a_lead_in_or_a_value_given_elsewhere_is_no_answer(reader: ExtractiveReader) -> None:
    passages = (
        Passage("p", "Use\n\nwinch --brake\n\nto stop the drum.", "Winch"),
        Passage("q", "jobs:\n  test:\n    runs-on: ${{ matrix.os }}\n    timeout-minutes: 10", "ci.yml"),
    )
    results = reader.read([Read("How do I stop the drum?", passages), Read("What do the tests run on?", passages)])
    quoted = [r.quote.text for result in results for r in result.readings]
    assert "winch --brake" in quoted
    assert not [text for text in quoted if text == "Use" or "matrix.os" in text]


def test_a_bare_yes_is_quoted_with_what_it_is_about(reader: ExtractiveReader) -> None:
    text = "Is the winch safe to use in rain?\n\nYes. Its drum is covered by a steel hood."
    (result,) = reader.read([Read("Is the winch safe to use in rain?", (Passage("p", text, "Winch"),))])
    assert result.readings[0].quote.text == "Yes. Its drum is covered by a steel hood."


def test_a_heading_states_nothing(reader: ExtractiveReader) -> None:
    titled = Passage("h", f"# The lighthouse of Anna Veldt\n\n{LIGHTHOUSE.text}", "Corrow Point")
    quotes = [r.quote.text for r in ask(reader, "Who built the lighthouse at Corrow Point?", titled).readings]
    assert quotes
    assert not any(q.startswith("#") for q in quotes)
    only = Passage("o", "# The lighthouse of Anna Veldt", "")
    assert ask(reader, "Who built the lighthouse?", only).readings == ()


NAMES = ("bin/run.sh", "run.md")


def test_a_comment_in_source_code_that_is_a_sentence_is_no_heading(reader: ExtractiveReader) -> None:
    said = "# The harbour server bans clients that send more than two requests a second."
    code = Passage("c", f"def fetch(station):\n    {said}\n    return get(station)", "tides.py")
    assert ask(reader, "Which clients does the harbour server ban?", code).readings[0].quote.text == said
    dated = Passage("d", "# The constants below were measured in 1987.\nMAX_RANGE = 7.2", "tides")
    assert "1987" in ask(reader, "When were the constants measured?", dated).readings[0].quote.text
    text = "#!/bin/sh\n# Never run this as root\nset -e"
    shown = [
        ask(reader, "May the script be run as root?", Passage("s", text, "run", {"source": name})) for name in NAMES
    ]
    assert ["root" in str([r.quote.text for r in found.readings]) for found in shown] == [True, False]


@pytest.mark.parametrize("label", ["**Development branch status:**", "* **2.1.**", "The branches are these:", "sort:"])
def test_a_number_and_what_leads_in_something_state_nothing(reader: ExtractiveReader, label: str) -> None:
    assert ask(reader, "Which branch is the development branch?", Passage("l", label)).readings == ()


def test_an_entry_is_an_answer_though_it_ends_in_a_colon(reader: ExtractiveReader) -> None:
    entry = Passage("e", "-l, --long\nList these in the long format:", "ls(1)")
    assert ask(reader, "What does -l do in ls?", entry).readings != ()


@pytest.mark.parametrize("text", ["1871", "12:30", "740 MB/s", "Note: use the branch dev.", ":Branches: 178\n:Names:"])
def test_values_and_sentences_with_colons_are_no_labels(reader: ExtractiveReader, text: str) -> None:
    assert ask(reader, "Which branch is the development branch?", Passage("v", text)).readings != ()


def test_limit(reader: ExtractiveReader) -> None:
    assert len(ask(reader, "Who built the lighthouse?", limit=2).readings) == 2


def test_long_passages_are_read_to_the_end(reader: ExtractiveReader) -> None:
    filler = "The committee met again and talked about the weather for an hour. " * 120
    passage = Passage("long", filler + "The bridge over the Arn was opened by Rosa Tilling in 1931. " + filler)
    result = ask(reader, "Who opened the bridge over the Arn?", passage)
    assert "Rosa Tilling" in result.readings[0].quote.text
    assert result.readings[0].short_answer is not None
    assert "Rosa Tilling" in result.readings[0].short_answer.text


def test_a_sentence_longer_than_a_window(reader: ExtractiveReader) -> None:
    passage = Passage(
        "one", "the bridge was opened by Rosa Tilling and " + "so on and so forth and " * 300 + "that is all"
    )
    result = ask(reader, "Who opened the bridge?", passage)
    assert result.readings[0].quote.text == passage.text


TEXT = st.text(alphabet=st.sampled_from("ab cD.?!\n12,é京\u0301\ud83d\ude00ß’-$ "), max_size=120) | st.text(max_size=40)


@given(question=TEXT, texts=st.lists(TEXT, max_size=3))
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_gives_exact_spans_and_probabilities(
    reader: ExtractiveReader, question: str, texts: list[str]
) -> None:
    passages = tuple(Passage(f"p{i}", text) for i, text in enumerate(texts))
    by_id = {p.id: p.text for p in passages}
    (result,) = reader.read([Read(question, passages)])
    if not question.strip():
        assert isinstance(result, QuestionError)
        return
    assert isinstance(result, ReadResult), result
    assert result.answerable is None or 0 <= result.answerable <= 1
    scores = [r.score for r in result.readings]
    assert scores == sorted(scores, reverse=True)
    for reading in result.readings:
        quote, short = reading.quote, reading.short_answer
        assert by_id[quote.passage_id][quote.start : quote.end] == quote.text
        assert reading.probability is None or 0 <= reading.probability <= 1
        if short is not None:
            assert by_id[short.passage_id][short.start : short.end] == short.text
            assert quote.start <= short.start < short.end <= quote.end


def test_weights_and_calibration_must_belong_together(tmp_path) -> None:  # type: ignore[no-untyped-def]
    weights = tmp_path / "reader.npz"
    weights.write_bytes(WEIGHTS.read_bytes())
    about = json.loads(WEIGHTS.with_suffix(".json").read_text("utf-8"))
    weights.with_suffix(".json").write_text(json.dumps(about | {"sha256": "0" * 64}), "utf-8")
    (failed,) = ExtractiveReader(weights=weights).read([Read("Who?", BOTH)])
    assert isinstance(failed, ModelLoadError)
    assert "do not belong together" in failed.message
    (failed,) = ExtractiveReader(weights=tmp_path / "none.npz").read([Read("Who?", BOTH)])
    assert isinstance(failed, ModelLoadError)


@pytest.mark.parametrize("part", [0.5, 0.999])
def test_a_file_cut_short_is_named(tmp_path: Path, part: float) -> None:
    whole = WEIGHTS.read_bytes()
    weights = tmp_path / "reader.npz"
    weights.write_bytes(whole[: int(len(whole) * part)])
    about = json.loads(WEIGHTS.with_suffix(".json").read_text("utf-8"))
    known = about | {"sha256": hashlib.sha256(weights.read_bytes()).hexdigest()}
    weights.with_suffix(".json").write_text(json.dumps(known), "utf-8")
    (failed,) = ExtractiveReader(weights=weights).read([Read("Who?", BOTH)])
    assert isinstance(failed, ModelLoadError)
    assert str(weights) in failed.message
    assert "Reinstall" in (failed.hint or "")


def test_the_weights_name_their_sources() -> None:
    about = json.loads(WEIGHTS.with_suffix(".json").read_text("utf-8"))
    assert "SQuAD" in json.dumps(about["sources"])
    assert WEIGHTS.stat().st_size + ENCODER.stat().st_size < 30_000_000


def test_a_cache_has_room_for_nothing_or_more() -> None:
    with pytest.raises(InputError, match="cache_passages"):
        ExtractiveReader(cache_passages=-1)


def test_a_term_alone_states_nothing(reader: ExtractiveReader) -> None:
    text = "harbour_master\n\nThe person who runs the harbour of Corrow. It has been Tom Hale since 2011."
    listed = Passage("t", text, "Roles", {"section": "Roles > harbour_master"})
    plain = dataclasses.replace(listed, metadata={})
    asked = "Who is the harbour_master?"
    assert "harbour_master" in [r.quote.text for r in ask(reader, asked, plain).readings]
    quotes = [r.quote.text for r in ask(reader, asked, listed).readings]
    assert quotes
    assert "harbour_master" not in quotes


def test_ligatures_are_read_as_the_letters_that_they_are(reader: ExtractiveReader) -> None:
    plain = "The fire brigade of Offenham was founded in 1871. Its flagship, the Griffin, carries 2,400 litres."
    joined = plain
    for letters, one in (("ffi", "\ufb03"), ("ff", "\ufb00"), ("fi", "\ufb01"), ("fl", "\ufb02")):
        joined = joined.replace(letters, one)
    for question in ("When was the fire brigade of Offenham founded?", "What does the Griffin carry?"):
        usual, other = (ask(reader, question, Passage("p", text)) for text in (plain, joined))
        assert other.readings[0].probability == pytest.approx(usual.readings[0].probability, abs=0.02)
        quote = other.readings[0].quote
        assert joined[quote.start : quote.end] == quote.text
