"""A scripted model that was trained for Self-RAG: what it says, with which verdicts, and what it was asked."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.base import Capabilities, Generate, Prompt, Sample
from shared_core.lm.scripted import ScriptedLM
from shared_core.reflection import REFLECTION_TOKENS, RELEASED_IDS, TOKEN_GROUPS, VERDICT_TOKENS
from shared_core.settings import SelfRagSettings, SelfReflectSettings
from shared_core.types import Passage
from tests.fakes import Fixed, published

TRAINED = Capabilities(
    token_logprobs=True, verdict_logprobs=True, next_verdicts=True, stop_tokens=True, token_prompts=True
)
QUESTION = "When was the lamp lit?"
NAMES = {i: t for t, i in RELEASED_IDS.items()}
SAME_GROUP = {t: group for group in TOKEN_GROUPS.values() for t in group}
_PIECES = re.compile("(" + "|".join(map(re.escape, REFLECTION_TOKENS)) + r"|[^\s\[<]+\s*|[\[<]|\s+)")
_WORDS: dict[str, int] = {}

Row = Mapping[str, float]


def ids_of(text: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Ids and tokens of a script; what stands between ``«`` and ``»`` is ordinary text whatever it says."""
    tokens: list[str] = []
    ids: list[int] = []
    for i, stretch in enumerate(re.split("[«»]", text)):
        pieces = [p for p in _PIECES.split(stretch) if p] if i % 2 == 0 else [stretch]
        for piece in pieces:
            control = RELEASED_IDS.get(piece) if i % 2 == 0 else None
            ids.append(control if control is not None else _WORDS.setdefault(piece, len(_WORDS) + 1))
            tokens.append(piece)
    return tuple(ids), tuple(tokens)


def said(text: str, *rows: Row, p: float = 0.9, words: float = 0.8) -> Sample:
    """A sample that says ``text``.

    Args:
        text: reflection tokens in it are control tokens.
        rows: distributions at its control tokens, in order; what is not given is ``p`` for the token itself and the
            rest for its group.
        p: see ``rows``.
        words: probability of every token.
    """
    ids, tokens = ids_of(text)
    given = list(rows)
    columns = np.full((len(ids), len(VERDICT_TOKENS)), -30.0)
    for at, token_id in enumerate(ids):
        name = NAMES.get(token_id)
        if name is None or name not in VERDICT_TOKENS:
            continue
        group = SAME_GROUP[name]
        row = given.pop(0) if given else {t: p if t == name else (1 - p) / (len(group) - 1) for t in group}
        for t, value in row.items():
            columns[at, VERDICT_TOKENS.index(t)] = math.log(value) if value > 0 else -math.inf
    logprobs = tuple(math.log(words) for _ in ids)
    return Sample(text.replace("«", "").replace("»", ""), ids, "eos", None, logprobs, tokens, columns)


def shown(prompt: Prompt) -> str:
    """A prompt as the model sees it: control tokens as they are, the same strings in untrusted text as ``⟨…⟩``."""
    by_id = {i: w for w, i in _WORDS.items()}
    parts = []
    for part in prompt.parts:
        if part.token_ids is not None:
            parts.append("".join(NAMES.get(i) or by_id[i] for i in part.token_ids))
        elif part.trusted:
            parts.append(part.text)
        else:
            text = part.text
            for token in REFLECTION_TOKENS:
                text = text.replace(token, f"⟨{token[1:-1]}⟩")
            parts.append(text)
    return "".join(parts)


def response(request: Generate) -> str:
    """What stands behind ``### Response:`` in a prompt."""
    return shown(request.prompt).partition("### Response:\n")[2]


def trained(reply: Callable[[str], Any], **more: Any) -> ScriptedLM:
    """A model with reflection tokens that replies to what stands behind ``### Response:``."""
    return ScriptedLM(lambda request: reply(response(request)), capabilities=TRAINED, token_ids=RELEASED_IDS, **more)


LAMP = Passage("lamp", "The lamp was lit in 1871. It burned whale oil.", "Lamps")
SHIP = Passage("ship", "The Marrow sailed under Ila Venn. She carried salt.", "Ships")


def made(target: float = 0.5, **self_rag: Any) -> SelfReflectSettings:
    return published(pipeline="self_rag", target_accuracy=target, self_rag=SelfRagSettings.upgrade(self_rag))


def engine(lm: Any, *passages: Passage, settings: SelfReflectSettings | None = None, **self_rag: Any) -> Any:
    return SelfReflectEngine(Fixed(*(passages or (LAMP, SHIP))), lm, settings or made(**self_rag))


GOOD = "[Relevant]The lamp was lit in 1871.[Fully supported][Utility:5]"
BAD = "[Irrelevant]Ships sail the sea.[No support / Contradictory][Utility:1]"


def by_passage(response: str) -> Sample:
    if not response:
        return said("[Retrieval]")
    return said(GOOD if "Lamps" in response else BAD)
