"""One resume starts a cancelled flow again, also where steps that were cancelled by themselves follow consequences."""

from __future__ import annotations

from tests.service.flows.flow_builders import put_flow, read_flow, states_of
from tests.service.helpers import take
from tests.service.machines.dependency_builders import fail, finish
from windlass.core.job import FlowRef, NewJob
from windlass.service import Service


def put_group(service: Service) -> tuple[bytes, list[bytes]]:
    """Enqueue two members, their group, and a job after the group."""
    flow_id, *ids = service.store.new_ids(["q"] * 5)
    left, right, group, last = ids
    jobs = [
        NewJob(queue="q", name="left", id=left, flow=FlowRef(flow_id, "shop", "left")),
        NewJob(queue="q", name="right", id=right, flow=FlowRef(flow_id, "shop", "right")),
        NewJob(queue="q", name="g", id=group, after=(left, right), joins=True, flow=FlowRef(flow_id, "shop", "group")),
        NewJob(queue="q", name="last", id=last, after=(group,), flow=FlowRef(flow_id, "shop", "last")),
    ]
    service.enqueue(jobs, whole=True).wait()
    return flow_id, ids


def run_all(service: Service) -> None:
    while jobs := take(service, "q"):
        for job in jobs:
            finish(service, job)


def test_a_cancelled_group_with_a_job_after_it_is_resumed_by_one_call(service: Service) -> None:
    flow_id, (left, right, _, last) = put_group(service)
    assert service.cancel_flow(flow_id).wait() == "cancelled"
    assert set(states_of(service, flow_id).values()) == {"cancelled"}
    resumed = service.resume_flow(flow_id).wait()
    assert resumed.refused == {}
    assert set(resumed.retried) == {left, right, last}
    assert states_of(service, flow_id) == {"left": "queued", "right": "queued", "group": "waiting", "last": "waiting"}
    run_all(service)
    assert read_flow(service, flow_id).summary.state == "finished"


def test_a_step_cancelled_after_a_consequence_is_resumed_by_one_call(service: Service) -> None:
    flow_id, jobs = put_flow(service, {"order": (), "pay": ("order",), "pack": ("pay",), "ship": ("pack",)})
    service.cancel([jobs["ship"]]).wait()
    (order,) = take(service, "q")
    fail(service, order)
    assert states_of(service, flow_id) == {"order": "failed", "pay": "failed", "pack": "failed", "ship": "cancelled"}
    assert service.resume_flow(flow_id).wait().refused == {}
    assert states_of(service, flow_id) == {"order": "queued", "pay": "waiting", "pack": "waiting", "ship": "waiting"}
    run_all(service)
    assert read_flow(service, flow_id).summary.state == "finished"


def test_a_step_after_a_consequence_is_refused_while_its_cause_has_failed(service: Service) -> None:
    _, jobs = put_flow(service, {"order": (), "pay": ("order",), "ship": ("pay",)})
    service.cancel([jobs["ship"]]).wait()
    (order,) = take(service, "q")
    fail(service, order)
    (refused,) = service.retry([jobs["ship"]]).wait()
    assert getattr(refused, "code", "") == "member_failed"
