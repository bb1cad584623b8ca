"""Redirects: their target, and the headers that may be sent to it. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from yarl import URL

from windlass.core.errors import BadInput

from .failures import InvalidRedirect
from .urls import FETCHED_MAX, parse_http_url, split_credentials

REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Headers that describe the wanted answer and never the client. Any other header may be a secret, whatever its name, and
# is sent to the original site only.
_NOT_SECRET = frozenset(
    {"accept", "accept-encoding", "accept-language", "cache-control", "if-range", "pragma", "range", "user-agent"}
)


def redirect_target(current: URL, location: str) -> URL:
    """Return the target of a redirect. Raise InvalidRedirect if it is unusable."""
    try:
        # Servers often send a location that is not percent-encoded.
        target = current.join(URL(location)).with_fragment(None)
        return parse_http_url(split_credentials(str(target))[0], FETCHED_MAX)
    except (ValueError, BadInput) as error:
        raise InvalidRedirect(f"{current.origin()} redirects to an unusable URL: {error}") from error


def headers_after_redirect(target: URL, current: URL, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that may be sent to the target."""
    if _is_same_site(current, target):
        return dict(headers)
    return {name: value for name, value in headers.items() if name.lower() in _NOT_SECRET}


def _is_same_site(current: URL, target: URL) -> bool:
    """Tell whether the headers may follow. An upgrade from http to https on the same host is allowed."""
    if current.raw_host != target.raw_host:
        return False
    ports = (current.scheme, current.port), (target.scheme, target.port)
    return ports[0] == ports[1] or ports == (("http", 80), ("https", 443))
