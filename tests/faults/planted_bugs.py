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
        "if record.is_leased(job) and (token == 0 or token == job.token) then return job end",
        "if record.is_leased(job) then return job end",
        "stale token",
    ),
    PlantedBug(
        "a lease is given and not written",
        "lease_all(queue, chosen, terms, taken)\n    batch.flush()",
        "lease_all(queue, chosen, terms, taken)",
        "double lease",
    ),
    PlantedBug(
        "live leases are recovered",
        "keys.of_queue(kind_of_index, queue), '-inf', clock.now_ms, 'LIMIT', 0, most)",
        "keys.of_queue(kind_of_index, queue), '-inf', '+inf', 'LIMIT', 0, most)",
        "double lease",
    ),
    PlantedBug(
        "an extension is not written",
        "job.deadline = deadline > 0 and math.max(job.deadline, deadline) or 0\n"
        "  record.save(job)\n  index.enter_running(job)",
        "job.deadline = deadline > 0 and math.max(job.deadline, deadline) or 0",
        "double lease",
    ),
    PlantedBug(
        "a limit does not count",
        "batch.z_add(keys.holders(limit_key), job.started_at, job.id)\n",
        "\n",
        "limit exceeded",
    ),
    PlantedBug(
        "a cancel is ignored",
        "ending.end_job(job, STATE.cancelled, {reach = reach, ignores_waiting = ignores_waiting})",
        "",
        "ran after its cancel",
    ),
    PlantedBug(
        "an enqueue is acknowledged and not written",
        "  index.enter(job)\n  new_record.write(job)\n",
        "  if sequence % 5 > 0 then index.enter(job) new_record.write(job) end\n",
        "lost",
    ),
    PlantedBug(
        "a failed job is dropped",
        "reports.put_back(job, clock.now_ms + delay_ms)\n  return 'retried'",
        "ending.end_job(job, STATE.finished)\n  return 'retried'",
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
        "ending.end_job(job, STATE.finished, {result = result})",
        "if job.attempt == 1 then reports.put_back(job) "
        "else ending.end_job(job, STATE.finished, {result = result}) end",
        "ran after its end",
    ),
    PlantedBug(
        "attempts are not counted",
        "lease_header.set(job, STATE.running, token, deadline_of(job, terms), worker, job.attempt + 1)",
        "lease_header.set(job, STATE.running, token, deadline_of(job, terms), worker, 1)",
        "attempts miscounted",
    ),
    PlantedBug(
        "an ended job stays in an index",
        "batch.z_remove(keys.running(job.queue), job.id)\n  if job.worker",
        "if job.worker",
        "doctor",
    ),
    PlantedBug(
        "callbacks change with each delivery",
        "redis.call('HINCRBY', keys.callback(callback), 'tries', 1)\n",
        "local t = redis.call('HINCRBY', keys.callback(callback), 'tries', 1)\n"
        "redis.call('HSET', keys.callback(callback), 'is_too_big', t - 1)\n",
        "callback changed",
    ),
    PlantedBug(
        "a callback is forgotten",
        "if pending_callbacks.is_wanted(job) then pending_callbacks.add(job, how.result or '') end",
        "",
        "callback missing",
    ),
    PlantedBug(
        "an occurrence is fired by every scheduler",
        "if not is_expected(name, expected_at, revision) then return 'revision_conflict' end",
        "",
        "fired twice",
    ),
    PlantedBug(
        "an occurrence is skipped",
        "local _, is_made = schedules.create_job(name, tonumber(planned_at), entry, terms)",
        "local is_made = planned_at % 3000 < 1000\n"
        "  or select(2, schedules.create_job(name, tonumber(planned_at), entry, terms))",
        "not fired",
    ),
    PlantedBug(
        "a step does not wait",
        "dependencies.count_blockers(id, ignores_waiting) > 0 then return end",
        "dependencies.count_blockers(id, ignores_waiting) > 1 then return end",
        "flow out of turn",
    ),
    PlantedBug(
        "a retried step leaves its consequences",
        "if record.has(job, 'has_dependents') then dependencies.notify_dependents(dependencies.NOT_ENDED, job.id) end",
        "",
        "flow without cause",
    ),
    PlantedBug(
        "a consequence does not wait again",
        "if not has_lost_key(job) then reopen(job, STATE.waiting) end",
        "",
        "flow unfinished",
    ),
    PlantedBug(
        "a retried step stays counted in its flow",
        "  call('HINCRBY', key, flow_record.count_of(known), -1)\n",
        "\n",
        "flow disagrees",
    ),
    PlantedBug(
        "a flow goes with its last record",
        "if call('HINCRBY', key, 'kept', -1) == 0 then flow_retention.leave(id) end",
        "if call('HINCRBY', key, 'kept', -1) == 0 then flow_retention.remove(id) end",
        "lost flow",
    ),
    PlantedBug(
        "a step is stored with any token",
        "tonumber(token))\n  if not job then return refused end\n  refused = lease.renew_in_passing(",
        "0)\n  if not job then return refused end\n  refused = lease.renew_in_passing(",
        "stored by an old token",
    ),
    PlantedBug(
        "a step is acknowledged and not stored",
        "'s' .. name, packed, 'n', step.number,",
        "(step.kind == 1 and 'h' or 's') .. name, packed, 'n', step.number,",
        "step ran again",
    ),
    PlantedBug(
        "a signal before its wait is dropped",
        "redis.call('HSET', key, 'q', order .. struct.pack(UNREAD, number, #name, name))\n",
        "\n",
        "signal lost",
    ),
    PlantedBug(
        "a received signal stays unread",
        "  remove(job, entry, order, stored)\n",
        "\n",
        "signal received twice",
    ),
    PlantedBug(
        "a sleep ends early",
        "and clock.now_ms + wait.for_ms or 0",
        "and clock.now_ms + math.floor(wait.for_ms / 2) or 0",
        "slept too short",
    ),
    PlantedBug(
        "a second suspension moves the end of a sleep",
        "if known and not is_retried then return nil, known end",
        "if known and not is_retried and known.status > 1 then return nil, known end",
        "sleep started over",
    ),
    PlantedBug(
        "a repeated run writes its stream again",
        "if outside ~= '' then written = math.max(written, found.outside - tonumber(outside)) end",
        "",
        "stream differs",
    ),
)  # fmt: skip


@contextlib.contextmanager
def plant(bug: PlantedBug) -> Iterator[None]:
    whole = scripts.library()
    assert whole.source.count(bug.old) == 1, f"{bug.name}: its old text must occur once in the library"
    library = whole.rewritten(f"broken_{BUGS.index(bug)}", lambda source: source.replace(bug.old, bug.new))
    with mock.patch.object(store_module, "library", return_value=library):
        yield
