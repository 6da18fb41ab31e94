"""Both plug-ins refuse the same mistakes in the same words, and what is set in them takes effect."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, get_args

import pytest

from shared_core import SelfReflectSettings
from shared_core.errors import AbstainedError, RetrievalError, SelfReflectError, SettingsError
from shared_core.lm import ScriptedLM
from shared_core.pipelines import PIPELINES, load_pipeline
from shared_core.settings import PipelineName
from tests.contract.facades import FACADES, QUESTION, TEXTS, Facades
from tests.fakes import PASSAGES, FirstSentenceReader, Shelf

MISTAKES: dict[str, Callable[[Facades], Any]] = {
    "engine: retriever": lambda f: f.engine(retriever="docs"),
    "engine: llm": lambda f: f.engine(llm="gpt-4"),
    "engine: models": lambda f: f.engine(models={"judge": "gpt-4"}),
    "engine: no such role": lambda f: f.engine(models={"writer": f.llm()}),
    "engine: settings": lambda f: f.engine(settings=3),
    "engine: target_accuracy": lambda f: f.engine(target_accuracy=1.5),
    "engine: pipeline": lambda f: f.engine(pipeline="magic"),
    "engine: pipeline of tomorrow": lambda f: f.engine(pipeline="telepathy"),
    "engine: on_abstain": lambda f: f.engine(on_abstain="cry"),
    "engine: abstain_text": lambda f: f.engine(abstain_text="{confidence}"),
    "engine: style": lambda f: f.engine(style=""),
    "engine: deadline": lambda f: f.engine(deadline=0),
    "engine: pipeline without a model": lambda f: f.engine(pipeline="reclaim"),
    "engine: policy without a model": lambda f: f.engine(on_abstain="fallback"),
    "engine: re-ranking without a model": lambda f: f.engine(settings=SelfReflectSettings(rerank="uncertainty")),
    "engine: misspelled": lambda f: f.engine(target_acuracy=0.9),
    "engine: unheard of": lambda f: f.engine(qqq=1),
    "settings: misspelled": lambda f: f.engine(settings=SelfReflectSettings(top_kk=2)),  # type: ignore[call-arg]
    "engine: where": lambda f: f.engine(settings=SelfReflectSettings(where={"a": 1})),
    "retriever: retriever": lambda f: f.gated(retriever=7),
    "retriever: llm": lambda f: f.gated(llm="gpt-4"),
    "retriever: gate": lambda f: f.gated(gate="wooden"),
    "retriever: gate without a model": lambda f: f.gated(gate="flare"),
    "retriever: settings": lambda f: f.gated(settings="few"),
    "retriever: where": lambda f: f.gated(settings=SelfReflectSettings(where={"a": 1})),
    "re-ranker: method": lambda f: f.reranker(method="magic"),
    "re-ranker: method without a model": lambda f: f.reranker(method="uncertainty"),
    "re-ranker: llm": lambda f: f.reranker(llm="gpt-4"),
    "re-ranker: top_n": lambda f: f.reranker(top_n=0),
    "re-ranker: half a top_n": lambda f: f.reranker(top_n=2.5),
    "re-ranker: settings": lambda f: f.reranker(settings="few"),
    "asking: nothing": lambda f: f.ask(f.engine(), " "),
    "asking a retriever nothing": lambda f: f.find(f.gated(), " "),
}


def refusal(facades: Facades, mistake: Callable[[Facades], Any]) -> SelfReflectError:
    with pytest.raises(SelfReflectError) as caught:
        mistake(facades)
    return caught.value


@pytest.mark.parametrize("name", MISTAKES)
def test_the_same_mistake_is_the_same_error_in_the_same_words(name: str) -> None:
    errors = [refusal(kind(), MISTAKES[name]) for kind in FACADES.values()]
    assert len({type(e) for e in errors}) == 1
    assert len({e.message for e in errors}) == 1
    assert isinstance(errors[0], ValueError)


@pytest.mark.parametrize("name", MISTAKES)
def test_hints_name_what_the_user_wrote(facades: Facades, name: str) -> None:
    said = str(refusal(facades, MISTAKES[name]))
    assert not re.search(r"\blm=|SelfReflectEngine", said)
    if "without a model" in name:
        assert "llm=" in said


@pytest.mark.parametrize(
    ("name", "meant"), [("engine: misspelled", "target_accuracy"), ("settings: misspelled", "top_k")]
)
def test_what_is_misspelled_is_named_with_the_nearest_right_name(facades: Facades, name: str, meant: str) -> None:
    error = refusal(facades, MISTAKES[name])
    assert isinstance(error, SettingsError)
    assert f"Did you mean {meant}?" in error.hint
    if not name.startswith("settings"):
        assert isinstance(error, TypeError)  # as of any function that is called so


@pytest.mark.parametrize(("mistake", "name"), [
    (lambda f: f.gated(gaet="always"), "gaet"), (lambda f: f.reranker(topn=2), "topn"),
    (lambda f: type(f.engine())(llm=None), "retriever"), (lambda f: type(f.gated())(llm=None), "retriever"),
])  # fmt: skip
def test_an_argument_that_is_unknown_or_missing_is_named(facades: Facades, mistake: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f"'{name}'"):
        mistake(facades)


def test_an_engines_hint_names_the_class(facades: Facades) -> None:
    assert f"{facades.owner}(" in refusal(facades, MISTAKES["engine: pipeline without a model"]).hint


def test_a_pipeline_that_can_be_named_can_be_run() -> None:
    assert set(get_args(PipelineName)) == set(PIPELINES)
    assert all(callable(load_pipeline(name)) for name in get_args(PipelineName))


@pytest.mark.parametrize("made", ["engine", "gated", "reranker"])
def test_settings_may_be_a_dict(facades: Facades, made: str) -> None:
    given = {"top_k": 2, "seakr": {"samples": 3}}
    settings = getattr(facades, made)(settings=given).settings
    assert settings.replace() == SelfReflectSettings(**given).replace(seakr=settings.seakr)  # type: ignore[arg-type]
    assert (settings.top_k, settings.seakr.samples) == (2, 3)


@pytest.mark.parametrize("made", ["engine", "gated", "reranker"])
@pytest.mark.parametrize("given", [{"top_kk": 2}, {"top_k": "many"}, {"pipeline": "magic"}])
def test_a_dict_of_wrong_settings_is_refused_in_the_same_words(made: str, given: dict[str, Any]) -> None:
    errors = [refusal(kind(), lambda f: getattr(f, made)(settings=given)) for kind in FACADES.values()]
    assert str(errors[0]) == str(errors[1])
    assert next(iter(given)) in str(errors[0])


def test_a_retriever_without_a_model_retrieves_and_with_one_asks_it(facades: Facades) -> None:
    assert sorted(facades.find(facades.gated(), QUESTION)) == sorted(TEXTS)
    asked = refusal(facades, lambda f: f.find(f.gated(llm=f.llm(), settings=_NO_FALLBACK), QUESTION))
    assert "hidden states" in str(asked)  # it went to measure


_NO_FALLBACK = SelfReflectSettings(seakr={"allow_fallback": False})  # type: ignore[arg-type]


def test_how_claims_are_worded_is_told_to_the_model_beside_what_is_set_elsewhere(facades: Facades) -> None:
    prompts: list[str] = []

    def reply(request: Any) -> str:
        prompts.append(request.prompt.text)
        return "<reference>S1</reference><claim>The lamp was lit in 1871.</claim>"

    own = SelfReflectSettings(reclaim={"max_pairs": 1}, pipeline="reclaim")  # type: ignore[arg-type]
    engine = facades.engine(llm=ScriptedLM(reply), settings=own, style="Schreib auf Deutsch.", target_accuracy=0.3)
    facades.ask(engine, QUESTION)
    assert any("Schreib auf Deutsch." in p for p in prompts)
    settings = engine.settings if facades.owner == "SelfReflectQueryEngine" else engine.engine.settings
    assert (settings.reclaim.max_pairs, settings.reclaim.style) == (1, "Schreib auf Deutsch.")
    assert (settings.pipeline, settings.target_accuracy) == ("reclaim", 0.3)


# --- how much is read ----------------------------------------------------------------------------------------------

MANY = [f"The lamp {i} was lit in 18{i:02}." for i in range(12)]


@pytest.mark.parametrize(
    ("settings", "k", "read"),
    [
        (None, 3, 3),  # the retriever's own
        (SelfReflectSettings().replace(target_accuracy=0.9), 3, 3),  # something else was set
        (SelfReflectSettings(top_k=2), 3, 2),
        (SelfReflectSettings().replace(top_k=2), 3, 2),
        (SelfReflectSettings(top_k=5), 9, 5),  # the default's value, asked for
        (SelfReflectSettings(top_k=7), 3, 3),  # there are no more
        (None, None, 12),  # a retriever that has no number gives all
        (SelfReflectSettings(top_k=2), None, 2),
    ],
)
def test_how_many_passages_are_read(facades: Facades, settings: Any, k: int | None, read: int) -> None:
    given = {} if settings is None else {"settings": settings}
    engine = facades.engine(facades.retriever_of(MANY, k), reader=facades.reader(0.1), **given)
    assert len(facades.sources(engine, QUESTION)) == read
    assert len(facades.find(facades.gated(facades.retriever_of(MANY, k), **given), QUESTION)) == read


def test_how_many_passages_of_our_own_retriever_are_read(facades: Facades) -> None:
    shelf = Shelf([type(PASSAGES[0])(f"p{i}", text) for i, text in enumerate(MANY)])
    for settings, read in ((SelfReflectSettings(), 5), (SelfReflectSettings(top_k=3), 3)):
        engine = facades.engine(shelf, reader=facades.reader(0.1), settings=settings)
        assert len(facades.sources(engine, "the lamp")) == read
        assert len(facades.find(facades.gated(shelf, settings=settings), "the lamp")) == read


# --- settings that reach the engine --------------------------------------------------------------------------------


async def test_an_abstention_says_what_the_user_wants_said(facades: Facades) -> None:
    engine = facades.engine(reader=facades.reader(0.1), abstain_text="Das weiß ich nicht: {question}")
    answer = facades.ask(engine, QUESTION)
    assert (answer.abstained, answer.text) == (True, f"Das weiß ich nicht: {QUESTION}")
    assert await facades.aask(engine, QUESTION) == answer
    by_settings = facades.engine(reader=facades.reader(0.1), settings=SelfReflectSettings(abstain_text="Nein."))
    assert facades.ask(by_settings, QUESTION).text == "Nein."
    with pytest.raises(AbstainedError):
        facades.ask(facades.engine(reader=facades.reader(0.1), on_abstain="raise"), QUESTION)


async def test_a_deadline_ends_a_question(facades: Facades) -> None:
    for engine in (
        facades.engine(reader=_Slow(), deadline=0.2),
        facades.engine(reader=_Slow(), settings=SelfReflectSettings(deadline=0.2)),
    ):
        for answer in (facades.ask(engine, QUESTION), await facades.aask(engine, QUESTION)):
            assert (answer.abstained, answer.reason) == (True, "out of time")
    with pytest.raises(TimeoutError):
        facades.rank(facades.reranker(reader=_Slow(), settings=SelfReflectSettings(deadline=0.2)), QUESTION)


class _Slow(FirstSentenceReader):
    def read(self, requests: Any) -> Any:
        import time

        time.sleep(3)
        return super().read(requests)


def test_warming_up_reads_a_word_and_raises_what_the_first_question_would(facades: Facades) -> None:
    reader = facades.reader()
    assert isinstance(facades.engine(reader=reader).warm_up(), object)
    assert reader.batches == [1]
    engine = facades.engine(reader=reader)
    assert engine.warm_up() is engine
    reranker = facades.reranker(reader=reader)
    assert reranker.warm_up() is reranker
    assert reader.batches == [1, 1, 1]
    shelf = Shelf()
    gated = facades.gated(shelf)
    assert gated.warm_up() is gated
    assert shelf.queries
    with pytest.raises(SelfReflectError, match="nothing there"):
        facades.gated(_Broken()).warm_up()
    with pytest.raises(SelfReflectError, match="nothing there"):
        facades.engine(_Broken(), reader=reader).warm_up()


@pytest.mark.parametrize("kind", [ConnectionError, RetrievalError])
async def test_a_retrievers_error_keeps_its_class(facades: Facades, kind: type[Exception]) -> None:
    engine = facades.engine(_Broken(ConnectionError))
    with pytest.raises(kind, match="nothing there"):
        facades.ask(engine, QUESTION)
    with pytest.raises(kind, match="nothing there"):
        await facades.aask(engine, QUESTION)


class _Broken:
    def __init__(self, error: type[Exception] = OSError) -> None:
        self.error = error

    def retrieve(self, query: str, k: int = 5) -> Any:
        raise self.error("nothing there")


def test_a_re_rankers_fields_take_effect_when_they_are_set_or_are_refused(facades: Facades) -> None:
    reranker = facades.reranker(reader=facades.reader())
    reranker.top_n = 1
    assert len(facades.rank(reranker, QUESTION)) == 1
    for name, value in (("method", "magic"), ("top_n", 0), ("method", "uncertainty")):
        made = facades.reranker(reader=facades.reader())
        with pytest.raises(SettingsError):
            _set_and_rank(facades, made, name, value)
    with_model = facades.reranker(llm=facades.llm(), settings=_NO_FALLBACK, reader=facades.reader())
    assert facades.rank(with_model, QUESTION)
    with_model.method = "uncertainty"
    with pytest.raises(SelfReflectError, match="hidden states"):  # now it measures
        facades.rank(with_model, QUESTION)
    with_model.method = "reading"
    assert facades.rank(with_model, QUESTION)


def _set_and_rank(facades: Facades, reranker: Any, name: str, value: Any) -> None:
    setattr(reranker, name, value)
    facades.rank(reranker, QUESTION)


def test_an_answers_metadata_are_small_and_hold_ids_and_quotes(facades: Facades) -> None:
    long = ["The lamp was lit in 1871. " + "It burned whale oil. " * 400, *TEXTS[1:]]
    answer = facades.ask(facades.engine(facades.retriever_of(long)), QUESTION)
    assert answer.claims[0].citations[0].quote == "The lamp was lit in 1871."
    carried = _metadata(facades, facades.engine(facades.retriever_of(long)))
    assert [p["id"] for p in carried["passages"]] == ["p0", "p1"]
    assert "It burned whale oil" not in json.dumps(carried)


def _metadata(facades: Facades, engine: Any) -> Any:
    if facades.name == "llamaindex_selfreflect":
        return engine.query(QUESTION).metadata["selfreflect"]
    return engine.invoke(QUESTION).response_metadata["selfreflect"]
