"""Engines with a planted bug: the same library, loaded without one of its guards or writes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple
from unittest import mock

import windlass.store.store as store_module
from windlass.store import scripts


class PlantedBug(NamedTuple):
    name: str
    old: str  # occurs once in the joined library
    new: str
    rule: str  # of the checks, which finds it


BUGS = (
    PlantedBug(
        "finish with any token",
        "if is_leased(r) and (token == 0 or token == r.token) then return r end",
        "if is_leased(r) then return r end",
        "stale token",
    ),
    PlantedBug(
        "a lease is given and not written",
        "lease_all(queue, chosen, terms, taken)\n    flush()",
        "lease_all(queue, chosen, terms, taken)",
        "double lease",
    ),
    PlantedBug(
        "live leases are recovered",
        "return redis.call('ZRANGEBYSCORE', queue_key(index, queue), '-inf', now_ms, 'LIMIT', 0, most)",
        "return redis.call('ZRANGEBYSCORE', queue_key(index, queue), '-inf', '+inf', 'LIMIT', 0, most)",
        "double lease",
    ),
    PlantedBug(
        "an extension is not written",
        "r.deadline = deadline > 0 and math.max(r.deadline, deadline) or 0\n  save(r)\n  enter_running(r)",
        "r.deadline = deadline > 0 and math.max(r.deadline, deadline) or 0",
        "double lease",
    ),
    PlantedBug(
        "a limit does not count",
        "z_add(P .. 'holders:' .. holdup, r.started_at, r.id)\n",
        "\n",
        "limit exceeded",
    ),
    PlantedBug(
        "a cancel is ignored",
        "end_job(r, STATE.cancelled, {reach = has(r, 'joins') and 'all' or nil, ignores_waiting = ignores_waiting})",
        "",
        "ran after its cancel",
    ),
    PlantedBug(
        "an enqueue is acknowledged and not written",
        "  enter(r)\n  write_new(r)\n",
        "  if sequence % 5 > 0 then enter(r) write_new(r) end\n",
        "lost",
    ),
    PlantedBug(
        "a failed job is dropped",
        "reports_.put_back(r, now_ms + delay_ms)\n  return 'retried'",
        "end_job(r, STATE.finished)\n  return 'retried'",
        "lost",
    ),
    PlantedBug(
        "the newest job comes first",
        "return ids_of(redis.call('ZRANGE', key, 0, most - 1))",
        "return ids_of(redis.call('ZRANGE', key, 0, most - 1, 'REV'))",
        "out of order",
    ),
    PlantedBug(
        "finished jobs return",
        "end_job(r, STATE.finished, {result = result})",
        "if r.attempt == 1 then reports_.put_back(r) else end_job(r, STATE.finished, {result = result}) end",
        "ran after its end",
    ),
    PlantedBug(
        "attempts are not counted",
        "r.attempt = r.attempt + 1\n",
        "r.attempt = 1\n",
        "attempts miscounted",
    ),
    PlantedBug(
        "an ended job stays in an index",
        "z_drop(queue_key('running', r.queue), r.id)\n  if r.worker",
        "if r.worker",
        "doctor",
    ),
    PlantedBug(
        "callbacks change with each delivery",
        "redis.call('HINCRBY', pending_callbacks_.debt_key(debt), 'tries', 1)\n",
        "local t = redis.call('HINCRBY', pending_callbacks_.debt_key(debt), 'tries', 1)\n"
        "redis.call('HSET', pending_callbacks_.debt_key(debt), 'is_too_big', t - 1)\n",
        "callback changed",
    ),
    PlantedBug(
        "a callback is forgotten",
        "if pending_callbacks_.owes_callback(r) then pending_callbacks_.owe(r, how.result or '') end",
        "",
        "callback missing",
    ),
    PlantedBug(
        "an occurrence is fired by every scheduler",
        "local is_mine = is_expected(name, tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]))",
        "local is_mine = true",
        "fired twice",
    ),
    PlantedBug(
        "an occurrence is skipped",
        "local _, is_made = schedules_.make_job(name, planned_at, entry, terms)",
        "local is_made = planned_at % 3000 < 1000 or select(2, schedules_.make_job(name, planned_at, entry, terms))",
        "not fired",
    ),
)  # fmt: skip


@contextlib.contextmanager
def plant(bug: PlantedBug) -> Iterator[None]:
    whole = scripts.library()
    assert whole.source.count(bug.old) == 1, f"{bug.name}: its old text must occur once in the library"
    suffix = f"{whole.suffix}_broken_{BUGS.index(bug)}"
    source = whole.source.replace(bug.old, bug.new).replace(whole.suffix, suffix)
    library = scripts.Library(whole.name.replace(whole.suffix, suffix), source, suffix)
    with mock.patch.object(store_module, "library", return_value=library):
        yield
