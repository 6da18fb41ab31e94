"""Which texts the reader can judge: English ones, as far as can be told."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

from shared_core.errors import MissingDependencyError

_ENGLISH = frozenset({"en", "pcm", "sco", "jam"})  # and languages written so much alike that they are taken for it
_SURE = 0.12
"""Probability from which another language counts. Key words and names get less: "default port" .04, "gzip -6" .09, but
"Onde fica Lisboa?" .17 and "Wer war Mozart?" .31."""
_lock = threading.Lock()


@lru_cache(maxsize=4096)
def is_english(text: str) -> bool:
    """Whether ``text`` may be English; true for what no language can be told of (names, key words, numbers, code).

    By py3langid (Lui & Baldwin, ACL 2012), over its first 1,000 characters.

    Raises:
        MissingDependencyError: py3langid is not installed.
    """
    if not any(c.isalpha() for c in text):
        return True
    with _lock:
        language, probability = _identifier().classify(text[:1000].lower())
    return language in _ENGLISH or float(probability) < _SURE


@lru_cache(maxsize=1)
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise MissingDependencyError("py3langid", extra="offline", purpose="Telling languages apart") from error
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
