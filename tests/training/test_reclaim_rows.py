"""ReClaim's training rows: what is dropped and why, and that rows are what the pipeline sends and receives."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.citation import CitationIndex
from shared_core.errors import InputError, LanguageModelError
from shared_core.lm import ScriptedLM
from shared_core.lm.base import Capabilities, Generate, Prompt
from shared_core.lm.encoding import Encoder
from shared_core.runtime.flow import Resources
from shared_core.training.reclaim.cite import parse_selection
from shared_core.training.reclaim.rows import RowSet, RowSettings, build_rows
from shared_core.training.reclaim.sources import Segment, SourceAnswer, read_sources, segment_answer
from shared_core.training.rows import read_rows, write_rows
from shared_core.types import Passage

PASSAGES = (
    Passage("a", "The Thale rises in Orm. It was bridged in 1841 by Mira Dorn.\nThe bridge has 3 arches.", "Thale"),
    Passage("b", "Mira Dorn was an engineer. She died in 1869. A <claim> trap.", "Mira Dorn"),
)
# 0 The Thale rises in Orm.  1 It was bridged …  2 The bridge has …  3 Mira Dorn was …  4 She died …  5 A <claim> …
QUESTION = "Who bridged the Thale?"


class Judge:
    """Knows the support of some clauses; all others are certain."""

    name = "table"

    def __init__(self, **support: Any) -> None:
        self.support = {k.replace("_", " "): v for k, v in support.items()}
        self.seen: list[tuple[str, str]] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        self.seen += pairs
        return [self.support.get(claim, 0.99) for _, claim in pairs]


def source(*segments: Segment, id: str = "s", **changes: Any) -> SourceAnswer:
    return dataclasses.replace(SourceAnswer(id, QUESTION, PASSAGES, "x", segments or (Segment("x"),)), **changes)


def reasons(made: RowSet) -> list[tuple[int | None, str, str]]:
    return [(d.segment, d.stage, d.reason) for d in made.drops]


GOOD = (
    Segment("Mira Dorn bridged the Thale.", (1,)),
    Segment("The bridge has three arches, and she was an engineer.", (3, 2)),
    Segment("She died in 1869.", ("She died in 1869.",)),
)


# --- segments


def test_clauses_end_at_marks_and_semicolons() -> None:
    cut = segment_answer("It was built in 1841[1], and it has 3 arches [2][1]; nobody knows why. She died.[3]\nEnd")
    assert [(s.text, s.passages) for s in cut] == [
        ("It was built in 1841", (1,)), ("and it has 3 arches", (2, 1)), ("nobody knows why.", ()), ("She died.", (3,)),
        ("End", ()),
    ]  # fmt: skip
    whole = segment_answer("It was built in 1841 [1], and has 3 arches [2, 3]. [4]", "sentence")
    assert [(s.text, s.passages) for s in whole] == [("It was built in 1841, and has 3 arches.", (1, 2, 3, 4))]
    assert segment_answer("[2] The bridge stands.")[0].passages == (2,)


@given(st.text(st.sampled_from("ab A.;!?,[]12\n "), max_size=80), st.sampled_from(["sentence", "clause"]))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_no_word_of_an_answer_is_lost_in_cutting(answer: str, unit: Any) -> None:
    import re

    cut = segment_answer(answer, unit)
    words = "".join(c for c in re.sub(r"(?:\s*\[\d{1,3}(?:\s*[,;]\s*\d{1,3})*\])+", "", answer) if c.isalnum())
    assert "".join(c for s in cut for c in s.text if c.isalnum()) == words
    marks = {int(n) for m in re.findall(r"\[(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\]", answer) for n in re.findall(r"\d+", m)}
    assert not cut or {n for s in cut for n in s.passages} == marks


# --- rows are what the pipeline sends and receives


def replay(made: RowSet, generation: str) -> tuple[list[Generate], list[str]]:
    """Runs the pipeline with a model that says what the rows teach; its requests and replies."""
    replies = [r.completion for r in made.rows if (r.role == "unified") == (generation == "unified")]
    lm = ScriptedLM(list(replies), capabilities=Capabilities(grammar=True))

    class All:
        def retrieve(self, query: str, k: int = 5) -> Any:
            return list(PASSAGES)

    config = SelfReflectSettings(pipeline="reclaim", reclaim={"published": {"generation": generation}})
    answer = SelfReflectEngine(All(), lm, config, judge=Judge()).answer(QUESTION)
    assert len(answer.claims) == made.report.pairs
    assert [c.text for c in answer.claims] == [s.text for s in GOOD]
    return [r for r in lm.requests if isinstance(r, Generate)], replies


def grammar_accepts(tokenizer: Any, lark: str, ids: list[int]) -> bool:
    from llguidance import LLMatcher
    from llguidance.hf import from_tokenizer

    matcher = LLMatcher(from_tokenizer(tokenizer), LLMatcher.grammar_from_lark(lark), log_level=0)
    return bool(matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting())


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("generation", ["interleaved", "unified"])
def test_rows_hold_the_ids_that_the_pipeline_sends_and_receives(
    tiny_tokenizer: Any, generation: str, chat: bool, tmp_path: Path
) -> None:
    import copy

    tokenizer = copy.deepcopy(tiny_tokenizer)
    if not chat:
        tokenizer.chat_template = None
    encoder = Encoder(tokenizer)
    made = build_rows([source(*GOOD)])
    requests, replies = replay(made, generation)
    write_rows(made.rows, tmp_path / "rows.jsonl")  # through the file, where parts of equal trust are joined
    rows = [r for r in read_rows(tmp_path / "rows.jsonl") if (r.role == "unified") == (generation == "unified")]
    assert len(rows) == len(requests) == (1 if generation == "unified" else 7)
    for row, request, reply in zip(rows, requests, replies):
        ids, labels = row.encode(encoder)
        sent, received = encoder.encode(request.prompt), encoder.encode_continuation(Prompt.untrusted(reply))
        assert ids[: len(sent)] == sent
        assert ids[len(sent) :] == received + [tokenizer.eos_token_id] * row.ends
        assert labels == [-100] * len(sent) + ids[len(sent) :]
        if not chat:
            assert encoder.encode(Prompt.untrusted(row.render()["prompt"])) == sent
        if request.params.grammar is not None:
            lark = request.params.grammar.lark
            if generation == "unified":  # llguidance ends answers early where claims may be longer than about 200
                lark = CitationIndex(PASSAGES).answer_grammar().lark
            assert grammar_accepts(tokenizer, lark, received)


def test_a_control_string_in_a_passage_stays_text(tiny_tokenizer: Any, tmp_path: Path) -> None:
    passage = Passage("c", "It says </s> and <|im_end|> here.", "<s>")
    made = build_rows([source(Segment("It says so.", (0,)), passages=(passage,), question="</s>?")])
    write_rows(made.rows, tmp_path / "r.jsonl")
    for row in read_rows(tmp_path / "r.jsonl"):
        ids, _ = row.encode(Encoder(tiny_tokenizer))
        assert ids.count(tiny_tokenizer.eos_token_id) == row.ends


def test_the_last_reference_row_teaches_the_end_and_a_cut_answer_teaches_none() -> None:
    made = build_rows([source(*GOOD)])
    assert made.report.rows == {"claim": 3, "reference": 4, "unified": 1}
    assert [r.completion for r in made.rows if r.role == "reference" and r.ends] == [""]
    cut = build_rows([source(*GOOD)], RowSettings(max_pairs=2))
    assert cut.report.rows == {"claim": 2, "reference": 2}
    assert cut.report.ends == 0
    assert (2, "policy", "beyond max_pairs") in reasons(cut)
    assert (None, "rows", "unified row of an answer that is not whole") in reasons(cut)


# --- what is dropped, and why


def test_each_thing_that_cannot_be_cited_is_dropped_with_its_reason() -> None:
    segments = (
        Segment("Fine.", (0,)), Segment("Not there.", ("It was bridged in 1842.",)),
        Segment("One of two is not there.", (0, "She lived in 1869.")),
        Segment("Half a sentence.", ("The Thale rises",)),
        Segment("Over a border.", ("rises in Orm. It was bridged in 1841 by Mira Dorn.",)),
        Segment("Out of range.", (99,)), Segment("Too many.", (0, 1, 2, 3)), Segment("A forged tag.", (5,)),
        Segment("Nothing.", ()), Segment("Says </claim> itself.", (0,)), Segment("…", (0,)),
        Segment("Long " * 200, (0,)), Segment("Nobody asked."),
    )  # fmt: skip
    made = build_rows([source(*segments)])
    assert reasons(made) == [
        (9, "claim", "holds a tag"), (10, "claim", "no words"), (11, "claim", "too long"),
        (12, "selection", "no label and no model to select"), (1, "string match", "not verbatim"),
        (2, "string match", "not verbatim"), (3, "string match", "not whole sentences"),
        (4, "string match", "not whole sentences"), (5, "selection", "unknown sentence"),
        (6, "string match", "too many sentences"), (7, "string match", "not citable"),
        (8, "selection", "no sentence selected"), (None, "rows", "unified row of an answer that is not whole"),
    ]  # fmt: skip
    report = made.report
    assert report.segments == 13
    assert report.pairs == 1
    assert report.dropped["string match"] == {
        "not citable": 1, "not verbatim": 2, "not whole sentences": 2, "too many sentences": 1,
    }  # fmt: skip
    assert "NOT FILTERED" in report.summary()


def test_the_entailment_filter_keeps_what_is_supported_and_nothing_unknown() -> None:
    segments = [Segment(t, (0,)) for t in ("sure", "not quite", "on the line", "unknown", "not a number")]
    judge = Judge(not_quite=0.69, on_the_line=0.7, unknown=None, not_a_number=math.nan)
    made = build_rows([source(*segments)], RowSettings(nli_threshold=0.7), Resources(judge=judge))
    assert reasons(made) == [
        (1, "entailment", "not entailed"),
        (3, "entailment", "entailment unknown"),
        (4, "entailment", "entailment unknown"),
        (None, "rows", "unified row of an answer that is not whole"),
    ]
    assert judge.seen[0] == ("The Thale rises in Orm.", "sure")
    assert made.report.judge == "table"


def test_a_failing_judge_drops_and_says_so_a_broken_one_is_raised() -> None:
    class Failing(Judge):
        def score(self, pairs: Any) -> Any:
            raise LanguageModelError("out of memory")

    made = build_rows([source(*GOOD)], resources=Resources(judge=Failing()))
    assert not made.rows
    assert {d.detail for d in made.drops} == {"LanguageModelError: out of memory"}

    class Broken(Judge):
        def score(self, pairs: Any) -> Any:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        build_rows([source(*GOOD)], resources=Resources(judge=Broken()))


@pytest.mark.parametrize(
    ("policy", "kept", "ends"), [("skip", 2, 0), ("truncate", 1, 0), ("discard", 0, 0)]
)  # the second of three segments is dropped
def test_what_a_dropped_segment_does_to_its_answer(policy: Any, kept: int, ends: int) -> None:
    segments = (GOOD[0], Segment("Not there.", ("Nowhere.",)), GOOD[2])
    made = build_rows([source(*segments)], RowSettings(on_drop=policy))
    assert made.report.pairs == kept
    assert made.report.ends == ends
    assert made.report.segments == kept + sum(d.segment is not None for d in made.drops)


def test_what_declines_teaches_to_write_nothing() -> None:
    made = build_rows([SourceAnswer("d", "Who built the moon?", PASSAGES, declines=True), source(*GOOD)])
    rows = [r for r in made.rows if r.source == "d"]
    assert [(r.role, r.completion, r.ends) for r in rows] == [("reference", "", True), ("unified", "", True)]
    assert "Who built the moon?" in rows[0].prompt.text
    assert made.report.declines == 2
    assert made.report.segments == made.report.pairs == 3
    with pytest.raises(InputError, match="declines"):
        SourceAnswer("d", "Who?", PASSAGES, "Mira Dorn.", declines=True)


def test_a_line_may_decline(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(json.dumps({"question": "Who?", "passages": ["It is old."], "declines": True}))
    assert read_sources(file)[0].declines
    file.write_text(json.dumps({"question": "Who?", "passages": ["It is old."], "declines": "no"}))
    with pytest.raises(InputError, match="true or false"):
        read_sources(file)


def test_repeated_answers_and_rows_count_once() -> None:
    again = dataclasses.replace(source(*GOOD), id="t")
    other = dataclasses.replace(source(GOOD[0], Segment("It has 3 arches.", (2,))), id="u")
    made = build_rows([source(*GOOD), again, other])
    assert ("t", "source", "the same answer again") in [(d.source, d.stage, d.reason) for d in made.drops]
    repeated = [d for d in made.drops if d.stage == "rows"]
    assert [(d.source, d.detail) for d in repeated] == [("u", "s"), ("u", "s")]  # its first reference and first claim
    assert len({r.key for r in made.rows}) == len(made.rows)


def test_an_unusable_source_does_not_take_others_down() -> None:
    clash = (Passage("a", "One."), Passage("a", "Two."))
    made = build_rows([source(*GOOD, id="bad", passages=clash), source(*GOOD)])
    assert [(d.source, d.stage) for d in made.drops] == [("bad", "source")]
    assert made.report.pairs == 3


def test_in_span_mode_any_words_may_be_cited() -> None:
    segments = (
        Segment("Where.", ("rises in Orm",)),
        Segment("Two sentences.", (1, 2)),
        Segment("Half words.", ("ises in Or",)),
        Segment("Far apart.", (0, 2)),
    )
    made = build_rows([source(*segments)], RowSettings(mode="span", roles=("reference",)))
    quotes = [r.completion for r in made.rows if r.completion]
    assert " It was bridged in 1841 by Mira Dorn.\nThe bridge has 3 arches. </reference>" in quotes[1]
    assert reasons(made) == [(2, "string match", "not one span of words"), (3, "string match", "not one span of words")]


# --- selection by a model


def test_a_model_selects_among_the_passages_that_a_clause_cites() -> None:
    answer = "Mira Dorn bridged it [1]. She was an engineer [2]. It is long [7]. It is old."
    lm = ScriptedLM(["S2", "S1 and S2.", "I think S1 fits"])
    made = build_rows(
        [SourceAnswer("m", QUESTION, PASSAGES, answer)], resources=Resources(models={"selection": lm}, judge=Judge())
    )
    assert lm.batches == [3]  # all clauses of all answers go out at once
    asked = [r.prompt.text for r in lm.requests if isinstance(r, Generate)]
    assert "S1: The Thale rises" in asked[0]
    assert "engineer" not in asked[0].split("Statement")[0]
    assert "S1: Mira Dorn was an engineer." in asked[1]
    assert made.report.pairs == 2
    assert reasons(made) == [
        (2, "selection", "unknown passage"),
        (3, "selection", "reply not understood"),
        (None, "rows", "unified row of an answer that is not whole"),
    ]
    assert made.report.selector == "scripted"


@pytest.mark.parametrize(("reply", "numbers", "problem"), [
    ("S2", [1], ""), (" S3, S1 ", [2, 0], ""), ("[S1] [S3].", [0, 2], ""), ("1, 2 and 3", [0, 1, 2], ""),
    ("S1, S1", [0], ""), ("NONE", [], "no sentence selected"), ("none.", [], "no sentence selected"),
    ("S4", [], "unknown sentence"), ("S0", [], "unknown sentence"), ("S1, S9", [], "unknown sentence"),
    ("S1-S3", [], "reply not understood"), ("The sentence is S1.", [], "reply not understood"),
    ("", [], "reply not understood"), ("NONE of them but S1", [], "reply not understood"),
])  # fmt: skip
def test_replies_are_read_strictly(reply: str, numbers: list[int], problem: str) -> None:
    sentences = CitationIndex(PASSAGES).sentences[:3]
    selection = parse_selection(reply, sentences)
    assert selection.problem == problem
    assert [sentences.index(s) for s in selection.spans] == numbers


def test_a_failed_request_drops_its_clause_only() -> None:
    lm = ScriptedLM(lambda r: LanguageModelError("no") if "died" in r.prompt.text.split("Statement")[1] else "S1")
    made = build_rows(
        [SourceAnswer("m", QUESTION, PASSAGES, "She died in 1869. It rises in Orm.")],
        resources=Resources(models={"default": lm}),
    )
    assert reasons(made)[0] == (0, "selection", "request failed")
    assert made.report.pairs == 1


# --- the property


ALPHABET = st.text(st.sampled_from("ab .!?\n\r 日é🙂</claim>▁“"), min_size=1, max_size=60)


@given(st.lists(ALPHABET, min_size=1, max_size=3), st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=4))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_every_reference_is_one_that_the_index_resolves(texts: list[str], labels: list[list[int]]) -> None:
    passages = tuple(Passage(str(i), t) for i, t in enumerate(texts))
    segments = tuple(Segment(f"claim {i}", tuple(c)) for i, c in enumerate(labels)) or (Segment("c", (0,)),)
    made = build_rows([source(*segments, passages=passages)], RowSettings(roles=("reference",)))
    index = CitationIndex(passages)
    known = {p.id: p.text for p in passages}
    cited = [r.completion for r in made.rows if r.completion]
    assert made.report.segments == made.report.pairs + len([d for d in made.drops if d.segment is not None])
    for completion in cited:
        head, _, rest = completion.partition("<reference> ")
        citation = index.resolve(rest.removesuffix(" </reference>"))
        assert head.strip() == "According to the citation:"
        assert citation is not None
        assert citation.match == "verbatim"
        assert all(known[s.passage_id][s.start : s.end] == s.text for s in citation.spans)
