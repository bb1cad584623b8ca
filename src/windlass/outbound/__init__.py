"""How do we ask others? The one guarded HTTP client for addresses that come from outside (pushes to workers, callbacks,
downloads): nobody makes this server reach what only it can reach."""

from __future__ import annotations

from .client import Answered, Outbound
from .failures import AddressForbidden, AnswerTooLarge, AstrayRedirect, CutShort, TlsFailed, Unanswered
from .fetch import Wanted
from .policy import Policy, PolicySource, read_policy
from .proxies import Proxy, read_proxy
from .response import Incoming
from .urls import checked_url

__all__ = [
    "AddressForbidden",
    "AnswerTooLarge",
    "Answered",
    "AstrayRedirect",
    "CutShort",
    "Incoming",
    "Outbound",
    "Policy",
    "PolicySource",
    "Proxy",
    "TlsFailed",
    "Unanswered",
    "Wanted",
    "checked_url",
    "read_policy",
    "read_proxy",
]
