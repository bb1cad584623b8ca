"""explain: every reason why a job does not run, as data and in words; it changes nothing. The clock is frozen, so the
words are exact."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
import pytest

from tests.service.frozen_engine import START_MS, frozen_store, frozen_time
from tests.service.helpers import new, put, take
from tests.service.machines.dependency_builders import fail, finish, parent_with_children, run_all_steps
from tests.support.engine_process import EngineProcess
from tests.support.namespace import dump_keys, send_command
from windlass.core.errors import AlreadyEnded, UnknownJob
from windlass.core.explain.reasons import (
    Ahead,
    AwaitsMembers,
    DeletedMembers,
    Dispatched,
    Ended,
    Expired,
    Expires,
    Explanation,
    HeldByParent,
    InSteps,
    LeaseOverdue,
    LimitFull,
    Next,
    NothingLeft,
    NoWorker,
    Paused,
    RateLimited,
    Running,
    Scheduled,
    StopRequested,
    Unwanted,
    WorkersBusy,
    WorkerSilent,
)
from windlass.core.ids import format_id
from windlass.core.job import Blob, NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Edit, Fail, Filter, LeaseRef, Take, WorkerInfo
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import Backoff
from windlass.service import Service
from windlass.store.commands.take import WaitRegistration
from windlass.store.store import Store
from windlass.store.waiting.take import take_flow

T = TypeVar("T")
WORKER, OTHER = b"w" * 16, b"\x00\xff" * 8
_namespaces = itertools.count(1)
INFO = WorkerInfo(host="box", pid=77, queues=("q",), slots=2, name="w1")


@pytest.fixture
def store(engine: EngineProcess) -> Iterator[Store]:
    with frozen_time():
        store = frozen_store(engine, f"explain{os.getpid()}-{next(_namespaces)}")
        yield store
        store.close_sync()


def explain(service: Service, job_id: bytes) -> Explanation:
    """Check that every explanation survives JSON and that each sentence ends."""
    found = service.explain(job_id).wait()
    assert msgspec.json.decode(msgspec.json.encode(found), type=Explanation) == found
    assert found.id == format_id(job_id)
    for sentence in (found.summary, *(one.sentence for one in found.reasons)):
        assert sentence.endswith(".")
        assert len(sentence) < 1_000
    return found


def kinds(explanation: Explanation) -> list[type]:
    return [type(reason) for reason in explanation.reasons]


def only(explanation: Explanation, kind: type[T]) -> T:
    (found,) = [reason for reason in explanation.reasons if isinstance(reason, kind)]
    return found


def one(service: Service, *args: Any, **kw: Any) -> bytes:
    return put(service, new(*args, **kw))[0].id


def wait_at(service: Service, queue: str = "q", *, for_ms: int = 60_000, waiter: str = "b", **wants: Any) -> None:
    """A taker that found nothing and waits, as the engine sees it."""
    request = Take(queues=(queue,), wants=Filter(**wants))
    found = service.store.run_sync(take_flow(request, [queue], 0, WaitRegistration(waiter, for_ms)))
    assert found.taken.jobs == []


def limit(service: Service, name: str, queue: str = "q", **terms: Any) -> None:
    service.limit(Limit(name=name, matches=Matcher(queue=queue), **terms)).wait()


# It waits for its time


def test_scheduled_until_an_instant(service: Service) -> None:
    job_id = one(service, delay_ms=3_600_000)
    found = explain(service, job_id)
    assert (found.state, found.queue, found.name) == ("scheduled", "q", "n")
    reason = found.reasons[0]
    assert isinstance(reason, Scheduled)
    assert (reason.why, reason.until_at_ms) == ("run_at", START_MS + 3_600_000)
    assert reason.sentence == "It does not start before 2027-01-15 09:00:00 UTC (in 1 h)."
    wait_at(service)
    words = "The job is scheduled: it does not start before 2027-01-15 09:00:00 UTC (in 1 h)."
    assert explain(service, job_id).summary == words


def test_scheduled_for_its_next_attempt(service: Service) -> None:
    job_id = one(service, retry=Backoff(tries=3))
    (job,) = take(service)
    service.fail([Fail(id=job_id, token=job.lease_token, then="retry", delay_ms=60_000, reason="NoRoute")]).wait()
    reason = only(explain(service, job_id), Scheduled)
    assert (reason.why, reason.attempt, reason.max_attempts, reason.last_reason) == ("retry", 1, 3, "NoRoute")
    assert reason.sentence == (
        "It is retried at 2027-01-15 08:01:00 UTC (in 1 min), because attempt 1 of 3 failed: NoRoute."
    )


def test_scheduled_for_its_next_run(service: Service) -> None:
    job_id = one(service, repeat="FINISHED, +1 HOUR")
    finish(service, take(service)[0])
    reason = only(explain(service, job_id), Scheduled)
    assert reason.why == "repeat"
    assert reason.sentence.startswith("Its next run is planned for ")


def test_due_but_not_looked_at(service: Service) -> None:
    job_id = one(service, delay_ms=5_000)
    service.store.clock_offset_ms += 9_000
    reason = only(explain(service, job_id), Scheduled)
    assert "(4 s ago): the next taker or the scheduler moves it into its queue." in reason.sentence


def test_an_expiry_is_explained_before_and_after(service: Service) -> None:
    job_id = one(service, expires_in_ms=5_000)
    assert kinds(explain(service, job_id)) == [NoWorker, Next, Expires]
    service.store.clock_offset_ms += 6_000
    found = explain(service, job_id)
    assert kinds(found)[0] is Expired
    assert "with reason expired" in found.summary


# It is held back


def test_a_paused_queue(service: Service) -> None:
    job_id = one(service)
    service.pause("q", reason="provider is down").wait()
    service.store.clock_offset_ms += 120_000
    found = explain(service, job_id)
    reason = only(found, Paused)
    (pause,) = service.pauses("q").wait()
    assert (reason.scope, reason.since_at_ms, reason.reason) == ("queue", pause.since_ms, "provider is down")
    assert found.reasons[0] == reason
    words = 'Queue "q" has been paused since 2027-01-15 08:00:00 UTC (for 2 min): provider is down.'
    assert reason.sentence == words
    assert Next not in kinds(found)


@pytest.mark.parametrize("delay_ms", [0, 60_000])
def test_a_paused_lane_and_a_paused_name(service: Service, delay_ms: int) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    job_id, free = (one(service, name=name, lane=lane, delay_ms=delay_ms) for name, lane in (("sms", "a"), ("x", "b")))
    service.pause("q", lane="a", reason="unpaid").wait()
    service.pause("q", name="sms").wait()
    lane, name = (reason for reason in explain(service, job_id).reasons if isinstance(reason, Paused))
    assert (lane.scope, lane.lane, name.scope, name.name) == ("lane", "a", "name", "sms")
    assert lane.sentence.startswith('Lane "a" of queue "q" has been paused')
    assert name.sentence.startswith('The name "sms" in queue "q" has been paused')
    assert name.sentence.endswith(", no reason was given.")
    assert Paused not in kinds(explain(service, free))


def test_a_full_limit_names_who_holds_it(service: Service) -> None:
    limit(service, "mail", running=12)
    put(service, *(new() for _ in range(12)))
    running = [format_id(job.id) for job in take(service, most=20)]
    job_id = one(service)
    found = explain(service, job_id)
    reason = only(found, LimitFull)
    assert (reason.limit, reason.key, reason.cap, reason.running) == ("mail", None, 12, 12)
    assert reason.holders == sorted(running)[:10]
    assert 'limit "mail" is full: 12 of 12 running, held by ' in found.summary
    assert "and 9 more" in found.summary
    assert Next not in kinds(found)


def test_all_limits_without_room_and_no_other(service: Service) -> None:
    limit(service, "wide", running=9)
    limit(service, "per customer", running=1, key="c")
    limit(service, "all", running=1)
    limit(service, "rate", rate=2, per_ms=60_000, burst=1)
    ids = [one(service, payload=Blob(b'{"c":"acme"}')) for _ in range(2)]
    (job,) = take(service, most=2, lease_ms=600_000)
    found = explain(service, ids[1])
    keyed, whole, rate = found.reasons[:3]
    assert isinstance(keyed, LimitFull)
    assert isinstance(whole, LimitFull)
    assert isinstance(rate, RateLimited)
    assert (keyed.limit, keyed.key, keyed.holders) == ("per customer", '"acme"', [format_id(job.id)])
    assert keyed.sentence.startswith('Limit "per customer" for key "acme" is full: 1 of 1 running')
    assert (whole.limit, whole.cap) == ("all", 1)
    assert (rate.rate, rate.per_ms, rate.burst, rate.until_at_ms) == (2, 60_000, 1, (job.started_at_ms or 0) + 30_000)
    assert 'Limit "rate" allows 2 starts per 1 min: the next job can start at ' in rate.sentence
    service.store.clock_offset_ms += 30_000
    assert RateLimited not in kinds(explain(service, ids[1]))
    for name in ("per customer", "all"):
        service.unlimit(name).wait()
    assert kinds(explain(service, ids[1])) == [NoWorker, Next]
    assert [job.id for job in take(service)] == [ids[1]]


def test_a_limit_that_was_lowered(service: Service) -> None:
    limit(service, "stop", running=1)
    job_id = one(service)
    take(service)
    limit(service, "stop", running=2)
    second = one(service)
    assert LimitFull not in kinds(explain(service, second))
    assert [job.id for job in take(service)] == [second]
    limit(service, "stop", running=1)
    third = one(service)
    reason = only(explain(service, third), LimitFull)
    assert (reason.cap, reason.running, reason.holders) == (1, 2, [format_id(job_id), format_id(second)])


def test_a_limit_that_lets_nothing_run(service: Service) -> None:
    limit(service, "stop", running=0)
    reason = only(explain(service, one(service)), LimitFull)
    assert (reason.cap, reason.running, reason.sentence) == (0, 0, 'Limit "stop" lets no job run.')


# Where it stands


@pytest.mark.parametrize("changes", [{}, {"aging_ms": 1_000}, {"name_lanes": True}])
def test_jobs_ahead_are_exact_by_the_order_in_which_they_are_taken(service: Service, changes: dict[str, Any]) -> None:
    service.configure("q", changes).wait()
    draw, ids = random.Random(7), []
    for _ in range(60):
        service.store.clock_offset_ms += draw.choice((0, 700))
        place = {"lane": draw.choice(("", "", "a", "b")), "priority": draw.choice((-1, 0, 3))}
        ids.append(one(service, name=draw.choice("xyz"), **place))
    ahead = {job_id: _ahead(explain(service, job_id)) for job_id in ids}
    assert sorted(ahead.values()) == list(range(60))
    assert sorted(ahead, key=ahead.__getitem__) == [job.id for job in take(service, most=500)]


def _ahead(explanation: Explanation) -> int:
    if Next in kinds(explanation):
        return 0
    reason = only(explanation, Ahead)
    words = "1 job is" if reason.ahead == 1 else f"{reason.ahead} jobs are"
    assert reason.sentence.startswith(f'{words} ahead of it in queue "q"')
    return reason.ahead


def test_with_fair_share_the_lane_counts(service: Service) -> None:
    service.configure("q", {"fair_share": True}).wait()
    service.set_weights("q", {"b": 3}).wait()
    ids = [one(service, lane=lane) for lane in ("a", "a", "a", "b", "")]
    third, other = only(explain(service, ids[2]), Ahead), only(explain(service, ids[3]), Ahead)
    assert (third.ahead, third.is_fair, third.lane, third.lanes) == (2, True, "a", 3)
    assert third.sentence == '2 jobs are ahead of it in lane "a", which takes turns with 2 other lanes.'
    assert (other.ahead, other.weight) == (0, 3)
    assert other.sentence == 'It is the first of lane "b", which takes turns with 2 other lanes, with weight 3.'
    assert only(explain(service, ids[4]), Ahead).sentence.startswith("It is the first of the default lane")


def test_jobs_ahead_may_be_held_back(service: Service) -> None:
    service.limit(Limit(name="slow", matches=Matcher(name="slow"), running=1)).wait()
    put(service, *(new(name="slow") for _ in range(3)))
    take(service, most=5)
    reason = only(explain(service, one(service)), Ahead)
    assert (reason.ahead, reason.blocked_lanes) == (2, 1)
    assert reason.sentence == '2 jobs are ahead of it in queue "q", some of them blocked by limits or pauses.'


def test_a_queue_that_is_rearranged_is_no_reason(service: Service) -> None:
    ids = [one(service, name=name) for name in ("x", "y")]
    wait_at(service, "other")
    service.configure("q", {"name_lanes": True, "fair_share": True}).wait()
    assert set(kinds(explain(service, ids[1]))) <= {NoWorker, Next, Ahead}


# No taker


def test_no_worker_listens(service: Service) -> None:
    job_id = one(service)
    service.register(WORKER, WorkerInfo(queues=("r",))).wait()
    wait_at(service, "r")
    found = explain(service, job_id)
    assert found.summary == 'The job is queued: no worker listens to queue "q": start a worker for it.'
    assert only(found, NoWorker).silent_workers == 0


def test_takers_that_are_not_registered_show_by_what_they_hold(service: Service) -> None:
    put(service, new(), new())
    take(service, most=2)
    reason = only(explain(service, one(service)), NoWorker)
    assert reason.served == 2
    words = 'No taker waits at queue "q" and no worker is registered for it, although 2 of its jobs are taken.'
    assert reason.sentence == words


def test_a_worker_that_fell_silent_does_not_listen(service: Service) -> None:
    service.register(WORKER, INFO, beat_ms=5_000).wait()
    job_id = one(service)
    assert NoWorker not in kinds(explain(service, job_id))
    service.store.clock_offset_ms += 5_001
    reason = only(explain(service, job_id), NoWorker)
    assert reason.silent_workers == 1
    assert "(1 worker stopped sending heartbeats)" in reason.sentence


def test_a_wait_that_is_over_counts_no_more(service: Service) -> None:
    wait_at(service, for_ms=5_000, priority=7)
    job_id = one(service)
    assert Unwanted in kinds(explain(service, job_id))
    service.store.clock_offset_ms += 5_001
    assert NoWorker in kinds(explain(service, job_id))


def test_those_who_wait_do_not_want_it(service: Service) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    wait_at(service, only=("mail", "push"), waiter="a")
    wait_at(service, glob="re*", priority=5, waiter="b")
    wait_at(service, all_but=("sms",), waiter="c")
    job_id = one(service, name="sms")
    found = explain(service, job_id)
    reason = only(found, Unwanted)
    assert (reason.name, reason.priority, reason.waiting) == ("sms", 0, 3)
    assert sorted(reason.wants) == ['all but "sms"', 'names like "re*" with priority 5', 'only "mail", "push"']
    assert found.reasons[0] == reason
    assert found.summary.startswith('The job is queued: all 3 takers waiting at queue "q" want other jobs (')
    assert found.summary.endswith('), not "sms" with priority 0.')
    wait_at(service, only=("push",), waiter="d")
    assert Unwanted in kinds(explain(service, job_id))


def test_workers_are_busy(service: Service) -> None:
    service.register(WORKER, INFO).wait()
    service.register(OTHER, WorkerInfo(queues=("q", "r"), slots=1)).wait()
    put(service, new(), new(), new("r"))
    take(service, worker=WORKER, most=2)
    take(service, "r", worker=OTHER)
    job_id = one(service)
    found = explain(service, job_id)
    reason = only(found, WorkersBusy)
    assert (reason.workers, reason.slots, reason.running) == (2, 3, 3)
    assert kinds(found) == [WorkersBusy, Next]
    assert found.summary == 'The job is queued: all 2 workers of queue "q" are busy: 3 of 3 slots in use.'


def test_workers_with_free_slots_that_do_not_ask(service: Service) -> None:
    service.register(WORKER, INFO).wait()
    put(service, new())
    take(service, worker=WORKER)
    put(service, new())
    found = explain(service, one(service))
    assert kinds(found) == [Ahead, WorkersBusy]
    assert found.summary == (
        'The job is queued: 1 job is ahead of it in queue "q"; the only worker of queue "q" has 1 of 2 slots in use, '
        "but none asks for a job at the moment."
    )


def test_nothing_holds_it_back(service: Service) -> None:
    service.pause("q").wait()
    job_id = one(service)
    wait_at(service)
    service.pause("q", lane="other").wait()
    assert kinds(explain(service, job_id)) == [Paused]
    service.store._sync_connection.call("HDEL", f"{service.store.root(0)}:q:q", "paused")  # resume would wake the taker
    found = explain(service, job_id)
    assert kinds(found) == [Next]
    assert found.summary == 'The job is queued and nothing blocks it: it is the next job of queue "q".'


# It waits for others


def test_waiting_for_other_jobs(service: Service) -> None:
    ids = [one(service) for _ in range(12)]
    job_id = one(service, "r", after=tuple(ids))
    (first,) = take(service)
    found = explain(service, job_id)
    reason = only(found, AwaitsMembers)
    assert (found.state, kinds(found)) == ("waiting", [AwaitsMembers])
    assert (reason.count, len(reason.members)) == (12, 10)
    states = {member.id: member.state for member in reason.members}
    assert states.get(format_id(first.id), "running") == "running"
    assert set(states) <= {format_id(one) for one in ids}
    assert found.summary.startswith("The job is waiting: 12 jobs it waits for have not ended: ")
    assert found.summary.endswith(" and 9 more.")
    finish(service, first)
    assert only(explain(service, job_id), AwaitsMembers).count == 11


def test_a_dependency_that_is_lost_never_ends(service: Service) -> None:
    """As after an import that did not bring it, or a repair that did not find it."""
    gone, other = one(service), one(service)
    job_id = one(service, "r", after=(gone, other))
    send_command(service.store, "ZADD", f"{service.store.root(0)}:c:".encode() + job_id, 0, gone)
    found = explain(service, job_id)
    assert kinds(found) == [AwaitsMembers, DeletedMembers]
    assert [member.id for member in only(found, AwaitsMembers).members] == [format_id(other)]
    reason = only(found, DeletedMembers)
    assert (reason.count, reason.members) == (1, [format_id(gone)])
    words = f"1 job it waits for was deleted and will never end ({format_id(gone)}): use wake to let it continue."
    assert reason.sentence == words
    service.wake([job_id]).one().wait()
    assert explain(service, job_id).state == "queued"


def test_a_child_is_held_by_its_parent(service: Service) -> None:
    parent, children = parent_with_children(service)
    found = explain(service, children[0])
    reason = only(found, HeldByParent)
    assert (reason.parent.id, reason.parent.state) == (parent.key, "running")
    assert found.summary == f"The job is waiting: its parent {parent.key} (running) holds it until it hands over."
    finish(service, parent)
    assert explain(service, children[0]).state == "queued"
    assert only(explain(service, parent.id), AwaitsMembers).count == 2


def test_a_parent_whose_last_child_was_deleted(service: Service) -> None:
    parent, children = parent_with_children(service, 1)
    finish(service, parent)
    service.delete(children).wait()
    found = explain(service, parent.id)
    assert kinds(found) == [NothingLeft]
    assert found.summary.endswith("use wake to let it continue.")
    service.wake([parent.id]).one().wait()


def test_a_group_waits_for_its_members(service: Service) -> None:
    job_id = one(service, "g", joins=True, after=(one(service),))
    reason = only(explain(service, job_id), AwaitsMembers)
    assert reason.is_group
    assert reason.sentence.startswith("1 member of this group has not ended: ")


def test_many_children_are_released_in_steps(service: Service) -> None:
    parent, children = parent_with_children(service, 500)
    finish(service, parent)
    found = [explain(service, child) for child in children]
    held = [one for one in found if one.state == "waiting"]
    assert len(held) == 300
    assert {tuple(kinds(one)) for one in held} == {(HeldByParent, InSteps)}
    assert only(held[0], InSteps).steps == ["releasing"]
    assert only(held[0], HeldByParent).sentence.endswith(
        "(waiting) has handed over or no longer exists: the job will be released soon."
    )
    assert "still processed in steps: held children are being released" in only(held[0], InSteps).sentence
    assert kinds(explain(service, parent.id)) == [AwaitsMembers, InSteps]
    run_all_steps(service)
    assert kinds(explain(service, parent.id)) == [AwaitsMembers]


def test_the_end_of_a_job_reaches_dependents_in_steps(service: Service) -> None:
    awaited = one(service)
    waiters = [one.id for one in put(service, *(new("r", after=(awaited,)) for _ in range(300)))]
    finish(service, take(service)[0])
    held = [one for one in (explain(service, waiter) for waiter in waiters) if one.state == "waiting"]
    assert len(held) == 100
    assert only(held[0], AwaitsMembers).members[0].state == "finished"
    assert only(held[0], InSteps).steps == ["telling"]


def test_what_was_seen_is_cleared_in_steps(service: Service) -> None:
    parent, _ = parent_with_children(service, 300)
    finish(service, parent)
    run_all_steps(service)
    for child in take(service, "c", most=500):
        finish(service, child)
    (again,) = take(service, "p")
    put(service, new("c", parent=again.id))
    assert finish(service, again) == "waiting"
    found = explain(service, parent.id)
    assert kinds(found) == [AwaitsMembers, InSteps]
    assert "clearing" in only(found, InSteps).steps


def test_members_of_a_cancelled_parent_are_let_go_in_steps(service: Service) -> None:
    parent, children = parent_with_children(service, 500)
    finish(service, parent)
    service.cancel([parent.id]).wait()
    found = explain(service, parent.id)
    assert kinds(found) == [Ended, InSteps]
    assert only(found, InSteps).steps == ["letting_go"]
    held = [one for one in (explain(service, child) for child in children) if one.state == "waiting"]
    assert held
    assert only(held[0], HeldByParent).parent.state == "cancelled"
    assert "letting_go" in only(held[0], InSteps).steps


# Held by a worker


def test_running_by_a_registered_worker(service: Service) -> None:
    service.register(WORKER, INFO, beat_ms=60_000).wait()
    job_id = one(service, retry=Backoff(tries=3), lease_ms=30_000, timeout_ms=90_000)
    (job,) = take(service, worker=WORKER)
    service.store.clock_offset_ms += 10_000
    service.beat([WORKER]).wait()
    service.extend([LeaseRef(job.id, job.lease_token)]).wait()
    service.store.clock_offset_ms += 5_000
    found = explain(service, job_id)
    reason = only(found, Running)
    started = job.started_at_ms or 0
    assert kinds(found) == [Running]
    assert (reason.since_at_ms, reason.attempt, reason.max_attempts) == (started, 1, 3)
    assert reason.timeout_at_ms == started + 90_000
    assert (reason.deadline_at_ms, reason.lease_renewed_at_ms) == (started + 40_000, started + 10_000)
    assert reason.worker is not None
    assert (reason.worker.name, reason.worker.host, reason.worker.pid) == ("w1", "box", 77)
    assert (reason.worker.beat_at_ms, reason.worker.silent_at_ms) == (started + 10_000, started + 70_000)
    assert found.summary == (
        'The job is running: worker "w1" on box (pid 77) has been running it since 2027-01-15 08:00:00 UTC (for 15 s), '
        "attempt 1 of 3; its lease holds until 2027-01-15 08:00:40 UTC (in 25 s), and the worker's last heartbeat was "
        "5 s ago."
    )


def test_running_on_an_unknown_worker(service: Service) -> None:
    job_id = one(service)
    (job,) = take(service)
    reason = only(explain(service, job_id), Running)
    assert reason.worker is None
    assert reason.sentence.startswith("A taker without a worker id has been running it since ")
    service.store.clock_offset_ms += 10_000
    service.extend([LeaseRef(job.id, job.lease_token)]).wait()
    service.store.clock_offset_ms += 2_000
    assert ", and was renewed 2 s ago." in only(explain(service, job_id), Running).sentence


def test_a_worker_that_is_not_registered_has_only_its_id(service: Service) -> None:
    job_id = one(service)
    take(service, worker=WORKER, lease_ms=FOREVER_MS)
    reason = only(explain(service, job_id), Running)
    assert reason.worker is not None
    assert (reason.worker.id, reason.worker.is_registered) == (format_id(WORKER), False)
    assert reason.deadline_at_ms is None
    assert reason.sentence.startswith(f"Worker {format_id(WORKER)} has been running it since ")
    assert reason.sentence.endswith("; its lease has no deadline.")


def test_a_lease_of_another_length_was_renewed_at_an_unknown_time(service: Service) -> None:
    job_id = one(service, lease_ms=60_000)
    take(service, lease_ms=10_000)
    assert only(explain(service, job_id), Running).lease_renewed_at_ms is None


def test_overdue_and_its_worker_silent(service: Service) -> None:
    service.register(WORKER, INFO, beat_ms=20_000).wait()
    job_id = one(service)
    (job,) = take(service, worker=WORKER, lease_ms=10_000)
    service.store.clock_offset_ms += 30_000
    found = explain(service, job_id)
    assert kinds(found) == [Running, LeaseOverdue, WorkerSilent]
    reason = only(found, LeaseOverdue)
    assert (reason.why, reason.since_at_ms) == ("lease", job.lease_deadline_at_ms)
    assert "(20 s ago): the next taker or the recoverer takes it from its holder" in found.summary
    assert only(found, WorkerSilent).since_at_ms == (service.workers().wait()[0].silent_at_ms)


def test_overdue_and_takeable_by_another(service: Service) -> None:
    job_id = one(service, retake=True, lease_ms=10_000)
    take(service)
    service.store.clock_offset_ms += 11_000
    service.recover().wait()
    service.pause("q", reason="deploy").wait()
    found = explain(service, job_id)
    assert found.state == "running"
    assert kinds(found) == [Running, LeaseOverdue, Paused, NoWorker]
    assert only(found, LeaseOverdue).may_be_retaken
    assert only(found, LeaseOverdue).sentence.endswith(
        ": another worker may take it, and until then its holder may still report."
    )


def test_over_its_execution_timeout(service: Service) -> None:
    job_id = one(service, timeout_ms=5_000)
    take(service, lease_ms=60_000)
    service.store.clock_offset_ms += 6_000
    reason = only(explain(service, job_id), LeaseOverdue)
    assert reason.why == "timeout"
    assert "It exceeded its execution timeout" in reason.sentence


def test_asked_to_stop(service: Service) -> None:
    job_id = one(service)
    take(service)
    service.cancel([job_id]).wait()
    found = explain(service, job_id)
    assert kinds(found) == [Running, StopRequested]
    assert found.summary.endswith("; it was asked to stop, and its worker has not reported yet.")


def test_dispatched_and_not_accepted(service: Service) -> None:
    service.register(WORKER, INFO).wait()
    job_id = one(service)
    (job,) = take(service, worker=WORKER, accept_ms=5_000)
    found = explain(service, job_id)
    reason = only(found, Dispatched)
    assert (found.state, reason.accept_until_at_ms) == ("dispatched", job.lease_deadline_at_ms)
    assert found.summary == (
        'The job is dispatched: worker "w1" on box (pid 77) received it just now and must accept it by '
        "2027-01-15 08:00:05 UTC (in 5 s), otherwise it returns to its queue."
    )
    service.store.clock_offset_ms += 6_000
    assert only(explain(service, job_id), LeaseOverdue).why == "accept"


# It has ended


def test_a_failed_job(service: Service) -> None:
    job_id = one(service, retry=Backoff(tries=2))
    (job,) = take(service)
    service.fail([Fail(id=job_id, token=job.lease_token, reason="ValueError")]).wait()
    service.store.clock_offset_ms += 180_000
    found = explain(service, job_id)
    reason = only(found, Ended)
    assert (reason.how, reason.reason, reason.attempt, reason.max_attempts) == ("failed", "ValueError", 1, 2)
    assert reason.at_ms + 14 * 86_400_000 == reason.kept_until_at_ms
    assert found.summary == (
        "It failed at 2027-01-15 08:00:00 UTC (3 min ago) in attempt 1 of 2: ValueError; "
        "it is kept until 2027-01-29 08:00:00 UTC (in 14 days)."
    )


def test_a_finished_job_does_not_name_an_earlier_failure(service: Service) -> None:
    job_id = one(service, result_ttl_ms=60_000)
    (job,) = take(service)
    fail(service, job, "retry")
    finish(service, take(service)[0], Blob(b"1"))
    reason = only(explain(service, job_id), Ended)
    assert (reason.how, reason.reason, reason.attempt, reason.kept) == ("finished", "", 2, "until")


def test_a_cancelled_job_names_the_cancel_and_not_an_earlier_failure(service: Service) -> None:
    first, second = one(service), one(service)
    for job in take(service, most=2):
        service.fail([Fail(id=job.id, token=job.lease_token, then="retry", reason="NoRoute")]).wait()
    service.cancel([first], reason="by hand").wait()
    assert only(explain(service, first), Ended).reason == "by hand"
    (job,) = take(service)
    service.cancel([second]).wait()
    service.store.clock_offset_ms += 1_000
    service.release([LeaseRef(second, job.lease_token)]).wait()
    reason = only(explain(service, second), Ended)
    assert (reason.how, reason.reason) == ("cancelled", "")


def test_how_long_an_ended_job_is_kept(service: Service) -> None:
    service.configure("history", {"history_length": 5}).wait()
    service.configure("always", {"retention_ms": FOREVER_MS}).wait()
    old, failed, needed = one(service, "history"), one(service, "always"), one(service)
    one(service, "r", after=(needed, one(service, "s")))
    finish(service, take(service, "history")[0])
    fail(service, take(service, "always")[0])
    finish(service, take(service)[0])
    kept = {job_id: only(explain(service, job_id), Ended) for job_id in (old, failed, needed)}
    assert [one.kept for one in kept.values()] == ["history", "always", "needed"]
    assert kept[old].sentence.endswith("it stays in its queue's history until newer jobs replace it.")
    assert kept[failed].sentence.endswith("it is kept until it is deleted.")
    assert kept[needed].sentence.endswith("it is kept while another job needs its outcome.")


def test_unknown_and_removed_jobs_are_refused(service: Service) -> None:
    with pytest.raises(UnknownJob):
        service.explain(bytes(16)).wait()
    job_id = one(service)
    finish(service, take(service)[0])
    with pytest.raises(AlreadyEnded):
        service.explain(job_id).wait()


def test_it_changes_nothing(service: Service) -> None:
    service.configure("named", {"name_lanes": True, "fair_share": True}).wait()
    limit(service, "l", running=1)
    parent, children = parent_with_children(service, 300)
    finish(service, parent)
    service.register(WORKER, INFO).wait()
    wait_at(service, "named", only=("mail",))
    jobs: list[NewJob] = [new(), new(), new(delay_ms=60_000), new(retake=True, lease_ms=10), new("named", lane="x")]
    ids = [parent.id, *children[-2:], *(one.id for one in put(service, *jobs))]
    take(service, worker=WORKER)
    service.edit([Edit(id=ids[4], priority=3)]).wait()
    service.pause("named", name="n").wait()
    service.store.clock_offset_ms += 61_000
    before = dump_keys(service.store)
    for job_id in ids:
        explain(service, job_id)
    assert dump_keys(service.store) == before


@pytest.mark.anyio
async def test_it_can_be_awaited(service: Service) -> None:
    async with service.store:
        (added,) = await service.enqueue([new()])
        assert (await service.explain(added.id)).state == "queued"  # type: ignore[union-attr]
