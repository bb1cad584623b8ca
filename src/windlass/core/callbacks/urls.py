"""Syntax checks of URLs. The addresses that they resolve to are checked when a connection is made."""

from __future__ import annotations

from urllib.parse import urlsplit

URL_MAX = 2048


def is_http_url(text: str) -> bool:
    """Return whether a text is an http or https URL with a host, percent-encoded."""
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_usable and text.isascii() and " " not in text


def is_base_url(text: str) -> bool:
    """Return whether paths can be appended to a URL. URLs with credentials are refused: they would appear in lists."""
    return is_http_url(text) and not any(char in text for char in "?#@\\")
