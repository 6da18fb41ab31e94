"""``SelfReflectCitationQueryEngine``: in place of ``CitationQueryEngine``."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Self, Unpack, cast

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.indices.base import BaseIndex
from llama_index.core.node_parser import SentenceSplitter, TextSplitter
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.response_synthesizers import ResponseMode
from llama_index.core.schema import MetadataMode, NodeRelationship, NodeWithScore, TextNode

from llamaindex_selfreflect._base import ReflectiveQueryEngine, refuse_template
from llamaindex_selfreflect._nodes import document_place, file_place, own_text
from llamaindex_selfreflect._options import CitationOptions, EngineOptions, KeywordOptions, require_known, spells_out
from llamaindex_selfreflect._sources import Cut, Split
from llamaindex_selfreflect.query_engine import other_mode
from shared_core.errors import InputError, OptionError
from shared_core.facades.arguments import check_count, unknown_argument
from shared_core.lm.base import LanguageModel
from shared_core.retrieval.base import Retriever
from shared_core.settings import SelfReflectSettings
from shared_core.types import Decision

DEFAULT_CITATION_CHUNK_SIZE = 512
DEFAULT_CITATION_CHUNK_OVERLAP = 20
DEFAULT_MAX_CITATION_CHUNKS = 64
"""Of the usual size, these are about 32,000 tokens."""


class SelfReflectCitationQueryEngine(ReflectiveQueryEngine):
    """Writes every claim after a quote that is verbatim by construction (ReClaim), with one source node per citation.

    >>> from shared_core import Passage
    >>> from shared_core.retrieval import BM25Retriever
    >>> shelf = BM25Retriever([Passage("lamp", "The lamp of Vessen was lit in 1871.")])
    >>> response = SelfReflectCitationQueryEngine(shelf, citation_chunk_size=128).query("When was the lamp lit?")
    >>> [node.node.text for node in response.source_nodes]
    ['The lamp of Vessen was lit in 1871.']

    Retrieved nodes are cut into citation chunks, as ``CitationQueryEngine`` does, and all chunks are read. A chunk's
    text is its node's own, its ``start_char_idx`` and ``end_char_idx`` are offsets in the document if the node has
    them, and its id is the node's id with the chunk's offsets. Offsets in ``citations`` are within the chunk.

    Args:
        retriever: as for ``SelfReflectQueryEngine``; so are the arguments not named here.
        citation_chunk_size, citation_chunk_overlap: of chunks, in tokens.
        max_citation_chunks: to read at most. Where the nodes have more, the last ones of the longest nodes are left
            out, and the trace says so. (A prompt that does not fit the model is shortened: ``settings.on_overflow``.)
        text_splitter: of LlamaIndex, in place of the ``SentenceSplitter`` of that size.
        pipeline: ``reclaim`` by default where there is a language model, else ``composed`` (quotes alone).

    Raises:
        InputError, SettingsError: as for ``SelfReflectQueryEngine``.
        OptionError: a size or overlap out of range.
    """

    @spells_out(EngineOptions)
    def __init__(
        self,
        retriever: BaseRetriever | Retriever,
        *,
        citation_chunk_size: int = DEFAULT_CITATION_CHUNK_SIZE,
        citation_chunk_overlap: int = DEFAULT_CITATION_CHUNK_OVERLAP,
        max_citation_chunks: int = DEFAULT_MAX_CITATION_CHUNKS,
        text_splitter: TextSplitter | None = None,
        **options: Unpack[EngineOptions],
    ) -> None:
        own = ("citation_chunk_size", "citation_chunk_overlap", "max_citation_chunks", "text_splitter")
        require_known(options, type(self).__name__, "retriever", *own)
        self.max_citation_chunks = check_count("max_citation_chunks", max_citation_chunks)
        self.text_splitter = _splitter(text_splitter, citation_chunk_size, citation_chunk_overlap)
        super().__init__(retriever, **options)

    @classmethod
    @spells_out(CitationOptions)
    def from_args(
        cls,
        index: BaseIndex[Any] | None,
        llm: object = None,
        response_synthesizer: None = None,
        citation_chunk_size: int = DEFAULT_CITATION_CHUNK_SIZE,
        citation_chunk_overlap: int = DEFAULT_CITATION_CHUNK_OVERLAP,
        text_splitter: TextSplitter | None = None,
        citation_qa_template: None = None,
        citation_refine_template: None = None,
        citation_chat_content_qa_template: None = None,
        citation_chat_content_refine_template: None = None,
        retriever: BaseRetriever | Retriever | None = None,
        node_postprocessors: Sequence[BaseNodePostprocessor] | None = None,
        response_mode: ResponseMode | str | None = None,
        use_async: bool = False,
        streaming: bool = False,
        metadata_mode: MetadataMode = MetadataMode.NONE,
        multimodal: bool = False,
        *,
        max_citation_chunks: int = DEFAULT_MAX_CITATION_CHUNKS,
        similarity_top_k: int | None = None,
        **options: Unpack[CitationOptions],
    ) -> Self:
        """Create an engine with the arguments of ``CitationQueryEngine.from_args``; others reach ``as_retriever``.

        ArgumentError for names that neither has. Templates, ``response_synthesizer``, ``multimodal``, a
        ``response_mode`` other than ``compact`` and a ``metadata_mode`` other than ``NONE`` (offsets hold in the node's
        own text) are refused with InputError.
        """
        refuse_template(
            response_synthesizer=response_synthesizer,
            citation_qa_template=citation_qa_template,
            citation_refine_template=citation_refine_template,
            citation_chat_content_qa_template=citation_chat_content_qa_template,
            citation_chat_content_refine_template=citation_chat_content_refine_template,
            multimodal=multimodal,
            response_mode=other_mode(response_mode),
            metadata_mode=None if metadata_mode == MetadataMode.NONE else metadata_mode,
        )
        known = KeywordOptions.__annotations__
        own = cast("KeywordOptions", {name: value for name, value in options.items() if name in known})
        arguments = {name: value for name, value in options.items() if name not in known}
        if similarity_top_k is not None:
            arguments["similarity_top_k"] = similarity_top_k
        if retriever is None:
            retriever = _retriever_of(index, arguments, cls.__name__)
        elif arguments:
            names = ", ".join(arguments)
            raise OptionError(f"{names} cannot have an effect beside retriever=.", hint="Set it on the retriever.")
        return cls(
            retriever,
            llm=llm,
            citation_chunk_size=citation_chunk_size,
            citation_chunk_overlap=citation_chunk_overlap,
            max_citation_chunks=max_citation_chunks,
            text_splitter=text_splitter,
            node_postprocessors=node_postprocessors,
            streaming=streaming,
            **own,
        )

    def _fit(self, settings: SelfReflectSettings, lm: LanguageModel | None) -> SelfReflectSettings:
        free = "pipeline" not in settings.model_fields_set
        return settings.replace(pipeline="reclaim") if free and lm is not None else settings

    def _splitter(self) -> Split:
        return self._cut

    def _cut(self, nodes: list[NodeWithScore]) -> Cut:
        """Split every node into chunks, in order; if there are too many, drop the last ones of the longest nodes."""
        chunks = [self._chunks(node) for node in nodes]
        total = sum(map(len, chunks))
        if total <= self.max_citation_chunks:
            return Cut([chunk for own in chunks for chunk in own])
        kept = _share(self.max_citation_chunks, [len(own) for own in chunks])
        reason = f"max_citation_chunks={self.max_citation_chunks}: the last chunks of the longest nodes are not read"
        note = Decision("chunks", f"{sum(kept)} of {total} read", reason, {"read": sum(kept), "chunks": total})
        return Cut([chunk for own, n in zip(chunks, kept) for chunk in own[:n]], note)

    def _chunks(self, node: NodeWithScore) -> list[NodeWithScore]:
        """Split a node; keep it whole if the splitter's pieces are not verbatim parts of its text."""
        text = own_text(node.node)
        places: list[tuple[int, int]] = []
        for piece in self.text_splitter.split_text(text) if text.strip() else []:
            start = text.find(piece, places[-1][0] + 1 if places else 0)
            if start < 0:
                return [node]
            places.append((start, start + len(piece)))
        if len(places) < 2:
            return [node]
        return [_chunk(node, text, start, end) for start, end in places]


def _splitter(given: object, size: int, overlap: int) -> TextSplitter:
    if isinstance(given, TextSplitter):
        return given
    if given is not None:
        raise InputError(f"A {type(given).__name__} is no TextSplitter of LlamaIndex.", hint="SentenceSplitter(…)")
    check_count("citation_chunk_size", size)
    if isinstance(overlap, bool) or not isinstance(overlap, int) or not 0 <= overlap <= size:
        raise OptionError(
            f"citation_chunk_overlap must be a whole number from 0 to citation_chunk_size={size}, not {overlap!r}.",
            hint=f"citation_chunk_overlap={min(DEFAULT_CITATION_CHUNK_OVERLAP, size // 2)}, for example.",
        )
    return SentenceSplitter(chunk_size=size, chunk_overlap=overlap)


def _chunk(node: NodeWithScore, text: str, start: int, end: int) -> NodeWithScore:
    inner = node.node
    place = document_place(inner)
    in_file = file_place(inner)
    own = {} if in_file is None else {"start": in_file[0] + start, "end": in_file[0] + end}
    chunk = TextNode(
        id_=f"{inner.node_id}:{start}-{end}",
        text=text[start:end],
        metadata={**inner.metadata, **own},
        excluded_llm_metadata_keys=list(inner.excluded_llm_metadata_keys),
        excluded_embed_metadata_keys=list(inner.excluded_embed_metadata_keys),
        relationships={**inner.relationships, NodeRelationship.PARENT: inner.as_related_node_info()},
        start_char_idx=None if place is None else place[0] + start,
        end_char_idx=None if place is None else place[0] + end,
    )
    return NodeWithScore(node=chunk, score=node.score)


def _share(room: int, sizes: Sequence[int]) -> list[int]:
    """Share ``room`` places: small sizes are kept whole, and large ones share the rest evenly."""
    kept = [0] * len(sizes)
    for place, i in enumerate(sorted(range(len(sizes)), key=lambda i: (sizes[i], i))):
        # Rounded up, so that the room is used; the best-ranked of equal ones come first.
        kept[i] = min(sizes[i], -(-(room - sum(kept)) // (len(sizes) - place)))
    return kept


def _retriever_of(index: BaseIndex[Any] | None, arguments: dict[str, object], owner: str) -> BaseRetriever:
    if index is None:
        raise InputError("There is neither an index nor a retriever.", hint="from_args(index, …) or retriever=….")
    if not callable(getattr(index, "as_retriever", None)):
        raise InputError(f"{type(index).__name__} is no index of LlamaIndex.", hint="For a retriever: retriever=….")
    retriever = index.as_retriever(**arguments)
    known = {"vector_store_kwargs"}
    makers = [vars(c)["__init__"] for c in type(retriever).__mro__ if "__init__" in vars(c)]
    for function in (index.as_retriever, *makers):
        known |= {p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD}
    for name in arguments:
        if name not in known:
            own = inspect.signature(SelfReflectCitationQueryEngine.from_args).parameters
            names = {*own, *EngineOptions.__annotations__, *known} - {"self", "index_struct", "options"}
            raise unknown_argument(name, names, f"{owner}.from_args")
    return retriever
