"""Self-RAG's reflection tokens: the fifteen, their groups, their ids in a model, and text freed of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from shared_core.errors import InputError
from shared_core.support.regex import lazy_regex

NO_RETRIEVAL, RETRIEVAL, CONTINUE = "[No Retrieval]", "[Retrieval]", "[Continue to Use Evidence]"
IRRELEVANT, RELEVANT = "[Irrelevant]", "[Relevant]"
PARAGRAPH_START, PARAGRAPH_END = "<paragraph>", "</paragraph>"
FULLY_SUPPORTED, PARTIALLY_SUPPORTED = "[Fully supported]", "[Partially supported]"
NO_SUPPORT = "[No support / Contradictory]"

RETRIEVAL_TOKENS = (NO_RETRIEVAL, RETRIEVAL, CONTINUE)
RELEVANCE_TOKENS = (IRRELEVANT, RELEVANT)
PARAGRAPH_TOKENS = (PARAGRAPH_START, PARAGRAPH_END)
UTILITY_TOKENS = tuple(f"[Utility:{i}]" for i in range(1, 6))
SUPPORT_TOKENS = (FULLY_SUPPORTED, PARTIALLY_SUPPORTED, NO_SUPPORT)

REFLECTION_TOKENS = RETRIEVAL_TOKENS + RELEVANCE_TOKENS + PARAGRAPH_TOKENS + UTILITY_TOKENS + SUPPORT_TOKENS
"""All fifteen, in the order of the released checkpoints' ids."""

TOKEN_GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "retrieval": RETRIEVAL_TOKENS,
        "relevance": RELEVANCE_TOKENS,
        "paragraph": PARAGRAPH_TOKENS,
        "utility": UTILITY_TOKENS,
        "support": SUPPORT_TOKENS,
    }
)

RELEASED_IDS: Mapping[str, int] = MappingProxyType({t: 32_000 + i for i, t in enumerate(REFLECTION_TOKENS)})
"""Ids in the released 7B and 13B checkpoints."""

_ENDS = ("</s>", "<s>", "<pad>", "<unk>", "<|endoftext|>")
_EVIDENCE = lazy_regex(r"<paragraph>.*?</paragraph>", re.DOTALL)
_CONTROL = lazy_regex("|".join(re.escape(t) for t in (*REFLECTION_TOKENS, *_ENDS)))
_BEFORE_MARK = lazy_regex(rf"[ \t]*(?:{_CONTROL.pattern})(?=[.,;:!?)])")


def reflection_ids(vocabulary: Mapping[str, int]) -> dict[str, int]:
    """The id of each reflection token in a model's vocabulary.

    InputError if one is missing, or two share an id: the model was not trained for Self-RAG.
    """
    ids = {t: vocabulary[t] for t in REFLECTION_TOKENS if t in vocabulary}
    missing = [t for t in REFLECTION_TOKENS if t not in ids]
    if missing or len(set(ids.values())) < len(ids):
        what = f"lacks {', '.join(missing)}" if missing else "gives two of them one id"
        raise InputError(
            f"The vocabulary has not all reflection tokens: it {what}.",
            hint="Use a checkpoint trained for Self-RAG, or the prompted critic.",
        )
    return ids


def strip_reflection_tokens(text: str) -> str:
    """``text`` as a reader should see it: without evidence paragraphs, reflection tokens and end-of-text marks.

    All fifteen tokens go, ``[Continue to Use Evidence]`` among them, and also those that appear only once others are
    taken out. Where a token stood between words a blank is left; runs of blanks become one.
    """
    while True:
        shorter = _CONTROL.sub(" ", _BEFORE_MARK.sub("", _EVIDENCE.sub(" ", text)))
        shorter = re.sub(r"[ \t]+", " ", shorter)
        if shorter == text:
            return "\n".join(line.strip() for line in text.strip().split("\n"))
        text = shorter
