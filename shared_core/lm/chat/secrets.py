"""Keep secrets out of texts of providers and servers, which repeat the key that they refuse, and out of addresses."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from shared_core.errors import InputError
from shared_core.lm.chat.layout import without_halves
from shared_core.support.regex import lazy_regex

_SHORTEST, _SHORT = 3, 8
"""Shorter values than the first are not looked for, shorter ones than the second as whole words only."""

_NAME = lazy_regex(
    r"(?:^|[_\-])(?:api[_\-]?key|key|secret|password|passwd|authorization|credentials?|"
    r"(?:access|auth|api|bearer|hf|session|id|refresh)[_\-]?token)$|^token$",
    re.IGNORECASE,
)
_SHAPES = lazy_regex(
    # keys by their providers' prefixes; at least one digit, so that words with hyphens stay
    r"\b(?:sk|pk|rk|key|hf|gsk|xai|nvapi|r8|pplx|csk|ghp|glpat)[-_](?=[A-Za-z0-9_\-]*\d)[A-Za-z0-9_\-]{8,}"
    r"|\bAIza[A-Za-z0-9_\-]{20,}|\bA[KS]IA[A-Z0-9]{12,}"
    r"|\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]*"  # JSON web tokens
    r"|(?<=://)[^\s/@'\"]+(?=@)"  # credentials of an address
)
_NAMED = lazy_regex(
    r"((?:authorization|(?:x[-_])?(?:goog[-_])?api[-_ ]?key(?:\s+provided)?|access[-_]?token|auth[-_]?token|"
    r"client[-_]secret|aws_secret_access_key|password|signature|[?&](?:key|token|sig|code|secret))"
    r"['\"]?\s*[:=]\s*['\"]?(?:(?:bearer|basic|token)\s+)?)([^\s'\",;&)}\]]+)",
    re.IGNORECASE,
)
_SCHEME = lazy_regex(r"\b((?:bearer|basic)\s+)(?=\S*[0-9=])([A-Za-z0-9._~+/\-]{6,}=*)", re.IGNORECASE)
_HEADERS = ("default_headers", "headers", "extra_headers")
_HIDDEN = "***"


class Secrets:
    """Remover of secrets from text: given values in every form they may take, and what looks like a secret.

    Args:
        values: to be kept out; those shorter than 3 characters are not looked for.
    """

    def __init__(self, *values: str | None) -> None:
        forms: set[str] = set()
        for value in values:
            if value and len(value.strip()) >= _SHORTEST:
                forms |= {value, quote(value, safe=""), json.dumps(value)[1:-1]}
                forms.add(base64.b64encode(value.encode("utf-8", "replace")).decode())
        longest_first = sorted(forms, key=len, reverse=True)
        found = [rf"(?<!\w){re.escape(f)}(?!\w)" if len(f) < _SHORT else re.escape(f) for f in longest_first]
        self._pattern = re.compile("|".join(found)) if found else None

    @classmethod
    def of(cls, *clients: object) -> Secrets:
        """Collect the secrets that clients hold in fields such as ``api_key``, ``token``, ``default_headers``."""
        return cls(*(v for client in clients for v in _held(client)))

    def hide(self, text: str) -> str:
        """Replace each secret in ``text`` by ``***``."""
        if self._pattern is not None:
            text = self._pattern.sub(_HIDDEN, text)
        text = _SHAPES.sub(_HIDDEN, text)
        text = _NAMED.sub(rf"\1{_HIDDEN}", text)
        return _SCHEME.sub(rf"\1{_HIDDEN}", text)

    def strip(self, text: str, limit: int = 400) -> str:
        """Return ``text`` on one line without secrets (and what cannot be encoded), at most ``limit`` characters."""
        text = " ".join(without_halves(self.hide(text)).split())
        return text if len(text) <= limit else f"{text[:limit]}…"

    def hide_in(self, value: Any, depth: int = 8) -> Any:
        """Copy nested lists and mappings with secrets hidden in their texts; other values are unchanged."""
        if isinstance(value, str):
            return self.hide(value)
        if depth > 0 and type(value) is dict:
            return {k: _HIDDEN if _is_secret(k, v) else self.hide_in(v, depth - 1) for k, v in value.items()}
        if depth > 0 and type(value) in (list, tuple):
            return type(value)(self.hide_in(v, depth - 1) for v in value)
        return value


def _is_secret(name: object, value: object) -> bool:
    return isinstance(name, str) and isinstance(value, str) and _NAME.search(name) is not None


def _held(client: object) -> Iterator[str]:
    """Collect the values of an object's fields, and of mappings in them, that by name or type hold a secret."""
    fields: dict[str, Any] = {}
    for source in ("__dict__", "__pydantic_private__", "__pydantic_extra__"):
        found = getattr(client, source, None)
        if isinstance(found, Mapping):
            fields.update(found)
    for name, value in fields.items():
        inside = dict(value).items() if type(value) is dict else ()
        for key, held in ((name, value), *inside):
            revealed = _revealed(held)
            if revealed is not None:
                yield revealed
            elif isinstance(held, str) and (_NAME.search(str(key)) or name in _HEADERS):
                yield held.removeprefix("Bearer ")


def _revealed(value: object) -> str | None:
    """Reveal the value of pydantic's secret types."""
    reveal = getattr(type(value), "get_secret_value", None)
    if reveal is None:
        return None
    try:
        held = reveal(value)
    except Exception:  # somebody else's class of that shape
        return None
    return held if isinstance(held, str) else None


# --- addresses -------------------------------------------------------------------------------------------------------


def split_url(base_url: str) -> tuple[str, str, str, str | None]:
    """Split an address into the address without credentials, the user, the password and Azure's ``api-version``."""
    hint = "Give something like http://127.0.0.1:8000/v1."
    try:
        parts = urlsplit(base_url.strip())
        port = parts.port
    except (ValueError, AttributeError):
        raise InputError("base_url is not an address.", hint=hint) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError("base_url must begin with http:// or https:// and name a host.", hint=hint)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    version = query.pop("api-version", None)
    if query or parts.fragment or (parts.query and version is None):
        raise InputError(
            f"base_url of {parts.hostname} must hold no query but api-version, and no fragment: addresses end up in "
            "logs.",
            hint="Give secrets as api_key= or headers=.",
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/") or "/v1"
    url = urlunsplit((parts.scheme, f"{host}:{port}" if port else host, path, "", ""))
    return url, unquote(parts.username or ""), unquote(parts.password or ""), version


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def is_upgrade(old: tuple[str, str, int | None], new: tuple[str, str, int | None]) -> bool:
    """Return whether it is the same host over TLS."""
    return old == ("http", new[1], 80) and new == ("https", old[1], 443)
