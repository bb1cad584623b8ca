"""Engines with a planted fault: the same library, with one guard or one write of it taken out as it is loaded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple
from unittest import mock

import windlass.store.store as store_module
from windlass.store import scripts


class Fault(NamedTuple):
    name: str
    old: str  # in the joined library, once
    new: str
    rule: str  # that finds it


FAULTS = (
    Fault(
        "finish with any token",
        "if is_leased(r) and (token == 0 or token == r.token) then return r end",
        "if is_leased(r) then return r end",
        "stale token",
    ),
    Fault(
        "a lease that is given and not written",
        "lease_all(queue, chosen, terms, taken)\n    flush()",
        "lease_all(queue, chosen, terms, taken)",
        "double lease",
    ),
    Fault(
        "live leases are taken back",
        "return redis.call('ZRANGEBYSCORE', queue_key(index, queue), '-inf', now_ms, 'LIMIT', 0, most)",
        "return redis.call('ZRANGEBYSCORE', queue_key(index, queue), '-inf', '+inf', 'LIMIT', 0, most)",
        "double lease",
    ),
    Fault(
        "an extension that is not written",
        "r.deadline = deadline > 0 and math.max(r.deadline, deadline) or 0\n  save(r)\n  enter_running(r)",
        "r.deadline = deadline > 0 and math.max(r.deadline, deadline) or 0",
        "double lease",
    ),
    Fault(
        "a limit that does not count",
        "z_add(P .. 'holders:' .. holdup, r.started_at, r.id)\n",
        "\n",
        "limit exceeded",
    ),
    Fault(
        "a cancel that is ignored",
        "end_job(r, STATE.cancelled, {reach = has(r, 'joins') and 'all' or nil, ignores_waiting = ignores_waiting})",
        "",
        "ran after its cancel",
    ),
    Fault(
        "an enqueue acknowledged and not written",
        "  enter(r)\n  write_new(r)\n",
        "  if sequence % 5 > 0 then enter(r) write_new(r) end\n",
        "lost",
    ),
    Fault(
        "a job dropped when it fails",
        "reports_.put_back(r, now_ms + delay_ms)\n  return 'retried'",
        "end_job(r, STATE.finished)\n  return 'retried'",
        "lost",
    ),
    Fault(
        "the newest first",
        "return ids_of(redis.call('ZRANGE', key, 0, most - 1))",
        "return ids_of(redis.call('ZRANGE', key, 0, most - 1, 'REV'))",
        "out of order",
    ),
    Fault(
        "finished jobs go back",
        "end_job(r, STATE.finished, {result = result})",
        "if r.attempt == 1 then reports_.put_back(r) else end_job(r, STATE.finished, {result = result}) end",
        "ran after its end",
    ),
    Fault(
        "attempts are not counted",
        "r.attempt = r.attempt + 1\n",
        "r.attempt = 1\n",
        "attempts miscounted",
    ),
    Fault(
        "an ended job stays in an index",
        "z_drop(queue_key('running', r.queue), r.id)\n  if r.worker",
        "if r.worker",
        "doctor",
    ),
    Fault(
        "callbacks that say something else each time",
        "redis.call('HINCRBY', owed_.debt_key(debt), 'tries', 1)\n",
        "local t = redis.call('HINCRBY', owed_.debt_key(debt), 'tries', 1)\n"
        "redis.call('HSET', owed_.debt_key(debt), 'is_too_big', t - 1)\n",
        "callback changed",
    ),
    Fault(
        "a callback that is forgotten",
        "if owed_.owes_callback(r) then owed_.owe(r, how.result or '') end",
        "",
        "callback missing",
    ),
    Fault(
        "an occurrence fired by whoever comes",
        "local is_mine = is_expected(name, tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]))",
        "local is_mine = true",
        "fired twice",
    ),
    Fault(
        "an occurrence passed over",
        "local _, is_made = schedules_.make_job(name, planned_at, entry, terms)",
        "local is_made = planned_at % 3000 < 1000 or select(2, schedules_.make_job(name, planned_at, entry, terms))",
        "not fired",
    ),
)  # fmt: skip


@contextlib.contextmanager
def planted(fault: Fault) -> Iterator[None]:
    whole = scripts.library()
    assert whole.source.count(fault.old) == 1, f"{fault.name}: what it replaces must be there once"
    suffix = f"{whole.suffix}_broken_{FAULTS.index(fault)}"
    source = whole.source.replace(fault.old, fault.new).replace(whole.suffix, suffix)
    library = scripts.Library(whole.name.replace(whole.suffix, suffix), source, suffix)
    with mock.patch.object(store_module, "library", return_value=library):
        yield
