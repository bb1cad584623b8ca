"""The record of a flow: its graph, and how its steps ended."""

from __future__ import annotations

import pytest

from tests.service.flows.flow_builders import put_flow, read_flow, states_of, steps_of, take_step
from tests.service.machines.dependency_builders import finish
from windlass.core.errors import UnknownFlow
from windlass.core.states import State
from windlass.service import Service

CHAIN: dict[str, tuple[str, ...]] = {"order": (), "pay": ("order",), "ship": ("pay",)}


def test_a_flow_shows_its_steps_while_it_runs(service: Service) -> None:
    flow_id, jobs = put_flow(service, CHAIN)
    flow = read_flow(service, flow_id)
    assert (flow.summary.name, flow.summary.queues, flow.summary.total) == ("shop", ("q",), 3)
    assert (flow.summary.state, flow.summary.ended_at_ms) == ("running", None)
    assert flow.summary.created_at_ms == flow.steps[0].created_at_ms <= flow.now_ms
    assert [(step.step, step.name, step.queue) for step in flow.steps] == [
        ("order", "do_order", "q"),
        ("pay", "do_pay", "q"),
        ("ship", "do_ship", "q"),
    ]
    assert [step.after for step in flow.steps] == [(), (jobs["order"],), (jobs["pay"],)]
    assert {step.on_failure for step in flow.steps[1:]} == {"fail"}
    assert states_of(service, flow_id) == {"order": "queued", "pay": "waiting", "ship": "waiting"}


def test_a_flow_stays_complete_after_its_records_are_gone(service: Service) -> None:
    flow_id, jobs = put_flow(service, CHAIN)
    for step in CHAIN:
        finish(service, take_step(service, jobs[step]))
    flow = read_flow(service, flow_id)
    assert (flow.summary.state, flow.summary.finished, flow.summary.ended) == ("finished", 3, 3)
    assert flow.summary.ended_at_ms == flow.steps[-1].ended_at_ms
    for step in flow.steps:
        assert (step.state, step.attempt, step.is_kept, step.progress) == (State.FINISHED, 1, False, 1)
        assert step.started_at_ms is not None
        assert step.ended_at_ms is not None
        assert step.created_at_ms <= step.started_at_ms <= step.ended_at_ms
    assert steps_of(service, flow_id)["ship"].after == (jobs["pay"],)


def test_an_unknown_flow_is_refused(service: Service) -> None:
    with pytest.raises(UnknownFlow):
        service.flow(service.store.new_id("q")).wait()
