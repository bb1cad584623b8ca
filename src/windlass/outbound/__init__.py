"""How do we ask others? The one guarded HTTP client for addresses that come from outside (pushes to workers, later
callbacks): nobody makes this server reach what only it can reach."""

from __future__ import annotations

from .client import Answered, Outbound
from .failures import AddressForbidden, AnswerTooLarge, Unanswered
from .policy import Policy, read_policy
from .urls import checked_url

__all__ = [
    "AddressForbidden",
    "AnswerTooLarge",
    "Answered",
    "Outbound",
    "Policy",
    "Unanswered",
    "checked_url",
    "read_policy",
]
