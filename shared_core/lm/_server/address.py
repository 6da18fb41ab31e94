"""Addresses of servers, and how long they ask to be left alone."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit, urlunsplit

from shared_core.errors import InputError


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to be left alone; ``None`` if it does not, or not readably."""
    from email.utils import parsedate_to_datetime

    value = headers.get("retry-after-ms") or ""
    try:
        if value:
            return max(0.0, float(value) / 1000)
        value = headers.get("retry-after") or ""
        if not value:
            return None
        try:
            seconds = float(value)
        except ValueError:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def split_url(base_url: str) -> tuple[str, str, str]:
    """Split an address into the address without credentials, the user and the password."""
    hint = "Give something like http://127.0.0.1:8000/v1."
    try:
        parts = urlsplit(base_url.strip())
        port = parts.port
    except (ValueError, AttributeError):
        raise InputError("base_url is not an address.", hint=hint) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError("base_url must begin with http:// or https:// and name a host.", hint=hint)
    if parts.query or parts.fragment:
        raise InputError(
            f"base_url of {parts.hostname} must not hold a query or fragment: addresses end up in logs.",
            hint="Give secrets as api_key= or headers=.",
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/") or "/v1"
    url = urlunsplit((parts.scheme, f"{host}:{port}" if port else host, path, "", ""))
    return url, unquote(parts.username or ""), unquote(parts.password or "")


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def is_upgrade(old: tuple[str, str, int | None], new: tuple[str, str, int | None]) -> bool:
    """Return whether it is the same host over TLS."""
    return old == ("http", new[1], 80) and new == ("https", old[1], 443)
