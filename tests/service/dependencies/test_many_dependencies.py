"""Parent with ten thousand children: every call stays small, and the parent neither wakes early nor waits forever."""

from __future__ import annotations

import time
from typing import Any

from tests.service.helpers import counts, new, put, take
from tests.service.machines.dependency_builders import GONE, assert_consistent, finish, run_all_steps, state
from windlass.core.errors import Unsettled
from windlass.core.operations import Finish
from windlass.service import Service

CHILDREN = 10_000
LONGEST_CALL_S = 0.25  # thirty times what a step takes on an idle machine


def test_ten_thousand_children_in_steps(service: Service) -> None:
    put(service, new("p", lease_ms=600_000))
    (parent,) = take(service, "p")
    put(service, *(new("c", parent=parent.id, held=True) for _ in range(CHILDREN)))
    longest = 0.0

    def timed(answer: Any, since: float) -> Any:
        nonlocal longest
        longest = max(longest, time.monotonic() - since)
        return answer

    assert timed(finish(service, parent), time.monotonic()) == "waiting"
    assert counts(service, "c") == {"queued": 200, "waiting": CHILDREN - 200}
    ended = 0
    while True:  # takers with nothing else to do release the rest; no loop runs
        jobs = take(service, "c", most=1_000)
        if not jobs:
            break
        ended += len(jobs)
        assert state(service, parent.id) == "waiting"
        reports = [Finish(job.id, job.lease_token) for job in jobs]
        assert timed(service.finish(reports).wait(), time.monotonic()) == [None] * len(jobs)
    assert ended == CHILDREN
    assert counts(service, "c") == {"finished": CHILDREN}
    (again,) = take(service, "p")
    assert timed(finish(service, again), time.monotonic()) is None
    assert state(service, parent.id) == GONE
    assert run_all_steps(service) >= CHILDREN // 200 - 1
    assert counts(service, "c") == {}
    assert longest < LONGEST_CALL_S
    assert_consistent(service)


def test_many_children_are_cancelled_in_steps(service: Service) -> None:
    put(service, new("p"))
    (parent,) = take(service, "p")
    put(service, *(new("c", parent=parent.id) for _ in range(1_000)))
    running = take(service, "c", most=10)
    finish(service, parent)
    service.cancel([parent.id]).wait()
    assert_consistent(service)
    assert isinstance(service.retry([parent.id]).wait()[0], Unsettled)
    run_all_steps(service)
    assert counts(service, "c") == {"cancelled": 990, "running": 10}
    assert service.retry([parent.id]).wait() == ["queued"]
    for job in running:
        assert service.job([job.id]).one().wait().job.is_cancel_requested
    assert_consistent(service)


def test_what_ends_while_the_last_round_is_dissolved_is_kept(service: Service) -> None:
    put(service, new("p", lease_ms=600_000))
    (parent,) = take(service, "p")
    put(service, *(new("c", parent=parent.id) for _ in range(500)))
    service.finish([Finish(job.id, job.lease_token) for job in take(service, "c", most=500)]).wait()
    (late,) = put(service, new("late", parent=parent.id))
    assert finish(service, parent) == "waiting"
    assert counts(service, "c")["finished"] == 300
    finish(service, take(service, "late")[0])
    assert state(service, parent.id) == "waiting", "the next round must not begin"
    assert isinstance(service.requeue([parent.id]).wait()[0], Unsettled)
    assert_consistent(service)
    run_all_steps(service)
    assert state(service, parent.id) == "queued"
    assert counts(service, "c") == {}
    (member,) = service.list_members(parent.id).wait().members
    assert member.job.id == late.id
    assert_consistent(service)


def test_many_children_survive_the_deletion_of_their_parent(service: Service) -> None:
    put(service, new("p"))
    (parent,) = take(service, "p")
    put(service, *(new("c", parent=parent.id, held=True) for _ in range(1_000)))
    service.delete([parent.id], even_leased=True).wait()
    assert_consistent(service)
    run_all_steps(service)
    assert counts(service, "c") == {"queued": 1_000}
    assert all(job.parent is None for job in take(service, "c", most=1_000))
    assert_consistent(service)


def test_a_long_chain_of_groups_ends_in_steps(service: Service) -> None:
    (first,) = put(service, new())
    last = first.id
    ids = [service.store.new_id("g") for _ in range(3_000)]
    groups = []
    for job_id in ids:
        groups.append(new("g", id=job_id, joins=True, after=(last,)))
        last = job_id
    put(service, *groups)
    finish(service, take(service)[0])
    assert_consistent(service)
    run_all_steps(service)
    assert counts(service, "g") == {}
    assert state(service, first.id) == GONE
    assert_consistent(service)
