"""Invariants of a namespace, read past the code under test. This module knows the keys from the table in
lua/lib/keys.lua only, and shares no code with the scripts."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tests.service.flag_bits import BITS
from tests.service.machines.dependency_graph import check_dependencies, is_needed
from tests.service.machines.durable_invariants import DURABLE_KINDS, check_durable_states, durable_bytes, stream_kept_ms
from tests.service.machines.flow_invariants import FLOW_KINDS, FLOW_SINGLE, check_flows
from tests.service.machines.limit_invariants import LIMITING, LIMITING_SINGLE, check_limits
from windlass.core.callbacks.callback import destination_digest
from windlass.core.event import Event, EventKind
from windlass.core.ids import number_of_id
from windlass.core.job import Job
from windlass.core.log import BYTES_KEPT, LINES_KEPT
from windlass.core.queue import FOREVER_MS
from windlass.core.states import ENDED, LEASED, MOVES, PENDING, State
from windlass.store.connection.reconnect import SyncReconnectingConnection
from windlass.store.records.job_tags import entry_tag
from windlass.store.records.record import unpack

_DUMP = """
local read = {
  string = function(k) return redis.call('GET', k) end,
  list = function(k) return redis.call('LRANGE', k, 0, -1) end,
  set = function(k) return redis.call('SMEMBERS', k) end,
  zset = function(k) return redis.call('ZRANGE', k, 0, -1, 'WITHSCORES') end,
  hash = function(k) return redis.call('HGETALL', k) end,
  stream = function(k) return redis.call('XRANGE', k, '-', '+') end,
}
local answer, seen, cursor = {}, {}, '0'
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1], 'COUNT', 10000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    if not seen[key] then
      local kind = redis.call('TYPE', key).ok
      table.insert(answer, {key, kind, redis.call('PTTL', key), read[kind](key)})
    end
    seen[key] = true
  end
until cursor == '0'
return answer
"""
JOBS_REMEMBERED = 20  # by a schedule
INDEXES = ("scheduled", "waiting", "suspended", "running", "finished", "failed", "cancelled", "history")
PLACE_BYTES = 28  # ready time, sequence, id
# Keys without an owner must expire.
EXPIRING = ("m:", "throttle:", "slip:", "ended:", "bell:", "waiters:", "full_at:", "followed", "events", "idle:")
SINGLE = (
    "filters",
    "schedules", "schedule_names", "queues", "seq", "token", "workers", "retention", "expiry", "timers:due",
    "timers:lease", "timers:ring", "owed", "owed_to", "given_up", "given_up_ids", "debts", "work", "restoring",
    "number", "numbers", "numbered", "tombstones", "tombstone_queues", "alerts", "alert_states",
    *LIMITING_SINGLE, *FLOW_SINGLE,
)  # fmt: skip
OF_JOBS = (
    "ready", "lane", "laned", "heads", "names", "q", "u", "t", "wj", "a", "o", "l", "e", "w", "s", "sj", "b", "c", "d",
    "od",
    *LIMITING, *FLOW_KINDS, *DURABLE_KINDS,
)  # fmt: skip
Zset = dict[bytes, float]


@dataclass
class Stored:
    """Job as stored in its record."""

    job: Job
    flags: int
    token: int  # of the last lease, also after the end
    size: int

    @property
    def lane(self) -> str:
        name = self.job.name if self.flags & BITS.NAME_LANE else ""
        limits = "\2".join(self.job.limits)
        tenant = "\1\2" * self.job.needs_steps + "\1" * self.job.is_hidden + self.job.lane
        if limits:
            return f"{tenant}\0{name}\0{limits}"
        return f"{tenant}\0{name}" if name or tenant else ""

    @property
    def place(self) -> bytes:
        return self.job.run_at_ms.to_bytes(6, "big") + self.job.sequence.to_bytes(6, "big") + self.job.id

    @property
    def overdue_at(self) -> float:
        at = math.inf if self.job.is_overdue else self.job.lease_deadline_at_ms or math.inf
        if self.job.timeout_ms and self.job.state is State.RUNNING:
            at = min(at, (self.job.started_at_ms or 0) + self.job.timeout_ms)
        return at

    @property
    def index(self) -> str:
        if self.job.is_history:
            return "history"
        return "running" if self.job.state in LEASED else self.job.state.label


@dataclass
class Snapshot:
    """Whole namespace at one instant, keys without their root."""

    now_ms: int
    jobs: dict[bytes, Stored] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)  # key -> str | list | set | dict
    ttls: dict[str, int] = field(default_factory=dict)

    def zset(self, key: str) -> Zset:
        return self.values.get(key, {})

    def of_kind(self, kind: str) -> Iterator[tuple[str, Any]]:
        for key in self._keys_by_kind.get(kind, ()):
            yield key[len(kind) :], self.values[key]

    @cached_property
    def _keys_by_kind(self) -> Mapping[str, list[str]]:
        kinds = defaultdict(list)
        for key in self.values:
            kinds[key[: key.find(":") + 1]].append(key)
        return kinds

    def number(self, queue: str, name: bytes) -> int:
        return int(self.values.get(f"q:{queue}", {}).get(name, 0))


def _read(kind: bytes, value: Any) -> Any:
    if kind == b"zset":
        return {member: float(score) for member, score in zip(value[::2], value[1::2], strict=True)}
    if kind == b"hash":
        return dict(zip(value[::2], value[1::2], strict=True))
    return set(value) if kind == b"set" else value


def stored(job_id: bytes, raw: bytes) -> Stored:
    token = int.from_bytes(raw[10 + 6 * 5 : 10 + 6 * 6], "big")
    return Stored(unpack(job_id + raw), int.from_bytes(raw[2:6], "big"), token, len(raw))


def snapshot(link: SyncReconnectingConnection, root: str, now_ms: int, among: str = "*") -> Snapshot:
    """Read the namespace. Where tests share an engine, only keys that match `among` are read."""
    found = Snapshot(now_ms)
    prefix = f"{root}:".encode()
    for key, kind, ttl, value in link.call("EVAL", _DUMP, 0, among):
        if key == root.encode():
            continue
        assert key.startswith(prefix), f"a key outside of the namespace: {key!r}"
        name = key.removeprefix(prefix)
        if name.startswith(b"j:"):
            assert ttl == -1, f"the record {name!r} would expire"
            found.jobs[name[2:]] = stored(name[2:], value)
        else:
            # latin-1 keeps every byte one character: ids and workers are part of keys
            found.values[name.decode("latin-1")] = _read(kind, value)
            found.ttls[name.decode("latin-1")] = ttl
    return found


def _grouped(
    stored: Iterable[Stored], orphans: set[bytes], aging_ms: Callable[[str], int]
) -> Mapping[str, dict[bytes, float]]:
    """Return the expected content of the indexes, key by key."""
    expected: dict[str, dict[bytes, float]] = defaultdict(dict)
    for one in stored:
        job = one.job
        if job.state is not State.QUEUED:
            score: float = {
                State.SCHEDULED: job.run_at_ms,
                State.WAITING: job.created_at_ms,
                State.SUSPENDED: job.run_at_ms or math.inf,
                State.DISPATCHED: one.overdue_at,
                State.RUNNING: one.overdue_at,
            }.get(job.state, job.ended_at_ms or 0)
            expected[f"{one.index}:{job.queue}"][job.id] = score
        if job.state in LEASED and job.worker and one.job.id not in orphans:
            expected[f"wj:{job.worker.decode('latin-1')}"][job.id] = job.started_at_ms or 0
        for tag in (*job.tags, *map(entry_tag, job.indexed)):
            expected[f"t:{tag}"][job.id] = job.created_at_ms
        if job.expires_at_ms and job.state in PENDING and job.attempt == 0:
            expected["expiry"][job.id] = job.expires_at_ms
        if job.unique and (job.state not in ENDED or (one.flags & BITS.UNIQUE_WHILE_KEPT and not job.is_history)):
            expected[f"u:{job.queue}\0{job.unique}"][job.id] = job.sequence
        if job.state in LEASED and not job.is_overdue:
            for limit in job.limits:
                expected[f"holders:{limit}"][job.id] = job.started_at_ms or 0
        if job.state not in ENDED:
            for limit in job.limits:
                if limit.lstrip("0123456789").startswith("="):
                    expected[f"under:{limit}"][job.id] = job.state
        if job.state is State.QUEUED or job.is_overdue:
            _expect_in_lane(one, aging_ms(job.queue), expected)
    return expected


def _expect_in_lane(one: Stored, aging_ms: int, expected: dict[str, dict[bytes, float]]) -> None:
    job = one.job
    score = job.priority * aging_ms + job.run_at_ms if aging_ms else job.priority
    key = f"lane:{job.queue}\0{one.lane}" if one.lane else f"ready:{job.queue}"
    expected[key][one.place] = score
    if one.lane:
        expected[f"laned:{job.queue}"][one.place] = score


def _add_heads(found: Snapshot, expected: Mapping[str, dict[bytes, float]]) -> dict[str, dict[bytes, float]]:
    """Add expected heads: every other lane has its first job in `heads`, or in the line it is parked in, and its name
    in `names`. In a fair queue the virtual time of its entry replaces the ready time."""
    added: dict[str, dict[bytes, float]] = defaultdict(dict)
    for key, members in expected.items():
        if key.startswith("lane:"):
            queue, _, lane = key.removeprefix("lane:").partition("\0")
            score, head = min((score, member) for member, score in members.items())
            entered = found.values.get(f"entered:{queue}", {}).get(lane.encode())
            limit_key = found.values.get(f"parked_at:{queue}", {}).get(lane.encode())
            line = f"parked:{queue}\0{limit_key.decode('latin-1')}" if limit_key else f"heads:{queue}"
            added[line][(entered or head[:6]) + head[6:] + lane.encode()] = score
            added[f"names:{queue}"][lane.split("\0")[1].encode() + b"\0" + lane.encode()] = 0
    return added


def check_indexes(found: Snapshot) -> None:
    """Check that each job is in the indexes of its state, and in no others."""
    # A retakeable job of a worker that went silent is no longer among those the worker holds.
    held = {job_id for _, members in found.of_kind("wj:") for job_id in members}
    orphans = {job_id for job_id, one in found.jobs.items() if one.job.is_overdue and job_id not in held}
    expected = _grouped(found.jobs.values(), orphans, lambda queue: found.number(queue, b"aging_ms"))
    expected = {**expected, **_add_heads(found, expected)}
    lines = ("ready:", "lane:", "laned:", "heads:", "parked:", "names:")
    kinds = (*(f"{kind}:" for kind in INDEXES), "wj:", "t:", "u:", "holders:", "under:", *lines)
    actual = {key: value for key, value in found.values.items() if key.startswith(kinds) or key == "expiry"}
    for key in sorted(expected.keys() | actual.keys()):
        assert actual.get(key, {}) == expected.get(key, {}), (
            f"index {key!r}: has {actual.get(key)}, not {expected.get(key)}"
        )


def check_leases(found: Snapshot) -> None:
    tokens = [one.token for one in found.jobs.values() if one.token]
    assert len(set(tokens)) == len(tokens), "a token was given twice"
    assert max(tokens, default=0) <= int(found.values.get("token", 0)), "a token from nowhere"
    for one in found.jobs.values():
        job = one.job
        if job.state in LEASED:
            assert one.token > 0, f"{job.state.label} without a lease: {job}"
            assert job.attempt > 0, f"leased without an attempt: {job}"
        elif job.state in PENDING:
            assert one.token == 0, f"waiting with a lease: {job}"
            assert job.worker is None, f"waiting with a worker: {job}"
        assert job.state in LEASED or not job.is_cancel_requested, f"nobody is asked to stop: {job}"
        assert job.state is State.RUNNING or not job.is_overdue, f"retakeable, but not running: {job}"


def check_timers(found: Snapshot) -> None:
    """Check timers: they may be too early, never too late, or due work would be missed."""
    for timer, index in (
        ("timers:due", "scheduled:"), ("timers:due", "suspended:"), ("timers:lease", "running:"),
    ):  # fmt: skip
        for queue, members in found.of_kind(index):
            first = min(members.values())
            if first < math.inf:
                at = found.zset(timer).get(queue.encode(), math.inf)
                assert at <= first, f"{timer} of {queue!r} is {at}, but something is due at {first}"


def check_retention(found: Snapshot) -> None:
    for job_id, at in found.zset("retention").items():
        one = found.jobs.get(job_id)
        assert one, f"retention of no job: {job_id!r}"
        assert one.index in ("finished", "failed", "cancelled"), f"retention of a job that has not ended: {one.job}"
        if one.job.state is State.FINISHED:
            ends_at = (one.job.ended_at_ms or 0) + (one.job.result_ttl_ms or stream_kept_ms(found, one))
            assert at == ends_at, f"result to be removed at {at}, not {ends_at}"
    for one in found.jobs.values():
        if is_needed(found, one):
            assert one.job.id not in found.zset("retention"), f"somebody needs it, but it would go: {one.job}"
        elif one.job.parent is not None:
            continue  # its parent has ended, and lets go of it in a later step
        elif one.index == "finished" and one.job.result_ttl_ms < FOREVER_MS:
            assert one.job.id in found.zset("retention"), f"a result that nobody removes: {one.job}"


def check_counts(found: Snapshot) -> None:
    live: dict[str, int] = defaultdict(int)
    history: dict[str, int] = defaultdict(int)
    for one in found.jobs.values():
        size = one.size + durable_bytes(found, one)
        (history if one.job.is_history else live)[one.job.queue] += size * (
            one.job.is_history or one.job.state not in ENDED
        )
    for queue in live.keys() | history.keys() | {queue for queue, _ in found.of_kind("q:")}:
        bytes_now, kept_now = found.number(queue, b"bytes"), found.number(queue, b"history_bytes_now")
        assert bytes_now == live[queue], f"{queue!r} counts {bytes_now} bytes, not {live[queue]}"
        assert kept_now == history[queue], f"{queue!r} counts {kept_now} bytes of history, not {history[queue]}"
        failed = [one.job for one in found.jobs.values() if one.index == "failed" and one.job.queue == queue]
        later = sum(job.is_consequence for job in failed)
        assert found.number(queue, b"consequences") == later, f"{queue!r} does not count {later} consequences"


def check_owners(found: Snapshot) -> None:
    """Check that every key has an owner that removes it."""
    queues = {name.decode() for name in found.values.get("queues", ())}
    used = {one.job.queue for one in found.jobs.values()}
    assert used <= queues, f"queues that nobody lists: {used - queues}"
    assert {queue for queue, _ in found.of_kind("q:")} == queues, "properties and names of queues differ"
    indexed = {queue.encode() for queue, fields in found.of_kind("q:") if b"index" in fields}
    assert set(found.values.get("indexed_queues", ())) == indexed, "queues with an index and their list differ"
    by_job = {"a:": BITS.HAS_ATTEMPTS, "o:": BITS.HAS_OUTCOME, "l:": BITS.HAS_LOGS, "e:": BITS.AWAITED}
    for kind, flag in by_job.items():
        marked = {one.job.id.decode("latin-1") for one in found.jobs.values() if one.flags & flag}
        there = {key for key, _ in found.of_kind(kind)}
        assert there == marked, f"{kind} belongs to {sorted(there)}, marked are {sorted(marked)}"
    registered = {worker.decode("latin-1") for worker in found.zset("workers")}
    assert {key for key, _ in found.of_kind("w:")} == registered, "a worker that nobody expects to beat"
    known = (*INDEXES, *OF_JOBS)
    for key in found.values:
        if key.startswith(EXPIRING):
            assert found.ttls[key] != -1, f"{key!r} never expires"
        else:
            assert key in SINGLE or key.partition(":")[0] in known, f"an unknown key: {key!r}"
            assert found.ttls[key] == -1, f"{key!r} would expire"


def check_numbers(found: Snapshot) -> None:
    """Check numbers that jobs got later: found both ways, none twice, none above the last given number."""
    numbers = {job_id: int(number) for job_id, number in found.values.get("numbers", {}).items()}
    assert numbers.keys() == {one.job.id for one in found.jobs.values() if one.flags & BITS.HAS_NUMBER}
    ids = {int(number): job_id for number, job_id in found.values.get("numbered", {}).items()}
    assert ids == {number: job_id for job_id, number in numbers.items()}
    made = {number for one in found.jobs.values() if (number := number_of_id(one.job.id)) is not None}
    assert not made & ids.keys(), "a number was given to two jobs"
    assert max({*made, *ids}, default=0) <= int(found.values.get("number", 0))


def check_tombstones(found: Snapshot) -> None:
    """Check that each tombstone has an instant and a queue, and that the flag of a job agrees with its policy."""
    assert found.zset("tombstones").keys() == found.values.get("tombstone_queues", {}).keys()
    for one in found.jobs.values():
        assert bool(one.flags & BITS.LEAVES_TOMBSTONE) == (one.job.tombstone_ms > 0), f"the flags of {one.job.key}"


def check_logs(found: Snapshot) -> None:
    """Check logs: bounded, and numbered without a gap; only lines before the first one were dropped."""
    for job_id, entries in found.of_kind("l:"):
        first, before = (int.from_bytes(entries[0][at:end], "big") for at, end in ((0, 4), (4, 10)))
        assert len(entries) <= LINES_KEPT, f"{len(entries)} lines of {job_id!r}"
        assert sum(map(len, entries)) <= BYTES_KEPT, f"too many bytes of lines of {job_id!r}"
        for number, entry in enumerate(entries, first):
            assert entry[:10] == number.to_bytes(4, "big") + before.to_bytes(6, "big"), f"a gap in {job_id!r}"
            before += len(entry)


def check_schedules(found: Snapshot) -> None:
    """A schedule is where the loops look for it, at its next occurrence, unless it is paused or over."""
    expected = {}
    for name, fields in found.of_kind("s:"):
        at = int(fields[b"next_at"])
        expected[name.encode("latin-1")] = math.inf if at == 0 or b"paused" in fields else at
        jobs = found.values.get(f"sj:{name}", [])
        assert len(jobs) <= JOBS_REMEMBERED, f"schedule {name!r} remembers {len(jobs)} jobs"
        assert fields.get(b"last_job") == (jobs[0] if jobs else None), f"last job of schedule {name!r}"
    assert found.zset("schedules") == expected, f"schedules {found.zset('schedules')}, not {expected}"
    assert found.zset("schedule_names").keys() == expected.keys()
    remembering = {name.encode("latin-1") for name, _ in found.of_kind("sj:")}
    assert remembering <= expected.keys(), "jobs of a schedule that is gone"


def check_callbacks(found: Snapshot) -> None:
    """Each pending callback is in one of two lists, and belongs to a job that ended as its callback says."""
    pending, given_up = found.zset("owed"), found.zset("given_up")
    callbacks = {key.encode("latin-1"): fields for key, fields in found.of_kind("b:")}
    assert not pending.keys() & given_up.keys(), "a callback that is pending and given up"
    assert pending.keys() | given_up.keys() == callbacks.keys(), "callbacks and their lists differ"
    assert given_up.keys() == found.zset("given_up_ids").keys(), "given up, but not found by id"
    listed = dict(found.of_kind("od:"))
    firsts = {mark.encode(): min(members.values()) for mark, members in listed.items()}
    assert found.zset("owed_to") == firsts, "destinations are not where their first callback is"
    in_lists = {callback_id: at for members in listed.values() for callback_id, at in members.items()}
    assert in_lists == pending, "lists differ"
    for callback_id, fields in callbacks.items():
        job = unpack(fields[b"job"])
        assert job.id == callback_id[:16], f"a callback of another job: {job}"
        assert job.callback is not None, f"no callback was requested: {job}"
        mark = destination_digest(job.callback)
        assert fields[b"to"] == mark.encode(), f"for another destination: {job}"
        assert callback_id in given_up or callback_id in listed[mark], f"listed for another destination: {job}"
        assert job.state.label in job.callback.events, f"pending for another end: {job}"
        assert int.from_bytes(callback_id[16:], "big") <= int(found.values["debts"]), "a number that was not given out"
        assert b"token" not in fields or (callback_id in pending and int(fields[b"tries"]) > 0), (
            "leased, but not pending"
        )


def pending_callbacks_in(found: Snapshot) -> Counter[tuple[bytes, State]]:
    """Count pending and given-up callbacks by job and end."""
    jobs = [unpack(fields[b"job"]) for _, fields in found.of_kind("b:")]
    return Counter((job.id, job.state) for job in jobs)


def check_callback_flags(found: Snapshot) -> None:
    """Check that the flags that scripts use match the callback."""
    owes = {"finished": BITS.OWES_FINISHED, "failed": BITS.OWES_FAILED, "cancelled": BITS.OWES_CANCELLED}
    for one in found.jobs.values():
        callback = one.job.callback
        assert bool(one.flags & BITS.HAS_CALLBACK) == (callback is not None), f"marked otherwise: {one.job}"
        for end, flag in owes.items():
            is_owed = callback is not None and end in callback.events
            assert bool(one.flags & flag) == is_owed, f"{end} is marked otherwise: {one.job}"


def check_events(found: Snapshot) -> None:
    """Check events: numbered without a gap within an epoch; the current epoch is not older than the recorded events."""
    ids = [tuple(map(int, entry[0].split(b"-"))) for entry in found.values.get("events", ())]
    for (epoch, ordinal), (next_epoch, next_ordinal) in itertools.pairwise(ids):
        expected = ordinal + 1 if next_epoch == epoch else 0
        assert next_ordinal == expected, f"event {next_epoch}-{next_ordinal} after {epoch}-{ordinal}"
    if ids and "followed" in found.values:
        assert int(found.values["followed"]) >= ids[-1][0], "events of an epoch that has not begun"


CHECKS = (
    check_indexes, check_leases, check_timers, check_retention, check_counts, check_owners, check_logs, check_numbers,
    check_tombstones, check_schedules,
    check_callbacks, check_callback_flags, check_events, check_limits, check_dependencies,
    check_flows, check_durable_states,
)  # fmt: skip


def check(found: Snapshot) -> None:
    for one in CHECKS:
        one(found)


def check_moves(before: Snapshot, after: Snapshot, verbs: frozenset[str]) -> None:
    """What one call did to each job is a path in the table of moves, along verbs that this call may perform."""
    for job_id in before.jobs.keys() | after.jobs.keys():
        old, new = before.jobs.get(job_id), after.jobs.get(job_id)
        source, target = old.job.state if old else None, new.job.state if new else None
        if source is not target:
            assert target in _reachable(source, verbs), f"{source!r} -> {target!r} by {sorted(verbs)}: no such move"


def check_fixed_leases(before: Snapshot, after: Snapshot, verbs: frozenset[str]) -> None:
    """Check that only a new lease, or the edit of a retake job's time, moves a deadline where leases are fixed."""
    for job_id in before.jobs.keys() & after.jobs.keys() if "edit" not in verbs else ():
        old, new = before.jobs[job_id], after.jobs[job_id]
        is_fixed = (b"lease_renewal", b"0") in before.values.get(f"q:{old.job.queue}", {}).items()
        if is_fixed and old.job.state is new.job.state is State.RUNNING and old.token == new.token:
            assert new.job.lease_deadline_at_ms == old.job.lease_deadline_at_ms, f"a fixed lease moved: {new.job}"


def _reachable(source: State | None, verbs: frozenset[str]) -> set[State | None]:
    found: set[State | None] = set()
    edge = {source}
    while edge:
        edge = {move.target for move in MOVES if move.source in edge and move.verb in verbs} - found
        found |= edge
    return found


def check_delivered_events(before: Snapshot, after: Snapshot, events: Iterable[Event]) -> None:
    """Check that the last event of each job shows its state, and that each change had an event."""
    told: dict[bytes, EventKind] = {}
    for event in events:
        assert event.kind is not EventKind.MISSED, "events were lost"
        if event.kind not in (EventKind.PROGRESS, EventKind.EMITTED, EventKind.STREAMED, EventKind.LOGGED):
            told[event.job] = event.kind
    for job_id in before.jobs.keys() | after.jobs.keys() | told.keys():
        old, new, last = before.jobs.get(job_id), after.jobs.get(job_id), told.get(job_id)
        if new is None:
            was_ended = old is not None and old.job.state in ENDED
            assert was_ended or last is EventKind.DELETED or (last and last.state in ENDED), f"gone untold: {job_id!r}"
        elif last is not None:
            assert last.state is new.job.state, f"{last!r} was told last of {new.job}"
        else:
            is_as_it_was = old is not None and old.job.state is new.job.state
            assert is_as_it_was, f"nobody was told of {new.job}"
            assert old is None or old.token == new.token or new.job.state not in LEASED, f"an untold lease: {new.job}"
