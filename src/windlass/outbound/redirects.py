"""Where a redirect leads, and what goes there with it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from yarl import URL

from windlass.core.errors import BadInput

from .failures import InvalidRedirect
from .urls import FETCHED_MAX, parse_http_url, split_credentials

REDIRECTS = frozenset({301, 302, 303, 307, 308})
# What says how an answer should look, never who asks. Everything else may be a secret of the one who gave it, whatever
# it is called, and stays with the site that it was given for.
_NOT_SECRET = frozenset(
    {"accept", "accept-encoding", "accept-language", "cache-control", "pragma", "range", "user-agent"}
)


def redirect_target(current: URL, location: str) -> URL:
    """AstrayRedirect: nobody can go there."""
    try:
        # What servers send is often not percent-encoded.
        target = current.join(URL(location)).with_fragment(None)
        return parse_http_url(split_credentials(str(target))[0], FETCHED_MAX)
    except (ValueError, BadInput) as error:
        raise InvalidRedirect(f"{current.origin()} redirects to where nobody can go: {error}") from error


def headers_after_redirect(target: URL, current: URL, headers: Mapping[str, str]) -> dict[str, str]:
    """What may go on from one address to the next."""
    if _is_same_site(current, target):
        return dict(headers)
    return {name: value for name, value in headers.items() if name.lower() in _NOT_SECRET}


def _is_same_site(current: URL, target: URL) -> bool:
    """The step from http to https of one host is one towards more secrecy."""
    if current.raw_host != target.raw_host:
        return False
    ports = (current.scheme, current.port), (target.scheme, target.port)
    return ports[0] == ports[1] or ports == (("http", 80), ("https", 443))
