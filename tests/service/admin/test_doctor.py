"""doctor: each inconsistency is created, found and repaired, and the jobs can run again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.service.admin.doctor_findings import assert_healthy, findings
from tests.service.helpers import new, put, read, take
from tests.service.machines import invariants
from tests.service.schedules.schedule_builders import now_ms, scheduled
from tests.support.namespace import dump_keys, send_command
from windlass.core.diagnosis import Progress, Severity
from windlass.core.job import Blob, Callback, Cap
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.log import Log, LogLine
from windlass.core.operations import Enqueued, Fail, Finish, LeaseRef, Take
from windlass.core.states import State
from windlass.service import Service
from windlass.store.commands.admin import doctor as calls
from windlass.store.commands.command import Command
from windlass.store.doctor import KEYS_PER_CALL

HOUR_MS = 3_600_000


def raw(service: Service, command: str, key: str | bytes, *rest: str | bytes | int) -> Any:
    """A command past all scripts; the key is named without its root."""
    prefix = f"{service.store.root(0)}:".encode()
    return send_command(service.store, command, prefix + (key.encode() if isinstance(key, str) else key), *rest)


def agree(service: Service) -> None:
    store = service.store
    link = store._sync_connection
    invariants.check(invariants.snapshot(link, store.root(0), now_ms(service), f"{store.root(0)}*"))


def finish(service: Service, job: Any) -> None:
    service.finish([Finish(job.id, job.lease_token)]).one().wait()


def assert_repairs(service: Service, *codes: str) -> None:
    """Found without a repair, and nothing changed by that; repaired; then nothing is left to find."""
    before = dump_keys(service.store)
    found = findings(service)
    assert dump_keys(service.store) == before
    assert set(codes) <= found.keys(), found.keys()
    assert not any(one.repaired for one in found.values())
    repaired = findings(service, repair=True)
    assert not [code for code, one in repaired.items() if one.is_open]
    assert all(one.remedy == "It was repaired." for one in repaired.values())
    assert_healthy(service)
    agree(service)


def drain(service: Service, count: int, queue: str = "q") -> None:
    """All jobs are taken and finished."""
    taken = take(service, queue, most=100)
    assert len(taken) == count
    for job in taken:
        finish(service, job)


def place_of(service: Service, job_id: bytes) -> bytes:
    job = read(service, job_id)
    return job.run_at_ms.to_bytes(6, "big") + job.sequence.to_bytes(6, "big") + job_id


# Records against indexes


def test_a_queued_job_that_is_in_no_lane(service: Service) -> None:
    jobs = put(service, new(), new())
    raw(service, "ZREM", "ready:q", place_of(service, jobs[0].id))
    assert_repairs(service, "job_not_in_index")
    drain(service, 2)


def test_a_job_that_is_only_in_one_of_its_two_indexes(service: Service) -> None:
    (job,) = put(service, new(lane="x"))
    raw(service, "ZREM", b"lane:q\0x\0", place_of(service, job.id))
    assert_repairs(service, "job_not_in_index")
    raw(service, "ZREM", "laned:q", place_of(service, job.id))
    assert_repairs(service, "job_not_in_index")
    drain(service, 1)


def test_a_wrong_score(service: Service) -> None:
    first, second = put(service, new(), new(priority=5))
    raw(service, "ZADD", "ready:q", -1, place_of(service, second.id))
    assert_repairs(service, "job_not_in_index")
    assert [job.id for job in take(service, most=2)] == [first.id, second.id]


@pytest.mark.parametrize("index", ["scheduled:q", "expiry", "t:tag", b"u:q\0key"])
def test_a_scheduled_job_missing_somewhere(service: Service, index: str | bytes) -> None:
    (job,) = put(service, new(delay_ms=1_000, expires_in_ms=HOUR_MS, tags=("tag",), unique="key"))
    assert raw(service, "ZREM", index, job.id) == 1
    assert_repairs(service, "job_not_in_index")
    service.store.clock_offset_ms += 1_000
    drain(service, 1)


@pytest.mark.parametrize("index", ["running:q", b"wj:" + bytes(15) + b"w"])
def test_a_running_job_missing_somewhere(service: Service, index: str | bytes) -> None:
    put(service, new(lease_ms=1_000))
    take(service, worker=bytes(15) + b"w")
    job = raw(service, "ZRANGE", index, 0, 0)[0]
    raw(service, "ZREM", index, job)
    assert_repairs(service, "job_not_in_index")
    service.store.clock_offset_ms += 1_001
    service.recover().wait()
    drain(service, 1)


def test_a_failed_and_a_kept_job_missing(service: Service) -> None:
    put(service, new(result_ttl_ms=HOUR_MS), new())
    kept, failed = take(service, most=2)
    service.finish([Finish(kept.id, kept.lease_token, Blob(b"1"))]).one().wait()
    service.fail([Fail(id=failed.id, token=failed.lease_token, then="final")]).one().wait()
    raw(service, "DEL", "failed:q")
    raw(service, "DEL", "finished:q")
    assert_repairs(service, "job_not_in_index")
    service.retry([failed.id]).one().wait()
    drain(service, 1)


def test_ghosts_in_every_index_of_jobs(service: Service) -> None:
    put(service, new(lane="x"), new())
    ghost, place = b"g" * 16, b"p" * 12 + b"g" * 16
    for index in ("scheduled:q", "waiting:q", "running:q", "failed:q", "history:q", "expiry", "retention", "t:x"):
        raw(service, "ZADD", index, 2**47, ghost)
    for index in (b"u:q\0k", b"wj:" + b"w" * 16, b"finished:q", b"cancelled:q"):
        raw(service, "ZADD", index, 5, ghost)
    for index in (b"ready:q", b"lane:q\0x\0", b"lane:q\0y\0", b"laned:q"):
        raw(service, "ZADD", index, -1, place)
    assert_repairs(service, "ghost")
    drain(service, 2)


def test_a_job_that_also_stands_where_it_was_before(service: Service) -> None:
    (job,) = put(service, new())
    place = place_of(service, job.id)
    (taken,) = take(service)
    raw(service, "ZADD", "ready:q", 0, place)
    raw(service, "ZADD", "scheduled:q", 2**47, job.id)
    assert_repairs(service, "ghost")
    assert take(service) == []
    finish(service, taken)
    assert_healthy(service)


def test_what_is_needed_is_not_removed(service: Service) -> None:
    put(service, new(queue="w"))
    (first,) = take(service, "w")
    (waiter,) = put(
        service,
        new(after=(first.id,)),
    )
    put(service, new(after=(first.id, waiter.id)))
    finish(service, first)
    raw(service, "ZADD", "retention", 2**47, first.id, 2**47, waiter.id)
    assert_repairs(service, "retention_wrong")


def test_a_finished_job_that_no_job_needs_any_more(service: Service) -> None:
    put(service, new(result_ttl_ms=HOUR_MS))
    (job,) = take(service)
    finish(service, job)
    raw(service, "ZREM", "retention", job.id)
    assert_repairs(service, "kept_for_nobody")
    service.store.clock_offset_ms += HOUR_MS + 1
    service.clean().wait()
    assert raw(service, "EXISTS", b"j:" + job.id) == 0


# Lanes and limits


@pytest.mark.parametrize("index", ["heads:q", "names:q"])
def test_a_lane_that_no_taker_sees(service: Service, index: str) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    put(service, new(lane="x"), new(lane="y"))
    raw(service, "DEL", index)
    assert_repairs(service, "lane_not_listed")
    drain(service, 2)


def test_ghosts_among_lanes(service: Service) -> None:
    put(service, new(lane="x"))
    raw(service, "ZADD", "heads:q", -1, b"p" * 12 + b"g" * 16 + b"gone\0")
    raw(service, "ZADD", "names:q", 0, b"\0gone\0")
    raw(service, "HSET", "parked_at:q", b"gone\0", "7")
    assert_repairs(service, "ghost")
    drain(service, 1)


def limited(service: Service, **limit: Any) -> None:
    service.limit(Limit(name="l", matches=Matcher(), **limit)).wait()


def test_a_limit_that_counts_a_job_which_does_not_run(service: Service) -> None:
    limited(service, running=1)
    put(service, new(), new())
    (job,) = take(service)
    raw(service, "ZADD", "holders:1", 5, b"g" * 16)
    finish(service, job)
    assert take(service) == []
    assert_repairs(service, "limit_drifted")
    drain(service, 1)


def test_a_running_job_that_its_limit_forgot(service: Service) -> None:
    limited(service, running=1)
    put(service, new(), new())
    (job,) = take(service)
    raw(service, "DEL", "holders:1")
    assert_repairs(service, "job_not_in_index")
    assert take(service) == []
    finish(service, job)
    drain(service, 1)


def test_lanes_parked_under_something_that_has_room(service: Service) -> None:
    limited(service, running=1, key="k")
    put(service, *[new(lane=f"l{at}", payload=Blob(b'{"k": 1}')) for at in range(8)])
    (job,) = take(service)
    assert take(service) == []
    raw(service, "DEL", "holders:1:1")
    raw(service, "ZREM", "running:q", job.id)
    raw(service, "DEL", b"j:" + job.id)
    assert_repairs(service, "room_forgotten", "bytes_wrong")
    for _ in range(7):
        finish(service, *take(service))


def test_a_rate_that_no_timer_checks(service: Service) -> None:
    limited(service, rate=1, per_ms=1_000, burst=1)
    put(service, new(), new())
    finish(service, *take(service))
    assert take(service) == []
    raw(service, "DEL", "rates:q")
    raw(service, "DEL", "timers:due")
    assert_repairs(service, "room_forgotten")
    service.store.clock_offset_ms += 1_000
    drain(service, 1)


def test_marks_of_limits_that_lead_nowhere(service: Service) -> None:
    limited(service, running=1)
    put(service, new(), new())
    (job,) = take(service)
    assert take(service) == []
    raw(service, "SADD", "parked_in:1", "nowhere")
    raw(service, "SADD", "held:1", "1:nobody")
    raw(service, "ZADD", "room:q", 1, "9")
    raw(service, "ZADD", "rates:q", 2**47, "9")
    assert_repairs(service, "ghost")
    raw(service, "DEL", "parked_in:1")
    assert_repairs(service, "lane_not_listed")
    finish(service, job)
    drain(service, 1)


def test_a_limit_that_does_not_know_its_keys(service: Service) -> None:
    limited(service, running=1)
    put(service, new())
    take(service)
    raw(service, "DEL", "held:1")
    assert_repairs(service, "limit_not_listed")


def test_pauses_that_are_counted_wrongly(service: Service) -> None:
    put(service, new(lane="x"))
    service.pause("q", lane="x").wait()
    raw(service, "HDEL", "q:q", "pauses")
    assert_repairs(service, "pauses_miscounted")
    assert take(service) == []
    service.resume("q", lane="x").wait()
    drain(service, 1)


# Counts, timers, queues


@pytest.mark.parametrize(("timer", "job"), [("due", new(delay_ms=500)), ("lease", new(lease_ms=500))])
def test_a_timer_that_comes_too_late(service: Service, timer: str, job: Any) -> None:
    put(service, job)
    take(service)
    raw(service, "ZADD", f"timers:{timer}", 2**47, "q")
    assert_repairs(service, "timer_late")
    raw(service, "DEL", f"timers:{timer}")
    assert_repairs(service, "timer_late")
    service.store.clock_offset_ms += 501
    service.promote().wait()
    service.recover().wait()
    drain(service, 1)


def test_bytes_are_recounted(service: Service) -> None:
    service.configure("q", {"history_length": 10}).wait()
    put(service, new(), new(lane="x"), new(delay_ms=1_000), new())
    finish(service, *take(service))
    raw(service, "HINCRBY", "q:q", "bytes", 1_000)
    assert_repairs(service, "bytes_wrong")
    raw(service, "HINCRBY", "q:q", "history_bytes_now", -7)
    assert_repairs(service, "bytes_wrong")


def test_consequences_are_recounted(service: Service) -> None:
    (first,) = put(service, new())
    put(service, new(after=(first.id,)))
    (job,) = take(service)
    service.fail([Fail(id=job.id, token=job.lease_token)]).wait()
    assert_healthy(service)
    raw(service, "HINCRBY", "q:q", "consequences", 5)
    assert_repairs(service, "consequences_wrong")


def test_a_job_that_stands_in_two_places_by_right_counts_once(service: Service) -> None:
    put(service, new(lease_ms=1_000, retake=True))
    take(service)
    service.store.clock_offset_ms += 1_001
    service.recover().wait()
    assert raw(service, "ZCARD", "ready:q") == raw(service, "ZCARD", "running:q") == 1
    assert_healthy(service)


def test_jobs_that_have_not_found_their_new_places_yet(service: Service) -> None:
    put(service, new(priority=3), new(lane="x", priority=2))
    raw(service, "HSET", "q:q", "aging_ms", 1_000, "relane", "ready 0")
    assert_healthy(service)
    while raw(service, "HEXISTS", "q:q", "relane"):
        service.sweep().wait()
    assert_healthy(service)
    agree(service)


def test_a_queue_that_is_not_listed(service: Service) -> None:
    put(service, new(), new(queue="r"))
    raw(service, "DEL", "queues")
    raw(service, "DEL", "q:r")
    assert_repairs(service, "queue_not_listed")
    assert set(service.queues().wait()) == {"q", "r"}


def test_a_counter_that_fell_behind(service: Service) -> None:
    put(service, new(), new())
    (job,) = take(service)
    raw(service, "SET", "token", 0)
    raw(service, "SET", "seq", 1)
    assert_repairs(service, "counter_behind")
    assert take(service)[0].lease_token > job.lease_token


# Belongings, schedules, callbacks, workers


def test_belongings_without_a_job_and_jobs_without_belongings(service: Service) -> None:
    put(service, new(result_ttl_ms=HOUR_MS), new())
    kept, failed = take(service, most=2)
    service.log([Log(kept.id, kept.lease_token, [LogLine(1, "info", "x")])]).one().wait()
    service.finish([Finish(kept.id, kept.lease_token, Blob(b"1"))]).one().wait()
    service.fail([Fail(id=failed.id, token=failed.lease_token, then="final")]).one().wait()
    raw(service, "RPUSH", b"a:" + b"g" * 16, "x")
    raw(service, "SET", b"o:" + b"g" * 16, "x")
    raw(service, "RPUSH", b"l:" + b"g" * 16, "x")
    raw(service, "ZADD", b"c:" + b"g" * 16, 2, b"h" * 16)
    raw(service, "ZADD", b"d:" + b"g" * 16, 0, b"h" * 16)
    assert_repairs(service, "orphan")
    for kind in (b"o:", b"l:"):
        raw(service, "RENAME", kind + kept.id, service.store.root(0).encode() + b":" + kind + failed.id)
    raw(service, "DEL", b"a:" + failed.id)
    assert_repairs(service, "belongings_lost", "belongings_unmarked")
    assert service.logs(kept.id).wait().lines == []
    assert [line.text for line in service.logs(failed.id).wait().lines] == ["x"]
    service.retry([failed.id]).one().wait()
    drain(service, 1)


def test_schedules_are_planned_again(service: Service) -> None:
    service.schedule(scheduled("s", every_ms=1_000)).wait()
    raw(service, "DEL", "schedules")
    assert_repairs(service, "schedule_not_listed")
    raw(service, "ZADD", "schedules", 2**47, "gone")
    raw(service, "ZADD", "schedule_names", 0, "gone")
    raw(service, "RPUSH", "sj:gone", "x")
    assert_repairs(service, "ghost", "orphan")
    service.store.clock_offset_ms += 1_000
    service.fire().wait()
    drain(service, 1)


def test_callbacks_are_pending_again(service: Service) -> None:
    put(service, new(callback=Callback(url="http://x/")))
    finish(service, *take(service))
    raw(service, "DEL", "owed")
    assert_repairs(service, "callback_not_listed")
    raw(service, "ZADD", "given_up", 2**47, raw(service, "ZRANGE", "owed", 0, 0)[0])
    assert_repairs(service, "callback_not_listed")
    raw(service, "ZADD", "owed", 5, b"g" * 22)
    assert_repairs(service, "ghost")
    assert len(service.take_callbacks().wait().callbacks) == 1


def test_a_worker_without_an_expected_heartbeat(service: Service) -> None:
    raw(service, "HSET", b"w:" + b"w" * 16, "info", "{}")
    assert set(findings(service, repair=True)) == {"worker_not_listed"}
    service.store.clock_offset_ms += 1
    service.recover().wait()
    assert_healthy(service)
    agree(service)


def test_times_to_live(service: Service) -> None:
    (job,) = put(service, new())
    raw(service, "EXPIRE", b"j:" + job.id, 100)
    raw(service, "EXPIRE", "ready:q", 100)
    assert_repairs(service, "would_expire")
    raw(service, "SADD", "ended:7", "x")
    assert_repairs(service, "never_expires")
    drain(service, 1)


# Dependencies


def parent_with_children(service: Service) -> tuple[Any, list[Enqueued]]:
    """A parent that has handed over to two children."""
    put(service, new(queue="p"))
    (parent,) = take(service, "p")
    children = put(service, new(parent=parent.id, held=True), new(parent=parent.id, held=True))
    assert service.finish([Finish(parent.id, parent.lease_token)]).one().wait() == "waiting"
    return parent, children


def test_a_parent_that_lost_its_list(service: Service) -> None:
    parent, _ = parent_with_children(service)
    raw(service, "DEL", b"c:" + parent.id)
    assert_repairs(service, "wrong_member")
    drain(service, 2)
    drain(service, 1, "p")


def test_a_child_listed_in_another_state(service: Service) -> None:
    parent, children = parent_with_children(service)
    raw(service, "ZADD", b"c:" + parent.id, 6, children[0].id)
    assert_repairs(service, "wrong_member")
    drain(service, 2)
    drain(service, 1, "p")


def test_a_wait_that_is_over(service: Service) -> None:
    parent, _ = parent_with_children(service)
    for job in take(service, most=2):
        state = raw(service, "GETRANGE", b"j:" + job.id, 0, 10)
        assert state[1] == State.RUNNING
        finish(service, job)
    assert read(service, parent.id).state is State.QUEUED
    # As if its end had been missed: waiting, with all of its members ended.
    raw(service, "ZREM", "ready:p", place_of(service, parent.id))
    raw(service, "SETRANGE", b"j:" + parent.id, 1, bytes([State.WAITING]))
    raw(service, "ZADD", "waiting:p", read(service, parent.id).created_at_ms, parent.id)
    assert_repairs(service, "wait_is_over")
    drain(service, 1, "p")


def test_a_child_whose_parent_is_gone(service: Service) -> None:
    parent, _ = parent_with_children(service)
    raw(service, "DEL", b"j:" + parent.id)
    assert_repairs(service, "link_to_nobody", "orphan", "ghost", "bytes_wrong")
    drain(service, 2)


def test_a_dependency_that_was_deleted_is_nothing_to_repair(service: Service) -> None:
    (first,) = put(service, new(delay_ms=HOUR_MS))
    put(service, new(after=(first.id,), on_failure="ignore"))
    service.delete([first.id]).one().wait()
    assert_healthy(service)
    drain(service, 1)


def test_a_dependency_whose_record_is_lost(service: Service) -> None:
    (first,) = put(service, new(queue="w"))
    (waiter,) = put(service, new(after=(first.id,)))
    raw(service, "DEL", b"j:" + first.id, service.store.root(0).encode() + b":d:" + first.id)
    assert "wrong_member" in findings(service, repair=True)
    found = findings(service, repair=True)
    assert set(found) == {"waits_forever"}
    assert found["waits_forever"].repaired == 0
    assert "wake" in found["waits_forever"].remedy
    service.wake([waiter.id]).one().wait()
    drain(service, 1)


def test_a_waiter_that_was_not_notified(service: Service) -> None:
    put(service, new(queue="w"))
    (first,) = take(service, "w")
    (waiter,) = put(service, new(after=(first.id,)))
    raw(service, "ZADD", b"d:" + first.id, 7, waiter.id)
    assert_repairs(service, "wrong_member")
    finish(service, first)
    drain(service, 1)


# What needs a judgement is left alone


def test_what_cannot_be_judged_is_reported_and_left_alone(service: Service) -> None:
    put(service, new())
    raw(service, "SET", b"j:" + b"g" * 16, "nonsense")
    raw(service, "SET", "something", "else")
    raw(service, "SET", "scheduled:q", "no index")
    found = findings(service, repair=True)
    assert set(found) == {"record_unreadable", "unknown_key", "wrong_type"}
    assert not any(one.repaired for one in found.values())
    assert raw(service, "GET", b"j:" + b"g" * 16) == b"nonsense"
    assert found["unknown_key"].examples == ("key something",)
    assert found["record_unreadable"].examples == ("job 67676767-6767-6767-6767-676767676767",)


def test_examples_are_ten_at_most_and_counted_all(service: Service) -> None:
    put(service, *[new() for _ in range(30)])
    raw(service, "DEL", "ready:q")
    found = findings(service)["job_not_in_index"]
    assert (found.count, len(found.examples)) == (30, 10)
    assert found.severity is Severity.ERROR
    assert not service.doctor().wait().is_healthy
    assert service.doctor(repair=True).wait().is_healthy


def test_half_a_transaction(service: Service) -> None:
    """As Redis 7.0 revives it (docs/engines.md): some writes of a step are there, the others are not."""
    (job,) = put(service, new(lane="x"))
    place = place_of(service, job.id)
    take(service)
    raw(service, "ZADD", b"lane:q\0x\0", 0, place)
    raw(service, "HINCRBY", "q:q", "bytes", 312)
    assert_repairs(service, "ghost", "bytes_wrong")
    service.requeue([job.id]).one().wait()
    drain(service, 1)


def test_loops_that_do_not_run(service: Service) -> None:
    put(service, new(delay_ms=1_000))
    service.store.clock_offset_ms += 300_000
    assert not findings(service)
    service.store.clock_offset_ms += 1_001
    found = findings(service, repair=True)
    assert {code: one.examples for code, one in found.items()} == {"loops_behind": ("key timers:due",)}
    service.promote().wait()
    assert not findings(service)


# Many jobs, busy jobs


def test_thousands_of_jobs_in_bounded_steps(service: Service) -> None:
    for first in range(0, 6_000, 1_000):
        put(service, *[new(lane=str((first + at) % 3), tags=("t",)) for at in range(1_000)])
    replies: list[tuple[str, int]] = []
    perform = service.store._perform_sync

    def watched(effect: Any) -> Any:
        answer = perform(effect)
        if isinstance(effect, Command) and effect.operation == "survey":
            replies.append(("keys", len(answer[1])))
        elif isinstance(effect, Command) and effect.operation == "examine":
            replies.append(("asked", (len(effect.args) - 2) // 2))
            replies.append(("jobs", answer.jobs))
        return answer

    service.store._perform_sync = watched  # type: ignore[method-assign]
    seen: list[Progress] = []
    diagnosis = service.doctor(on_progress=seen.append).wait()
    assert (diagnosis.jobs, diagnosis.queues, diagnosis.uncounted) == (6_000, 1, ())
    assert not {one.code for one in diagnosis.findings} & {"bytes_wrong", "ghost", "job_not_in_index"}
    assert max(count for _, count in replies) < calls.KEYS_PER_STEP * 1.2  # the engine rounds up to whole buckets
    assert max(count for what, count in replies if what != "keys") <= KEYS_PER_CALL
    assert len(seen) > 10
    assert seen[-1].jobs == 6_000
    raw(service, "HINCRBY", "q:q", "bytes", -1)
    assert findings(service, repair=True)["bytes_wrong"].repaired == 1
    assert_healthy(service)


def test_a_page_of_an_index_is_bounded(service: Service) -> None:
    put(service, *[new(tags=("t",)) for _ in range(1_000)] * 3)
    step = service.store.run_sync(_once(calls.examine([(b"t:t", b"0"), (b"ready:q", b"0")], False, 0)))
    assert [name for name, _ in step.left] == [b"t:t", b"ready:q"]


def _once(call: Any) -> Any:
    return (yield call)


@pytest.mark.anyio
async def test_while_jobs_flow_nothing_is_found_and_nothing_is_lost(service: Service) -> None:
    limit = Limit(name="l", matches=Matcher(name="limited"), running=2)
    await service.limit(limit)
    done: set[bytes] = set()
    made: set[bytes] = set()
    released: set[bytes] = set()

    async def produce() -> None:
        for at in range(40):
            jobs = [
                new(lane=f"l{at % 3}", name=("free", "limited")[at % 2], priority=at % 4, tags=("t",), unique=f"{at}"),
                new(delay_ms=at % 7, unique=f"u{at}"),
            ]  # fmt: skip
            made.update(one.id for one in await service.enqueue(jobs) if isinstance(one, Enqueued))

    async def work() -> None:
        while len(done) < 80:
            taken = (await service.take(Take(queues=("q",), most=3, wait_ms=200))).jobs
            for at, job in enumerate(taken):
                if (job.sequence + at) % 5 == 0 and job.id not in released:
                    released.add(job.id)
                    await service.release([LeaseRef(job.id, job.lease_token)])
                else:
                    await service.finish([Finish(job.id, job.lease_token)])
                    done.add(job.id)

    async def examine(repair: bool) -> None:
        while len(done) < 80:
            found = await service.doctor(repair)
            assert not [one for one in found.findings if one.severity is Severity.ERROR], found

    await asyncio.wait_for(asyncio.gather(produce(), work(), work(), examine(False), examine(True)), 60)
    assert done == made
    assert_healthy(service)
    await service.store.close()


def test_a_healthy_namespace_with_a_bit_of_everything(service: Service) -> None:
    service.configure("q", {"name_lanes": True, "fair_share": True, "history_length": 5}).wait()
    limited(service, running=1, key="k")
    service.schedule(scheduled("s", every_ms=1_000, queue="r")).wait()
    parent_with_children(service)
    put(service, *[new(lane=f"l{at % 2}", payload=Blob(json.dumps({"k": at % 2}).encode())) for at in range(6)])
    assert take(service, most=10)
    service.pause("q", lane="l1").wait()
    service.configure("q", {"aging_ms": 1_000}).wait()
    service.store.clock_offset_ms += 2_000
    service.fire().wait()
    assert_healthy(service)
    agree(service)


@pytest.mark.parametrize(
    "damage",
    [
        ("ZREM", "keyed:1", '1="a"'),
        ("ZADD", "keyed:1", 5, '1="a"'),
        ("ZADD", "idle_caps", 2**46, '1="a"'),
        ("ZREM", "idle_caps", '1="gone"'),
        ("ZADD", "idle_caps", 2**46, '1="gone"'),
        ("HSET", "caps:1", '1="a"', "xx"),
        ("HSET", "caps:1", '1="b"', "0000 and more"),
    ],
)
def test_caps_that_do_not_fit_their_jobs(service: Service, damage: tuple[Any, ...]) -> None:
    service.limit(Limit(name="l", matches=Matcher(queue="q"), running=2, key="k", own_caps=True)).wait()
    cap = Cap(limit="l", running=1)
    gone = put(service, *(new(payload=Blob(b'{"k": "%s"}' % key), cap=cap) for key in (b"gone", b"a", b"a")))[0]
    service.delete([gone.id]).wait()
    raw(service, *damage)
    assert_repairs(service, "cap_wrong")


@pytest.mark.parametrize("key", ["keyed:1", "idle_caps"])
def test_keys_with_caps_that_are_not_there(service: Service, key: str) -> None:
    service.limit(Limit(name="l", matches=Matcher(queue="q"), running=2, key="k", own_caps=True)).wait()
    raw(service, "ZADD", key, 2**46, '1="b"')
    assert_repairs(service, "ghost")


def test_a_key_that_misses_a_job(service: Service) -> None:
    service.limit(Limit(name="l", matches=Matcher(queue="q"), running=2, key="k", own_caps=True)).wait()
    put(service, new(payload=Blob(b'{"k": "a"}'), cap=Cap(limit="l", running=1)))
    raw(service, "DEL", 'under:1="a"')
    raw(service, "ZADD", 'under:1="b"', 2, bytes(16))
    assert_repairs(service, "job_not_in_index", "ghost")
    (found,) = service.aggregations("l").wait().aggregations
    assert (found.key, found.queued, found.cap) == ("a", 1, 1)
