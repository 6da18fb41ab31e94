"""The frameworks' plain retrieve-and-answer chains over the lab's model and documents.

The prompt is the one the model was trained with, so that only the chain differs: no gate, no re-ranking, no quotes,
no abstention but the model's own "unknown".
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.lab.measure.setting import Lab
from shared_core.lab.questions import Question
from shared_core.lm.base import Generation, LanguageModel, SamplingParams
from shared_core.pipelines.gating.prompts import ANSWER_LEAD, ANSWER_STOPS, demonstrations, step_prompt
from shared_core.runtime.flow import Generate
from shared_core.types import Passage
from shared_core.uncertainty import final_answer, is_answer

_MARK = "\x1f"
"""Separator of question and passages in a framework's prompt."""


def _answer(lm: LanguageModel, question: str, passages: Sequence[Passage]) -> str:
    prompt = step_prompt(question, (), passages, demonstrations("simple"), ANSWER_LEAD)
    (result,) = lm.generate([Generate(prompt, SamplingParams(max_tokens=32, stop=ANSWER_STOPS))])
    if not isinstance(result, Generation):
        raise result
    return result.text


def _short_answer(text: str) -> str:
    found = final_answer(f"the answer is {' '.join(text.split())}")
    return found if found and is_answer(found) else ""


def llamaindex(lab: Lab, questions: Sequence[Question], k: int) -> list[str]:
    """Answer with a ``RetrieverQueryEngine`` that puts all passages into one prompt."""
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.llms import CompletionResponse, CompletionResponseGen, CustomLLM, LLMMetadata
    from llama_index.core.prompts import PromptTemplate
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    class Model(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(context_window=100_000, num_output=64, model_name="lab")

        def complete(self, prompt: str, formatted: bool = False, **kwargs: object) -> CompletionResponse:
            question, context = prompt.split(_MARK)
            return CompletionResponse(text=_answer(lab.lm, question, _passages(context)))

        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: object) -> CompletionResponseGen:
            yield self.complete(prompt)

    class Documents(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            found = lab.retriever.retrieve(query_bundle.query_str, k)
            return [NodeWithScore(node=TextNode(text=_as_text(p)), score=1.0) for p in found]

    template = PromptTemplate("{query_str}" + _MARK + "{context_str}")
    mode = ResponseMode.SIMPLE_SUMMARIZE
    synthesizer = get_response_synthesizer(llm=Model(), text_qa_template=template, response_mode=mode)
    engine = RetrieverQueryEngine(Documents(), synthesizer)
    return [_short_answer(str(engine.query(q.text))) for q in questions]


def langchain(lab: Lab, questions: Sequence[Question], k: int) -> list[str]:
    """Answer with a chain of retriever, prompt, model and parser."""
    from langchain_core.language_models.llms import LLM
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import PromptTemplate
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough

    class Model(LLM):
        @property
        def _llm_type(self) -> str:
            return "lab"

        def _call(self, prompt: str, stop: object = None, run_manager: object = None, **kwargs: object) -> str:
            question, context = prompt.split(_MARK)
            return _answer(lab.lm, question, _passages(context))

    def retrieve(question: str) -> str:
        return "\n\n".join(_as_text(p) for p in lab.retriever.retrieve(question, k))

    chain = (
        {"context": RunnableLambda(retrieve), "question": RunnablePassthrough()}
        | PromptTemplate.from_template("{question}" + _MARK + "{context}")
        | Model()
        | StrOutputParser()
    )
    return [_short_answer(chain.invoke(q.text)) for q in questions]


def _as_text(passage: Passage) -> str:
    return f"{passage.title}\t{' '.join(passage.text.split())}"


def _passages(context: str) -> list[Passage]:
    """Split the joined passages again, one a paragraph."""
    found = []
    for number, block in enumerate(b for b in context.strip().split("\n\n") if b.strip()):
        title, _, text = block.partition("\t")
        found.append(Passage(f"{number}", text or title, title.strip() if text else ""))
    return found
