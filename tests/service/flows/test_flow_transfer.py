"""Flows in exports and imports."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.service.admin.doctor_findings import assert_healthy
from tests.service.export.example_deployment import export_lines, transfer
from tests.service.flows.flow_builders import put_flow, read_flow, states_of, take_step
from tests.service.helpers import take
from tests.service.machines.dependency_builders import assert_consistent, fail, finish
from windlass.core.errors import BadInput, TooLarge
from windlass.core.flow import Flow
from windlass.core.ids import format_id
from windlass.service import Service
from windlass.store.store import Store

GRAPH: dict[str, tuple[str, ...]] = {"a": (), "b": ("a",), "c": ("b",), "d": ("c",)}


def furnish(service: Service) -> dict[str, bytes]:
    """Flows of every kind: running, failed, finished, with steps whose records are gone."""
    flows = {}
    flows["finished"], jobs = put_flow(service, GRAPH, flow="finished")
    for step in GRAPH:
        finish(service, take_step(service, jobs[step]))
    flows["failed"], jobs = put_flow(service, GRAPH, flow="failed")
    finish(service, take_step(service, jobs["a"]))
    fail(service, take_step(service, jobs["b"]))
    flows["deleted"], jobs = put_flow(service, {"x": (), "y": ()}, flow="deleted", queue="other")
    service.delete([jobs["x"]]).wait()
    flows["running"], _ = put_flow(service, GRAPH, flow="running")
    return flows


def content(flow: Flow) -> object:
    """Return a flow without the instant of its reading."""
    return flow.summary, flow.steps


def test_a_flow_is_complete_after_an_import(service: Service, target: Service) -> None:
    flows = furnish(service)
    answer = transfer(service, target)
    assert answer.added["flow"] == 4
    assert not answer.refused
    for name, flow_id in flows.items():
        assert content(read_flow(target, flow_id)) == content(read_flow(service, flow_id)), name
    assert [flow.name for flow in target.flows().wait().flows] == [flow.name for flow in service.flows().wait().flows]
    assert_consistent(target)
    assert_healthy(target)
    again = target.import_jobs(export_lines(service)).wait()
    assert (again.added["flow"], again.existing["flow"]) == (0, 4)


def test_an_imported_flow_continues(service: Service, target: Service) -> None:
    flows = furnish(service)
    transfer(service, target)
    target.resume_flow(flows["failed"]).wait()
    for _ in range(7):  # three steps of the failed flow, and the running one
        finish(target, take(target)[0])
    assert set(states_of(target, flows["failed"]).values()) == {"finished"}
    assert read_flow(target, flows["running"]).summary.state == "finished"
    assert_consistent(target)


def test_jobs_may_run_before_the_line_of_their_flow_is_read(service: Service, target: Service) -> None:
    flow_id, _ = put_flow(service, {"a": (), "b": ("a",)})
    lines = export_lines(service)
    at = next(index for index, line in enumerate(lines) if b'"kind":"flow"' in line)
    target.import_jobs([*lines[:at], lines[-1].replace(b'"flow":1', b'"flow":0')]).wait()
    finish(target, take(target)[0])
    answer = target.import_jobs(lines).wait()
    assert answer.added["flow"] == 1
    assert states_of(target, flow_id) == {"a": "finished", "b": "queued"}
    assert [len(step.after) for step in read_flow(target, flow_id).steps] == [0, 1]
    assert_consistent(target)


def test_steps_without_a_record_and_an_end_count_as_deleted(service: Service, target: Service) -> None:
    flow_id, jobs = put_flow(service, {"a": (), "b": ()})
    key = format_id(jobs["b"]).encode()
    lines = [line for line in export_lines(service) if b'"kind":"job"' not in line or key not in line]
    lines[-1] = lines[-1].replace(b'"job":2', b'"job":1')
    target.import_jobs(lines).wait()
    assert states_of(target, flow_id) == {"a": "queued", "b": "deleted"}
    assert_consistent(target)


def test_another_flow_with_the_same_id_is_left_alone(service: Service, target: Service) -> None:
    flow_id, _ = put_flow(service, {"a": ()})
    transfer(service, target)
    lines = [line.replace(b'"name":"shop"', b'"name":"other"') for line in export_lines(service)]
    answer = target.import_jobs(lines).wait()
    assert answer.refused["flow"] == 1
    assert read_flow(target, flow_id).summary.name == "shop"


def test_to_other_partitions_and_back(service: Service, divided_store: Callable[[int], Store]) -> None:
    divided = Service(divided_store(3))
    for queue in "abcde":
        put_flow(service, GRAPH, flow=queue, queue=queue)
    assert transfer(service, divided).added["flow"] == 5
    for flow in divided.flows().wait().flows:
        found = read_flow(divided, flow.id)
        assert [len(step.after) for step in found.steps] == [0, 1, 1, 1]
        assert divided.store.partition_of_job(flow.id) == divided.store.partition_of_queue(flow.queues[0])
    assert_healthy(divided)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (b'"name":"shop"', b'"name":"' + b"x" * 256 + b'"', TooLarge),
        (b'"name":"shop"', b'"name":"a\\nb"', BadInput),
        (b'"step":"a"', b'"step":"a\\u0000"', BadInput),
        (b'"step":"a"', b'"step":"a","state":"finished"', BadInput),
        (b'"step":"a"', b'"step":"a","state":"odd"', BadInput),
        (b'"step":"a"', b'"step":"a","after":["odd"]', BadInput),
        (b'"queue":"q","name":"do_a","sequence"', b'"queue":"","name":"do_a","sequence"', BadInput),
    ],
)
def test_a_malformed_line_is_refused(
    service: Service, target: Service, old: bytes, new: bytes, error: type[Exception]
) -> None:
    put_flow(service, {"a": ()})
    lines = export_lines(service)
    changed = [line.replace(old, new) if b'"kind":"flow"' in line else line for line in lines]
    assert changed != lines
    with pytest.raises(error, match="Line"):
        target.import_jobs(changed).wait()
    assert msgspec.json.decode(lines[-1])["counts"]["flow"] == 1
