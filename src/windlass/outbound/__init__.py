"""How do we ask others? The one guarded HTTP client for addresses that come from outside (pushes to workers, callbacks,
downloads): nobody makes this server reach what only it can reach."""

from __future__ import annotations

from .client import Outbound, OutboundResponse
from .failures import AddressForbidden, InvalidRedirect, RequestFailed, ResponseTooLarge, TlsFailed, TruncatedBody
from .fetch import FetchRequest
from .policy import Policy, PolicySource, parse_policy
from .proxies import Proxy, parse_proxy
from .response import StreamedAnswer
from .urls import parse_http_url

__all__ = [
    "AddressForbidden",
    "FetchRequest",
    "InvalidRedirect",
    "Outbound",
    "OutboundResponse",
    "Policy",
    "PolicySource",
    "Proxy",
    "RequestFailed",
    "ResponseTooLarge",
    "StreamedAnswer",
    "TlsFailed",
    "TruncatedBody",
    "parse_http_url",
    "parse_policy",
    "parse_proxy",
]
