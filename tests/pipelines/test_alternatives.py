"""Claim-conditioned probability and the other newer estimators in the gate: what is asked, of whom, and who refuses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from shared_core.errors import CapabilityError
from shared_core.lm.base import Alternative, Attention, Capabilities, Generate, Prompt, Sample
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.decision.question_run import Abilities
from shared_core.pipelines.gating.choose import choose_estimator
from shared_core.pipelines.gating.measure import Measurement, measure
from shared_core.reading.base import Verdict
from shared_core.runtime import flow as flows
from shared_core.runtime.flow import Resources
from shared_core.settings import SeakrSettings, SelfReflectSettings
from tests.fakes import Critic, LetterEmbedder

ABLE = Capabilities(token_logprobs=True, alternatives=True, attention=True, token_statistics=True)
QUESTION = "Where was Mira Dorn born?"


class Oracle:
    """Judges by a table of words; notes what it is asked. Words not in the table have nothing to do with each other."""

    def __init__(self, name: str, **verdicts: Verdict | float | None) -> None:
        self.name, self.verdicts = name, verdicts
        self.pairs: list[tuple[str, str]] = []

    def _one(self, pair: tuple[str, str]) -> Any:
        return self.verdicts.get(pair[0].split()[-1].strip(".").lower(), Verdict(0.1, 0.1))

    def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict | None]:
        self.pairs += pairs
        return [v if v is None or isinstance(v, Verdict) else Verdict(v) for v in map(self._one, pairs)]

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        return [v and v.supported for v in self.judge(pairs)]


def token(text: str, p: float, **rivals: float) -> tuple[Alternative, ...]:
    named = [Alternative(t.replace("_", " "), math.log(q)) for t, q in rivals.items()]
    return (Alternative(text, math.log(p)), *named)


def draft(*rows: tuple[Alternative, ...], text: str | None = None) -> Sample:
    tokens = tuple(row[0].token for row in rows)
    said = "".join(tokens) if text is None else text
    return Sample(said, tokens=tokens, logprobs=tuple(r[0].logprob for r in rows), alternatives=rows)


def run(
    answer: Sample, samples: Sequence[str] = (), also: Sequence[str] = (), **parts: Any
) -> tuple[Measurement, ScriptedLM]:
    def reply(request: Generate) -> Any:
        if request.params.n == 1:
            return answer
        return [Sample(t, logprobs=(-0.5,) * len(t.split())) for t in samples]

    lm = ScriptedLM(reply, capabilities=parts.pop("able", ABLE))
    values = {"estimator": parts.pop("estimator", "ccp"), "samples": max(len(samples), 2), "allow_fallback": False}
    settings = SelfReflectSettings(seakr=SeakrSettings(**values, **parts.pop("seakr", {})))
    resources = Resources(models={"default": lm}, **parts)
    chosen = choose_estimator(settings, Abilities.of(resources), also=also)
    (found,) = flows.run(measure([Prompt.trusted("p")], chosen, question=QUESTION), resources)
    return found, lm


# --- claim-conditioned probability ---------------------------------------------------------------------------------

BORN = draft(
    token("She", 0.6, He=0.3),
    token(" was", 0.9, _is=0.1),
    token(" born", 0.5, _raised=0.3, _found=0.2),
    token(" in", 0.9, _near=0.1),
    token(" Orm", 0.6, _Selby=0.2, _Ormville=0.1, _the=0.05, _Or=0.05),
    token(".", 0.9, _and=0.1),
)


def test_only_what_contradicts_a_word_with_meaning_counts_against_it() -> None:
    judge = Oracle("nli", selby=Verdict(0.05, 0.9), ormville=Verdict(0.9, 0.05), raised=Verdict(0.2, 0.7))
    found, lm = run(BORN, judge=judge)
    # raised contradicts, found is neutral; Selby contradicts, Ormville entails, "the" is no value, "Or" may become Orm.
    expected = (0.5 / 0.8) * ((0.6 + 0.1 + 0.05) / (0.6 + 0.1 + 0.05 + 0.2))
    assert found.uncertainty == pytest.approx(1 - expected)
    assert lm.batches == [1]  # no samples
    [request] = [r for r in lm.requests if isinstance(r, Generate)]
    assert request.params.alternatives == 10
    assert ("She was born in Selby", "She was born in Orm.") in judge.pairs
    assert all("the" not in premise.split() for premise, _ in judge.pairs)


def test_the_critic_is_the_witness_where_there_is_no_judge_and_this_is_said() -> None:
    critic = Oracle("critic@7", selby=Verdict(0.05, 0.0), ormville=Verdict(0.9, 0.05), raised=0.2, found=0.6)
    found, _ = run(BORN, critic=critic)
    # It takes what it does not support for contradiction: it goes by words in common.
    expected = ((0.5 + 0.2) / 1.0) * (0.75 / 0.95)
    assert found.uncertainty == pytest.approx(1 - expected)
    assert ("Selby", "Orm.") in critic.pairs  # the words alone
    chosen = choose_estimator(
        SelfReflectSettings(seakr=SeakrSettings(estimator="ccp")),
        Abilities({"default": ABLE}, {"default": "m"}, critic="critic@7"),
    )
    assert "critic@7" in chosen.reason
    assert chosen.binding["meanings"] == "critic"


def test_a_judge_that_tells_no_contradiction_from_silence_denies_what_it_does_not_support() -> None:
    plain = Critic(lambda premise, claim: 0.9 if "Selby" in premise else 0.2)
    found, _ = run(draft(token("Orm", 0.5, Selby=0.3, Ormville=0.2)), judge=plain)
    assert found.uncertainty == pytest.approx(0.2)


def test_what_nobody_can_judge_is_unknown() -> None:
    assert run(draft(token("Orm", 0.5, Selby=0.3)), critic=Oracle("c", selby=None))[0].uncertainty == math.inf
    assert run(draft(token("Orm", 0.5, Selby=0.3)), critic=Oracle("c", selby=0.0))[0].uncertainty < 1
    without = Sample("Orm", tokens=("Orm",), logprobs=(-0.1,))
    assert run(without, critic=Oracle("c"))[0].uncertainty == math.inf
    nothing = draft(token("<eos>", 0.9, Orm=0.1), text="")
    assert run(nothing, critic=Oracle("c"))[0].uncertainty == math.inf


def test_what_is_hardly_likely_or_ends_the_text_is_not_judged() -> None:
    critic = Oracle("c", selby=0.0)
    answer = draft(token("Orm", 0.9, Selby=0.0005, **{"</s>": 0.05}), token("</s>", 0.9, _Selby=0.1), text="Orm")
    found, _ = run(answer, critic=critic)
    assert found.uncertainty == 0
    assert critic.pairs == []


def test_words_of_several_tokens_are_compared_whole() -> None:
    critic = Oracle("c", ore=0.0)
    found, _ = run(draft(token("Or", 0.9, Se=0.0005), token("m", 0.8, e=0.2), token("s", 1.0)), critic=critic)
    assert critic.pairs == [("Ore", "Orms")]
    assert found.uncertainty == pytest.approx(0.2)


def test_each_sentence_has_its_own() -> None:
    answer = draft(token("Orm", 0.8, Selby=0.2), token(". ", 1.0), token("Thale", 0.5, Velm=0.5), token(".", 1.0))
    found, _ = run(answer, critic=Oracle("c", selby=0.0, velm=0.0))
    assert [(c.text.strip(), c.uncertainty) for c in found.claims] == [
        ("Orm.", pytest.approx(0.2)), ("Thale.", pytest.approx(0.5)),
    ]  # fmt: skip
    assert found.uncertainty == pytest.approx(0.6)
    assert answer.text[found.claims[1].start : found.claims[1].end] == found.claims[1].text


# --- what cannot be had --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "able", "lacking"), [
    ("ccp", Capabilities(token_logprobs=True), "alternatives"), ("ccp", Capabilities(alternatives=True), "inference"),
    ("rauq", Capabilities(token_logprobs=True), "previous_attention"),
    ("cocoa_msp", Capabilities(), "answer_similarity"), ("kle_heat", ABLE, "agreement"),
])  # fmt: skip
def test_a_backend_that_cannot_says_so(name: str, able: Capabilities, lacking: str) -> None:
    with pytest.raises(CapabilityError) as caught:
        run(BORN, estimator=name, able=able)
    assert caught.value.capability == lacking
    assert "allow_fallback" in caught.value.hint


def test_settings_choose_who_compares_meanings() -> None:
    answer, texts = draft(token("Orm", 0.9)), ["Orm", "Selby", "Selby", "Orm."]
    parts = {"judge": Oracle("nli", selby=1.0), "critic": Oracle("critic@7", selby=0.0)}
    by = {
        name: run(answer, texts, estimator="semantic_sets", seakr={"meanings": name}, **parts)[0].uncertainty
        for name in ("auto", "judge", "critic")
    }
    assert by["auto"] == by["judge"]
    with pytest.raises(CapabilityError):
        run(answer, texts, estimator="semantic_sets", seakr={"meanings": "embedder"}, **parts)
    with pytest.raises(CapabilityError):
        run(BORN, seakr={"meanings": "judge"}, critic=parts["critic"])


def test_the_critic_does_not_stand_in_where_it_was_not_asked_for() -> None:
    """It compares pairs one by one: a stand-in that takes longer than the estimator that was wanted."""
    context = Abilities({"default": Capabilities()}, {"default": "m"}, critic="critic@7")
    by = {
        name: choose_estimator(SelfReflectSettings(seakr=SeakrSettings(**values)), context).estimator.name
        for name, values in {
            "auto": {}, "named": {"meanings": "critic"}, "wanted": {"estimator": "discrete_semantic_entropy"},
        }.items()
    }  # fmt: skip
    assert by == {"auto": "verbalised", "named": "discrete_semantic_entropy", "wanted": "discrete_semantic_entropy"}


# --- answers beside their samples ----------------------------------------------------------------------------------


def test_the_answer_is_compared_with_the_samples_and_is_none_of_them() -> None:
    answer = draft(token("a", 0.5))
    found, _ = run(answer, ["a", "b", "a", "b"], ["semantic_sets", "kle_heat", "semantic_density"],
                   estimator="cocoa_msp", embedder=LetterEmbedder())  # fmt: skip
    assert found.uncertainty == pytest.approx(math.log(2) / 2)
    assert found.others["semantic_sets"] == 2
    stray, _ = run(draft(token("c", 0.5)), ["a", "b", "a", "b"], ["semantic_sets", "kle_heat"],
                   estimator="cocoa_msp", embedder=LetterEmbedder())  # fmt: skip
    assert stray.uncertainty == pytest.approx(math.log(2))
    assert stray.others["semantic_sets"] == 2
    assert stray.others["kle_heat"] == found.others["kle_heat"]


def test_a_judge_s_contradictions_count_more_than_silence() -> None:
    texts = ["Orm", "Selby", "Orm", "Selby"]
    wanted = ["semantic_density", "kle_matern"]
    values = []
    for verdict in (Verdict(0.9, 0.0), Verdict(0.0, 0.0), Verdict(0.0, 0.9)):
        judge = Oracle("nli", selby=verdict, orm=verdict)
        found, _ = run(draft(token("Orm", 0.6)), texts, wanted, estimator="kle_heat", judge=judge)
        values.append([found.uncertainty, *(found.others[n] for n in wanted)])
        assert all(a.startswith(QUESTION) for a, _ in judge.pairs)
    assert values[0] < values[1] < values[2]
    assert all(a < b for a, b in zip(values[0], values[1]))
    assert all(a < b for a, b in zip(values[1], values[2]))


def test_empty_samples_agree_with_nothing() -> None:
    found, _ = run(draft(token("a", 0.5)), ["a", "", "b", ""][:3], estimator="cocoa_msp", embedder=LetterEmbedder())
    assert found.uncertainty == pytest.approx(math.log(2) * 2 / 3)


def test_rauq_reads_the_attention_of_the_answer() -> None:
    def attended(weight: float, tokens: int = 3) -> Sample:
        zeros = np.zeros((2, tokens, tokens), dtype=np.float32)
        previous = np.full((3, 2, tokens), weight, dtype=np.float32)
        weights = Attention(zeros, np.zeros((tokens, 4), dtype=np.float32), ("p",) * 4, "pppp", previous)
        return Sample("a b c", tokens=("a", " b", " c"), logprobs=(-0.1,) * 3, attention=weights)

    sure, unsure = (run(attended(w), estimator="rauq")[0] for w in (0.9, 0.1))
    assert sure.uncertainty < unsure.uncertainty < math.inf
    assert run(attended(0.9, 2), estimator="rauq")[0].uncertainty == math.inf  # weights of other tokens
    assert run(Sample("a", logprobs=(-0.1,)), estimator="rauq")[0].uncertainty == math.inf


@pytest.mark.parametrize("name", ["cocoa_msp", "cocoa_ppl", "cocoa_mte", "semantic_density", "kle_heat", "rauq", "ccp"])
def test_with_a_real_model(tiny_lm: Any, name: str) -> None:
    settings = SelfReflectSettings(seakr=SeakrSettings(estimator=name, samples=4, max_step_tokens=8))
    resources = Resources(models={"default": tiny_lm}, critic=Oracle("critic@7"))
    chosen = choose_estimator(settings, Abilities.of(resources))
    assert chosen.estimator.name == name
    prompts = [Prompt.trusted("Question: Who built the bridge?\nAnswer:"), Prompt.trusted("The river Thale")]
    first, again = (flows.run(measure(prompts, chosen), resources) for _ in range(2))
    for m, n in zip(first, again):
        assert 0 <= m.uncertainty < math.inf
        assert m.uncertainty == pytest.approx(n.uncertainty, abs=1e-4)
