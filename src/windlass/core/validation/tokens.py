"""Checks of tokens and audit entries."""

from __future__ import annotations

from typing import Any

from windlass.core.access.audit import DETAIL_MAX, TARGET_MAX, WORD_MAX, AuditEntry
from windlass.core.access.tokens import NewToken, Role
from windlass.core.errors import BadInput, TooLarge

from .bounds import DURATION_MAX, NOTE_MAX, QUEUE_MAX, WILDCARDS_MAX
from .values import check_free_text, check_instance, check_integer, check_list, check_new_name, check_text

TOKEN_NAME_MAX = 128
TOKEN_QUEUES_MAX = 32
TOKEN_RATE_MAX = 1_000_000
AUDIT_ENTRIES_MAX = 1000  # per request


def check_token_name(name: Any) -> None:
    check_text("name", name, TOKEN_NAME_MAX)


def check_new_token(token: Any) -> None:
    check_instance("A token to create", token, NewToken)
    check_new_name("name", token.name, TOKEN_NAME_MAX)
    _check_roles(token.roles)
    check_queue_patterns(token.queues)
    if token.queues and Role.ADMIN in token.roles:
        raise BadInput("An admin may do everything, including tokens for every queue: give an admin token no queues.")
    check_integer("rate", token.rate, 0, TOKEN_RATE_MAX)
    check_integer("expires_in_ms", token.expires_in_ms, 0, DURATION_MAX)
    check_text("note", token.note, NOTE_MAX, may_be_empty=True)


def _check_roles(roles: Any) -> None:
    if type(roles) is not frozenset or any(type(role) is not Role for role in roles):
        raise BadInput("roles must be a frozenset of Role.")
    if not roles:
        raise BadInput(f"A token needs at least one role: {', '.join(Role)}.")


def check_queue_patterns(queues: Any) -> None:
    if type(queues) is not tuple:
        raise BadInput("queues must be a tuple of patterns.")
    if len(queues) > TOKEN_QUEUES_MAX:
        raise TooLarge(f"A token may name {TOKEN_QUEUES_MAX} queues, not {len(queues)}; use patterns with *.")
    for pattern in queues:
        check_new_name("queue", pattern, QUEUE_MAX)
        if pattern.count("*") > WILDCARDS_MAX:
            raise TooLarge(f"A pattern may have {WILDCARDS_MAX} stars, not {pattern.count('*')}.")


def check_audit_entries(entries: Any) -> None:
    check_list("entries", entries)
    if len(entries) > AUDIT_ENTRIES_MAX:
        raise TooLarge(
            f"A request may contain {AUDIT_ENTRIES_MAX} entries, not {len(entries)}; send the others in another."
        )
    for entry in entries:
        check_instance("An entry", entry, AuditEntry)
        for field in ("who", "what", "outcome"):
            check_text(field, getattr(entry, field), WORD_MAX)
        check_text("peer", entry.peer, WORD_MAX, may_be_empty=True)
        check_free_text("target", entry.target, TARGET_MAX)
        check_free_text("detail", entry.detail, DETAIL_MAX)
