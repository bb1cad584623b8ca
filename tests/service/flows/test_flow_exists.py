"""A flow is created by one call: no other job can join it."""

from __future__ import annotations

import pytest

from tests.service.flows.flow_builders import put_flow, read_flow
from tests.service.helpers import counts, new
from windlass.core.errors import BadInput, FlowExists
from windlass.core.job import FlowRef
from windlass.service import Service


@pytest.mark.parametrize("count", [1, 2])
def test_a_flow_that_exists_is_refused(service: Service, count: int) -> None:
    flow_id, _ = put_flow(service, {"a": ()})
    before = read_flow(service, flow_id)
    late = [new("other", "late", flow=FlowRef(flow_id, "shop", f"late {number}")) for number in range(count)]
    answers = service.enqueue(late, whole=True).wait()
    assert [type(answer) for answer in answers] == [FlowExists] * count
    assert read_flow(service, flow_id).steps == before.steps
    assert counts(service, "other") == {}


def test_a_repeated_call_is_no_error(service: Service) -> None:
    flow_id, job_id = service.store.new_ids(["q", "q"])
    job = new("q", "n", id=job_id, flow=FlowRef(flow_id, "shop", "a"))
    assert [service.enqueue([job], whole=True).one().wait().status for _ in range(2)] == ["queued", "existing"]
    assert len(read_flow(service, flow_id).steps) == 1


def test_a_job_of_a_flow_is_not_accepted_alone(service: Service) -> None:
    flow_id = service.store.new_id("q")
    with pytest.raises(BadInput, match="enqueued together"):
        service.enqueue([new("q", "n", flow=FlowRef(flow_id))])
