"""Shapes of the deployment: version, doctor, tokens and audit log."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.core.access.tokens import NewToken, Role, Token
from windlass.core.diagnosis import Diagnosis, Finding
from windlass.core.job import Durability
from windlass.core.validation.bounds import CURSOR_MAX, NOTE_MAX, PAGE_MAX
from windlass.core.validation.tokens import TOKEN_NAME_MAX, TOKEN_QUEUES_MAX, TOKEN_RATE_MAX

from .fields import Duration, Given, QueueName, Shape


class EngineShape(Given, frozen=True, kw_only=True):
    product: Annotated[str, Meta(description="redis or valkey.")]
    version: str
    is_embedded: Annotated[bool, Meta(description="Whether this server runs it.")]


class InfoShape(Given, frozen=True, kw_only=True):
    """What answers here."""

    version: str
    engine: EngineShape
    partitions: int
    durability: Annotated[Durability, Meta(description="Of jobs whose producer asks for none.")]
    now_ms: Annotated[int, Meta(description="The engine's time.")]


class DoctorShape(Shape, frozen=True, kw_only=True):
    repair: Annotated[bool, Meta(description="Put right what needs no judgement; jobs may flow meanwhile.")] = False


class FindingShape(Given, frozen=True, kw_only=True):
    """One thing that is not as it should be, however often it was met."""

    code: str
    severity: Annotated[str, Meta(description="error, warning or note.")]
    what: str
    risk: Annotated[str, Meta(description="If it stays so.")]
    remedy: Annotated[str, Meta(description="What to do.")]
    count: int
    repaired: int
    is_open: Annotated[bool, Meta(description="Whether something is left to do.")]
    examples: tuple[str, ...]


class DiagnosisShape(Given, frozen=True, kw_only=True):
    is_healthy: Annotated[bool, Meta(description="No error is open.")]
    findings: list[FindingShape]
    jobs: Annotated[int, Meta(description="Looked at.")]
    queues: int
    keys: int
    uncounted: Annotated[tuple[str, ...], Meta(description="Queues whose bytes could not be added up.")]


def _finding(one: Finding) -> FindingShape:
    return FindingShape(
        code=one.code,
        severity=one.severity.label,
        what=one.what,
        risk=one.risk,
        remedy=one.remedy,
        count=one.count,
        repaired=one.repaired,
        is_open=one.is_open,
        examples=one.examples,
    )


def _diagnosis(found: Diagnosis) -> DiagnosisShape:
    return DiagnosisShape(
        is_healthy=found.is_healthy,
        findings=[_finding(one) for one in found.findings],
        jobs=found.jobs,
        queues=found.queues,
        keys=found.keys,
        uncounted=found.uncounted,
    )


class NewTokenShape(Shape, frozen=True, kw_only=True):
    """A token to be made."""

    name: Annotated[str, Meta(min_length=1, max_length=TOKEN_NAME_MAX)]
    roles: Annotated[frozenset[Role], Meta(min_length=1)]
    queues: Annotated[
        tuple[QueueName, ...],
        Meta(max_length=TOKEN_QUEUES_MAX, description="Patterns with *; none: all queues."),
    ] = ()
    rate: Annotated[int, Meta(ge=0, le=TOKEN_RATE_MAX, description="Requests per second; 0: any number.")] = 0
    expires_in_ms: Duration = 0
    note: Annotated[str, Meta(max_length=NOTE_MAX, description="For people.")] = ""

    def new_token(self) -> NewToken:
        return NewToken(
            name=self.name,
            roles=self.roles,
            queues=self.queues,
            rate=self.rate,
            expires_in_ms=self.expires_in_ms,
            note=self.note,
        )


class TokenShape(Given, frozen=True, kw_only=True):
    """A token as it is kept: its text is not."""

    id: Annotated[str, Meta(description="The first part of its text.")]
    name: str
    roles: tuple[Role, ...]
    queues: tuple[str, ...]
    rate: int
    created_at_ms: int
    expires_at_ms: Annotated[int | None, Meta(description="null: never.")]
    note: str


class TokensShape(Given, frozen=True, kw_only=True):
    tokens: list[TokenShape]


class CreatedTokenShape(Given, frozen=True, kw_only=True):
    token: TokenShape
    text: Annotated[str, Meta(description="What its bearer shows. It is told this once.")]


def _token(token: Token) -> TokenShape:
    return TokenShape(
        id=token.id,
        name=token.name,
        roles=tuple(sorted(token.roles)),
        queues=token.queues,
        rate=token.rate,
        created_at_ms=token.created_at_ms,
        expires_at_ms=token.expires_at_ms or None,
        note=token.note,
    )


class AuditEntryShape(Given, frozen=True, kw_only=True):
    """What was asked that changes how the deployment behaves."""

    at_ms: int
    who: Annotated[str, Meta(description="The name of the token.")]
    what: Annotated[str, Meta(description="The id of the operation, as in this document.")]
    target: Annotated[str, Meta(description="What it was about, such as a queue.")]
    detail: str
    outcome: Annotated[str, Meta(description="done, or the code of the refusal.")]
    peer: Annotated[str, Meta(description="The address of the client.")]


class AuditPageShape(Given, frozen=True, kw_only=True):
    """Newest first."""

    entries: list[AuditEntryShape]
    cursor: Annotated[str, Meta(description="Of the next page; empty at the end.")]


class AuditQuery(Shape, frozen=True, kw_only=True):
    most: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 50
    cursor: Annotated[str, Meta(max_length=CURSOR_MAX)] = ""
