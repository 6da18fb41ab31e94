from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shared_core.evaluation.baselines import Plain
from shared_core.evaluation.compare.run_folder import describe
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.scripted import ScriptedLM
from shared_core.retrieval import BM25Retriever
from shared_core.types import Passage
from tests.fakes import FirstSentenceReader


def documents(*texts: str) -> BM25Retriever:
    retriever = BM25Retriever()
    retriever.add(Passage(f"p{i}", text) for i, text in enumerate(texts))
    return retriever


def engine(retriever: Any, lm: ScriptedLM | None = None) -> SelfReflectEngine:
    return SelfReflectEngine(retriever, lm, reader=FirstSentenceReader())


def test_documents_are_known_by_what_they_say() -> None:
    one = describe(engine(documents("The lamp was lit.", "It burned oil.")))
    assert one["documents"]["passages"] == 2
    assert one == describe(engine(documents("The lamp was lit.", "It burned oil.")))
    assert one["documents"] != describe(engine(documents("The lamp was lit.", "It burned gas.")))["documents"]
    json.dumps(one)


def checkpoint(parent: Path, weights: bytes = b"") -> ScriptedLM:
    """A model whose name is a folder ``mem`` with these weights, or without any."""
    folder = parent / "mem"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    if weights:
        (folder / "model.safetensors").write_bytes(weights)
    return ScriptedLM(name=str(folder))


def test_a_checkpoint_is_known_by_its_weights_and_not_by_its_path(tmp_path: Path) -> None:
    one, other = (describe(engine(documents("x"), checkpoint(tmp_path / name, b"1"))) for name in ("a", "b"))
    assert one == other
    changed = describe(engine(documents("x"), checkpoint(tmp_path / "b", b"2")))
    assert changed["models"]["default"]["identity"] != one["models"]["default"]["identity"]
    assert describe(engine(documents("x"), ScriptedLM(name="on a server")))["models"]["default"] == {
        "name": "on a server", "backend": "ScriptedLM", "identity": "on a server",
    }  # fmt: skip


def test_a_checkpoint_without_weights_of_its_own_is_known_by_its_name(tmp_path: Path) -> None:
    one, other = (describe(engine(documents("x"), checkpoint(tmp_path / parent))) for parent in ("a", "b"))
    assert one == other
    assert one["models"]["default"]["identity"] == "mem"


def test_a_model_in_memory_is_known_by_its_weights(tiny_model: Any, tiny_tokenizer: Any) -> None:
    import torch

    from shared_core.lm.transformers import TransformersLM

    lm = TransformersLM(copy.deepcopy(tiny_model), tiny_tokenizer, name="mine")

    def told() -> dict[str, Any]:
        return dict(describe(engine(documents("x"), lm))["models"]["default"])

    before = told()
    assert before == told()
    with torch.no_grad():
        lm.model.lm_head.weight[0, 0] += 1.0
    now = told()
    assert (now["name"], now["backend"]) == (before["name"], before["backend"])
    assert now["identity"] != before["identity"]


def test_what_is_shared_is_hashed_once() -> None:
    class Counting(BM25Retriever):
        listed = 0

        def ids(self) -> list[str]:
            Counting.listed += 1
            return super().ids()

    retriever = Counting()
    retriever.add([Passage("p", "The lamp was lit.")])
    ours = engine(retriever, ScriptedLM())
    known: dict[int, dict[str, Any]] = {}
    assert describe(ours, known)["documents"] == describe(Plain(ours), known)["documents"]
    assert Counting.listed == 1


def test_what_cannot_be_known_is_said_to_be_unknown() -> None:
    class Foreign:
        def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
            return []

    assert describe(engine(Foreign()))["documents"] == {"kind": "Foreign", "passages": None, "sha256": None}
    assert describe(object()) == {"kind": "builtins.object"}
