"""Making an object of either plug-in asks nobody anything; the first question asks a model what it can do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import langchain_selfreflect as lc
import llamaindex_selfreflect as li
from shared_core import SelfReflectEngine
from shared_core.facades.checker import SelfReflectChecker
from shared_core.facades.gated_retriever import GatedRetriever
from shared_core.facades.reranker import SelfReflectReranker
from shared_core.lm import BaseLanguageModel, Capabilities, Generation, LanguageModel
from shared_core.lm.base import Sample, is_language_model
from tests.contract.facades import QUESTION, LangChainFacades, LlamaIndexFacades
from tests.fakes import PASSAGES, FirstSentenceReader, Shelf, WordCritic
from tests.langchain.lc_fakes import TunableModel
from tests.llamaindex.li_fakes import ChatLLM

NAMES = ("generate", "agenerate", "score", "ascore", "hidden_states", "ahidden_states", "token_ids", "atoken_ids")


class Asking(BaseLanguageModel):
    """A backend that has to ask its server what it can do; notes the thread that did."""

    name = "asking"

    def __init__(self) -> None:
        self.asked: list[threading.Thread] = []

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        self.asked.append(threading.current_thread())
        return Capabilities()

    def generate(self, requests: Any) -> Any:
        return [Generation((Sample("NO ANSWER"),)) for _ in requests]


class Duck:
    """The same without our base class."""

    def __init__(self) -> None:
        self.inner = Asking()
        self.asked = self.inner.asked
        for name in NAMES:
            setattr(self, name, getattr(self.inner, name))

    name = "duck"

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities


class Wrapper:
    """Hands everything on to the model within."""

    def __init__(self) -> None:
        self.inner = Asking()
        self.asked = self.inner.asked

    def __getattr__(self, name: str) -> Any:
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)


MADE: dict[str, Callable[[Any], Any]] = {
    "li query engine": lambda m: LlamaIndexFacades().engine(llm=m, models={"judge": m}),
    "li query engine, condensing": lambda m: LlamaIndexFacades().engine(llm=m, condense=True),
    "li query engine, self-rag": lambda m: LlamaIndexFacades().engine(llm=m, pipeline="self_rag", deadline=5),
    "li citation": lambda m: li.SelfReflectCitationQueryEngine(LlamaIndexFacades().retriever_of(), llm=m),
    "li chat": lambda m: li.SelfReflectChatEngine(LlamaIndexFacades().retriever_of(), llm=m),
    "li tool": lambda m: li.SelfReflectTool(LlamaIndexFacades().engine(llm=m)),
    "li retriever": lambda m: LlamaIndexFacades().gated(llm=m),
    "li retriever, flare": lambda m: LlamaIndexFacades().gated(llm=m, gate="flare"),
    "li re-ranker": lambda m: LlamaIndexFacades().reranker(llm=m, method="uncertainty"),
    "li checker": lambda m: li.SelfReflectChecker(LlamaIndexFacades().retriever_of(), llm=m),
    "li guard": lambda m: li.SelfReflectGuard(llm=m, models={"judge": m}),
    "lc chain": lambda m: LangChainFacades().engine(llm=m, models={"judge": m}),
    "lc sourced": lambda m: LangChainFacades().engine(llm=m).with_sources(),
    "lc tool": lambda m: LangChainFacades().engine(llm=m).as_tool(),
    "lc retriever": lambda m: LangChainFacades().gated(llm=m),
    "lc re-ranker": lambda m: LangChainFacades().reranker(llm=m, method="relevance"),
    "lc checker": lambda m: lc.SelfReflectChecker(llm=m),
    "engine": lambda m: SelfReflectEngine(Shelf(), m),
    "gate": lambda m: GatedRetriever(Shelf(), m),
    "re-ranker": lambda m: SelfReflectReranker(m, method="relevance"),
    "checker": lambda m: SelfReflectChecker(lm=m),
}


@pytest.mark.parametrize("kind", [Asking, Duck, Wrapper])
@pytest.mark.parametrize("made", MADE)
def test_no_backend_is_asked_what_it_can_do(made: str, kind: Callable[[], Any]) -> None:
    model = kind()
    MADE[made](model)
    assert not model.asked


@pytest.mark.parametrize("made", [name for name in MADE if name.startswith("li ")])
def test_no_llm_of_llamaindex_is_called(made: str) -> None:
    llm = ChatLLM(lambda prompt, options: "yes")
    MADE[made](llm)
    assert not llm.calls


@pytest.mark.parametrize("made", [name for name in MADE if name.startswith("lc ")])
def test_no_model_of_langchain_is_called(made: str) -> None:
    model = TunableModel()
    MADE[made](model)
    assert not model.seen


@pytest.mark.parametrize("made", ["li query engine", "li retriever", "engine", "gate", "re-ranker", "checker"])
def test_the_first_question_asks_outside_of_the_event_loop(made: str) -> None:
    model = Asking()
    asking = MADE[made](model)

    async def ask() -> threading.Thread:
        if made == "li query engine":
            await asking.aquery(QUESTION)
        elif made in ("li retriever", "gate"):
            await asking.aretrieve(QUESTION)
        elif made == "engine":
            await asking.aanswer(QUESTION)
        elif made == "re-ranker":
            await asking.arerank(QUESTION, PASSAGES)
        else:
            await asking.acheck(PASSAGES[0].text, passages=PASSAGES)
        return threading.current_thread()

    loop = asyncio.run(ask())
    assert model.asked
    assert loop not in model.asked


def test_an_engine_asks_once_and_warming_up_is_when() -> None:
    model = Asking()
    engine = SelfReflectEngine(Shelf(), model, reader=FirstSentenceReader(0.9), critic=WordCritic()).warm_up()
    assert len(model.asked) == 1
    engine.answer(QUESTION)
    engine.answer(QUESTION)
    assert len(model.asked) == 1


@pytest.mark.parametrize("given", [Asking(), Duck(), Wrapper()], ids=["ours", "duck", "wrapper"])
def test_a_backend_is_known_by_what_it_has(given: Any) -> None:
    assert is_language_model(given)
    assert isinstance(given, LanguageModel)


@pytest.mark.parametrize("given", [None, "gpt-4o", ChatLLM(lambda p, o: ""), TunableModel(), PASSAGES[0]])
def test_other_objects_are_no_backends(given: Any) -> None:
    assert not is_language_model(given)
