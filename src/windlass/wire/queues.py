"""Shapes of queues: statistics, configuration, pauses, lane weights, purges and history."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.core.queue import FOREVER_MS
from windlass.core.validation.bounds import CURSOR_MAX, LANE_MAX, NAME_MAX, PAGE_MAX, QUEUE_MAX
from windlass.core.validation.limits import PAUSE_REASON_MAX, WEIGHT_MAX
from windlass.core.validation.queues import AGING_MAX, HISTORY_HOURS_MAX, HISTORY_STEPS_MAX

from .fields import Given, QueueName, Shape

WEIGHTS_MAX = 1000  # lanes of one request
Lane: TypeAlias = Annotated[str, Meta(max_length=LANE_MAX)]
Weights: TypeAlias = dict[Lane, Annotated[int, Meta(ge=1, le=WEIGHT_MAX)]]
# None is the default again; what is not given stays as it is.
LeaseChange: TypeAlias = Annotated[int, Meta(ge=1, le=FOREVER_MS)] | UnsetType | None
Change: TypeAlias = Annotated[int, Meta(ge=0, le=FOREVER_MS)] | UnsetType | None
AgingChange: TypeAlias = Annotated[int, Meta(ge=0, le=AGING_MAX)] | UnsetType | None
Choice: TypeAlias = bool | UnsetType | None


class QueueStatsShape(Given, frozen=True, kw_only=True):
    """What a queue holds, read at one instant."""

    queue: str
    queued: Annotated[int, Meta(description="May be taken now.")]
    scheduled: Annotated[int, Meta(description="Wait for their time.")]
    waiting: Annotated[int, Meta(description="Wait for other jobs.")]
    running: Annotated[int, Meta(description="Held by workers, dispatched ones included.")]
    finished: Annotated[int, Meta(description="Kept for their result.")]
    failed: int
    cancelled: int
    history: Annotated[int, Meta(description="Finished ones that are kept to be looked at.")]
    bytes: Annotated[int, Meta(description="Of jobs that have not ended.")]
    lanes: Annotated[int, Meta(description="Lanes with waiting jobs, besides the default one.")]
    waiting_takers: int
    oldest_age_ms: Annotated[int | None, Meta(description="How long the oldest takeable job has been takeable.")]
    next_due_at_ms: Annotated[int | None, Meta(description="When the next scheduled job is due.")]
    blocked_lanes: Annotated[int, Meta(description="Lanes that a limit or a pause holds back.")]
    is_paused: bool


_LEASE = Meta(description="How long a lease holds without a heartbeat.")
_LENGTH = Meta(description="Waiting jobs; 0: no bound.")
_BYTES = Meta(description="Bytes of jobs that have not ended; 0: no bound.")
_HISTORY_LENGTH = Meta(description="Finished jobs that are kept to be looked at.")
_HISTORY_BYTES = Meta(description="Bytes of that history.")
_RETENTION = Meta(description="How long failed and cancelled jobs stay.")
_NAME_LANES = Meta(description="One lane per name, so that jobs can be taken by name.")
_AGING = Meta(description="Waiting that is worth one step of priority; 0: strict priority.")
_FAIR_SHARE = Meta(description="Lanes of equal priority take turns by weight.")


class ConfigurationShape(Given, frozen=True, kw_only=True):
    """The properties of a queue."""

    lease_ms: Annotated[int, _LEASE]
    max_length: Annotated[int, _LENGTH]
    max_bytes: Annotated[int, _BYTES]
    history_length: Annotated[int, _HISTORY_LENGTH]
    history_bytes: Annotated[int, _HISTORY_BYTES]
    retention_ms: Annotated[int, _RETENTION]
    name_lanes: Annotated[bool, _NAME_LANES]
    aging_ms: Annotated[int, _AGING]
    fair_share: Annotated[bool, _FAIR_SHARE]


class ConfigurationChangesShape(Shape, frozen=True, kw_only=True):
    """What to change of a queue's properties; null is the default again, what is not given stays as it is."""

    lease_ms: Annotated[LeaseChange, _LEASE] = UNSET
    max_length: Annotated[Change, _LENGTH] = UNSET
    max_bytes: Annotated[Change, _BYTES] = UNSET
    history_length: Annotated[Change, _HISTORY_LENGTH] = UNSET
    history_bytes: Annotated[Change, _HISTORY_BYTES] = UNSET
    retention_ms: Annotated[Change, _RETENTION] = UNSET
    name_lanes: Annotated[Choice, _NAME_LANES] = UNSET
    aging_ms: Annotated[AgingChange, _AGING] = UNSET
    fair_share: Annotated[Choice, _FAIR_SHARE] = UNSET

    def changes(self) -> dict[str, int | bool | None]:
        return {field: value for field, value in msgspec.structs.asdict(self).items() if value is not UNSET}


class ActivePauseShape(Given, frozen=True, kw_only=True):
    """What is paused: the queue, or one lane or name of it."""

    queue: str
    lane: str
    name: str
    since_ms: int
    reason: str


class PausesShape(Given, frozen=True, kw_only=True):
    pauses: list[ActivePauseShape]


class QueueShape(Given, frozen=True, kw_only=True):
    """One queue: what it holds, its properties, what is paused of it, and the weights of lanes that are not 1."""

    stats: QueueStatsShape
    configuration: ConfigurationShape
    pauses: list[ActivePauseShape]
    weights: dict[str, int]


class QueuesShape(Given, frozen=True, kw_only=True):
    queues: list[QueueStatsShape]
    after: Annotated[str, Meta(description="To be given as `after` for the next page; empty at the end.")]


class QueuesQuery(Shape, frozen=True, kw_only=True):
    after: Annotated[str, Meta(max_length=QUEUE_MAX, description="Only queues whose names come after this one.")] = ""
    most: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100


class WeightsShape(Shape, frozen=True, kw_only=True):
    """How many turns each lane has in a queue with `fair_share`."""

    weights: Annotated[Weights, Meta(max_length=WEIGHTS_MAX)]


class AllWeightsShape(Given, frozen=True, kw_only=True):
    """Of lanes that are not 1."""

    weights: dict[str, int]


class LanesQuery(Shape, frozen=True, kw_only=True):
    most: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100
    cursor: Annotated[str, Meta(max_length=8192, description="Of the page before; empty: from the start.")] = ""


class ResumeShape(Shape, frozen=True, kw_only=True):
    """Nothing given: the queue itself."""

    lane: Annotated[str, Meta(max_length=LANE_MAX, description="Only this lane.")] = ""
    name: Annotated[
        str, Meta(max_length=NAME_MAX, description="Only jobs of this name; the queue needs name_lanes.")
    ] = ""


class PauseShape(ResumeShape, frozen=True, kw_only=True):
    """Nothing given: the queue itself."""

    reason: Annotated[str, Meta(max_length=PAUSE_REASON_MAX, description="Shown to whoever asks why nothing runs.")] = (
        ""
    )


class WasPausedShape(Given, frozen=True, kw_only=True):
    was_paused: Annotated[bool, Meta(description="Whether it was paused before.")]


class PurgeShape(Shape, frozen=True, kw_only=True):
    """Which jobs, and where the last step ended."""

    state: Literal["queued", "scheduled", "waiting", "failed", "cancelled", "finished", "history"] = "queued"
    cursor: Annotated[str, Meta(max_length=CURSOR_MAX, description="Of the last answer; empty: begin.")] = ""


class PurgedShape(Given, frozen=True, kw_only=True):
    deleted: int
    is_done: Annotated[bool, Meta(description="False: ask again, with the cursor.")]
    cursor: str


NAMED_MAX = 90  # of one request: a query has at most 100 fields


class HistoryQuery(Shape, frozen=True, kw_only=True):
    hours: Annotated[int, Meta(ge=1, le=HISTORY_HOURS_MAX)] = 1


_BY_BITS = Meta(
    description="Jobs counted by span: first those below 1 ms, then those of 1, 2 to 3, 4 to 7 ms and so on."
)
_ABOUT = Meta(description="Estimated from the counts; null when there are none.")


class MinuteShape(Given, frozen=True, kw_only=True):
    """What happened in a queue within one minute."""

    at_ms: int
    enqueued: int
    taken: int
    finished: int
    failed: int
    retried: int
    cancelled: int
    recovered: int
    wait_ms: Annotated[int, Meta(description="Sum over the jobs taken: from takeable to taken.")]
    run_ms: Annotated[int, Meta(description="Sum over the jobs finished: from start to end.")]
    waits: Annotated[tuple[int, ...], _BY_BITS]
    runs: Annotated[tuple[int, ...], _BY_BITS]
    wait_p50_ms: Annotated[int | None, _ABOUT]
    wait_p95_ms: Annotated[int | None, _ABOUT]
    run_p50_ms: Annotated[int | None, _ABOUT]
    run_p95_ms: Annotated[int | None, _ABOUT]


class HistoryShape(Given, frozen=True, kw_only=True):
    """Oldest first; minutes in which nothing happened are left out."""

    minutes: list[MinuteShape]


class HistoriesQuery(Shape, frozen=True, kw_only=True):
    queue: Annotated[
        tuple[QueueName, ...],
        Meta(max_length=NAMED_MAX, description="These queues; may be repeated. None: all, in the order of names."),
    ] = ()
    step_minutes: Annotated[int, Meta(ge=1, le=60, description="The length of a step; it divides an hour.")] = 1
    steps: Annotated[int, Meta(ge=1, le=HISTORY_STEPS_MAX, description="At most 48 hours in all.")] = 60


class HistoriesShape(Given, frozen=True, kw_only=True):
    """Oldest first; steps in which nothing happened are left out."""

    total: list[MinuteShape]
    queues: dict[str, list[MinuteShape]]
    left_out: Annotated[int, Meta(description="Queues beyond the first 1,000; name those that you want.")]
