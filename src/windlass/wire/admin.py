"""Shapes of the deployment: version, engine, doctor, tokens, saved filters, audit log, export and import."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from windlass.core.access.tokens import NewToken, Role, Token
from windlass.core.diagnosis import Diagnosis, Finding, Severity
from windlass.core.durability import DurabilityInForce
from windlass.core.engine_state import EngineState
from windlass.core.export.import_report import ImportRefusal, ImportReport
from windlass.core.filters.saved_filter import FIELD_MAX, FILTER_NAME_MAX
from windlass.core.job import Durability
from windlass.core.validation.bounds import CURSOR_MAX, NOTE_MAX, PAGE_MAX
from windlass.core.validation.tokens import TOKEN_NAME_MAX, TOKEN_QUEUES_MAX, TOKEN_RATE_MAX

from .fields import Duration, QueueName
from .shape import RequestShape, ResponseShape

NDJSON = "application/x-ndjson"
_BY_KIND = "By kind of line."


class EngineShape(ResponseShape, frozen=True, kw_only=True):
    product: Annotated[str, Meta(description="redis or valkey.")]
    version: str
    is_embedded: Annotated[bool, Meta(description="Whether this server runs the engine.")]


class NamespaceFormatShape(ResponseShape, frozen=True, kw_only=True):
    """The lowest format that a program must know to use the data."""

    number: int
    needs_version: Annotated[str, Meta(description="The first version of Windlass that reads it; empty: any.")]
    known: Annotated[int, Meta(description="The highest format that this server reads.")]


class InfoShape(ResponseShape, frozen=True, kw_only=True):
    """The server, its engine and its settings."""

    version: str
    engine: EngineShape
    partitions: int
    durability: Annotated[Durability, Meta(description="The durability of jobs whose producer requests none.")]
    now_ms: Annotated[int, Meta(description="The engine's time.")]
    namespace_format: NamespaceFormatShape | None = None  # servers of version 0.1.0 do not tell it


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


class EngineNodeShape(ResponseShape, frozen=True, kw_only=True):
    """The state of one node of the engine."""

    product: Annotated[str, Meta(description="redis or valkey.")]
    version: str
    partitions: Annotated[tuple[int, ...], Meta(description="The partitions that it serves.")]
    round_trip_us: Annotated[int, Meta(description="Of one command from the server.")]
    uptime_ms: int
    memory: Annotated[int, Meta(description="Bytes in use.")]
    memory_peak: int
    memory_max: Annotated[int, Meta(description="0: bounded by the machine only.")]
    memory_system: Annotated[int, Meta(description="Of the machine; 0: unknown.")]
    log_bytes: Annotated[int, Meta(description="Size of the append-only file; 0: there is none.")]
    has_log: bool
    durability: DurabilityInForce
    fsync: Annotated[str, Meta(description="always, everysec or no; empty: unknown.")]
    is_rewriting: Annotated[bool, Meta(description="Whether the append-only file is being rewritten.")]
    saved_at_ms: Annotated[int, Meta(description="Time of the last snapshot.")]
    connections: int
    connections_max: int
    waiting: Annotated[int, Meta(description="Connections that are blocked in a waiting command.")]
    commands_per_second: int
    replicas: int
    clock_off_ms: Annotated[int, Meta(description="Difference to the clock of the server.")]
    findings: Annotated[tuple[FindingShape, ...], Meta(description="Risks in its settings.")]


class EngineNodesShape(ResponseShape, frozen=True, kw_only=True):
    nodes: list[EngineNodeShape]


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


def finding_of(shape: FindingShape) -> Finding:
    fields = {name: getattr(shape, name) for name in Finding.__struct_fields__}
    return Finding(**fields | {"severity": Severity[shape.severity.upper()]})


def engine_node_shape(state: EngineState) -> EngineNodeShape:
    fields = {name: getattr(state, name) for name in EngineState.__struct_fields__}
    return EngineNodeShape(**fields | {"findings": tuple(map(finding_shape, state.findings))})


def engine_state_of(shape: EngineNodeShape) -> EngineState:
    fields = {name: getattr(shape, name) for name in EngineState.__struct_fields__}
    return EngineState(**fields | {"findings": tuple(map(finding_of, shape.findings))})


def diagnosis_shape(diagnosis: Diagnosis) -> DiagnosisShape:
    return DiagnosisShape(
        is_healthy=diagnosis.is_healthy,
        findings=[finding_shape(finding) for finding in diagnosis.findings],
        jobs=diagnosis.jobs,
        queues=diagnosis.queues,
        keys=diagnosis.keys,
        uncounted=diagnosis.uncounted,
    )


def diagnosis_of(shape: DiagnosisShape) -> Diagnosis:
    return Diagnosis(
        findings=tuple(map(finding_of, shape.findings)),
        jobs=shape.jobs,
        queues=shape.queues,
        keys=shape.keys,
        uncounted=shape.uncounted,
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
    force: Annotated[bool, Meta(description="Also create a first token that is no admin token.")] = False

    def new_token(self) -> NewToken:
        return NewToken(
            name=self.name,
            roles=self.roles,
            queues=self.queues,
            rate=self.rate,
            expires_in_ms=self.expires_in_ms,
            note=self.note,
        )


class RevokeTokenQuery(RequestShape, frozen=True, kw_only=True):
    force: Annotated[bool, Meta(description="Also revoke the last admin token.")] = False


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


class ExportLineShape(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an export. Its other fields depend on its kind; a later version of Windlass reads them."""

    kind: Annotated[str, Meta(description="header, queue, limit, schedule, job, callback, flow, tombstone or end.")]


class ImportQuery(RequestShape, frozen=True, kw_only=True):
    line: Annotated[
        int, Meta(ge=1, le=2**53, description="The number of the first line in its file, for messages.")
    ] = 1


class ImportRefusalShape(ResponseShape, frozen=True, kw_only=True):
    """An entry that was not imported, because it conflicts with existing data."""

    line: int
    what: str
    code: str
    reason: str


class ImportReportShape(ResponseShape, frozen=True, kw_only=True):
    """Outcome of some lines of an export."""

    lines: int
    added: Annotated[dict[str, int], Meta(description=_BY_KIND)]
    existing: Annotated[dict[str, int], Meta(description=_BY_KIND)]
    refused: Annotated[dict[str, int], Meta(description=_BY_KIND)]
    reasons: Annotated[list[ImportRefusalShape], Meta(description="The first refusals.")]
    remade_ids: Annotated[int, Meta(description="Ids that were replaced, to fit the partitions of this deployment.")]


class CompletedImportShape(ResponseShape, frozen=True, kw_only=True):
    unknown_awaited: Annotated[int, Meta(description="Jobs that imported jobs wait for, and that do not exist.")]


def import_report_shape(report: ImportReport) -> ImportReportShape:
    return ImportReportShape(
        lines=report.lines,
        added=dict(report.added),
        existing=dict(report.existing),
        refused=dict(report.refused),
        reasons=[ImportRefusalShape(**msgspec.structs.asdict(reason)) for reason in report.reasons],
        remade_ids=report.remade_ids,
    )


def import_report_of(shape: ImportReportShape) -> ImportReport:
    return ImportReport(
        added=Counter(shape.added),
        existing=Counter(shape.existing),
        refused=Counter(shape.refused),
        reasons=[ImportRefusal(**msgspec.structs.asdict(reason)) for reason in shape.reasons],
        remade_ids=shape.remade_ids,
        lines=shape.lines,
    )
