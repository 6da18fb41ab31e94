"""The names that others build on are there, and a package exports what its ``__all__`` says."""

from __future__ import annotations

import importlib
import inspect

import pytest

FIXED = {
    "shared_core": "SelfReflectEngine SelfReflectSettings Passage Answer Claim Citation Span",
    "shared_core.uncertainty": "gram_uncertainty eigenscore perplexity length_normalized_entropy semantic_entropy "
    "lexical_similarity degree_matrix eigenvalue_laplacian eccentricity",
    "shared_core.reflection": "REFLECTION_TOKENS retrieval_probability relevance_score support_score "
    "usefulness_score critique_score",
    "shared_core.citation": "split_sentences CitationIndex align_quote",
    "shared_core.abstention": "penalty expected_utility select_answer conformal_factuality_threshold "
    "risk_control_threshold",
    "shared_core.evaluation": "exact_match f1 str_em alce_citation_scores reclaim_citation_scores consistency_ratio "
    "attribution_ratio auroc aurc prediction_rejection_ratio expected_calibration_error",
    "shared_core.retrieval": "BM25Retriever ChromaRetriever HybridRetriever",
    "shared_core.documents": "DocumentIndex",
    "shared_core.reading": "ExtractiveReader CriticSupportScorer CrossEncoderSupportScorer",
    "shared_core.lab": "World load_lab_model",
    "shared_core.lm": "LanguageModel ScriptedLM TransformersLM OpenAICompatibleLM VLLM Prompt SamplingParams",
    "llamaindex_selfreflect": "SelfReflectQueryEngine SelfReflectCitationQueryEngine SelfReflectRerank "
    "SelfReflectRetriever SelfReflectChecker",
    "langchain_selfreflect": "SelfReflectChain SelfReflectRetriever SelfReflectCompressor SelfReflectChecker",
}
ENGINE = "answer aanswer stream astream answer_many aanswer_many check acheck check_many acheck_many"


@pytest.mark.parametrize("module", sorted(FIXED))
def test_the_fixed_names_are_there_and_exported(module: str) -> None:
    loaded = importlib.import_module(module)
    for name in FIXED[module].split():
        assert getattr(loaded, name) is not None
        assert name in loaded.__all__


@pytest.mark.parametrize("module", sorted(FIXED))
def test_all_that_is_exported_exists(module: str) -> None:
    loaded = importlib.import_module(module)
    assert len(set(loaded.__all__)) == len(loaded.__all__)
    for name in loaded.__all__:
        getattr(loaded, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing_of_the_kind'"):
        loaded.nothing_of_the_kind  # noqa: B018


def test_the_engine_keeps_its_doors() -> None:
    from shared_core import SelfReflectEngine

    assert list(inspect.signature(SelfReflectEngine).parameters)[:3] == ["retriever", "lm", "settings"]
    for name in ENGINE.split():
        assert callable(getattr(SelfReflectEngine, name))
