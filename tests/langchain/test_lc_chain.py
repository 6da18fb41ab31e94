"""The chain: one question through every door gives one message; it cites, abstains, tells, and fails as it should."""

from __future__ import annotations

import asyncio
import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.load import dumps
from langchain_core.runnables import ConfigurableField, RunnableConfig, RunnableLambda
from langchain_core.runnables.utils import add
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_selfreflect import MiniLMEmbeddings, SelfReflectChecker, SelfReflectRetriever
from shared_core import SelfReflectSettings
from shared_core.calibration import Calibration
from shared_core.errors import AbstainedError, InputError, QuestionError, RetrievalError, SettingsError
from shared_core.lm.scripted import ScriptedLM
from shared_core.runtime.flow import Report, Retrieve
from shared_core.types import Decided, Decision, TextDelta
from tests.fakes import FirstSentenceReader, Shelf
from tests.langchain.lc_fakes import (
    QUESTION,
    AsyncEar,
    Ear,
    KRetriever,
    ShelfRetriever,
    TalkingModel,
    block,
    chain,
    documents,
    merged,
    ours,
)

CITING = "<reference>1</reference>\n<claim>The lamp was lit in 1871.</claim>"


# --- every door ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", [QUESTION, "Who painted zebras?", {"question": QUESTION, "other": 1}])
async def test_every_door_gives_the_same_message(question: Any) -> None:
    made = chain(0.9, 0.3)
    expected = made.invoke(question)
    assert await made.ainvoke(question) == expected
    assert merged(made.stream(question)) == expected
    assert merged([c async for c in made.astream(question)]) == expected
    assert made.batch([question]) == [expected]
    assert await made.abatch([question]) == [expected]


async def test_async_calls_use_the_retrievers_own_async_form() -> None:
    shelf = ShelfRetriever()
    made = chain(0.9, retriever=shelf)
    await made.ainvoke(QUESTION)
    await made.abatch([QUESTION, QUESTION])
    assert {how for how, _ in shelf.asked} == {"async"}


def test_text_is_streamed_claim_by_claim_and_the_citations_last() -> None:
    pieces = list(chain(0.9, 0.8).stream(QUESTION))
    assert [p.text for p in pieces] == ["The lamp was lit in 1871. [1] ", "A second lamp was lit in 1899. [2]", ""]
    assert all("annotations" not in block(p) for p in pieces[:-1])
    assert len(block(pieces[-1])["annotations"]) == 2


async def test_a_stream_that_is_left_early_is_closed_down_to_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[str] = []

    def watched(question: str, run: Any) -> Any:
        try:
            yield Report(Decided(Decision("first", "yes")))
            yield Report(TextDelta("never reached"))
            yield Retrieve(question)
        finally:
            left.append(question)

    monkeypatch.setattr("shared_core.facades.engine.load_pipeline", lambda name: watched)
    stream = chain(0.9).stream(QUESTION)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert left == [QUESTION]
    slow = chain(0.9).astream(QUESTION)
    await anext(slow)
    await slow.aclose()  # type: ignore[attr-defined]
    for _ in range(20):  # inner generators are closed by the loop
        await asyncio.sleep(0)
    assert left == [QUESTION] * 2


# --- batches -------------------------------------------------------------------------------------------------------

MIXED: list[Any] = [QUESTION, "burst", "", {"x": 1}, "Who was captain of the Marrow?", QUESTION]


async def test_a_batch_fails_alone() -> None:
    made = chain(0.9)
    one, burst, empty, keyless, two, three = made.batch(MIXED, return_exceptions=True)
    assert isinstance(burst, RetrievalError)
    assert isinstance(empty, QuestionError)
    assert isinstance(keyless, QuestionError)
    assert one == three == made.invoke(QUESTION)
    assert two == made.invoke(MIXED[4])
    again = await made.abatch(MIXED, return_exceptions=True)
    assert [type(r) for r in again] == [type(r) for r in (one, burst, empty, keyless, two, three)]
    assert again[0] == one


async def test_beside_a_question_that_fails_the_others_are_retrieved_once(caplog: pytest.LogCaptureFixture) -> None:
    shelf, ear = ShelfRetriever(), Ear()
    questions: list[Any] = [QUESTION, "Did the lamp burst?", "Who is Captain Venn?"]
    made = chain(0.9, retriever=shelf)
    found = made.batch(questions, {"callbacks": [ear]}, return_exceptions=True)
    assert sorted(query for _, query in shelf.asked) == sorted(questions)
    assert len(ear.ids("retriever")) == 3
    assert isinstance(found[1], OSError)
    assert isinstance(found[1], RetrievalError)
    assert "Did the lamp burst?" in str(found[1])
    assert "Traceback" not in caplog.text
    assert [type(r) for r in await made.abatch(questions, return_exceptions=True)] == [type(r) for r in found]


async def test_questions_of_a_batch_may_have_options_of_their_own() -> None:
    reader = FirstSentenceReader(0.8)
    made = chain(reader=reader)
    configs = [RunnableConfig(configurable={"target_accuracy": at}) for at in (0.5, 0.9, 7, 0.5)]
    for found in (
        made.batch([QUESTION] * 4, configs, return_exceptions=True),
        await made.abatch([QUESTION] * 4, configs, return_exceptions=True),
    ):
        shown, held_back, refused, again = found
        assert shown == again == made.invoke(QUESTION)
        assert held_back.response_metadata["selfreflect"]["abstained"]
        assert isinstance(refused, SettingsError)
    assert reader.batches[:2] == [2, 1]  # those with the same options are one batch


async def test_a_batch_without_return_exceptions_raises_the_first() -> None:
    with pytest.raises(RetrievalError):
        chain(0.9).batch(MIXED)
    with pytest.raises(RetrievalError):
        await chain(0.9).abatch(MIXED)
    assert chain(0.9).batch([]) == []


async def test_max_concurrency_of_a_batch_holds_for_its_retrievals() -> None:
    now, most = 0, 0

    def find(query: str) -> list[Document]:
        return documents()

    async def afind(query: str) -> list[Document]:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0)
        now -= 1
        return documents()

    made = chain(0.9, retriever=RunnableLambda(find, afind))
    await made.abatch([QUESTION] * 4)
    assert most == 4
    most = 0
    await made.abatch([QUESTION] * 4, {"max_concurrency": 2})
    assert most == 2


def test_a_batch_is_one_batch_for_the_reader() -> None:
    reader = FirstSentenceReader(0.9)
    chain(reader=reader).batch([QUESTION] * 5)
    assert reader.batches == [5]


async def test_each_question_of_a_batch_has_its_own_run_with_its_own_children() -> None:
    ears = [Ear(), Ear(), Ear()]
    questions = [QUESTION, "Who was captain of the Marrow?", QUESTION]
    model = TalkingModel(reply=lambda prompt: "I cannot say.")
    made = chain(None, llm=model, on_abstain="fallback")
    for run in ("sync", "async"):
        configs: Any = [{"callbacks": [ear]} for ear in ears]
        _ = made.batch(questions, configs) if run == "sync" else await made.abatch(questions, configs)
    for ear, question in zip(ears, questions):
        runs = ear.ids("chain")
        assert len(runs) == 2
        assert set(ear.parents("retriever")) == set(runs)
        assert set(ear.parents("llm")) == set(runs)
        assert {run for _, _, run in ear.events} == set(runs)
        assert {d["query"] for n, d, _ in ear.events if n == "selfreflect_retrieved"} == {question}


# --- callbacks and events ------------------------------------------------------------------------------------------


async def test_decisions_are_told_in_order_to_sync_and_async_handlers() -> None:
    expected = ["retrieve", "read", "keep", "answer"]
    made = chain(0.9)
    ear = Ear()
    made.invoke(QUESTION, {"callbacks": [ear]})
    list(made.stream(QUESTION, {"callbacks": [ear]}))
    assert [d["kind"] for n, d, _ in ear.events if n == "selfreflect_decision"] == expected * 2
    for run in (made.ainvoke, made.abatch):
        late = AsyncEar()
        await run(QUESTION if run == made.ainvoke else [QUESTION], {"callbacks": [late]})  # type: ignore[operator]
        assert [d["kind"] for n, d in late.events if n == "selfreflect_decision"] == expected


async def test_events_appear_in_astream_events() -> None:
    names = [
        e["name"] async for e in chain(0.9).astream_events(QUESTION, version="v2") if e["event"] == "on_custom_event"
    ]
    assert names[0] == "selfreflect_decision"
    assert {"selfreflect_retrieved", "selfreflect_claim"} <= set(names)


def test_an_error_ends_the_run_as_an_error() -> None:
    ear = Ear()
    with pytest.raises(RetrievalError):
        chain(0.9).invoke("burst", {"callbacks": [ear]})
    assert isinstance(ear.errors[-1], RetrievalError)


def test_the_traced_output_is_the_message() -> None:
    ear = Ear()
    message = chain(0.9).invoke(QUESTION, {"callbacks": [ear]})
    assert ear.ends[-1] == message


# --- with its sources ----------------------------------------------------------------------------------------------


async def test_what_stands_behind_a_stream_of_sources_gets_the_whole() -> None:
    made, ear = chain(0.9).with_sources(), Ear()
    given = {"question": QUESTION, "context": "the user's", "answer": "the user's", "message": 1}
    whole = made.invoke(given)
    assert all(isinstance(d, Document) for d in whole["context"])
    checked: Any = made | SelfReflectChecker() | (lambda found: found["answer"])
    for behind in (checked, made | (lambda found: found), made.assign(n=lambda found: 1)):
        expected = behind.invoke(given)
        assert add(list(behind.stream(given, {"callbacks": [ear]}))) == expected
        assert add([p async for p in behind.astream(given)]) == expected
    assert whole in ear.ends


def test_sources_have_a_schema() -> None:
    made = chain(0.9).with_sources()
    assert set(made.get_output_jsonschema()["$defs"]["SourcedAnswer"]["properties"]) == {
        "input", "context", "answer", "message",
    }  # fmt: skip
    assert "SourcedChain" in made.get_graph().draw_mermaid()
    assert made.get_prompts() == []


# --- abstention ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("question", "probability", "reason"), [
    ("Who painted zebras?", 0.9, "nothing retrieved"), (QUESTION, 0.3, "support below target"),
    (QUESTION, None, "support unknown"),
])  # fmt: skip
def test_it_abstains_and_says_why(question: str, probability: float | None, reason: str) -> None:
    message = chain(probability).invoke(question)
    assert ours(message)["abstained"] is True
    assert ours(message)["reason"] == reason
    assert "I can't answer that from these documents" in message.text
    assert "annotations" not in block(message)


async def test_policy_raise_raises_through_every_door() -> None:
    made = chain(0.3, on_abstain="raise")
    with pytest.raises(AbstainedError) as caught:
        made.invoke(QUESTION)
    assert caught.value.answer.reason == "support below target"
    with pytest.raises(AbstainedError):
        list(made.stream(QUESTION))
    with pytest.raises(AbstainedError):
        await made.ainvoke(QUESTION)
    (error,) = made.batch([QUESTION], return_exceptions=True)
    assert isinstance(error, AbstainedError)


def test_policy_show_quotes_the_nearest() -> None:
    assert "“The lamp was lit in 1871.” (lamps.md)" in chain(0.3, on_abstain="show").invoke(QUESTION).text


# --- with a chat model ---------------------------------------------------------------------------------------------


async def test_a_chat_model_writes_claims_behind_quotes() -> None:
    """ReClaim's ladder: the model cites by number, so the quote is ours and verbatim."""

    def reply(prompt: str) -> str:
        return CITING if "reference" in prompt.lower() and "S1" in prompt else "90"

    made = chain(llm=TalkingModel(reply=reply), pipeline="reclaim", retriever=ShelfRetriever(docs=documents()[:1]))
    message = made.invoke(QUESTION)
    assert not ours(message)["abstained"], ours(message)["trace"]
    (citation,) = block(message)["annotations"]
    assert citation["cited_text"].strip() == "The lamp was lit in 1871."
    extras = citation["extras"]
    assert documents()[0].page_content[extras["start"] : extras["end"]] == citation["cited_text"]
    assert await made.ainvoke(QUESTION) == message
    assert merged(made.stream(QUESTION)) == message


def test_our_own_backends_serve_as_llm() -> None:
    empty = Shelf(())
    message = chain(retriever=empty, llm=ScriptedLM(lambda r: "1871, I think."), on_abstain="fallback").invoke(QUESTION)
    assert "unverified: 1871, I think." in message.text


# --- retrievers ----------------------------------------------------------------------------------------------------


def test_any_runnable_serves_as_retriever() -> None:
    runnable = RunnableLambda(lambda query: documents()[:1])
    assert chain(0.9, retriever=runnable).invoke(QUESTION).text == "The lamp was lit in 1871. [1]"


def test_a_chain_that_formats_documents_is_refused_with_a_hint() -> None:
    formatted = RunnableLambda(lambda query: "some text")
    with pytest.raises(InputError, match="not a list of documents") as caught:
        chain(0.9, retriever=formatted).invoke(QUESTION)
    assert "without the step" in caught.value.hint


def test_the_retrievers_own_k_holds_unless_top_k_is_set() -> None:
    retriever = KRetriever(k=1)
    assert len(ours(chain(0.9, retriever=retriever).invoke(QUESTION))["passages"]) == 1
    wider = chain(0.9, retriever=retriever, settings=SelfReflectSettings(top_k=3))
    assert len(ours(wider.invoke(QUESTION))["passages"]) == 3
    assert retriever.asked == [2, 6]  # twice as many are read, the best are kept


def test_a_retriever_without_a_number_is_read_whole_unless_top_k_is_set() -> None:
    shelf = [Document(f"The lamp {i} was lit.", id=f"n{i}") for i in range(9)]
    numbered = KRetriever(docs=shelf, k=9)
    plain: RunnableLambda[str, list[Document]] = RunnableLambda(lambda query: shelf)
    wrapped = numbered.configurable_fields(docs=ConfigurableField(id="docs"))
    for retriever in (ShelfRetriever(docs=shelf), plain, plain.with_retry(), plain.with_fallbacks([plain]), wrapped):
        assert len(ours(chain(0.3, retriever=retriever).invoke(QUESTION))["passages"]) == 9
        few = chain(0.3, retriever=retriever, settings=SelfReflectSettings(top_k=2))
        assert len(ours(few.invoke(QUESTION))["passages"]) == 2
    gated = SelfReflectRetriever(retriever=numbered)
    assert len(ours(chain(0.3, retriever=gated).invoke(QUESTION))["passages"]) == 9


def test_a_calibration_holds_for_its_number_with_any_retriever() -> None:
    bound = chain(settings=SelfReflectSettings(top_k=5)).engine.calibration_binding
    fitted = Calibration("isotonic", True, bound, points=((0.0, 0.0), (1.0, 0.5)))
    assert ours(chain(0.9, calibrations={"confidence": fitted}).invoke(QUESTION))["confidence"] == pytest.approx(0.45)


def test_a_vector_store_retriever_is_asked_for_its_own_k() -> None:
    class OneHot:
        name = "one-hot"

        def embed(self, texts: Any) -> Any:
            import numpy as np

            return np.asarray([[float("lamp" in t), 0.1] for t in texts], dtype=np.float32)

    store = InMemoryVectorStore.from_documents(documents(), MiniLMEmbeddings(OneHot()))
    made = chain(0.9, retriever=store.as_retriever(search_kwargs={"k": 2}))
    assert len(ours(made.invoke(QUESTION))["passages"]) == 2


def test_documents_are_never_changed() -> None:
    shelf = ShelfRetriever()
    before = copy.deepcopy(shelf.docs)
    chain(0.9, retriever=shelf).invoke(QUESTION)
    assert shelf.docs == before


def test_chunks_that_inherited_one_id_stay_apart() -> None:
    twins = [
        Document("The lamp was lit in 1871.", metadata={"id": "file"}),
        Document("The lamp was sold in 1920.", metadata={"id": "file"}),
    ]
    message = chain(0.9, retriever=ShelfRetriever(docs=twins)).invoke(QUESTION)
    ids = [c["extras"]["passage_id"] for c in block(message)["annotations"]]
    assert ids[0] == "file"
    assert ids[1].startswith("file#")


# --- as a part of LangChain ----------------------------------------------------------------------------------------


def test_fields_are_configurable_at_run_time() -> None:
    made: Any = chain(0.6).configurable_fields(target_accuracy=ConfigurableField(id="rho"))
    assert not ours(made.invoke(QUESTION))["abstained"]
    strict = made.with_config(configurable={"rho": 0.95})
    assert ours(strict.invoke(QUESTION))["reason"] == "support below target"


def test_a_changed_field_holds_from_the_next_question_on() -> None:
    made = chain(0.6)
    assert not ours(made.invoke(QUESTION))["abstained"]
    made.target_accuracy = 0.9
    assert ours(made.invoke(QUESTION))["abstained"]


def test_schemas_graph_and_serialisation() -> None:
    made = chain(0.9)
    made.invoke(QUESTION)
    assert {"type": "string"} in made.get_input_schema().model_json_schema()["anyOf"]
    assert made.get_output_schema() is not None
    assert "SelfReflectChain" in made.get_graph().draw_mermaid()
    assert json.loads(dumps(made))["id"][-1] == "SelfReflectChain"
    assert json.loads(dumps(made.invoke(QUESTION)))["kwargs"]["response_metadata"]["selfreflect"]["abstained"] is False


def test_what_importing_the_package_loads() -> None:
    code = "import sys, langchain_selfreflect; print(*{m.split('.')[0] for m in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "transformers", "langchain", "langchain_classic", "langchain_community"} & set(loaded)


@pytest.mark.slow
def test_the_example_runs() -> None:
    root = Path(__file__).parents[2]
    script = [sys.executable, "examples/langchain_swap.py"]
    shown = subprocess.run(script, cwd=root, capture_output=True, text=True, check=True).stdout
    assert "83 metres" in shown
    assert "abstained: passages do not answer" in shown
