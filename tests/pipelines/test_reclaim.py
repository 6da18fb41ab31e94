"""ReClaim under grammars, with a random model: whatever it prefers, every reference is verbatim."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest

from shared_core import ReclaimSettings, SelfReflectEngine, SelfReflectSettings
from shared_core.citation import CitationIndex
from shared_core.errors import ContextOverflowError, GrammarError, SettingsError
from shared_core.lm.base import Capabilities, Generate, Generation, Sample
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.reclaim.free import parse_reply
from shared_core.pipelines.reclaim.prompts import WORKED
from shared_core.types import Answer, ClaimSealed, Passage, ReferenceSealed
from tests.fakes import Critic, Fixed, Shelf

PASSAGES = (
    Passage("a", "The Thale rises in Orm. It was bridged in 1841 by Mira Dorn. The bridge has 3 arches.", "Thale"),
    Passage("b", "Mira Dorn was an engineer.\nShe died in 1869. The bridge has 3 arches.", "Mira Dorn"),
)
QUESTION = "Who bridged the Thale?"


def engine(lm: Any, **reclaim: Any) -> SelfReflectEngine:
    reclaim = {"max_claim_tokens": 24, "max_pairs": 3, "min_pairs": 2, **reclaim}
    # Each question for itself: what was asked before says nothing of the model.
    made = SelfReflectSettings(pipeline="reclaim", compete=False, reclaim=ReclaimSettings.upgrade(reclaim))
    return SelfReflectEngine(Fixed(*PASSAGES), lm, made, judge=Critic(0.95))


def check(answer: Answer) -> None:
    sentences = {s for p in PASSAGES for s in _sentences(p.text)}
    texts = {p.id: p.text for p in PASSAGES}
    for claim in answer.claims:
        for citation in claim.citations:
            assert citation.match == "verbatim"
            for span in citation.spans:
                assert texts[span.passage_id][span.start : span.end] == span.text
                assert all(s in sentences for s in _sentences(span.text))


def _sentences(text: str) -> list[str]:
    from shared_core.citation import split_sentences

    return [text[a:b] for a, b in split_sentences(text)]


@pytest.fixture(scope="module")
def events(tiny_lm: Any) -> list[Any]:
    """What an engine tells of one answer."""
    return list(engine(tiny_lm).stream(QUESTION))


def test_every_reference_is_made_of_whole_sentences_at_exact_places(tiny_lm: Any, events: list[Any]) -> None:
    for answer in (events[-1].answer, engine(tiny_lm, generation="unified").answer(QUESTION)):
        check(answer)
        assert answer.usage.forwards_saved > 0
        assert answer.trace[-1].kind in ("answer", "abstain")


@pytest.mark.parametrize("generation", ["interleaved", "unified"])
def test_many_questions_at_once_give_the_same_answers(tiny_lm: Any, generation: str) -> None:
    questions = [QUESTION, "When did Mira Dorn die?"]
    options = {"generation": generation, "max_claim_tokens": 24, "max_pairs": 1, "min_pairs": 1}
    single = [engine(tiny_lm, **options).answer(q) for q in questions]
    many = engine(tiny_lm, **options).answer_many(questions)
    assert [(a.text, a.trace) for a in many if isinstance(a, Answer)] == [(a.text, a.trace) for a in single]


def test_span_mode_quotes_stay_within_a_passage(tiny_lm: Any) -> None:
    answer = engine(tiny_lm, mode="span").answer(QUESTION)
    texts = {p.id: p.text for p in PASSAGES}
    for claim in answer.claims:
        for span in claim.citations[0].spans:
            assert texts[span.passage_id][span.start : span.end] == span.text


@pytest.mark.parametrize("reuse", [False, True])
def test_without_reuse_no_sentence_is_cited_twice(reuse: bool) -> None:
    """A model that would quote the same sentence again and again."""
    first, second = "The Thale rises in Orm.", "It was bridged in 1841 by Mira Dorn."
    model = Writes([(first, "It rises in Orm."), (second, "Mira Dorn bridged it.")], cut="no claim")
    asked(model.lm, Library(f"{first} {second}"), reuse=reuse)
    larks = [r.params.grammar.lark for r in model.lm.requests if isinstance(r, Generate) and r.params.grammar]
    assert json.dumps(first) in larks[0]
    assert (json.dumps(first) in larks[1]) is reuse


def test_a_sentence_of_two_passages_is_marked_ambiguous() -> None:
    pairs = [("The Thale rises in Orm.", "It rises in Orm."), ("The bridge has 3 arches.", "It has 3 arches.")]
    answer = asked(Writes(pairs).lm, Fixed(*PASSAGES))
    found = [(c.citations[0].quote, c.citations[0].ambiguous) for c in answer.claims]
    assert found == [(pairs[0][0], False), (pairs[1][0], True)]


def test_the_claim_model_sees_neither_question_nor_passages(tiny_lm: Any) -> None:
    seen: list[Generate] = []

    class Spy:
        name, capabilities = tiny_lm.name, tiny_lm.capabilities
        score, hidden_states = tiny_lm.score, tiny_lm.hidden_states
        token_ids, atoken_ids = tiny_lm.token_ids, tiny_lm.atoken_ids
        agenerate, ascore, ahidden_states = tiny_lm.agenerate, tiny_lm.ascore, tiny_lm.ahidden_states

        def generate(self, requests: Any) -> Any:
            seen.extend(requests)
            return tiny_lm.generate(requests)

    engine(Spy()).answer(QUESTION)
    claims = [r.prompt.text for r in seen if r.model == "claim"]
    assert claims
    for text in claims:
        assert QUESTION not in text
        assert sum(s in text for p in PASSAGES for s in _sentences(p.text)) <= 9
        assert "Thale\n" not in text


def test_each_quote_and_claim_is_seen_by_what_is_written_next() -> None:
    first, second = "The Thale rises in Orm.", "It was bridged in 1841 by Mira Dorn."
    model = Writes([(first, "Orm is its source."), (second, "Mira Dorn bridged it.")])
    answer = asked(model.lm, Library(f"{first} {second}"))
    assert [c.text for c in answer.claims] == ["Orm is its source.", "Mira Dorn bridged it."]
    texts = [r.prompt.text for r in model.lm.requests if isinstance(r, Generate) and r.model == "reference"]
    pair = f"<reference> {first} </reference> We can know that: <claim> Orm is its source. </claim>"
    assert pair not in " ".join(texts[0].split())
    assert pair in " ".join(texts[1].split())


def test_two_models_share_the_work(tiny_lm: Any) -> None:
    made = SelfReflectSettings(pipeline="reclaim", reclaim={"max_claim_tokens": 16, "max_pairs": 2})
    both = SelfReflectEngine(
        Fixed(*PASSAGES), settings=made, models={"reference": tiny_lm, "claim": tiny_lm}, judge=Critic(0.95)
    )
    one = SelfReflectEngine(Fixed(*PASSAGES), tiny_lm, made, judge=Critic(0.95))
    assert both.answer(QUESTION).text == one.answer(QUESTION).text


def test_references_and_claims_are_reported_as_they_are_sealed(events: list[Any]) -> None:
    kinds = [type(e) for e in events if isinstance(e, (ReferenceSealed, ClaimSealed))]
    assert kinds[:1] == [ReferenceSealed]
    assert ClaimSealed in kinds
    for before, kind in itertools.pairwise(kinds):  # a claim without an end leaves its reference alone
        assert kind is ReferenceSealed or before is ReferenceSealed


def test_passages_too_long_for_the_context_are_left_out_from_the_end(tiny_lm: Any) -> None:
    long = [Passage(f"p{i}", f"Sentence {i} is here. " * 40) for i in range(8)]
    made = SelfReflectSettings(pipeline="reclaim", top_k=8, reclaim={"max_reference_tokens": 32, "max_pairs": 1})
    answer = SelfReflectEngine(Fixed(*long), tiny_lm, made, judge=Critic(0.95)).answer(QUESTION)
    dropped = [d for d in answer.trace if d.kind == "context"]
    assert dropped
    assert {s.passage_id for c in answer.claims for s in c.citations[0].spans} <= {p.id for p in long}
    strict = SelfReflectSettings(**{**dict(made), "on_overflow": "raise"})
    with pytest.raises(ContextOverflowError):
        SelfReflectEngine(Fixed(*long), tiny_lm, strict, judge=Critic(0.95)).answer(QUESTION)


def test_limits_that_cannot_be_held_are_refused() -> None:
    with pytest.raises(SettingsError, match="minimum"):
        SelfReflectSettings(reclaim={"published": {"min_pairs": 4}, "max_pairs": 2})


# --- sentences, claims and references at their limits ----------------------------------------------------------------

PIERS = ", ".join(f"pier {i} of the year {1800 + i}" for i in range(12))
LONG = f"The Thale has piers: the register lists {PIERS}."


class Library(Shelf):
    def __init__(self, *texts: str) -> None:
        super().__init__([Passage(f"p{i}", t) for i, t in enumerate(texts)])


def asked(lm: Any, shelf: Any, **reclaim: Any) -> Answer:
    reclaim = {"max_claim_tokens": 24, "max_pairs": 2, "min_pairs": 1, "max_sentences": 1, **reclaim}
    settings = SelfReflectSettings(
        pipeline="reclaim", reclaim=ReclaimSettings.upgrade(reclaim), signals="support_only", target_accuracy=0.1
    )
    return SelfReflectEngine(shelf, lm, settings, judge=Critic(0.95)).answer(QUESTION)


@pytest.mark.parametrize("generation", ["interleaved", "unified"])
def test_a_sentence_over_the_limit_is_no_dead_end(tiny_lm: Any, generation: str) -> None:
    """Whatever the model would like to quote: what cannot be closed within the limit is not quoted, the rest can be."""
    shelf = Library(LONG, "The Thale was bridged by Mira Dorn.")
    limit = 96 if generation == "interleaved" else 100
    answer = asked(tiny_lm, shelf, generation=generation, max_reference_tokens=limit, max_claim_tokens=20, max_pairs=1)
    quotes = {c.citations[0].quote for c in answer.claims}
    assert LONG not in quotes
    assert any(d.kind == "write" for d in answer.trace)
    if generation == "interleaved":
        assert quotes <= {"The Thale was bridged by Mira Dorn."}
        assert answer.reason != "passages do not answer"


def test_where_every_sentence_is_over_the_limit_that_is_the_reason(tiny_lm: Any) -> None:
    answer = asked(tiny_lm, Library(LONG), max_reference_tokens=64)
    assert answer.abstained
    assert answer.reason == "replies unusable"
    assert any("max_reference_tokens=64" in d.reason for d in answer.trace)


class Writes:
    """A model with grammars that quotes these sentences in turn, and claims what is given for each."""

    def __init__(self, pairs: Sequence[tuple[str, str]], cut: str = "") -> None:
        self.pairs, self.cut, self.at = pairs, cut, 0
        self.lm = ScriptedLM(self._reply, capabilities=Capabilities(grammar=True))

    def _reply(self, request: Generate) -> Any:
        grammar = request.params.grammar
        if grammar is None:
            quote = request.prompt.text.rpartition("<reference>")[2].partition("</reference>")[0].strip()
            claim = dict(self.pairs)[quote]
            return Sample(f" {claim}", finish_reason="length" if claim == self.cut else "stop")
        allowed = [quote for quote, _ in self.pairs if json.dumps(quote) in grammar.lark]
        self.at += 1
        if not allowed or self.at > len(self.pairs):
            return Sample("", finish_reason="eos")
        quote = allowed[(self.at - 1) % len(allowed)] if not self.cut else allowed[0]
        return Sample(f"According to the citation: <reference> {quote} </reference>", finish_reason="grammar")


def test_a_claim_without_an_end_does_not_end_the_answer() -> None:
    first, second = "The Thale rises in Orm.", "It was bridged in 1841 by Mira Dorn."
    endless = "The river Thale, which rises in Orm, and which"
    model = Writes([(first, endless), (second, "Mira Dorn bridged it.")], cut=endless)
    answer = asked(model.lm, Library(f"{first} {second}"))
    assert [c.text for c in answer.claims] == ["Mira Dorn bridged it."]
    assert "claim without an end left out" in [d.outcome for d in answer.trace]


@pytest.mark.parametrize("single", [True, False])
def test_where_a_grammar_of_several_sentences_is_too_much_for_a_server_single_ones_are_quoted(single: bool) -> None:
    first, second = "The Thale rises in Orm.", "It was bridged in 1841 by Mira Dorn."
    model = Writes([(first, "The Thale rises in Orm."), (second, "Mira Dorn bridged it.")])

    def reply(request: Generate) -> Any:
        grammar = request.params.grammar
        if grammar is not None and (not single or '(" "' in grammar.lark):
            raise GrammarError("Too many expressions constructed.")
        (found,) = model.lm.generate([request])
        assert isinstance(found, Generation)
        return found.samples[0]

    lm, shelf = ScriptedLM(reply, capabilities=Capabilities(grammar=True)), Library(f"{first} {second}")
    if single:
        answer = asked(lm, shelf, max_sentences=3)
        assert [c.citations[0].quote for c in answer.claims] == [first, second]
        assert [d.outcome for d in answer.trace].count("single sentences") == 1
    else:
        with pytest.raises(GrammarError, match="expressions"):
            asked(lm, shelf, max_sentences=3)


@pytest.mark.parametrize("ignores", ["It was Mira Dorn.", "<reference>The Thale was bridged by Ann.</reference>"])
def test_a_model_that_ignores_its_grammar_has_not_ended_its_answer(ignores: str) -> None:
    second = "It was bridged in 1841 by Mira Dorn."

    def reply(request: Generate) -> str:
        return ignores if request.params.grammar else "<reference>S2</reference><claim>Mira Dorn bridged it.</claim>"

    lm, shelf = ScriptedLM(reply, capabilities=Capabilities(grammar=True)), Library(f"The Thale rises in Orm. {second}")
    answer = asked(lm, shelf)
    assert [c.citations[0].quote for c in answer.claims] == [second]
    assert [d.reason for d in answer.trace if d.kind == "citation"] == [
        f"{lm.name} does not keep to its grammar: {ignores!r}"
    ]


@pytest.mark.parametrize(
    ("rest", "finish"), [("It was brid", "length"), ("The Thale rises in Orm. </reference>", "grammar")]
)
def test_of_a_reference_whole_sentences_are_quoted_and_each_once(rest: str, finish: Any) -> None:
    first, second = "The Thale rises in Orm.", "It was bridged in 1841 by Mira Dorn."

    def reply(request: Generate) -> Any:
        if request.params.grammar is None:
            assert request.prompt.text.count(first) == 1  # nor does the claim model see it twice
            return " It rises in Orm."
        if "We can know" in request.prompt.text.rpartition("Question:")[2]:
            return Sample("", finish_reason="eos")
        return Sample(f"According to the citation: <reference> {first} {rest}", finish_reason=finish)

    model = ScriptedLM(reply, capabilities=Capabilities(grammar=True))
    answer = asked(model, Library(f"{first} {second}"), max_sentences=2, min_pairs=0)
    assert [c.citations[0].quote for c in answer.claims] == [first]


# --- worked answers --------------------------------------------------------------------------------------------------


def test_worked_answers_are_in_the_form_that_they_show() -> None:
    for worked in WORKED:
        index = CitationIndex([Passage(title, text) for title, text in worked.passages])
        sentences = {s.text for s in index.sentences}
        assert all(quote in sentences for quotes, _ in worked.pairs for quote in quotes)
        pairs = parse_reply(worked.render_numbered(), index, index.passages)
        assert [(p.claim, tuple(s.text for s in p.citation.primary)) for p in pairs if p.citation] == [
            (claim, quotes) for quotes, claim in worked.pairs
        ]


@pytest.mark.parametrize("count", [0, 3])
def test_as_many_worked_answers_are_shown_as_asked_for(count: int) -> None:
    model = Writes([("The Thale rises in Orm.", "It rises in Orm.")])
    asked(model.lm, Library("The Thale rises in Orm."), demonstrations=count)
    texts = [r.prompt.text for r in model.lm.requests if isinstance(r, Generate)]
    assert [sum(w.pairs[0][1] in text for w in WORKED) for text in texts[:2]] == [count, count]
    assert all(w.question not in texts[1] for w in WORKED)  # the claim model sees no question, not even of these
