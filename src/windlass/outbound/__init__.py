"""Guarded HTTP client for URLs from outside: pushes to workers, callbacks, downloads. It prevents that a caller makes
this server reach addresses that only the server can reach (SSRF)."""

from __future__ import annotations

from .client import Outbound, OutboundResponse
from .failures import AddressForbidden, InvalidRedirect, RequestFailed, ResponseTooLarge, TlsFailed, TruncatedBody
from .fetch import FetchRequest
from .policy import Policy, PolicySource, parse_policy
from .proxies import Proxy, parse_proxy
from .response import IncomingResponse
from .urls import parse_http_url

__all__ = [
    "AddressForbidden",
    "FetchRequest",
    "IncomingResponse",
    "InvalidRedirect",
    "Outbound",
    "OutboundResponse",
    "Policy",
    "PolicySource",
    "Proxy",
    "RequestFailed",
    "ResponseTooLarge",
    "TlsFailed",
    "TruncatedBody",
    "parse_http_url",
    "parse_policy",
    "parse_proxy",
]
