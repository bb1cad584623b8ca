"""Ends of steps in the record of their flow: failures, retries, cancels, deletes, removal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.admin.doctor_findings import assert_healthy
from tests.service.flows.flow_builders import DAY_MS, put_flow, read_flow, states_of, steps_of, take_step
from tests.service.helpers import new, put, take
from tests.service.machines.dependency_builders import assert_consistent, fail, finish, run_all_steps
from tests.support.namespace import list_keys
from windlass.core.errors import AlreadyEnded, BadInput, CrossPartition, FlowExists, UnknownFlow
from windlass.core.flow import FlowSummary
from windlass.core.job import FlowRef, NewJob
from windlass.core.operations import Finish, Take, Update
from windlass.core.states import State
from windlass.service import Service
from windlass.store.store import Store

CHAIN: dict[str, tuple[str, ...]] = {"order": (), "pay": ("order",), "ship": ("pay",)}


def summary(service: Service, flow_id: bytes) -> FlowSummary:
    return read_flow(service, flow_id).summary


def counts(service: Service, flow_id: bytes) -> dict[str, int]:
    found = summary(service, flow_id)
    names = ("finished", "failed", "cancelled", "consequences", "deleted")
    return {name: getattr(found, name) for name in names if getattr(found, name)}


def test_a_failure_and_its_consequences(service: Service) -> None:
    flow_id, jobs = put_flow(service, CHAIN)
    finish(service, take_step(service, jobs["order"]))
    fail(service, take_step(service, jobs["pay"]))
    assert states_of(service, flow_id) == {"order": "finished", "pay": "failed", "ship": "failed"}
    assert {name: step.is_consequence for name, step in steps_of(service, flow_id).items()} == {
        "order": False,
        "pay": False,
        "ship": True,
    }
    assert {name: step.is_cause for name, step in steps_of(service, flow_id).items()}["pay"]
    assert counts(service, flow_id) == {"finished": 1, "failed": 1, "consequences": 1}
    assert summary(service, flow_id).state == "failed"
    assert_consistent(service)


def test_a_retry_opens_the_flow_again(service: Service) -> None:
    flow_id, jobs = put_flow(service, CHAIN)
    fail(service, take_step(service, jobs["order"]))
    assert counts(service, flow_id) == {"failed": 1, "consequences": 2}
    assert service.retry([jobs["order"]]).wait() == ["queued"]
    assert states_of(service, flow_id) == {"order": "queued", "pay": "waiting", "ship": "waiting"}
    assert (counts(service, flow_id), summary(service, flow_id).state) == ({}, "running")
    assert summary(service, flow_id).ended_at_ms is None
    for step in CHAIN:
        finish(service, take_step(service, jobs[step]))
    assert (counts(service, flow_id), summary(service, flow_id).state) == ({"finished": 3}, "finished")
    assert_consistent(service)


def test_resume_retries_the_causes(service: Service) -> None:
    flow_id, jobs = put_flow(service, {"a": (), "b": (), "both": ("a", "b"), "last": ("both",)})
    for job in take(service, most=2):
        fail(service, job)
    resumed = service.resume_flow(flow_id).wait()
    assert (sorted(resumed.retried), resumed.refused) == (sorted((jobs["a"], jobs["b"])), {})
    assert states_of(service, flow_id) == {"a": "queued", "b": "queued", "both": "waiting", "last": "waiting"}
    assert service.resume_flow(flow_id).wait().retried == [], "nothing is left to resume"


def test_resume_names_the_steps_whose_records_are_gone(service: Service) -> None:
    flow_id, jobs = put_flow(service, {"a": (), "b": ()})
    for job in take(service, most=2):
        fail(service, job)
    service.delete([jobs["a"]]).wait()
    resumed = service.resume_flow(flow_id).wait()
    assert resumed.retried == [jobs["b"]]
    assert set(resumed.refused) == {jobs["a"]}
    assert "record is gone" in resumed.refused[jobs["a"]]


def test_cancel_ends_all_steps(service: Service) -> None:
    flow_id, _ = put_flow(service, CHAIN)
    assert service.cancel_flow(flow_id).wait() == "cancelled"
    assert set(states_of(service, flow_id).values()) == {"cancelled"}
    assert summary(service, flow_id).state == "cancelled"
    assert_consistent(service)
    with pytest.raises(AlreadyEnded, match="All steps"):
        service.cancel_flow(flow_id).wait()


def test_cancel_asks_a_running_step_to_stop(service: Service) -> None:
    flow_id, jobs = put_flow(service, CHAIN)
    job = take_step(service, jobs["order"])
    assert service.cancel_flow(flow_id).wait() == "requested"
    assert states_of(service, flow_id) == {"order": "running", "pay": "cancelled", "ship": "cancelled"}
    finish(service, job)
    assert take(service) == [], "no step starts any more"
    assert summary(service, flow_id).ended == 3


def test_a_cancelled_flow_resumes_in_order(service: Service) -> None:
    flow_id, jobs = put_flow(service, CHAIN)
    service.cancel_flow(flow_id).wait()
    service.resume_flow(flow_id).wait()
    assert states_of(service, flow_id) == {"order": "queued", "pay": "waiting", "ship": "waiting"}
    for step in CHAIN:
        finish(service, take_step(service, jobs[step]))
    assert summary(service, flow_id).state == "finished"


def test_a_large_cancelled_flow_resumes_in_steps(service: Service) -> None:
    graph = {f"s{at}": (f"s{at - 1}",) if at else () for at in range(1_100)}
    flow_id, _ = put_flow(service, graph)
    service.cancel_flow(flow_id).wait()
    assert len(service.resume_flow(flow_id).wait().retried) == 1_100
    assert_healthy(service)
    assert counts(service, flow_id).keys() == {"consequences"}, "the rest waits for the next steps"
    run_all_steps(service)
    assert counts(service, flow_id) == {}
    assert_consistent(service)
    assert_healthy(service)


def test_a_failed_job_that_is_cancelled_later_counts_once(service: Service) -> None:
    flow_id, jobs = put_flow(service, {"only": ()})
    fail(service, take_step(service, jobs["only"]))
    assert service.cancel([jobs["only"]], even_failed=True).wait() == ["cancelled"]
    assert counts(service, flow_id) == {"cancelled": 1}
    assert_consistent(service)


def test_a_step_that_is_deleted_before_its_end(service: Service) -> None:
    flow_id, jobs = put_flow(service, {"a": (), "b": ()})
    service.delete([jobs["a"]]).wait()
    step = steps_of(service, flow_id)["a"]
    assert (step.state, step.is_ended, step.is_kept) == (None, True, False)
    assert step.ended_at_ms is not None
    assert counts(service, flow_id) == {"deleted": 1}
    assert summary(service, flow_id).state == "running"
    service.delete([jobs["b"]]).wait()
    assert summary(service, flow_id).state == "cancelled"
    assert_consistent(service)


def test_a_running_step_shows_its_attempt_and_progress(service: Service) -> None:
    flow_id, jobs = put_flow(service, {"only": ()})
    job = take_step(service, jobs["only"])
    service.update([Update(id=job.id, token=job.lease_token, progress=0.25)]).wait()
    step = steps_of(service, flow_id)["only"]
    assert (step.state, step.attempt, step.progress, step.is_kept) == (State.RUNNING, 1, 0.25, True)
    assert step.started_at_ms is not None


def test_a_flow_goes_a_day_after_its_last_record(service: Service, store: Store) -> None:
    flow_id, jobs = put_flow(service, CHAIN, result_ttl_ms=60_000)
    for step in CHAIN:
        finish(service, take_step(service, jobs[step]))
    service.clean().wait()
    assert all(step.is_kept for step in read_flow(service, flow_id).steps)
    service.store.clock_offset_ms += 61_000
    service.clean().wait()
    service.clean().wait()
    assert not any(step.is_kept for step in read_flow(service, flow_id).steps)
    service.store.clock_offset_ms += DAY_MS - 1_000
    step = service.clean().wait()
    assert (step.done, summary(service, flow_id).state) == (0, "finished")
    assert step.next_at_ms is not None
    assert 0 < step.next_at_ms - step.now_ms <= 1_000
    service.store.clock_offset_ms += 1_001
    assert service.clean().wait().done == 1
    with pytest.raises(UnknownFlow):
        read_flow(service, flow_id)
    assert not [key for key in list_keys(store) if b":flow" in key]


def test_a_history_keeps_the_flow(service: Service) -> None:
    service.configure("q", {"history_length": 10}).wait()
    flow_id, jobs = put_flow(service, {"only": ()})
    finish(service, take_step(service, jobs["only"]))
    service.store.clock_offset_ms += 30 * DAY_MS
    service.clean().wait()
    assert steps_of(service, flow_id)["only"].is_kept


def test_the_oldest_flows_make_room(service: Service, store: Store) -> None:
    flows = []
    for _ in range(3):
        flow_id, jobs = put_flow(service, {"a": (), "b": ()})
        service.delete(list(jobs.values())).wait()
        flows.append(flow_id)
        service.store.clock_offset_ms += 1
    # The bound counts steps: pretend that there are many more.
    link, root = store._sync_connection, store.root(0)
    assert link.call("GET", f"{root}:flow_steps") == b"6"
    link.call("SET", f"{root}:flow_steps", 100_002)
    service.clean().wait()
    with pytest.raises(UnknownFlow):
        read_flow(service, flows[0])
    assert [read_flow(service, flow_id).summary.total for flow_id in flows[1:]] == [2, 2]
    assert link.call("GET", f"{root}:flow_steps") == b"100000"
    link.call("SET", f"{root}:flow_steps", 100_004 - 2)
    _, jobs = put_flow(service, {"a": ()})
    service.delete(list(jobs.values())).wait()
    with pytest.raises(UnknownFlow):
        read_flow(service, flows[1])


def test_a_flow_is_created_by_one_call(service: Service) -> None:
    flow_id, jobs = put_flow(service, {"a": ()})
    more = NewJob(queue="q", name="n", flow=FlowRef(flow_id, "shop", "b"))
    for added in ([more], [more, more]):
        answers = service.enqueue(added, whole=True).wait()
        assert all(isinstance(answer, FlowExists) for answer in answers), answers
    again = NewJob(queue="q", name="do_a", id=jobs["a"], flow=FlowRef(flow_id, "shop", "a"))
    (answer,) = service.enqueue([again], whole=True).wait()
    assert answer.status == "existing", answer  # type: ignore[union-attr]
    assert summary(service, flow_id).total == 1


def test_a_refused_flow_leaves_nothing(service: Service, store: Store) -> None:
    flow_id, first, second = service.store.new_ids(["q"] * 3)
    flow = FlowRef(flow_id, "shop")
    jobs = [new(id=first, flow=flow), new(id=second, flow=flow, after=(bytes(15) + b"x",))]
    before = set(list_keys(store))
    assert all(isinstance(answer, Exception) for answer in service.enqueue(jobs, whole=True).wait())
    with pytest.raises(UnknownFlow):
        read_flow(service, flow_id)
    assert not [key for key in set(list_keys(store)) - before if b"flow" in key]


def test_jobs_outside_the_flow_are_not_shown_as_edges(service: Service) -> None:
    (other,) = put(service, new("b"))
    flow_id, job_id = service.store.new_ids(["q"] * 2)
    job = new(id=job_id, after=(other.id,), flow=FlowRef(flow_id, "shop"))
    service.enqueue([job], whole=True).wait()
    (step,) = read_flow(service, flow_id).steps
    assert (step.after, step.state, step.label) == ((), State.WAITING, "n")


def test_the_id_of_a_flow_lies_in_the_partition_of_its_queues(divided_store: Any) -> None:
    service = Service(divided_store(3))
    homes = {service.store.partition_of_queue(queue): queue for queue in "abcdefgh"}
    elsewhere = service.store.new_id(homes[1])
    with pytest.raises(CrossPartition, match="id of the flow"):
        service.enqueue([new(homes[0], flow=FlowRef(elsewhere, "shop"))], whole=True).wait()
    flow_id, _ = put_flow(service, CHAIN, queue=homes[0])
    assert summary(service, flow_id).total == 3


def test_jobs_of_a_flow_do_not_use_the_fast_path(service: Service) -> None:
    """A finish and a take of plain jobs beside them still do, and the flow misses no end."""
    flow_id, jobs = put_flow(service, {"a": (), "b": ()})
    put(service, new(), new())
    taken = take(service, most=4)
    assert {job.id for job in taken} > set(jobs.values())
    finishes = [Finish(job.id, job.lease_token) for job in taken]
    assert service.finish_and_take(finishes, (), Take(queues=("q",))).wait().finished == [None] * 4
    assert counts(service, flow_id) == {"finished": 2}
    assert_consistent(service)
    assert_healthy(service)


def test_children_cannot_join_a_flow(service: Service) -> None:
    flow_id = service.store.new_id("q")
    with pytest.raises(BadInput, match="enqueued together"):
        service.enqueue([new(flow=FlowRef(flow_id, "shop"))])
