"""Reads the whole namespace of a test past the code under test, and says what does not agree in it. Knows the keys by
the table in lua/lib/keys.lua only; shares no code with the scripts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.kinship import check_families, is_needed
from windlass.core.job import Flag, Job
from windlass.core.queue import FOREVER_MS
from windlass.core.states import ENDED, LEASED, MOVES, PENDING, State
from windlass.store.link import BlockingLink
from windlass.store.record import unpack

_DUMP = """
local read = {
  string = function(k) return redis.call('GET', k) end,
  list = function(k) return redis.call('LRANGE', k, 0, -1) end,
  set = function(k) return redis.call('SMEMBERS', k) end,
  zset = function(k) return redis.call('ZRANGE', k, 0, -1, 'WITHSCORES') end,
  hash = function(k) return redis.call('HGETALL', k) end,
}
local answer = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local kind = redis.call('TYPE', key).ok
  table.insert(answer, {key, kind, redis.call('PTTL', key), read[kind](key)})
end
return answer
"""
INDEXES = ("scheduled", "waiting", "running", "finished", "failed", "cancelled", "history")
PLACE_BYTES = 28  # ready time, sequence, id
EXPIRING = ("m:", "ended:", "bell:", "waiters:")  # owned by nobody, so they must go by themselves
SINGLE = (
    "queues",
    "seq",
    "token",
    "workers",
    "retention",
    "expiry",
    "timers:due",
    "timers:lease",
    "timers:ring",
    "work",
)
Zset = dict[bytes, float]


@dataclass
class Stored:
    """A job as its record says."""

    job: Job
    flags: int
    token: int  # of the last lease, also after the end
    size: int

    @property
    def lane(self) -> str:
        if self.flags & Flag.NAME_LANE:
            return f"{self.job.lane}\0{self.job.name}"
        return f"{self.job.lane}\0" if self.job.lane else ""

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
    """Everything in the namespace at one instant, keys without their root."""

    now_ms: int
    jobs: dict[bytes, Stored] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)  # key -> str | list | set | dict
    ttls: dict[str, int] = field(default_factory=dict)

    def zset(self, key: str) -> Zset:
        return self.values.get(key, {})

    def of_kind(self, kind: str) -> Iterator[tuple[str, Any]]:
        for key, value in self.values.items():
            if key.startswith(kind):
                yield key[len(kind) :], value

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


def snapshot(link: BlockingLink, root: str, now_ms: int, *, is_alone: bool = True) -> Snapshot:
    """`is_alone`: the engine holds nothing else, so a key outside of the namespace is a mistake."""
    found = Snapshot(now_ms)
    prefix = f"{root}:".encode()
    for key, kind, ttl, value in link.call("EVAL", _DUMP, 0, "*" if is_alone else f"{root}:*"):
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


def _grouped(stored: Iterable[Stored], orphans: set[bytes]) -> Mapping[str, dict[bytes, float]]:
    """What the indexes of ids must hold, key by key."""
    expected: dict[str, dict[bytes, float]] = defaultdict(dict)
    for one in stored:
        job = one.job
        if job.state is not State.QUEUED:
            score: float = {
                State.SCHEDULED: job.run_at_ms,
                State.WAITING: job.created_at_ms,
                State.DISPATCHED: one.overdue_at,
                State.RUNNING: one.overdue_at,
            }.get(job.state, job.ended_at_ms or 0)
            expected[f"{one.index}:{job.queue}"][job.id] = score
        if job.state in LEASED and job.worker and one.job.id not in orphans:
            expected[f"wj:{job.worker.decode('latin-1')}"][job.id] = job.started_at_ms or 0
        for tag in job.tags:
            expected[f"t:{tag}"][job.id] = job.created_at_ms
        if job.expires_at_ms and job.state in PENDING and job.attempt == 0:
            expected["expiry"][job.id] = job.expires_at_ms
        if job.unique and (job.state not in ENDED or (one.flags & Flag.UNIQUE_WHILE_KEPT and not job.is_history)):
            expected[f"u:{job.queue}\0{job.unique}"][job.id] = job.sequence
        if job.state is State.QUEUED or job.is_overdue:
            _expect_in_lane(one, expected)
    return expected


def _expect_in_lane(one: Stored, expected: dict[str, dict[bytes, float]]) -> None:
    key = f"lane:{one.job.queue}\0{one.lane}" if one.lane else f"ready:{one.job.queue}"
    expected[key][one.place] = one.job.priority
    if one.lane:
        expected[f"laned:{one.job.queue}"][one.place] = one.job.priority


def _add_heads(expected: Mapping[str, dict[bytes, float]]) -> dict[str, dict[bytes, float]]:
    """Every other lane has its first job in `heads` and its name in `names`."""
    added: dict[str, dict[bytes, float]] = defaultdict(dict)
    for key, members in expected.items():
        if key.startswith("lane:"):
            queue, _, lane = key.removeprefix("lane:").partition("\0")
            score, head = min((score, member) for member, score in members.items())
            added[f"heads:{queue}"][head + lane.encode()] = score
            added[f"names:{queue}"][lane.partition("\0")[2].encode() + b"\0" + lane.encode()] = 0
    return added


def check_indexes(found: Snapshot) -> None:
    """Each job is where its record says, and nowhere else."""
    # A retakeable job of a worker that went silent is no longer among those the worker holds.
    held = {job_id for _, members in found.of_kind("wj:") for job_id in members}
    orphans = {job_id for job_id, one in found.jobs.items() if one.job.is_overdue and job_id not in held}
    expected = _grouped(found.jobs.values(), orphans)
    expected = {**expected, **_add_heads(expected)}
    kinds = (*(f"{kind}:" for kind in INDEXES), "wj:", "t:", "u:", "ready:", "lane:", "laned:", "heads:", "names:")
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
    """A timer may be too early, never too late: else nobody would look."""
    for timer, index in (("timers:due", "scheduled:"), ("timers:lease", "running:")):
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
            ends_at = (one.job.ended_at_ms or 0) + one.job.result_ttl_ms
            is_replaced = one.job.revision > 1
            assert is_replaced or at == ends_at, f"result to be removed at {at}, not {ends_at}"
    for one in found.jobs.values():
        if is_needed(found, one):
            assert one.job.id not in found.zset("retention"), f"somebody needs it, but it would go: {one.job}"
        elif one.index == "finished" and 0 < one.job.result_ttl_ms < FOREVER_MS and one.job.revision == 1:
            assert one.job.id in found.zset("retention"), f"a result that nobody removes: {one.job}"


def check_counts(found: Snapshot) -> None:
    live: dict[str, int] = defaultdict(int)
    history: dict[str, int] = defaultdict(int)
    for one in found.jobs.values():
        (history if one.job.is_history else live)[one.job.queue] += one.size * (
            one.job.is_history or one.job.state not in ENDED
        )
    for queue in live.keys() | history.keys() | {queue for queue, _ in found.of_kind("q:")}:
        bytes_now, kept_now = found.number(queue, b"bytes"), found.number(queue, b"history_bytes_now")
        assert bytes_now == live[queue], f"{queue!r} counts {bytes_now} bytes, not {live[queue]}"
        assert kept_now == history[queue], f"{queue!r} counts {kept_now} bytes of history, not {history[queue]}"


def check_owners(found: Snapshot) -> None:
    """No key without an owner that removes it."""
    queues = {name.decode() for name in found.values.get("queues", ())}
    used = {one.job.queue for one in found.jobs.values()}
    assert used <= queues, f"queues that nobody lists: {used - queues}"
    assert {queue for queue, _ in found.of_kind("q:")} == queues, "properties and names of queues differ"
    by_job = {"a:": Flag.HAS_ATTEMPTS, "o:": Flag.HAS_OUTCOME, "e:": Flag.AWAITED}
    for kind, flag in by_job.items():
        marked = {one.job.id.decode("latin-1") for one in found.jobs.values() if one.flags & flag}
        there = {key for key, _ in found.of_kind(kind)}
        assert there == marked, f"{kind} belongs to {sorted(there)}, marked are {sorted(marked)}"
    registered = {worker.decode("latin-1") for worker in found.zset("workers")}
    assert {key for key, _ in found.of_kind("w:")} == registered, "a worker that nobody expects to beat"
    known = (*INDEXES, "ready", "lane", "laned", "heads", "names", "q", "u", "t", "wj", "a", "o", "e", "w", "c", "d")
    for key in found.values:
        if key.startswith(EXPIRING):
            assert found.ttls[key] > 0, f"{key!r} never expires"
        else:
            assert key in SINGLE or key.partition(":")[0] in known, f"an unknown key: {key!r}"
            assert found.ttls[key] == -1, f"{key!r} would expire"


CHECKS = (check_indexes, check_leases, check_timers, check_retention, check_counts, check_owners, check_families)


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


def _reachable(source: State | None, verbs: frozenset[str]) -> set[State | None]:
    found: set[State | None] = set()
    edge = {source}
    while edge:
        edge = {move.target for move in MOVES if move.source in edge and move.verb in verbs} - found
        found |= edge
    return found
