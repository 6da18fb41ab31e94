"""Uncertainty: estimators over samples, their registry, semantic clusters, tentative queries.

Pure functions: arrays in, float out; higher = more uncertain; what is unknown (NaN, nothing to go by) is +inf.
"""

from __future__ import annotations

from typing import Any

from shared_core.support.moved import moved_name
from shared_core.uncertainty.estimators import (
    ESTIMATORS,
    FALLBACK_ORDER,
    Cost,
    Estimator,
    Need,
    SampleStatistics,
    best_available,
    get_estimator,
)
from shared_core.uncertainty.hidden import eigenscore, gram_uncertainty, normalized_gram
from shared_core.uncertainty.query import (
    Trigger,
    Word,
    certain_words,
    dragin_query,
    dragin_trigger,
    flare_triggered,
    is_content_word,
    masked_query,
    pieces_of,
    seakr_query,
    word_attention,
    word_means,
    words_of,
)
from shared_core.uncertainty.semantic import (
    PairPlan,
    cluster_by_entailment,
    cluster_by_similarity,
    degree_matrix,
    discrete_semantic_entropy,
    eccentricity,
    eigenvalue_laplacian,
    greedy_clusters,
    kle_heat,
    kle_matern,
    number_of_semantic_sets,
    plan_pairs,
    semantic_entropy,
    von_neumann_entropy,
)
from shared_core.uncertainty.text import (
    answer_lead,
    choose_answer,
    final_answer,
    is_answer,
    lexical_similarity,
    parse_probability,
    rationale_uncertainty,
    rouge_similarity,
    sufficiency_uncertainty,
    verbalised_uncertainty,
)
from shared_core.uncertainty.tokens import (
    CONTRADICTS,
    ENTAILS,
    NEUTRAL,
    claim_conditioned_probability,
    claim_uncertainties,
    cocoa,
    cocoa_msp,
    cocoa_mte,
    cocoa_ppl,
    dragin,
    dragin_scores,
    energy,
    length_normalized_entropy,
    max_sequence_probability,
    mean_negative_log_likelihood,
    mean_token_entropy,
    min_token_probability,
    monte_carlo_entropy,
    multi_perplexity,
    p_true,
    perplexity,
    rauq,
    semantic_density,
    token_ccp,
)

__all__ = [
    "CONTRADICTS", "ENTAILS", "ESTIMATORS", "FALLBACK_ORDER", "NEUTRAL", "Cost", "Estimator", "Need", "PairPlan",
    "SampleStatistics", "Trigger", "Word", "answer_lead", "best_available", "certain_words", "choose_answer",
    "claim_conditioned_probability", "claim_uncertainties", "cluster_by_entailment", "cluster_by_similarity",
    "cocoa", "cocoa_msp", "cocoa_mte", "cocoa_ppl", "degree_matrix", "discrete_semantic_entropy", "dragin",
    "dragin_query", "dragin_scores", "dragin_trigger", "eccentricity", "eigenscore", "eigenvalue_laplacian",
    "energy", "final_answer", "flare_triggered", "get_estimator", "gram_uncertainty", "greedy_clusters",
    "is_answer", "is_content_word", "kle_heat", "kle_matern", "length_normalized_entropy", "lexical_similarity",
    "masked_query", "max_sequence_probability", "mean_negative_log_likelihood", "mean_token_entropy",
    "min_token_probability", "monte_carlo_entropy", "multi_perplexity", "normalized_gram",
    "number_of_semantic_sets", "p_true", "parse_probability", "perplexity", "pieces_of", "plan_pairs",
    "rationale_uncertainty", "rauq", "rouge_similarity", "seakr_query", "semantic_density",
    "semantic_entropy", "sufficiency_uncertainty", "token_ccp", "verbalised_uncertainty", "von_neumann_entropy",
    "word_attention", "word_means", "words_of",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    return moved_name(__name__, name)
