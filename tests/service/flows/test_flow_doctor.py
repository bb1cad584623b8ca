"""Findings and repairs of the doctor about flows."""

from __future__ import annotations

import pytest

from tests.service.admin.doctor_findings import assert_healthy, findings
from tests.service.flows.flow_builders import put_flow, read_flow, states_of, take_step
from tests.service.machines.dependency_builders import assert_consistent, fail, finish
from windlass.service import Service
from windlass.store.store import Store

GRAPH: dict[str, tuple[str, ...]] = {"a": (), "b": ("a",), "c": ("b",)}


def assert_repaired(service: Service, *codes: str) -> None:
    found = findings(service)
    assert found.keys() == set(codes)
    repaired = findings(service, repair=True)
    assert not any(finding.is_open for finding in repaired.values()), repaired
    assert_healthy(service)
    assert_consistent(service)


@pytest.mark.parametrize(
    ("field", "value"), [("kept", 7), ("kept", 0), ("total", 9), ("failed", 0), ("finished", 3), ("consequences", -1)]
)
def test_wrong_counts(service: Service, store: Store, field: str, value: int) -> None:
    flow_id, jobs = put_flow(service, GRAPH)
    fail(service, take_step(service, jobs["a"]))
    before = read_flow(service, flow_id).summary
    store._sync_connection.call("HSET", f"{store.root(0)}:flow:".encode() + flow_id, field, value)
    assert_repaired(service, "flow_wrong")
    assert read_flow(service, flow_id).summary == before


def test_ends_that_disagree_with_the_records(service: Service, store: Store) -> None:
    flow_id, jobs = put_flow(service, GRAPH)
    fail(service, take_step(service, jobs["a"]))
    key = f"{store.root(0)}:flow:".encode() + flow_id
    packed = store._sync_connection.call("HGET", key, b"s" + jobs["a"])
    store._sync_connection.call("HDEL", key, b"s" + jobs["a"])
    service.retry([jobs["a"]]).wait()
    store._sync_connection.call("HSET", key, b"s" + jobs["b"], packed)
    assert_repaired(service, "flow_wrong")
    assert states_of(service, flow_id) == {"a": "queued", "b": "waiting", "c": "waiting"}


def test_a_step_that_has_neither_a_record_nor_an_end(service: Service, store: Store) -> None:
    flow_id, jobs = put_flow(service, {"a": (), "b": ()})
    finish(service, take_step(service, jobs["a"]))
    store._sync_connection.call("HDEL", f"{store.root(0)}:flow:".encode() + flow_id, b"s" + jobs["a"])
    assert_repaired(service, "flow_wrong")
    assert states_of(service, flow_id) == {"a": "deleted", "b": "queued"}


@pytest.mark.parametrize("index", ["flows", "flow_retention"])
def test_an_entry_without_a_flow(service: Service, store: Store, index: str) -> None:
    flow_id, jobs = put_flow(service, GRAPH)
    service.delete(list(jobs.values())).wait()
    store._sync_connection.call("DEL", f"{store.root(0)}:flow:".encode() + flow_id)
    codes = ["ghost", "flow_wrong"]
    if index == "flows":
        store._sync_connection.call("DEL", f"{store.root(0)}:flow_retention", f"{store.root(0)}:flow_steps")
        codes.remove("flow_wrong")
    else:
        store._sync_connection.call("DEL", f"{store.root(0)}:flows")
    assert_repaired(service, *codes)


@pytest.mark.parametrize("index", ["flows", "flow_retention", "flow_steps"])
def test_a_flow_that_is_not_listed(service: Service, store: Store, index: str) -> None:
    flow_id, jobs = put_flow(service, GRAPH)
    service.delete(list(jobs.values())).wait()
    before = [flow.id for flow in service.flows().wait().flows]
    store._sync_connection.call("DEL", f"{store.root(0)}:{index}")
    assert_repaired(service, "flow_wrong")
    assert [flow.id for flow in service.flows().wait().flows] == before == [flow_id]


def test_a_job_whose_flow_does_not_exist(service: Service, store: Store) -> None:
    flow_id, jobs = put_flow(service, GRAPH)
    before = read_flow(service, flow_id)
    store._sync_connection.call("DEL", f"{store.root(0)}:flow:".encode() + flow_id)
    assert_repaired(service, "flow_lost", "ghost")
    after = read_flow(service, flow_id)
    assert (after.summary, after.steps) == (before.summary, before.steps), "even the edges of waiting jobs"
    finish(service, take_step(service, jobs["a"]))
    assert states_of(service, flow_id)["a"] == "finished"


def test_a_job_that_its_flow_does_not_know(service: Service, store: Store) -> None:
    flow_id, jobs = put_flow(service, GRAPH)
    fail(service, take_step(service, jobs["a"]))
    key = f"{store.root(0)}:flow:".encode() + flow_id
    store._sync_connection.call("HDEL", key, b"n" + jobs["a"])
    store._sync_connection.call("HDEL", key, b"s" + jobs["a"])
    found = findings(service, repair=True)
    assert found.keys() == {"flow_lost", "flow_wrong"}
    assert_healthy(service)
    assert_consistent(service)
    assert states_of(service, flow_id) == {"a": "failed", "b": "failed", "c": "failed"}
