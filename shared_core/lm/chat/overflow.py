"""Recognise context overflows, with their figures, in the error texts of all known providers.

The figures are looked for by what stands around them, each wording in one pattern with the groups ``needed`` (all
tokens), ``given`` (the prompt's), ``new`` (those to generate), ``available`` and ``excess``. Where a text speaks of the
context without figures, the overflow is one without figures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import resources

from shared_core.errors import ContextOverflowError
from shared_core.lm.chat.reply import read_count
from shared_core.support.regex import lazy_regex

_LONGEST = 4000
"""Characters of a refusal that are looked at."""


_MAXIMUM = r"maximum (?:context|model) length (?:is|of) {available} tokens?"


def _wording(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which ``{name}`` matches a number under that name."""
    pattern = pattern.replace("{MAXIMUM}", _MAXIMUM)
    named = re.sub(r"\{([a-z]+)\}", lambda m: rf"(?P<{m[1]}>\d[\d,_]*)", pattern)
    return lazy_regex(named, re.IGNORECASE | re.DOTALL)


_WORDINGS = resources.files("shared_core.lm.chat").joinpath("overflows.txt").read_text("utf-8").splitlines()
_FIGURES = tuple(_wording(line) for line in _WORDINGS if not line.startswith("#"))

_AVAILABLE = _wording(
    r"(?:maximum (?:context|model) length (?:is|of) |max_model_len ?= ?|context (?:size|length|window) (?:of |\()|"
    r"max size: ){available}"
)
_ABOUT = lazy_regex(
    r"context[_ ](?:length|window)[_ ]?(?:limit[_ ])?(?:was )?exceed|exceed\w*[_ ]context|"
    r"(?:exceed\w*|longer than|larger than|greater than|overflow\w*|not enough|does(?: not|n't) fit)[^.]{0,60}"
    r"\bcontext (?:length|window|size|limit)|context (?:length|window|size)[^.]{0,30}(?:exceed|overflow|too small)|"
    r"maximum context length|max_model_len|(?:prompt|input|request body|messages) (?:is|are) too (?:long|large)|"
    r"reduce the length of (?:the|your) (?:messages|prompt|input|completion)|too many (?:input |prompt )?tokens|"
    r"tokens? limit (?:reached|exceeded)|tokens_limit_reached|exceeds the maximum number of tokens|"
    r"(?:input|prompt) length[^.]{0,30}exceeds|request body too large|maximum prompt length|string_above_max_length|"
    r"request entity too large|request_too_large|payload too large|exceeds the maximum size",
    re.IGNORECASE,
)
# Limits of another kind that name tokens too: of a rate, and of what one reply may have.
_OTHER = lazy_regex(
    r"tokens[- ]per[- ](?:minute|min|day|hour)|\bTPM\b|\bTPD\b|rate[_ ]?limit|quota|"
    r"supports at most \d+ completion tokens",
    re.IGNORECASE,
)


def context_overflow(body: object) -> ContextOverflowError | None:
    """Parse a context-overflow error from a provider's reply; ``None`` if it is some other error.

    Args:
        body: what the provider answered (parsed JSON, or text).
    """
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    text = detail(body)
    if isinstance(inner, Mapping):
        needed, available = read_count(inner.get("n_prompt_tokens")), read_count(inner.get("n_ctx"))
        if needed > available > 0:  # llama.cpp
            return ContextOverflowError(needed, available)
        text = " ".join((text, *(k for k in (inner.get("code"), inner.get("type")) if isinstance(k, str))))
    text = text[:_LONGEST]
    if _OTHER.search(text):
        return None
    for wording in _FIGURES:
        found = wording.search(text)
        if found is not None:
            overflow = _of_figures(found.groupdict())
            if overflow is not None:
                return overflow
    if not _ABOUT.search(text):
        return None
    limit = _AVAILABLE.search(text)
    return ContextOverflowError(None, _parsed(limit["available"]) if limit else None, said=text.strip()[:200])


def detail(body: object) -> str:
    """Extract a server's error text from any of the shapes in use."""
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if isinstance(inner, Mapping):
            return _shown(inner.get("message") or inner.get("detail") or inner)
        return _shown(inner)
    return _shown(body or "no explanation")


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):
        return "an explanation that cannot be read"


def _of_figures(figures: Mapping[str, str | None]) -> ContextOverflowError | None:
    numbers = {k: _parsed(v) for k, v in figures.items() if v}
    available = numbers.get("available")
    if "excess" in numbers and available is not None:
        return ContextOverflowError(available + numbers["excess"], available)
    needed = numbers.get("needed") or numbers.get("given", 0) + numbers.get("new", 0)
    if available is None or not needed > available:
        return None
    return ContextOverflowError(needed, available)


def _parsed(number: str) -> int:
    return int(re.sub(r"\D", "", number)[:12])
