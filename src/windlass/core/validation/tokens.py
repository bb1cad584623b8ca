"""What callers may give of tokens and of the audit log."""

from __future__ import annotations

from typing import Any

from windlass.core.access.audit import DETAIL_MAX, TARGET_MAX, WORD_MAX, AuditEntry
from windlass.core.access.tokens import NewToken, Role
from windlass.core.errors import BadInput, TooLarge

from . import jobs as check

TOKEN_NAME_MAX = 128
TOKEN_QUEUES_MAX = 32
TOKEN_RATE_MAX = 1_000_000
AUDIT_ENTRIES_MAX = 1000  # of one request


def token_name(name: Any) -> None:
    check.text("name", name, TOKEN_NAME_MAX)


def new_token(token: Any) -> None:
    check.instance("A token to create", token, NewToken)
    check.new_name("name", token.name, TOKEN_NAME_MAX)
    _roles(token.roles)
    queue_patterns(token.queues)
    if token.queues and Role.ADMIN in token.roles:
        raise BadInput("An admin may do everything, and make tokens for every queue: give an admin token no queues.")
    check.whole("rate", token.rate, 0, TOKEN_RATE_MAX)
    check.whole("expires_in_ms", token.expires_in_ms, 0, check.DURATION_MAX)
    check.text("note", token.note, check.NOTE_MAX, may_be_empty=True)


def _roles(roles: Any) -> None:
    if type(roles) is not frozenset or any(type(role) is not Role for role in roles):
        raise BadInput("roles must be a frozenset of Role.")
    if not roles:
        raise BadInput(f"A token needs at least one role: {', '.join(Role)}.")


def queue_patterns(queues: Any) -> None:
    if type(queues) is not tuple:
        raise BadInput("queues must be a tuple of patterns.")
    if len(queues) > TOKEN_QUEUES_MAX:
        raise TooLarge(f"A token may name {TOKEN_QUEUES_MAX} queues, not {len(queues)}; use patterns with *.")
    for pattern in queues:
        check.new_name("queue", pattern, check.QUEUE_MAX)
        if pattern.count("*") > check.WILDCARDS_MAX:
            raise TooLarge(f"A pattern may have {check.WILDCARDS_MAX} stars, not {pattern.count('*')}.")


def audit_entries(entries: Any) -> None:
    check.items("entries", entries)
    if len(entries) > AUDIT_ENTRIES_MAX:
        raise TooLarge(
            f"A request may bring {AUDIT_ENTRIES_MAX} entries, not {len(entries)}; send the rest in the next."
        )
    for entry in entries:
        check.instance("An entry", entry, AuditEntry)
        for field in ("who", "what", "outcome"):
            check.text(field, getattr(entry, field), WORD_MAX)
        check.text("peer", entry.peer, WORD_MAX, may_be_empty=True)
        check.opaque("target", entry.target, TARGET_MAX)
        check.opaque("detail", entry.detail, DETAIL_MAX)
