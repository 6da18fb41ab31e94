"""``SelfReflectReader``: files as passages for LlamaIndex's own indexes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from llama_index.core.readers.base import BaseReader
from llama_index.core.schema import Document

from shared_core.documents.chunking import MAX_CHARS, OVERLAP
from shared_core.documents.load import Failure
from shared_core.documents.scan import iter_passages
from shared_core.errors import InputError

_SEEN_BY_MODELS = ("title", "section")


class SelfReflectReader(BaseReader):
    """Read files as our index does: passages with their headings, tables whose rows have the names of their columns.

    ::

        documents = SelfReflectReader().load_data("manuals")
        documents = SimpleDirectoryReader("manuals", file_extractor={".pdf": SelfReflectReader()}).load_data()
        index = VectorStoreIndex.from_documents(documents, embed_model=MiniLMEmbedding())

    A ``Document`` is a passage, short enough that LlamaIndex's splitters leave it whole. Its ``title`` and ``section``
    are shown to models and embedded; ``source``, ``page``, ``start`` and ``end`` are not. These are offsets in
    ``load_document(file).text``, which is the file's own text where that is plain or Markdown without tables.

    Args:
        max_chars: code points of the longest passage, at least 16.
        overlap: sentences that a passage repeats from the one before, where a paragraph had to be cut.
        text_column: of tables; ``None`` looks for one.
        encoding: of text files that are not UTF-8.
        on_failure: called for each file that cannot be read, and reading goes on; ``None`` raises.
    """

    def __init__(
        self,
        *,
        max_chars: int = MAX_CHARS,
        overlap: int = OVERLAP,
        text_column: str | None = None,
        encoding: str | None = None,
        on_failure: Callable[[Failure], None] | None = None,
    ) -> None:
        self.max_chars, self.overlap = max_chars, overlap
        self.text_column, self.encoding, self.on_failure = text_column, encoding, on_failure

    def lazy_load_data(
        self,
        file: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        extra_info: Mapping[str, Any] | None = None,
        fs: object | None = None,
    ) -> Iterator[Document]:
        """Yield the passages of files and folders.

        Args:
            file: a file, a folder, or several.
            extra_info: added to each passage's metadata (``SimpleDirectoryReader`` gives the file's name and dates).
            fs: must be ``None``: only the local file system is read.

        Raises:
            DocumentError, MissingDependencyError: from the first file that fails, if there is no ``on_failure``.
            InputError: a file system, or a size out of range.
        """
        if fs is not None:
            raise InputError(
                "SelfReflectReader reads local files only.", hint="Copy the files to a folder, and read that."
            )
        passages = iter_passages(
            file,
            max_chars=self.max_chars,
            overlap=self.overlap,
            text_column=self.text_column,
            encoding=self.encoding,
            on_failure=self.on_failure,
        )
        for passage in passages:
            title = {"title": passage.title} if passage.title else {}
            metadata = {**(extra_info or {}), **passage.metadata, **title}
            hidden = sorted(key for key in metadata if key not in _SEEN_BY_MODELS)
            yield Document(
                id_=passage.id,
                text=passage.text,
                metadata=metadata,
                excluded_embed_metadata_keys=hidden,
                excluded_llm_metadata_keys=hidden,
            )
