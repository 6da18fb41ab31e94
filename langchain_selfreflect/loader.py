"""``SelfReflectLoader``: files as passages for the vector stores of LangChain."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document

from shared_core.documents.chunking import MAX_CHARS, OVERLAP
from shared_core.documents.load import Failure
from shared_core.documents.scan import iter_passages


class SelfReflectLoader(BaseLoader):
    """Load files as our index does: passages with their headings, tables whose rows have the names of their columns.

    ::

        store.add_documents(SelfReflectLoader("manuals").load())
        DirectoryLoader("manuals", glob="**/*.pdf", loader_cls=SelfReflectLoader).load()

    A ``Document`` is a passage: do not split it again. Its metadata has ``source``, ``title``, ``section``, ``page``,
    and ``start`` and ``end``: offsets in ``load_document(file).text``, which is the file's own text where that is plain
    or Markdown without tables.

    Args:
        paths: a file, a folder, or several.
        max_chars: code points of the longest passage, at least 16.
        overlap: sentences that a passage repeats from the one before, where a paragraph had to be cut.
        text_column: of tables; ``None`` looks for one.
        encoding: of text files that are not UTF-8.
        on_failure: called for each file that cannot be read, and reading goes on; ``None`` raises.
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        max_chars: int = MAX_CHARS,
        overlap: int = OVERLAP,
        text_column: str | None = None,
        encoding: str | None = None,
        on_failure: Callable[[Failure], None] | None = None,
    ) -> None:
        self.paths = paths if isinstance(paths, (str, os.PathLike)) else list(paths)
        self.max_chars, self.overlap = max_chars, overlap
        self.text_column, self.encoding, self.on_failure = text_column, encoding, on_failure

    def lazy_load(self) -> Iterator[Document]:
        """Yield the passages.

        Raises:
            DocumentError, MissingDependencyError: from the first file that fails, if there is no ``on_failure``.
            InputError: a size out of range.
        """
        passages = iter_passages(
            self.paths,
            max_chars=self.max_chars,
            overlap=self.overlap,
            text_column=self.text_column,
            encoding=self.encoding,
            on_failure=self.on_failure,
        )
        for passage in passages:
            title = {"title": passage.title} if passage.title else {}
            yield Document(passage.text, metadata={**passage.metadata, **title}, id=passage.id)
