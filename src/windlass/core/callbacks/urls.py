"""Which texts are URLs that may be called? Only by their looks: where they lead is checked when they are dialled."""

from __future__ import annotations

from urllib.parse import urlsplit

URL_MAX = 2048


def is_http_url(text: str) -> bool:
    """http or https, with a host, percent-encoded."""
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_usable and text.isascii() and " " not in text


def is_base_url(text: str) -> bool:
    """One that paths can be appended to, and that carries no password into lists."""
    return is_http_url(text) and not any(mark in text for mark in "?#@\\")
