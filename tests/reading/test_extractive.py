"""The extractive reader on documents of our own: finds, cites exactly, knows what it does not know."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.errors import CalibrationError, InputError, ModelLoadError, QuestionError
from shared_core.reading.base import Read, Reader, ReadResult
from shared_core.reading.confidence import Rescaling
from shared_core.reading.extractive import CLOSE, VERIFIED, ExtractiveReader
from shared_core.reading.weights import WEIGHTS, Weights
from shared_core.retrieval.minilm import WEIGHTS as ENCODER
from shared_core.retrieval.tokenizer import Tokenizer
from shared_core.types import Passage
from tests.reading.asking import READER, quotes, read

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
ABOUT = json.loads(WEIGHTS.with_suffix(".json").read_text("utf-8"))


def damaged(folder: Path, part: float = 1.0, **about: object) -> Path:
    """A copy of the weights file, cut short or with other metadata."""
    whole = WEIGHTS.read_bytes()
    weights = folder / "reader.npz"
    weights.write_bytes(whole[: int(len(whole) * part)])
    known = {"sha256": hashlib.sha256(weights.read_bytes()).hexdigest(), **about}
    weights.with_suffix(".json").write_text(json.dumps(ABOUT | known), "utf-8")
    return weights


@pytest.mark.parametrize(
    ("question", "inside", "short"),
    [
        ("Who built the lighthouse at Corrow Point?", "built in 1874", "Anna Veldt"),
        ("When was the lighthouse built?", "built in 1874", "1874"),
        ("Who is the harbour master?", "harbour master", "Tom Hale"),
        ("How often does the ferry sail in summer?", "sails twice", "twice"),
    ],
)
def test_finds_the_sentence_and_the_words(question: str, inside: str, short: str) -> None:
    first, second, *_ = read(question, *BOTH).readings
    assert inside in first.quote.text
    assert first.short_answer is not None
    assert short in first.short_answer.text
    assert first.probability is not None
    assert first.probability > (second.probability or 0)


def test_a_question_the_passages_do_not_answer_gets_a_lower_probability() -> None:
    answered = read("Who built the lighthouse at Corrow Point?", *BOTH)
    for decoy in ("Who built the cathedral at Corrow Point?", "Which team won the cup final in 1990?"):
        other = read(decoy, *BOTH)
        assert (other.readings[0].probability or 0) < (answered.readings[0].probability or 0)
        assert (other.answerable or 0) < (answered.answerable or 0)


def test_the_retrievers_order_counts() -> None:
    filler = [Passage(str(i), f"Nothing is said here of what number {i} wants to know.") for i in range(3)]
    question = "Who is the harbour master?"
    first, last = (read(question, *order).readings[0] for order in ([FERRY, *filler], [*filler, FERRY]))
    assert first.quote == last.quote  # the network's score counts for more than the order
    assert first.score - last.score == pytest.approx(READER.loaded().rank_prior * math.log(4))
    assert first.score > last.score


def test_it_is_a_reader() -> None:
    assert isinstance(READER, Reader)
    assert READER.name.startswith("extractive-reader@")


def test_the_order_of_requests_and_what_else_is_read_change_nothing() -> None:
    requests = [
        Read("Who built the lighthouse?", BOTH),
        Read("What does a ticket cost?", (FERRY, LIGHTHOUSE)),
        Read("When did the keeper leave?", (LIGHTHOUSE,)),
    ]
    alone = [ExtractiveReader(cache_passages=0).read([r])[0] for r in requests[:2]] + READER.read(requests[2:])
    assert READER.read(requests) == alone
    assert READER.read(requests[::-1]) == alone[::-1]


def test_one_failing_request_fails_alone() -> None:
    good, empty, bad = READER.read([Read("Who built it?", BOTH), Read("  ", BOTH), Read("Who?", BOTH, limit=0)])
    assert isinstance(good, ReadResult)
    assert isinstance(empty, QuestionError)
    assert isinstance(bad, InputError)


@pytest.mark.parametrize("passages", [(), (Passage("e", ""),), (Passage("e", " \n\t "), Passage("f", "\u200b"))])
def test_nothing_to_read(passages: tuple[Passage, ...]) -> None:
    assert not any(quote.strip(" \n\t\u200b") for quote in quotes("Who built the lighthouse?", *passages))


@pytest.mark.parametrize(
    "question",
    ["Wer hat den Leuchtturm von Corrow gebaut?", "灯台は誰が建てましたか", "Кто построил маяк?", "???", "\u200b"],
)
def test_what_cannot_be_judged_is_unknown_not_confident(question: str) -> None:
    result = read(question, *BOTH)
    assert result.answerable is None
    assert all(r.probability is None for r in result.readings)


def test_a_word_that_is_no_question_gives_probabilities() -> None:
    assert all(r.probability is not None for r in read("12", *BOTH).readings)


def test_a_sentence_in_another_script_is_unknown() -> None:
    result = read("Who built the lighthouse?", "灯台は一八七四年に建てられた。")
    assert [r.probability for r in result.readings] == [None]


def test_the_same_sentence_in_overlapping_chunks_counts_once() -> None:
    question = "Who built the lighthouse?"
    copy = dataclasses.replace(LIGHTHOUSE, id="copy")
    once, twice = read(question, LIGHTHOUSE), read(question, LIGHTHOUSE, copy)
    assert [r.quote for r in twice.readings] == [r.quote for r in once.readings]
    assert twice.readings[0].probability == pytest.approx(once.readings[0].probability, abs=1e-9)


@pytest.mark.parametrize("mark", ["# ", "** ", "== "])
def test_a_heading_is_no_answer_whatever_marks_it(mark: str) -> None:
    text = f"{mark}Performance of the winch improved\n\nThe drum turns twice as fast."
    passage = Passage("p", text, "Notes", {"section": "Performance of the winch improved"})
    assert quotes("What improved the performance of the winch?", passage) == ["The drum turns twice as fast."]


@pytest.mark.parametrize("rule", ["===========", "-----------", "~~~~~~~~~~~", "^^^^^^^^^^^", '"""""""""""'])
def test_the_rule_below_a_title_is_not_quoted(rule: str) -> None:
    notes = Passage("p", f"Winch 2.1.0 (2024-05-14)\n{rule}\n\nThe drum turns twice as fast.", "Notes")
    assert quotes("When was 2.1.0 released?", notes)[0] == "Winch 2.1.0 (2024-05-14)"


def test_options_with_one_definition_are_no_answer_without_it() -> None:
    text = "--vers version\n--version version\nThe version to yank or un-yank."
    yank = Passage("p", text, "yank", {"section": "Yank Options > --version version"})
    assert "--vers version\n--version version" not in quotes("How do I yank a version?", yank)


def test_a_lead_in_or_a_value_given_elsewhere_is_no_answer() -> None:
    winch = Passage("p", "Use\n\nwinch --brake\n\nto stop the drum.", "Winch")
    tests = Passage("q", "jobs:\n  test:\n    runs-on: ${{ matrix.os }}\n    timeout-minutes: 10", "ci.yml")
    found = quotes("How do I stop the drum?", winch, tests)
    assert "winch --brake" in found
    assert "Use" not in found
    assert not any("matrix.os" in text for text in quotes("What do the tests run on?", winch, tests))


def test_a_bare_yes_is_quoted_with_what_it_is_about() -> None:
    asked = "Is the winch safe to use in rain?"
    winch = Passage("p", f"{asked}\n\nYes. Its drum is covered by a steel hood.", "Winch")
    assert quotes(asked, winch)[0] == "Yes. Its drum is covered by a steel hood."


def test_a_heading_states_nothing() -> None:
    titled = Passage("h", f"# The lighthouse of Anna Veldt\n\n{LIGHTHOUSE.text}", "Corrow Point")
    found = quotes("Who built the lighthouse at Corrow Point?", titled)
    assert found
    assert not any(quote.startswith("#") for quote in found)
    assert quotes("Who built the lighthouse?", "# The lighthouse of Anna Veldt") == []


def test_a_comment_in_source_code_that_is_a_sentence_is_no_heading() -> None:
    said = "# The harbour server bans clients that send more than two requests a second."
    code = Passage("c", f"def fetch(station):\n    {said}\n    return get(station)", "tides.py")
    assert quotes("Which clients does the harbour server ban?", code)[0] == said
    dated = Passage("d", "# The constants below were measured in 1987.\nMAX_RANGE = 7.2", "tides")
    assert "1987" in quotes("When were the constants measured?", dated)[0]
    text = "#!/bin/sh\n# Never run this as root\nset -e"
    for file, is_code in (("bin/run.sh", True), ("run.md", False)):
        found = quotes("May the script be run as root?", Passage("s", text, "run", {"source": file}))
        assert any("root" in quote for quote in found) == is_code


@pytest.mark.parametrize("label", ["**Development branch status:**", "* **2.1.**", "The branches are these:", "sort:"])
def test_a_number_and_what_leads_in_something_state_nothing(label: str) -> None:
    assert quotes("Which branch is the development branch?", label) == []


def test_an_entry_is_an_answer_though_it_ends_in_a_colon() -> None:
    entry = Passage("e", "-l, --long\nList these in the long format:", "ls(1)")
    assert quotes("What does -l do in ls?", entry) != []


@pytest.mark.parametrize("text", ["1871", "12:30", "740 MB/s", "Note: use the branch dev.", ":Branches: 178\n:Names:"])
def test_values_and_sentences_with_colons_are_no_labels(text: str) -> None:
    assert quotes("Which branch is the development branch?", text) != []


def test_limit() -> None:
    assert len(read("Who built the lighthouse?", *BOTH, limit=2).readings) == 2


def test_long_passages_are_read_to_the_end() -> None:
    filler = "The committee met again and talked about the weather for an hour. " * 120
    text = f"{filler}The bridge over the Arn was opened by Rosa Tilling in 1931. {filler}"
    first = read("Who opened the bridge over the Arn?", text).readings[0]
    assert "Rosa Tilling" in first.quote.text
    assert first.short_answer is not None
    assert "Rosa Tilling" in first.short_answer.text


def test_a_sentence_longer_than_a_window() -> None:
    text = "the bridge was opened by Rosa Tilling and " + "so on and so forth and " * 100 + "that is all"
    assert quotes("Who opened the bridge?", text)[0] == text


TEXT = st.text(alphabet=st.sampled_from("ab cD.?!\n12,é京\u0301\ud83d\ude00ß’-$ "), max_size=120) | st.text(max_size=40)


@given(question=TEXT, texts=st.lists(TEXT, max_size=3))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_any_text_gives_exact_spans_and_probabilities(question: str, texts: list[str]) -> None:
    passages = tuple(Passage(f"p{i}", text) for i, text in enumerate(texts))
    by_id = {p.id: p.text for p in passages}
    (result,) = READER.read([Read(question, passages)])
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


def test_weights_and_calibration_must_belong_together(tmp_path: Path) -> None:
    (failed,) = ExtractiveReader(weights=damaged(tmp_path, sha256="0" * 64)).read([Read("Who?", BOTH)])
    assert isinstance(failed, ModelLoadError)
    assert "do not belong together" in failed.message
    (failed,) = ExtractiveReader(weights=tmp_path / "none.npz").read([Read("Who?", BOTH)])
    assert isinstance(failed, ModelLoadError)


@pytest.mark.parametrize("part", [0.5, 0.999])
def test_a_file_cut_short_is_named(tmp_path: Path, part: float) -> None:
    weights = damaged(tmp_path, part)
    (failed,) = ExtractiveReader(weights=weights).read([Read("Who?", BOTH)])
    assert isinstance(failed, ModelLoadError)
    assert str(weights) in failed.message
    assert "Reinstall" in (failed.hint or "")


@pytest.mark.parametrize(
    "conflicts", [{"right": {"value": 0.5}}, {"answerable": {"smell": -1.0}}, {"score": float("nan")}]
)
def test_terms_of_conflicts_that_are_none_are_refused(tmp_path: Path, conflicts: dict[str, object]) -> None:
    with pytest.raises(ModelLoadError, match="damaged"):
        Weights.load(damaged(tmp_path, conflicts=conflicts))


@pytest.mark.parametrize("rescaling", [[0.0, 1.0], [-1.0, 0.0], [1.0, float("inf")]])
def test_a_rescaling_that_is_none_is_refused(tmp_path: Path, rescaling: list[float]) -> None:
    with pytest.raises(CalibrationError):
        Weights.load(damaged(tmp_path, structured=rescaling))


def test_probabilities_of_quotes_from_structured_passages_are_rescaled() -> None:
    """The same sentence is the same quote, at another probability, that is never above that of an answer."""
    question, rescaled = "When was the lamp lit?", READER.loaded().structured
    for text in ("The lamp was lit in 1871.", "The lamp was often lit by Tom. It burned oil.", "Tom's lamp is green."):
        bare, filed = (
            READER.read([Read(question, (Passage("p", text, metadata=metadata),))])[0]
            for metadata in ({"source": "a.txt"}, {"source": "a.txt", "section": "Lamps"})
        )
        assert isinstance(bare, ReadResult)
        assert isinstance(filed, ReadResult)
        before, after = bare.readings[0], filed.readings[0]
        assert before.quote == after.quote
        assert before.probability is not None
        assert after.probability == pytest.approx(rescaled(before.probability))
        assert filed.answerable == max(bare.answerable or 0.0, after.probability or 0.0)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 5), st.floats(-3, 3))
def test_rescaled_probabilities_keep_their_order(a: float, b: float, slope: float, intercept: float) -> None:
    low, high = (Rescaling(slope, intercept)(p) for p in sorted((a, b)))
    assert 0 <= low <= high <= 1


def test_the_weights_name_their_sources() -> None:
    assert "SQuAD" in json.dumps(ABOUT["sources"])
    assert WEIGHTS.stat().st_size + ENCODER.stat().st_size < 30_000_000


def test_a_cache_has_room_for_nothing_or_more() -> None:
    with pytest.raises(InputError, match="cache_passages"):
        ExtractiveReader(cache_passages=-1)


def test_a_term_alone_states_nothing() -> None:
    text = "harbour_master\n\nThe person who runs the harbour of Corrow. It has been Tom Hale since 2011."
    listed = Passage("t", text, "Roles", {"section": "Roles > harbour_master"})
    plain = dataclasses.replace(listed, metadata={})
    assert "harbour_master" in quotes("Who has been there since 2011?", plain)
    for asked, passage in (("Who has been there since 2011?", listed), ("Who is the harbour_master?", plain)):
        found = quotes(asked, passage)
        assert found
        assert "harbour_master" not in found


def test_ligatures_are_read_as_the_letters_that_they_are() -> None:
    plain = "The fire brigade of Offenham was founded in 1871. Its flagship, the Griffin, carries 2,400 litres."
    joined = plain
    for letters, one in (("ffi", "\ufb03"), ("ff", "\ufb00"), ("fi", "\ufb01"), ("fl", "\ufb02")):
        joined = joined.replace(letters, one)
    for question in ("When was the fire brigade of Offenham founded?", "What does the Griffin carry?"):
        usual, other = (read(question, text).readings[0] for text in (plain, joined))
        assert other.probability == pytest.approx(usual.probability, abs=0.02)
        assert joined[other.quote.start : other.quote.end] == other.quote.text


@pytest.mark.parametrize("mark", ["\ufffe", "\ufffe\n", "\u00ad\n"])
def test_words_divided_at_the_end_of_a_line_are_read_as_one(mark: str) -> None:
    plain = "The fire brigade was founded in 1871. Its flagship, the Griffin, carries 2,400 litres of water."
    divided = plain.replace("brigade", f"bri{mark}gade").replace("Griffin", f"Grif{mark}fin")
    for question in ("When was the fire brigade founded?", "What does the Griffin carry?"):
        usual, other = (read(question, text).readings[0] for text in (plain, divided))
        assert other.probability == pytest.approx(usual.probability, abs=0.02)
        assert divided[other.quote.start : other.quote.end] == other.quote.text
    assert Tokenizer()(f"bri{mark}gade") == Tokenizer()("brigade")


def test_a_sentence_that_breaks_off_goes_on_in_the_next_paragraph() -> None:
    whole = "If a grey rope is tied to a red one, the whole rope must\n\nbe kept dry and oiled in spring."
    assert quotes("What must be done if a grey rope is tied to a red one?", f"{whole}\n\nNo rope is sold.")[0] == whole
    items = "The keeper of the rope shall\n\n(a) dry it;\n\n(b) oil it in spring."
    assert "The keeper of the rope shall" not in quotes("What shall the keeper of the rope do?", items)
    wax = "Wax is what candles are made of"
    assert wax in quotes("What are candles made of?", f"{wax}\n\nOil is what lamps burn.")


def test_a_sentence_whose_reason_is_the_one_before_is_quoted_with_it() -> None:
    reason = "Logging every change of a record takes much space and slows the cellar's database."
    off = "For this reason, logging is turned off by default."
    assert quotes("Why is logging turned off by default?", f"{reason} {off}")[0] == f"{reason} {off}"
    apart = quotes("Why is logging turned off by default?", f"Barrels are counted in May.\n\n{off}")
    assert "Barrels" not in apart[0]


def test_a_value_below_a_name_is_quoted_with_it() -> None:
    hours = "Post office hours\n\nMonday to Friday\n09:00–13:45\nSaturday\n09:00–12:15\n\nPhone:\n01632 960001"
    shown = quotes("What are the Saturday hours of the post office?", hours)
    assert "Saturday\n09:00–12:15" in shown
    assert "Phone:\n01632 960001" in quotes("What is the phone number of the post office?", hours)
    apart = quotes("How many came?", "Nobody came.\n12\n\nThe hall\n\n13")
    assert "Nobody came.\n12" not in apart
    assert "The hall\n\n13" not in apart


def test_the_verifier_is_the_one_that_the_weights_name(tmp_path: Path) -> None:
    weights = damaged(tmp_path)
    (failed,) = ExtractiveReader(weights=weights).read([Read("Who?", BOTH)])
    assert isinstance(failed, ModelLoadError)
    assert "verifier" in failed.message  # there is none
    shutil.copy(WEIGHTS, tmp_path / "verifier.npz")
    (failed,) = ExtractiveReader(weights=weights).read([Read("Who?", BOTH)])
    assert isinstance(failed, ModelLoadError)
    assert str(tmp_path) in failed.message  # there is another one


def test_reader_without_a_verifier_verifies_by_its_own_network(tmp_path: Path) -> None:
    reader = ExtractiveReader(weights=damaged(tmp_path, verifier=""))
    alone, shipped = (r.candidates("Who built the lighthouse?", BOTH) for r in (reader, READER))
    assert [c.score for c in alone] == [c.score for c in shipped]
    assert alone[0].verdict is not None
    assert shipped[0].verdict is not None
    assert alone[0].verdict != shipped[0].verdict


@pytest.mark.parametrize("question", ["Who built the lighthouse?", "What is the lighthouse?", "Where is the keeper?"])
def test_the_best_sentences_are_read_again_if_they_are_close(question: str) -> None:
    found = READER.candidates(question, BOTH)
    close = [c.score >= found[0].score - CLOSE for c in found[:VERIFIED]]
    assert [c.verdict is not None for c in found] == close + [False] * (len(found) - len(close))
    _, chances = READER.probabilities(found, READER.shape_of(question), 0.6)
    read = [p for p, again in zip(chances, close) if again and p is not None]
    assert read
    assert all(p is None or p <= min(read) for p in chances[len(read) :])


def test_what_is_read_again_does_not_depend_on_what_else_is() -> None:
    question = "Who built the lighthouse?"
    every = READER.candidates(question, BOTH)
    (alone,) = (p for p in BOTH if p.id == BOTH[every[0].passage].id)
    for one in READER.candidates(question, (alone,))[:VERIFIED]:
        (same,) = (c for c in every if BOTH[c.passage] == alone and c.start == one.start)
        if same.verdict is not None:
            assert one.verdict == pytest.approx(same.verdict)


def test_sentence_read_by_itself_lacks_what_its_window_says() -> None:
    """She is whom the sentence before names, and by itself it says nothing of her."""
    text = "The mill of Osk is run by Ila Venn. She was born in Brannoch in 1871. The yard is paved."
    best, *_ = READER.candidates("Where was Ila Venn born?", (Passage("p", text),))
    assert text[best.start : best.end].startswith("She was born")
    assert best.verdict is not None
    assert best.verdict.alone < best.verdict.sentence <= best.verdict.window
