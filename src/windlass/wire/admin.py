"""Shapes of the deployment: version, doctor, tokens, saved filters and audit log."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from windlass.core.access.tokens import NewToken, Role, Token
from windlass.core.diagnosis import Diagnosis, Finding
from windlass.core.filters.saved_filter import FIELD_MAX, FILTER_NAME_MAX
from windlass.core.job import Durability
from windlass.core.validation.bounds import CURSOR_MAX, NOTE_MAX, PAGE_MAX
from windlass.core.validation.tokens import TOKEN_NAME_MAX, TOKEN_QUEUES_MAX, TOKEN_RATE_MAX

from .fields import Duration, QueueName
from .shape import RequestShape, ResponseShape


class EngineShape(ResponseShape, frozen=True, kw_only=True):
    product: Annotated[str, Meta(description="redis or valkey.")]
    version: str
    is_embedded: Annotated[bool, Meta(description="Whether this server runs the engine.")]


class InfoShape(ResponseShape, frozen=True, kw_only=True):
    """The server, its engine and its settings."""

    version: str
    engine: EngineShape
    partitions: int
    durability: Annotated[Durability, Meta(description="The durability of jobs whose producer requests none.")]
    now_ms: Annotated[int, Meta(description="The engine's time.")]


class DoctorShape(RequestShape, frozen=True, kw_only=True):
    repair: Annotated[
        bool, Meta(description="Repair problems that need no decision. Jobs may run at the same time.")
    ] = False


class FindingShape(ResponseShape, frozen=True, kw_only=True):
    """A kind of problem, with the number of its occurrences."""

    code: str
    severity: Annotated[str, Meta(description="error, warning or note.")]
    what: str
    risk: Annotated[str, Meta(description="The risk if the problem stays.")]
    remedy: Annotated[str, Meta(description="How to solve it.")]
    count: int
    repaired: int
    is_open: Annotated[bool, Meta(description="Whether some occurrences are not repaired.")]
    examples: tuple[str, ...]


class DiagnosisShape(ResponseShape, frozen=True, kw_only=True):
    is_healthy: Annotated[bool, Meta(description="True if no error is open.")]
    findings: list[FindingShape]
    jobs: Annotated[int, Meta(description="Jobs that were examined.")]
    queues: int
    keys: int
    uncounted: Annotated[tuple[str, ...], Meta(description="Queues whose bytes could not be added up.")]


def finding_shape(finding: Finding) -> FindingShape:
    return FindingShape(
        code=finding.code,
        severity=finding.severity.label,
        what=finding.what,
        risk=finding.risk,
        remedy=finding.remedy,
        count=finding.count,
        repaired=finding.repaired,
        is_open=finding.is_open,
        examples=finding.examples,
    )


def diagnosis_shape(diagnosis: Diagnosis) -> DiagnosisShape:
    return DiagnosisShape(
        is_healthy=diagnosis.is_healthy,
        findings=[finding_shape(finding) for finding in diagnosis.findings],
        jobs=diagnosis.jobs,
        queues=diagnosis.queues,
        keys=diagnosis.keys,
        uncounted=diagnosis.uncounted,
    )


class NewTokenShape(RequestShape, frozen=True, kw_only=True):
    """A token to create."""

    name: Annotated[str, Meta(min_length=1, max_length=TOKEN_NAME_MAX)]
    roles: Annotated[frozenset[Role], Meta(min_length=1)]
    queues: Annotated[
        tuple[QueueName, ...],
        Meta(max_length=TOKEN_QUEUES_MAX, description="Queue names or patterns with *; none: all queues."),
    ] = ()
    rate: Annotated[int, Meta(ge=0, le=TOKEN_RATE_MAX, description="Requests per second; 0: no limit.")] = 0
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


class TokenShape(ResponseShape, frozen=True, kw_only=True):
    """A stored token. Its text is not stored."""

    id: Annotated[str, Meta(description="The first part of the token's text.")]
    name: str
    roles: tuple[Role, ...]
    queues: tuple[str, ...]
    rate: int
    created_at_ms: int
    expires_at_ms: Annotated[int | None, Meta(description="null: never.")]
    note: str


class TokensShape(ResponseShape, frozen=True, kw_only=True):
    tokens: list[TokenShape]


class CreatedTokenShape(ResponseShape, frozen=True, kw_only=True):
    token: TokenShape
    text: Annotated[str, Meta(description="The secret that clients send. Only this response contains it.")]


def token_shape(token: Token) -> TokenShape:
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


FilterPage: TypeAlias = Literal["jobs", "flows", "failures", "signals", "audit"]
FilterField: TypeAlias = Annotated[str, Meta(min_length=1, max_length=FIELD_MAX)]
FilterFields: TypeAlias = Annotated[
    dict[str, FilterField],
    Meta(
        description="Filters as in the address of the page: for jobs `state`, `queue`, `name`, `tag`, `error`, "
        "`shape`, `since`, `before`, `order`; for flows `state`, `name`; for failures `queue`; for signals `queue`, "
        "`signal`; for audit `q`."
    ),
]


class SaveFilterShape(RequestShape, frozen=True, kw_only=True):
    page: Annotated[FilterPage, Meta(description="Page of the dashboard.")]
    fields: FilterFields
    former: Annotated[
        str,
        Meta(
            max_length=FILTER_NAME_MAX, description="Name until now: the filter is renamed. Empty: it is not renamed."
        ),
    ] = ""


class SavedFilterShape(ResponseShape, frozen=True, kw_only=True):
    """Filters of a page, saved under a name."""

    name: str
    page: str
    fields: dict[str, str]


class SavedFiltersShape(ResponseShape, frozen=True, kw_only=True):
    filters: list[SavedFilterShape]


class AuditEntryShape(ResponseShape, frozen=True, kw_only=True):
    """A request that changes how the deployment behaves."""

    at_ms: int
    who: Annotated[str, Meta(description="The name of the token.")]
    what: Annotated[str, Meta(description="The id of the operation, as in this document.")]
    target: Annotated[str, Meta(description="The object of the request, such as a queue.")]
    detail: str
    outcome: Annotated[str, Meta(description="done, or the code of the refusal.")]
    peer: Annotated[str, Meta(description="The address of the client.")]


class AuditPageShape(ResponseShape, frozen=True, kw_only=True):
    """Audit entries, newest first."""

    entries: list[AuditEntryShape]
    cursor: Annotated[str, Meta(description="The cursor of the next page; empty on the last page.")]


class ListAuditQuery(RequestShape, frozen=True, kw_only=True):
    most: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 50
    cursor: Annotated[str, Meta(max_length=CURSOR_MAX)] = ""
