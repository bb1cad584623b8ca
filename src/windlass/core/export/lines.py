"""Line format of an export: one JSON object per line, and its encoding. The store and the service do the I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from windlass.core.alerts.incident import AlertState
from windlass.core.alerts.rule import AlertRule
from windlass.core.durable import (
    CHILDREN_MAX,
    SIGNAL_NAME_MAX,
    SIGNALS_MAX,
    STEP_NAME_MAX,
    STEPS_MAX,
    STREAM_VALUES_MAX,
)
from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import Callback, OnFailure
from windlass.core.limits.limit import Limit
from windlass.core.log import LINES_KEPT
from windlass.core.namespace.format import FIRST, KNOWN, refusal_of_export
from windlass.core.retry import ENDLESS, Backoff
from windlass.core.scheduling.schedule import Schedule
from windlass.core.text.durations import INSTANT_MAX
from windlass.core.validation.bounds import INT32_MAX, INT32_MIN, MIB, UINT32_MAX, WHOLE_MAX

from .backup_point import BackupPoint
from .blobs import EncodedBlob

FORMAT = "windlass-export"
VERSION = 1
LINE_MAX = 16 * MIB  # more than a job with the largest payload, result and errors needs
ATTEMPTS_MAX = 20
JOBS_REMEMBERED = 20  # by a schedule
REASON_CHARS_MAX = 65_536  # of texts from other systems, which may have several lines
PROGRESS_WHOLE = 1_000_000
KINDS = ("queue", "limit", "filter", "schedule", "alert", "job", "callback", "flow", "tombstone")
# Exports of older versions lack these kinds, also in the counts of their end line.
UNCOUNTED_KINDS = ("filter", "alert", "flow", "tombstone")

Instant: TypeAlias = Annotated[int, Meta(ge=0, le=INSTANT_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=UINT32_MAX)]
Uint48: TypeAlias = Annotated[int, Meta(ge=0, le=2**48 - 1)]
StateName: TypeAlias = Literal["scheduled", "queued", "waiting", "finished", "failed", "cancelled"]


class ExportLine(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", forbid_unknown_fields=True
):
    """Any line of an export. `kind` is its type."""


class HeaderLine(ExportLine, frozen=True, kw_only=True, tag="header"):
    format: str
    version: int
    windlass: str  # the version that wrote it
    exported_at_ms: int
    namespace: str
    partitions: Annotated[int, Meta(ge=1, le=4096)]
    namespace_format: Annotated[int, Meta(ge=FIRST)] = FIRST  # the lowest that a program must know
    counts: dict[str, int] = {}  # approximate: counted at the beginning
    backup: BackupPoint | None = None


class QueuePause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    lane: str = ""
    name: str = ""
    since_ms: Instant = 0
    reason: str = ""


class QueueLine(ExportLine, frozen=True, kw_only=True, tag="queue"):
    name: str
    configuration: dict[str, int | bool | tuple[str, ...]] = {}  # values that differ from the defaults
    pauses: list[QueuePause] = []
    weights: dict[str, int] = {}


class LimitLine(ExportLine, frozen=True, kw_only=True, tag="limit"):
    limit: Limit


class FilterLine(ExportLine, frozen=True, kw_only=True, tag="filter"):
    """A saved filter of the dashboard."""

    name: str
    page: str
    fields: dict[str, str]


class ScheduleLine(ExportLine, frozen=True, kw_only=True, tag="schedule"):
    schedule: Schedule  # without the payload of its job
    payload: EncodedBlob
    revision: Annotated[int, Meta(ge=1, le=UINT32_MAX)]
    created_at_ms: Instant
    next_at_ms: Instant = 0  # 0: it is over
    paused: Annotated[str, Meta(max_length=REASON_CHARS_MAX)] | None = None  # reason of the pause; None: not paused
    last_planned_at_ms: Instant = 0
    last_fired_at_ms: Instant = 0
    fired: Uint48 = 0
    skipped: Uint48 = 0
    missed: Uint48 = 0
    jobs: Annotated[list[str], Meta(max_length=JOBS_REMEMBERED)] = []  # latest jobs, newest first


class AlertLine(ExportLine, frozen=True, kw_only=True, tag="alert"):
    rule: AlertRule
    state: AlertState = AlertState()  # an incident that is open goes on, without another message


class AttemptEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    attempt: Count
    ended_at_ms: Instant
    reason: str
    started_at_ms: Instant = 0
    worker: str = ""
    error: EncodedBlob | None = None


class LogEntry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    attempt: Count
    at_ms: Instant
    level: str
    text: str


class FlowRefEntry(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Place of a job in a flow."""

    id: str
    name: str = ""
    step: str = ""


class JobEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A job in its current state. A leased job is written as if it had been released, a suspended one as queued: its
    code runs up to its wait and is suspended again."""

    id: str
    queue: str
    name: str
    state: StateName
    payload: EncodedBlob
    fingerprint: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}$")]  # of the content at the enqueue
    sequence: Uint48
    created_at_ms: Instant
    run_at_ms: Instant
    priority: Annotated[int, Meta(ge=INT32_MIN, le=INT32_MAX)] = 0
    lane: str = ""
    unique: str = ""
    unique_while_kept: bool = False
    retry: Backoff = ENDLESS
    lease_ms: Uint48 = 0
    lease_rule: str = ""
    retake: bool = False
    timeout_ms: Uint48 = 0
    result_ttl_ms: Uint48 = 0
    tombstone_ms: Uint48 = 0
    tags: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    trace: str = ""
    repeat: str = ""
    joins: bool = False
    on_failure: OnFailure = "collect"
    callback: Callback | None = None
    revision: Annotated[int, Meta(ge=1, le=UINT32_MAX)] = 1
    started_at_ms: Instant = 0
    ended_at_ms: Instant = 0
    expires_at_ms: Instant = 0
    attempt: Count = 0
    progress: Annotated[int, Meta(ge=0, le=PROGRESS_WHOLE)] = 0  # in millionths
    note: str = ""
    planned_at_ms: Instant = 0  # of a job that repeats
    schedule: str = ""  # the schedule that created it
    schedule_planned_at_ms: Instant = 0
    is_hidden: bool = False
    is_history: bool = False
    parent: str = ""
    parent_queue: str = ""
    is_held: bool = False
    has_members: bool = False
    is_consequence: bool = False  # it ended because of a job that it waits for
    is_odd_round: bool = False

    flow: FlowRefEntry | None = None


class StepEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A stored step of a durable job."""

    name: Annotated[str, Meta(min_length=1, max_length=STEP_NAME_MAX)]
    kind: Literal["step", "sleep", "signal", "children", "cursor"] = "step"
    status: Literal["waiting", "done", "failed", "timed_out"] = "done"
    tries: Count = 0
    begun_at_ms: Instant = 0
    ended_at_ms: Instant = 0
    wake_at_ms: Instant = 0
    signal: Annotated[str, Meta(max_length=SIGNAL_NAME_MAX)] = ""
    children: Annotated[list[str], Meta(max_length=CHILDREN_MAX)] = []
    value: EncodedBlob | None = None


class SignalEntry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=SIGNAL_NAME_MAX)]
    at_ms: Instant
    value: EncodedBlob


class StreamEntry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    at_ms: Instant
    attempt: Count
    value: EncodedBlob | None  # None: a new attempt begins here


class DurableEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Steps, unread signals and stream of a job."""

    steps: Annotated[list[StepEntry], Meta(max_length=STEPS_MAX)] = []
    signals: Annotated[list[SignalEntry], Meta(max_length=SIGNALS_MAX)] = []
    request_ids: Annotated[list[Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]], Meta(max_length=SIGNALS_MAX)] = []
    used_links: list[Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]] = []
    suspensions: Count = 0
    round: Count = 0
    has_yielded: bool = False
    stream: Annotated[list[StreamEntry], Meta(max_length=2 * STREAM_VALUES_MAX)] = []
    stream_writes: Count = 0


class AwaitedEntry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    id: str
    queue: str  # empty: the job no longer exists


class JobLine(ExportLine, frozen=True, kw_only=True, tag="job"):
    job: JobEntry
    attempts: Annotated[list[AttemptEntry], Meta(max_length=ATTEMPTS_MAX)] = []
    logs: Annotated[list[LogEntry], Meta(max_length=LINES_KEPT)] = []
    logs_dropped: Count = 0
    result: EncodedBlob | None = None
    removed_at_ms: Instant = 0
    is_unique_shared: bool = False  # several jobs hold its unique key
    is_cancel_requested: bool = False  # it was leased, and a cancel was requested
    after: list[AwaitedEntry] = []  # jobs it waits for, or whose outcomes it may read
    durable: DurableEntry | None = None


class CallbackLine(ExportLine, frozen=True, kw_only=True, tag="callback"):
    id: str  # of the job
    number: Uint48
    is_given_up: bool = False
    at_ms: Instant  # due, or to be removed
    job: JobEntry  # as it ended
    is_payload_whole: bool = True
    result: EncodedBlob | None = None
    is_result_too_big: bool = False
    last_attempt: AttemptEntry | None = None
    tries: Count = 0
    error: Annotated[str, Meta(max_length=REASON_CHARS_MAX)] = ""


class FlowStepEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A job of a flow, and its end."""

    id: str
    queue: str
    name: str
    sequence: Uint48
    step: str = ""
    after: list[str] = []  # jobs that it waited for, of the flow or others
    on_failure: OnFailure = "collect"
    joins: bool = False
    state: Literal["", "finished", "failed", "cancelled", "deleted"] = ""  # empty: it has not ended
    is_consequence: bool = False
    attempt: Count = 0
    progress: Annotated[int, Meta(ge=0, le=PROGRESS_WHOLE)] = 0  # in millionths
    created_at_ms: Instant = 0  # this and the next two: of a step that has ended
    started_at_ms: Instant = 0
    ended_at_ms: Instant = 0


class FlowLine(ExportLine, frozen=True, kw_only=True, tag="flow"):
    id: str
    name: str = ""
    created_at_ms: Instant
    steps: Annotated[list[FlowStepEntry], Meta(min_length=1, max_length=WHOLE_MAX)]


class TombstoneLine(ExportLine, frozen=True, kw_only=True, tag="tombstone"):
    id: str  # of a job that has ended and was removed
    queue: str
    until_ms: Instant  # when it is forgotten


class EndLine(ExportLine, frozen=True, kw_only=True, tag="end"):
    counts: dict[str, int]
    sha256: str = ""  # of a backup: of the lines before and of this line without it


AnyLine: TypeAlias = (
    HeaderLine
    | QueueLine
    | LimitLine
    | FilterLine
    | ScheduleLine
    | AlertLine
    | JobLine
    | CallbackLine
    | FlowLine
    | TombstoneLine
    | EndLine
)
_decoder = msgspec.json.Decoder(AnyLine)
_encoder = msgspec.json.Encoder()


def check_counts(line: EndLine, seen: Mapping[str, int]) -> None:
    """Compare the counts of an end line with the lines that were read. A refusal names the first difference."""
    for kind in KINDS:
        expected = line.counts.get(kind, 0 if kind in UNCOUNTED_KINDS else None)
        if expected != seen.get(kind, 0):
            raise BadInput(f"the end line expects {expected} lines of kind {kind}, but there were {seen.get(kind, 0)}.")


def truncated(lines: int) -> BadInput:
    return BadInput(
        f"The export is truncated: it has no end after line {lines}. Imported lines stay; import the whole file again."
    )


def kind_of(line: AnyLine) -> str:
    return str(line.__struct_config__.tag)


def encode_line(line: AnyLine) -> bytes:
    return _encoder.encode(line) + b"\n"


def decode_line(text: Any, number: int) -> AnyLine:
    """Decode the n-th line. A refusal names the line."""
    if isinstance(text, str):
        text = text.encode(errors="surrogatepass")
    if not isinstance(text, bytes | bytearray):
        raise BadInput(f"Line {number} must be bytes or text, not {type(text).__name__}.")
    if len(text) > LINE_MAX:
        raise TooLarge(f"Line {number} has {len(text)} bytes; at most {LINE_MAX} are allowed.")
    try:
        line: AnyLine = _decoder.decode(text)
        return line
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadInput(f"Line {number} is not a line of an export: {str(error)[:300].rstrip('.')}.") from error


def decode_header(text: Any) -> HeaderLine:
    """Decode the first line. A wrong format or version is reported before any other error."""
    try:
        found = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError):
        found = {}
    if found.get("kind") != "header" or found.get("format") != FORMAT:
        raise BadInput("Line 1 is not the header of an export of Windlass; is this the right file?")
    if found.get("version") != VERSION:
        raise BadInput(
            f"Line 1 has version {found.get('version')!r:.20}, and this Windlass reads version {VERSION}: "
            "use the Windlass version that wrote it, or a newer one."
        )
    header = decode_line(text, 1)
    assert isinstance(header, HeaderLine)  # noqa: S101 (its kind says so)
    if header.namespace_format > KNOWN:
        raise BadInput(f"Line 1: {refusal_of_export(header.namespace_format, header.windlass)}")
    return header
