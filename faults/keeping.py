"""What the engine keeps, by kind of key: where memory goes while load runs, and what is left when everything that is
kept for people has been deleted. What is left of jobs then has leaked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from windlass.core.operations import Listing
from windlass.service import Service

KEPT = ("finished", "failed", "cancelled", "history", "scheduled")  # such as files that go later, and when
PAGE = 200
# In one script, so that nothing moves meanwhile. A kind is the word after the partition's root (keys.lua).
COUNT = """
local found, cursor = {}, '0'
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1] .. ':*', 'COUNT', 1000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    local kind = key:match('}:([^:]+)') or 'root'
    local one = found[kind] or {0, 0}
    one[1], one[2] = one[1] + 1, one[2] + (redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) or 0)
    found[kind] = one
  end
until cursor == '0'
local flat = {}
for kind, one in pairs(found) do flat[#flat + 1] = {kind, one[1], one[2]} end
return flat
"""
WORDS = {
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
}
# What stays without jobs: settings and counters, whoever is there, what expires by itself, and callbacks that were
# given up. As much as there are queues, lanes, limits, schedules, workers and minutes; `ended` for as long as it says.
WITHOUT_JOBS = frozenset((
    "root", "queues", "q", "m", "turns", "seq", "token", "number", "limits", "limit_names", "limits_version",
    "limit_number", "caps", "keyed", "idle_caps", "schedules", "schedule_names", "s", "sj", "stats", "workers", "w",
    "push_workers", "push_full", "bell", "tokens", "tokens_version", "audit", "debts", "given_up", "given_up_ids", "b",
    "timers", "waiters", "idle", "wn", "followed", "events", "throttle", "full_at", "ended",
))  # fmt: skip


class Kept(msgspec.Struct, kw_only=True):
    keys: int
    bytes: int


class Keeping(msgspec.Struct, kw_only=True):
    """At one instant."""

    used_memory: int
    kinds: dict[str, Kept]


def keeping(ask: Callable[..., Any], namespace: str = "wl") -> Keeping:
    kinds = {kind.decode(): Kept(keys=keys, bytes=size) for kind, keys, size in ask("EVAL", COUNT, 0, namespace)}
    text: str = ask("INFO", "memory").decode()
    used = next(line.partition(":")[2] for line in text.splitlines() if line.startswith("used_memory:"))
    return Keeping(used_memory=int(used), kinds=kinds)


async def forget_jobs(service: Service) -> int:
    """Every job that is left when all work is done is deleted, as a person could; how many."""
    count = 0
    for state in KEPT:
        while jobs := (await service.jobs(Listing(state=state, most=PAGE))).jobs:
            answers = await service.delete([job.id for job in jobs])
            count += len(answers)
            if all(isinstance(answer, Exception) for answer in answers):
                raise RuntimeError(f"{state} jobs cannot be deleted: {answers[0]}")
    return count


def leaked(kinds: Mapping[str, Kept]) -> list[str]:
    """Of an engine without jobs."""
    return [
        f"leaked: {one.keys} keys of the kind {kind} ({one.bytes:,} bytes) are left, though there is no job"
        for kind, one in sorted(kinds.items())
        if kind not in WITHOUT_JOBS
    ]
