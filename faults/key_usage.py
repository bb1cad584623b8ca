"""Memory of the engine by kind of key, under load and after all jobs were deleted. Then a key of a job is a leak."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from windlass.core.operations import Listing
from windlass.service import Service

DELETED_STATES = (
    "finished",
    "failed",
    "cancelled",
    "history",
    "scheduled",
)  # scheduled: removals of files, for example
PAGE = 200
# In one script, so that nothing moves during the count. A kind is the word after the partition's root (keys.lua).
COUNT = """
local found, cursor = {}, '0'
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1] .. ':*', 'COUNT', 1000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    local kind = key:match('}:([^:]+)') or 'root'
    local usage = found[kind] or {0, 0}
    usage[1], usage[2] = usage[1] + 1, usage[2] + (redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) or 0)
    found[kind] = usage
  end
until cursor == '0'
local flat = {}
for kind, usage in pairs(found) do flat[#flat + 1] = {kind, usage[1], usage[2]} end
return flat
"""
DESCRIPTIONS = {
    "j": "records of jobs",
    "a": "failed attempts of jobs, with their errors",
    "o": "kept results",
    "ended": "ids that ended in the last 10 to 20 minutes",
    "retention": "removal times of kept jobs",
    "laned": "jobs in lanes",
    "ready": "jobs that wait for a worker",
    "lane": "jobs that wait for a worker, in one lane",
    "scheduled": "scheduled jobs",
    "finished": "finished jobs with a kept result",
    "failed": "failed jobs",
    "cancelled": "cancelled jobs",
    "t": "jobs by tag",
    "u": "unique keys of jobs",
    "b": "pending and abandoned callbacks",
    "flow": "records of flows",
}
# Kinds that stay without jobs: settings, counters, workers, keys that expire, and abandoned callbacks. Their number
# depends on queues, lanes, limits, schedules, tasks, workers and minutes. `ended` stays as long as its description
# says, a flow for a day.
KINDS_WITHOUT_JOBS = frozenset((
    "root", "queues", "q", "m", "turns", "seq", "token", "number", "limits", "limit_names", "limits_version",
    "limit_number", "caps", "keyed", "idle_caps", "schedules", "schedule_names", "s", "sj", "stats", "workers", "w",
    "push_workers", "push_full", "bell", "tokens", "tokens_version", "audit", "debts", "given_up", "given_up_ids", "b",
    "timers", "waiters", "hand", "idle", "wn", "followed", "events", "throttle", "full_at", "ended",
    "flow", "flows", "flow_retention", "flow_steps", "tasks", "tm", "filters", "alerts", "alert_states",
    "alert_history", "ended_sessions",
))  # fmt: skip


class KindUsage(msgspec.Struct, kw_only=True):
    keys: int
    bytes: int


class KeyUsage(msgspec.Struct, kw_only=True):
    """Usage at one instant."""

    used_memory: int
    kinds: dict[str, KindUsage]


def measure_keys(send_command: Callable[..., Any], namespace: str = "wl") -> KeyUsage:
    counts = send_command("EVAL", COUNT, 0, namespace)
    kinds = {kind.decode(): KindUsage(keys=keys, bytes=size) for kind, keys, size in counts}
    text: str = send_command("INFO", "memory").decode()
    used = next(line.partition(":")[2] for line in text.splitlines() if line.startswith("used_memory:"))
    return KeyUsage(used_memory=int(used), kinds=kinds)


async def delete_all_jobs(service: Service) -> int:
    """Delete every job that is left after all work is done, as an operator could. Return how many."""
    count = 0
    for state in DELETED_STATES:
        while jobs := (await service.jobs(Listing(state=state, most=PAGE))).jobs:
            answers = await service.delete([job.id for job in jobs])
            count += len(answers)
            if all(isinstance(answer, Exception) for answer in answers):
                raise RuntimeError(f"{state} jobs cannot be deleted: {answers[0]}")
    return count


def find_leaks(kinds: Mapping[str, KindUsage]) -> list[str]:
    """Return a sentence for each kind of key that an engine without jobs must not have."""
    return [
        f"leaked: {usage.keys} keys of the kind {kind} ({usage.bytes:,} bytes) are left, though there is no job"
        for kind, usage in sorted(kinds.items())
        if kind not in KINDS_WITHOUT_JOBS
    ]
