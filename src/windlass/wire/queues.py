"""Shapes of queues: statistics, configuration, pauses, lane weights, purges and history."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.core.limits.payload_index import INDEX_FIELDS_MAX
from windlass.core.queue import FOREVER_MS, Property
from windlass.core.scale import SLOTS_MAX, TARGET_MAX, WORKERS_MAX
from windlass.core.validation.bounds import CURSOR_MAX, DURATION_MAX, LANE_MAX, NAME_MAX, PAGE_MAX, QUEUE_MAX
from windlass.core.validation.limits import PAUSE_REASON_MAX, WEIGHT_MAX
from windlass.core.validation.queues import AGING_MAX, HISTORY_HOURS_MAX, HISTORY_STEPS_MAX

from .fields import QueueName
from .shape import RequestShape, ResponseShape

UNKNOWN_NAMES_MAX = 90  # in one request; a query has at most 100 fields
WEIGHTS_MAX = 1000  # lanes of one request
Lane: TypeAlias = Annotated[str, Meta(max_length=LANE_MAX)]
Weights: TypeAlias = dict[Lane, Annotated[int, Meta(ge=1, le=WEIGHT_MAX)]]
# None restores the default; UNSET keeps the value.
LeaseChange: TypeAlias = Annotated[int, Meta(ge=1, le=FOREVER_MS)] | UnsetType | None
Change: TypeAlias = Annotated[int, Meta(ge=0, le=FOREVER_MS)] | UnsetType | None
AgingChange: TypeAlias = Annotated[int, Meta(ge=0, le=AGING_MAX)] | UnsetType | None
Choice: TypeAlias = bool | UnsetType | None
IndexChange: TypeAlias = Annotated[tuple[str, ...], Meta(max_length=INDEX_FIELDS_MAX)] | UnsetType | None


class QueueStatsShape(ResponseShape, frozen=True, kw_only=True):
    """Contents of a queue at one instant."""

    queue: str
    queued: Annotated[int, Meta(description="Jobs that can be taken now.")]
    scheduled: Annotated[int, Meta(description="Jobs that wait for their time.")]
    waiting: Annotated[int, Meta(description="Jobs that wait for other jobs.")]
    suspended: Annotated[int, Meta(description="Jobs whose code waits for a time, a signal or child jobs.")]
    running: Annotated[int, Meta(description="Jobs with a lease, including dispatched jobs.")]
    finished: Annotated[int, Meta(description="Finished jobs that are kept for their result.")]
    failed: Annotated[int, Meta(description="Failed jobs that are kept, including consequences.")]
    consequences: Annotated[int, Meta(description="Failed jobs that failed only because of another job.")]
    cancelled: int
    history: Annotated[int, Meta(description="Finished jobs that are kept as history.")]
    bytes: Annotated[int, Meta(description="Bytes of jobs that have not ended.")]
    lanes: Annotated[int, Meta(description="Lanes with waiting jobs, without the default lane.")]
    waiting_takers: int
    oldest_age_ms: Annotated[int | None, Meta(description="How long the oldest queued job has been ready to take.")]
    next_due_at_ms: Annotated[int | None, Meta(description="When the next scheduled job is due.")]
    blocked_lanes: Annotated[int, Meta(description="Lanes that are blocked by a limit or a pause.")]
    is_paused: bool


_LEASE = Meta(description="How long a lease lasts without a heartbeat, in milliseconds.")
_LENGTH = Meta(description="The largest number of waiting jobs; 0: no limit.")
_BYTES = Meta(description="The largest size of all jobs that have not ended, in bytes; 0: no limit.")
_HISTORY_LENGTH = Meta(description="Number of finished jobs that are kept as history.")
_HISTORY_BYTES = Meta(description="The largest size of the history, in bytes.")
_RETENTION = Meta(description="How long failed and cancelled jobs are kept, in milliseconds.")
_NAME_LANES = Meta(description="One lane per name, so that jobs can be taken by name.")
_AGING = Meta(description="Waiting time that raises the priority by one, in milliseconds; 0: strict priority.")
_FAIR_SHARE = Meta(description="Lanes of equal priority take turns by weight.")
_LEASE_RENEWAL = Meta(
    description="Whether heartbeats and reports extend leases. If not, a worker has a fixed time for a job: when the "
    "lease ends, the job returns to its queue. Default: true, but false if the name starts with `job_queue_`."
)

_INDEX = Meta(
    description="Payload fields that `where` searches, as `customer.email`; of jobs that are enqueued or changed later."
)


class ConfigurationShape(ResponseShape, frozen=True, kw_only=True):
    """The configuration of a queue."""

    lease_ms: Annotated[int, _LEASE]
    max_length: Annotated[int, _LENGTH]
    max_bytes: Annotated[int, _BYTES]
    history_length: Annotated[int, _HISTORY_LENGTH]
    history_bytes: Annotated[int, _HISTORY_BYTES]
    retention_ms: Annotated[int, _RETENTION]
    name_lanes: Annotated[bool, _NAME_LANES]
    aging_ms: Annotated[int, _AGING]
    fair_share: Annotated[bool, _FAIR_SHARE]
    lease_renewal: Annotated[bool, _LEASE_RENEWAL] = True
    index: Annotated[tuple[str, ...], _INDEX] = ()


class ConfigurationChangesShape(RequestShape, frozen=True, kw_only=True):
    """Changes to the configuration of a queue. null restores the default; other fields keep their values."""

    lease_ms: Annotated[LeaseChange, _LEASE] = UNSET
    max_length: Annotated[Change, _LENGTH] = UNSET
    max_bytes: Annotated[Change, _BYTES] = UNSET
    history_length: Annotated[Change, _HISTORY_LENGTH] = UNSET
    history_bytes: Annotated[Change, _HISTORY_BYTES] = UNSET
    retention_ms: Annotated[Change, _RETENTION] = UNSET
    name_lanes: Annotated[Choice, _NAME_LANES] = UNSET
    aging_ms: Annotated[AgingChange, _AGING] = UNSET
    fair_share: Annotated[Choice, _FAIR_SHARE] = UNSET
    lease_renewal: Annotated[Choice, _LEASE_RENEWAL] = UNSET
    index: Annotated[IndexChange, _INDEX] = UNSET

    def changes(self) -> dict[str, Property]:
        return {field: value for field, value in msgspec.structs.asdict(self).items() if value is not UNSET}


class ActivePauseShape(ResponseShape, frozen=True, kw_only=True):
    """An active pause of a queue, of a lane or of a job name."""

    queue: str
    lane: str
    name: str
    since_ms: int
    reason: str


class PausesShape(ResponseShape, frozen=True, kw_only=True):
    pauses: list[ActivePauseShape]


class UnknownNameShape(ResponseShape, frozen=True, kw_only=True):
    """A name of queued jobs that no worker of the queue knows."""

    name: str
    suggestion: Annotated[str, Meta(description="A name that a worker knows and that is spelt alike; may be empty.")]
    sentence: str


class QueueShape(ResponseShape, frozen=True, kw_only=True):
    """A queue: its contents, configuration and pauses, and the lane weights other than 1."""

    stats: QueueStatsShape
    configuration: ConfigurationShape
    pauses: list[ActivePauseShape]
    weights: dict[str, int]
    unknown_names: Annotated[
        tuple[UnknownNameShape, ...],
        Meta(
            description="Names of queued jobs that no worker of the queue knows, at most 20. Only the first jobs and "
            "lanes are examined, and the list may be 5 seconds old."
        ),
    ] = ()
    exists: Annotated[
        bool,
        Meta(
            description="Whether it holds something or is configured, was used within two days, or is served by a live "
            "worker."
        ),
    ] = True
    suggestion: Annotated[
        str, Meta(description="An existing queue with a similar name, if this queue does not exist; may be empty.")
    ] = ""


class RemoveQueueQuery(RequestShape, frozen=True, kw_only=True):
    force: Annotated[bool, Meta(description="Also if live workers serve the queue.")] = False


class RemovedQueueShape(ResponseShape, frozen=True, kw_only=True):
    existed: bool


class UnknownNamesQuery(RequestShape, frozen=True, kw_only=True):
    name: Annotated[
        tuple[Annotated[str, Meta(max_length=NAME_MAX)], ...],
        Meta(max_length=UNKNOWN_NAMES_MAX, description="Names of jobs; may be repeated."),
    ] = ()


class UnknownNamesShape(ResponseShape, frozen=True, kw_only=True):
    """Those of the names that no worker of the queue knows, at most 20. Without a live worker nothing is known."""

    unknown_names: list[UnknownNameShape]


class QueuesShape(ResponseShape, frozen=True, kw_only=True):
    queues: list[QueueStatsShape]
    after: Annotated[str, Meta(description="The value of `after` for the next page; empty on the last page.")]


class ListQueuesQuery(RequestShape, frozen=True, kw_only=True):
    after: Annotated[str, Meta(max_length=QUEUE_MAX, description="Only queues whose names sort after this name.")] = ""
    most: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100


class ScaleQuery(RequestShape, frozen=True, kw_only=True):
    slots: Annotated[int, Meta(ge=1, le=SLOTS_MAX, description="Jobs that a worker runs at once.")] = 1
    target: Annotated[
        int, Meta(ge=0, le=TARGET_MAX, description="Queued and running jobs per worker; 0: ten per slot.")
    ] = 0
    target_age_ms: Annotated[
        int, Meta(ge=0, le=DURATION_MAX, description="How long a job may wait; 0: the waiting time does not count.")
    ] = 0
    min: Annotated[int, Meta(ge=0, le=WORKERS_MAX, description="The smallest answer.")] = 0
    max: Annotated[int, Meta(ge=0, le=WORKERS_MAX, description="The largest answer.")] = 100


class ScaleShape(ResponseShape, frozen=True, kw_only=True):
    """The number of workers that a queue needs, and the facts that it was computed from."""

    queue: str
    workers: Annotated[int, Meta(description="Wanted workers.")]
    backlog: Annotated[int, Meta(description="Jobs that can be taken now; 0 while the queue is paused.")]
    running: Annotated[int, Meta(description="Jobs with a lease, including dispatched jobs.")]
    oldest_age_ms: Annotated[int, Meta(description="How long the oldest job of the backlog has been ready to take.")]
    is_paused: bool


class WeightsShape(RequestShape, frozen=True, kw_only=True):
    """The share of each lane in a queue with `fair_share`."""

    weights: Annotated[Weights, Meta(max_length=WEIGHTS_MAX)]


class AllWeightsShape(ResponseShape, frozen=True, kw_only=True):
    """Lane weights other than 1."""

    weights: dict[str, int]


class LanesQuery(RequestShape, frozen=True, kw_only=True):
    most: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100
    cursor: Annotated[
        str, Meta(max_length=8192, description="The cursor of the previous page; empty: the first page.")
    ] = ""


class ResumeShape(RequestShape, frozen=True, kw_only=True):
    """The part of the queue to resume. An empty object is the queue itself."""

    lane: Annotated[str, Meta(max_length=LANE_MAX, description="Only this lane.")] = ""
    name: Annotated[
        str, Meta(max_length=NAME_MAX, description="Only jobs with this name; the queue needs name_lanes.")
    ] = ""


class PauseShape(ResumeShape, frozen=True, kw_only=True):
    """The part of the queue to pause. An empty object is the queue itself."""

    reason: Annotated[
        str, Meta(max_length=PAUSE_REASON_MAX, description="Shown in explanations of jobs that do not run.")
    ] = ""


class WasPausedShape(ResponseShape, frozen=True, kw_only=True):
    was_paused: Annotated[bool, Meta(description="Whether it was paused before this request.")]


class PurgeShape(RequestShape, frozen=True, kw_only=True):
    """The jobs to delete, and the end of the last step."""

    state: Literal["queued", "scheduled", "waiting", "failed", "cancelled", "finished", "history"] = "queued"
    cursor: Annotated[str, Meta(max_length=CURSOR_MAX, description="The cursor of the last answer; empty: start.")] = ""


class PurgedShape(ResponseShape, frozen=True, kw_only=True):
    deleted: int
    is_done: Annotated[bool, Meta(description="False: repeat the request with the cursor.")]
    cursor: str


HISTORY_QUEUES_MAX = 90  # in one request; a query has at most 100 fields


class HistoryQuery(RequestShape, frozen=True, kw_only=True):
    hours: Annotated[int, Meta(ge=1, le=HISTORY_HOURS_MAX)] = 1


_HISTOGRAM = Meta(description="Histogram of durations: jobs below 1 ms, then of 1 ms, 2 to 3 ms, 4 to 7 ms, and so on.")
_ESTIMATE = Meta(description="Estimated from the histogram; null if it is empty.")


class MinuteShape(ResponseShape, frozen=True, kw_only=True):
    """Activity of a queue in one minute, or in one step."""

    at_ms: int
    enqueued: int
    taken: int
    finished: int
    failed: int
    retried: int
    cancelled: int
    recovered: int
    wait_ms: Annotated[int, Meta(description="Sum over the taken jobs: the time from ready to taken.")]
    run_ms: Annotated[int, Meta(description="Sum over the finished jobs: the time from start to end.")]
    waits: Annotated[tuple[int, ...], _HISTOGRAM]
    runs: Annotated[tuple[int, ...], _HISTOGRAM]
    wait_p50_ms: Annotated[int | None, _ESTIMATE]
    wait_p95_ms: Annotated[int | None, _ESTIMATE]
    run_p50_ms: Annotated[int | None, _ESTIMATE]
    run_p95_ms: Annotated[int | None, _ESTIMATE]


class HistoryShape(ResponseShape, frozen=True, kw_only=True):
    """Minutes with activity, oldest first."""

    minutes: list[MinuteShape]


class HistoriesQuery(RequestShape, frozen=True, kw_only=True):
    queue: Annotated[
        tuple[QueueName, ...],
        Meta(
            max_length=HISTORY_QUEUES_MAX, description="The queues; may be repeated. None: all queues, ordered by name."
        ),
    ] = ()
    step_minutes: Annotated[int, Meta(ge=1, le=60, description="The length of a step; a divisor of 60.")] = 1
    steps: Annotated[int, Meta(ge=1, le=HISTORY_STEPS_MAX, description="Number of steps; at most 48 hours in all.")] = (
        60
    )


class HistoriesShape(ResponseShape, frozen=True, kw_only=True):
    """Steps with activity, oldest first: of all queues together, and of each."""

    total: list[MinuteShape]
    queues: dict[str, list[MinuteShape]]
    left_out: Annotated[int, Meta(description="Number of queues beyond the first 1,000; request those by name.")]
