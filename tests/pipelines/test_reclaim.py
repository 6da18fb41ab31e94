"""ReClaim under grammars, with a random model: whatever it prefers, every reference is verbatim."""

from __future__ import annotations

from typing import Any

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.errors import ContextOverflowError, SettingsError
from shared_core.lm.base import Generate
from shared_core.types import Answer, ClaimSealed, Passage, ReferenceSealed
from tests.fakes import Shelf

PASSAGES = (
    Passage("a", "The Thale rises in Orm. It was bridged in 1841 by Mira Dorn. The bridge has 3 arches.", "Thale"),
    Passage("b", "Mira Dorn was an engineer.\nShe died in 1869. The bridge has 3 arches.", "Mira Dorn"),
)
QUESTION = "Who bridged the Thale?"


class Yes:
    """A judge that supports everything."""

    name = "yes"

    def score(self, pairs: Any) -> list[float | None]:
        return [0.95] * len(pairs)


def engine(lm: Any, **reclaim: Any) -> SelfReflectEngine:
    reclaim = {"max_claim_tokens": 24, "max_pairs": 3, "min_pairs": 2, **reclaim}
    made = SelfReflectSettings(pipeline="reclaim", reclaim=reclaim)
    return SelfReflectEngine(Everything(), lm, made, judge=Yes())


class Everything(Shelf):
    def retrieve(self, query: str, k: int = 5) -> Any:
        return list(PASSAGES)[:k]


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


@pytest.mark.parametrize("generation", ["interleaved", "unified"])
def test_every_reference_is_made_of_whole_sentences_at_exact_places(tiny_lm: Any, generation: str) -> None:
    answer = engine(tiny_lm, generation=generation).answer(QUESTION)
    check(answer)
    assert answer.usage.forwards_saved > 0
    assert answer.trace[-1].kind in ("answer", "abstain")


@pytest.mark.parametrize("generation", ["interleaved", "unified"])
def test_many_questions_at_once_give_the_same_answers(tiny_lm: Any, generation: str) -> None:
    questions = [QUESTION, "When did Mira Dorn die?", "How many arches has the bridge?"]
    single = [engine(tiny_lm, generation=generation).answer(q) for q in questions]
    many = engine(tiny_lm, generation=generation).answer_many(questions)
    assert [a.text for a in many if isinstance(a, Answer)] == [a.text for a in single]


def test_span_mode_quotes_stay_within_a_passage(tiny_lm: Any) -> None:
    answer = engine(tiny_lm, mode="span").answer(QUESTION)
    texts = {p.id: p.text for p in PASSAGES}
    for claim in answer.claims:
        for span in claim.citations[0].spans:
            assert texts[span.passage_id][span.start : span.end] == span.text


def test_without_reuse_no_sentence_is_cited_twice(tiny_lm: Any) -> None:
    answer = engine(tiny_lm, reuse=False, max_sentences=1, min_pairs=5, max_pairs=9).answer(QUESTION)
    cited = [s.text for c in answer.claims for s in c.citations[0].primary]
    assert len(cited) == len(set(cited))
    check(answer)


def test_a_sentence_of_two_passages_is_marked_ambiguous(tiny_lm: Any) -> None:
    for claim in engine(tiny_lm, max_sentences=1).answer(QUESTION).claims:
        citation = claim.citations[0]
        assert citation.ambiguous == (citation.quote == "The bridge has 3 arches.")


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


def test_two_models_share_the_work(tiny_lm: Any) -> None:
    made = SelfReflectSettings(pipeline="reclaim", reclaim={"max_claim_tokens": 16, "max_pairs": 2})
    both = SelfReflectEngine(Everything(), settings=made, models={"reference": tiny_lm, "claim": tiny_lm}, judge=Yes())
    one = SelfReflectEngine(Everything(), tiny_lm, made, judge=Yes())
    assert both.answer(QUESTION).text == one.answer(QUESTION).text


def test_references_and_claims_are_reported_as_they_are_sealed(tiny_lm: Any) -> None:
    kinds = [type(e) for e in engine(tiny_lm).stream(QUESTION) if isinstance(e, (ReferenceSealed, ClaimSealed))]
    assert kinds[:1] == [ReferenceSealed]
    assert kinds[::2] == [ReferenceSealed] * len(kinds[::2])


def test_passages_too_long_for_the_context_are_left_out_from_the_end(tiny_lm: Any) -> None:
    long = [Passage(f"p{i}", f"Sentence {i} is here. " * 40) for i in range(8)]

    class Long(Everything):
        def retrieve(self, query: str, k: int = 5) -> Any:
            return long[:k]

    made = SelfReflectSettings(pipeline="reclaim", top_k=8, reclaim={"max_reference_tokens": 32, "max_pairs": 1})
    answer = SelfReflectEngine(Long(), tiny_lm, made, judge=Yes()).answer(QUESTION)
    dropped = [d for d in answer.trace if d.kind == "context"]
    assert dropped
    assert {s.passage_id for c in answer.claims for s in c.citations[0].spans} <= {p.id for p in long}
    strict = SelfReflectSettings(**{**dict(made), "on_overflow": "raise"})
    with pytest.raises(ContextOverflowError):
        SelfReflectEngine(Long(), tiny_lm, strict, judge=Yes()).answer(QUESTION)


def test_limits_that_cannot_be_held_are_refused() -> None:
    with pytest.raises(SettingsError, match="minimum"):
        SelfReflectSettings(reclaim={"min_pairs": 4, "max_pairs": 2})
