"""``SelfReflectQueryEngine``: in place of ``RetrieverQueryEngine``."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Self, Unpack

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.response_synthesizers import ResponseMode

from llamaindex_selfreflect._base import ReflectiveQueryEngine, refuse_template
from llamaindex_selfreflect._options import CoreOptions, require_known, spells_out
from shared_core.retrieval.base import Retriever


class SelfReflectQueryEngine(ReflectiveQueryEngine):
    """Answers with verbatim quotes and exact citations, or abstains and says why.

    >>> from shared_core import Passage
    >>> from shared_core.retrieval import BM25Retriever
    >>> shelf = BM25Retriever([Passage("lamp", "The lamp of Vessen was lit in 1871.")])
    >>> response = SelfReflectQueryEngine(shelf).query("When was the lamp of Vessen lit?")
    >>> str(response), response.source_nodes[0].node.text
    ('The lamp of Vessen was lit in 1871. [1]', 'The lamp of Vessen was lit in 1871.')

    Responses are ``SelfReflectResponse``: ``source_nodes[i]`` is the node that the text marks as ``[i + 1]``,
    ``answer`` holds claims, confidence and trace, ``citations`` one ``CitationBlock`` for each number, and
    ``metadata["selfreflect"]`` all of it as plain values. With ``streaming=True`` they are the streaming responses of
    LlamaIndex (and ``SelfReflectResponse`` too), which come claim by claim; since every claim is judged before any is
    shown, sources and citations are complete when the stream begins.

    Besides text and ``QueryBundle``, messages can be asked: ``query(ChatMessage)``, a list of them, or
    ``{"messages": […]}``. The user's last message is the question, those before it are its history.

    Args:
        retriever: of LlamaIndex, or one of ``shared_core.retrieval``. All it returns is read, unless ``settings`` were
            made with a ``top_k``.
        llm: an ``LLM`` of LlamaIndex, a backend of ``shared_core.lm``, ``"settings"`` for ``Settings.llm``, or ``None``
            to answer in the documents' own sentences with the embedded reader (``Settings.llm`` is never used unasked).
        settings: ``SelfReflectSettings``, or a dict of their values. Metadata filters belong to the retriever, not in
            ``settings.where``.
        node_postprocessors: applied to what is retrieved, in order.
        callback_manager: ``Settings.callback_manager`` by default.
        streaming: give streaming responses.
        verbose: print every decision.
        target_accuracy, pipeline, on_abstain, guarantee, abstain_text, deadline: short for the settings of these
            names.
        style: wording of claims, as a wish to the model in a sentence: tone, length, language (``reclaim.style``).
        condense: how follow-ups in a conversation become full questions: ``"auto"`` (those recognised, by ``llm`` or by
            rule), ``True`` (all, by ``llm``), a template with ``{chat_history}`` and ``{question}``, or ``False``.
        markers: ``numbers`` (``[1]``), or ``ids`` (``[node id:offset]``), which stay unique where answers are put
            together (``SubQuestionQueryEngine``).
        reader, judge, embedder, models, calibrations: as for ``SelfReflectEngine``; models may be of LlamaIndex.

    Raises:
        InputError: ``retriever`` cannot retrieve, a model is no language model, or ``settings`` are something else.
        SettingsError: a setting is out of range, or the pipeline needs a language model and there is none.
    """

    @classmethod
    @spells_out(CoreOptions)
    def from_args(
        cls,
        retriever: BaseRetriever | Retriever,
        llm: object = None,
        response_synthesizer: None = None,
        node_postprocessors: Sequence[BaseNodePostprocessor] | None = None,
        callback_manager: CallbackManager | None = None,
        response_mode: ResponseMode | str | None = None,
        text_qa_template: None = None,
        refine_template: None = None,
        summary_template: None = None,
        simple_template: None = None,
        chat_content_qa_template: None = None,
        chat_content_refine_template: None = None,
        output_cls: None = None,
        use_async: bool = False,
        streaming: bool = False,
        verbose: bool = False,
        multimodal: bool = False,
        **options: Unpack[CoreOptions],
    ) -> Self:
        """Create an engine with the arguments of ``RetrieverQueryEngine.from_args``; ArgumentError for unknown names.

        ``use_async`` has no effect (requests of a kind go out as one batch in any case). Arguments that configure
        a response synthesizer (templates, ``output_cls``, ``multimodal``, a ``response_mode`` other than ``compact``)
        are refused with InputError, since they could not be followed.
        """
        require_known(options, f"{cls.__name__}.from_args", *inspect.signature(cls.from_args).parameters)
        refuse_template(
            response_synthesizer=response_synthesizer,
            text_qa_template=text_qa_template,
            refine_template=refine_template,
            summary_template=summary_template,
            simple_template=simple_template,
            chat_content_qa_template=chat_content_qa_template,
            chat_content_refine_template=chat_content_refine_template,
            output_cls=output_cls,
            multimodal=multimodal,
            response_mode=other_mode(response_mode),
        )
        return cls(
            retriever,
            llm=llm,
            node_postprocessors=node_postprocessors,
            callback_manager=callback_manager,
            streaming=streaming,
            verbose=verbose,
            **options,
        )


def other_mode(mode: ResponseMode | str | None) -> ResponseMode | str | None:
    """Return the response mode, or ``None`` for LlamaIndex's default, which changes nothing here."""
    return None if mode in (None, ResponseMode.COMPACT) else mode
