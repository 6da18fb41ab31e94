"""Nodes to passages and back: offsets of our spans hold in the node's own text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, TextNode

from shared_core.citation.places import range_in_file
from shared_core.errors import InputError
from shared_core.pipelines.decision.wording import is_abstention
from shared_core.types import MetadataValue, Passage

TITLE_KEYS = ("title", "document_title", "file_name")
SOURCE_KEYS = ("source", "file_name", "file_path", "url")


def without_class_name(data: Any) -> Any:
    """Leave out the name that LlamaIndex adds to serialised objects, and that their constructors do not take."""
    return {k: v for k, v in data.items() if k != "class_name"} if isinstance(data, Mapping) else data


def as_nodes(given: object) -> list[NodeWithScore]:
    """Return nodes as a list; InputError if they are something else."""
    hint = "nodes=[NodeWithScore(node=TextNode(text='…')), …], as retriever.retrieve(…) returns them."
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise InputError(f"The nodes must be a list, not a {type(given).__name__}.", hint=hint)
    nodes = list(given)
    for node in nodes:
        if not isinstance(node, NodeWithScore):
            raise InputError(f"The nodes must be NodeWithScore, not {type(node).__name__}.", hint=hint)
    return nodes


def own_text(node: BaseNode) -> str:
    """The node's text without metadata; empty for a node that has none (an image)."""
    return node.get_content(metadata_mode=MetadataMode.NONE) or ""


def title_of(node: BaseNode) -> str:
    """The title, from the metadata that models may see (``excluded_llm_metadata_keys`` is respected)."""
    hidden = set(node.excluded_llm_metadata_keys)
    for key in TITLE_KEYS:
        value = node.metadata.get(key)
        if key not in hidden and isinstance(value, str) and value:
            return value
    return ""


def passage_of(node: NodeWithScore, passage_id: str | None = None, text: str | None = None) -> Passage:
    """Convert a node to a passage.

    Flat metadata is kept, other values stay on the node. ``source`` (shown to people, never to models) is filled in
    from the file's name, ``start`` and ``end`` from the node's character indices where these fit its text; a piece of a
    passage that our reader read has its own.
    """
    inner = node.node
    content = own_text(inner) if text is None else text
    score = node.score if node.score is not None and math.isfinite(node.score) else None
    return Passage(passage_id or inner.node_id, content, title_of(inner), _metadata(inner, content), score)


def _metadata(node: BaseNode, text: str) -> dict[str, MetadataValue]:
    found: dict[str, MetadataValue] = {
        str(k): v for k, v in node.metadata.items() if v is None or isinstance(v, (str, int, float, bool))
    }
    if not found.get("source"):
        source = next((found[k] for k in SOURCE_KEYS if isinstance(found.get(k), str) and found[k]), None)
        if source is not None:
            found["source"] = source
    place = document_place(node)
    known = "start" in found or "end" in found
    if place is not None and place[1] - place[0] == len(text) and (not known or place == file_place(node)):
        found["start"], found["end"] = place
    return found


def document_place(node: BaseNode) -> tuple[int, int] | None:
    """Return the node's range in its document, if it is known and fits the text.

    Of what our reader or retrievers read, the document is the file's text, of which a LlamaIndex document is a part.
    """
    return file_place(node) or _parent_place(node)


def file_place(node: BaseNode) -> tuple[int, int] | None:
    """Return the node's range in its file's text, if our reader or retrievers read it."""
    within = _parent_place(node)
    return range_in_file(node.metadata, len(own_text(node)), within[0] if within is not None else None)


def _parent_place(node: BaseNode) -> tuple[int, int] | None:
    start, end = getattr(node, "start_char_idx", None), getattr(node, "end_char_idx", None)
    if not isinstance(start, int) or not isinstance(end, int) or end - start != len(own_text(node)):
        return None
    return start, end


def without_abstentions(nodes: Iterable[NodeWithScore]) -> list[NodeWithScore]:
    """Leave out nodes that are abstentions of ours, also as a sub-question's response: they are no evidence."""
    return [n for n in nodes if not is_abstention(own_text(n.node).rpartition("\nResponse: ")[2])]


def distinct(nodes: Sequence[NodeWithScore]) -> list[NodeWithScore]:
    """Leave out repetitions of a node: the same id with the same text."""
    found: dict[tuple[str, str], NodeWithScore] = {}
    for node in nodes:
        found.setdefault((node.node.node_id, own_text(node.node)), node)
    return list(found.values())


def node_of(passage: Passage) -> NodeWithScore:
    """A passage of one of our own retrievers as a node; its metadata is not shown to models, its title is."""
    metadata: dict[str, Any] = dict(passage.metadata)
    hidden = sorted(metadata)
    if passage.title:
        metadata["title"] = passage.title
        hidden = [k for k in hidden if k != "title"]
    node = TextNode(
        id_=passage.id,
        text=passage.text,
        metadata=metadata,
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=hidden,
    )
    return NodeWithScore(node=node, score=passage.score)


def annotate(node: NodeWithScore, score: float | None, notes: Mapping[str, MetadataValue]) -> NodeWithScore:
    """A copy with this score and these notes in its metadata, kept out of what models and embeddings see."""
    inner = node.node
    keys = list(notes)
    copy = inner.model_copy(
        update={
            "metadata": {**inner.metadata, **notes},
            "excluded_llm_metadata_keys": _with(inner.excluded_llm_metadata_keys, keys),
            "excluded_embed_metadata_keys": _with(inner.excluded_embed_metadata_keys, keys),
        }
    )
    return node.model_copy(update={"node": copy, "score": score})


def _with(keys: Sequence[str], more: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*keys, *more]))


class NodeBook:
    """The nodes that one question's passages stand for. Passage ids are node ids, made unique where these are not.

    Attributes:
        unread: nodes without text (images), by id.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, NodeWithScore] = {}
        self.unread: dict[str, NodeWithScore] = {}

    def enter(self, nodes: Iterable[NodeWithScore]) -> list[Passage]:
        """Passages of the nodes, in order; nodes without text, repetitions and our own abstentions are left out."""
        passages: dict[str, Passage] = {}
        for node in without_abstentions(nodes):
            text = own_text(node.node)
            if not text.strip():
                self.unread.setdefault(node.node.node_id, node)
                continue
            key = self._key(node.node.node_id, text)
            self._nodes.setdefault(key, node)
            passages.setdefault(key, passage_of(node, key, text))
        return list(passages.values())

    def _key(self, node_id: str, text: str) -> str:
        """The node's id; a number is added where another text already goes by it."""
        key, n = node_id, 1
        while key in self._nodes and own_text(self._nodes[key].node) != text:
            n += 1
            key = f"{node_id}#{n}"
        return key

    def node(self, passage_id: str) -> NodeWithScore:
        """The node of a passage; KeyError if there is none."""
        return self._nodes[passage_id]
