"""flows: pages of flows, newest first, with filters."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.service.flows.flow_builders import put_flow, take_step
from tests.service.helpers import new, take
from tests.service.machines.dependency_builders import fail, finish
from windlass.core.errors import BadInput
from windlass.core.flow import FlowState
from windlass.core.job import FlowRef
from windlass.service import Service
from windlass.store import flow_pages
from windlass.store.store import Store


def names(service: Service, **kw: object) -> list[str]:
    """Read all pages."""
    found: list[str] = []
    cursor = ""
    while True:
        page = service.flows(cursor=cursor, **kw).wait()  # type: ignore[arg-type]
        found += [flow.name for flow in page.flows]
        cursor = page.cursor
        if not cursor:
            return found


def put_numbered(service: Service, number: int, queue: str = "q") -> list[str]:
    """Enqueue flows, oldest first, some of them at the same instant. Returns their names, newest first."""
    for at in range(number):
        put_flow(service, {"only": ()}, flow=f"f{at}", queue=queue)
        service.store.clock_offset_ms += at % 2
    return [f"f{at}" for at in reversed(range(number))]


def test_without_flows(service: Service) -> None:
    page = service.flows().wait()
    assert (page.flows, page.cursor) == ([], "")


@pytest.mark.parametrize("most", [1, 3, 7, 50])
def test_pages_are_newest_first_and_complete(service: Service, most: int) -> None:
    put_numbered(service, 7)
    page = service.flows(most=most).wait()
    assert len(page.flows) == min(most, 7)
    found = names(service, most=most)
    assert len(found) == 7
    created = [flow.created_at_ms for flow in service.flows().wait().flows]
    assert created == sorted(created, reverse=True)
    assert set(found) == {f"f{at}" for at in range(7)}


def test_pages_over_several_partitions(divided_store: Callable[[int], Store]) -> None:
    service = Service(divided_store(3))
    expected = []
    for at in range(12):
        put_flow(service, {"only": ()}, flow=f"f{at}", queue="abcdefgh"[at % 8])
        service.store.clock_offset_ms += 1
        expected.insert(0, f"f{at}")
    for most in (1, 4, 5, 50):
        assert names(service, most=most) == expected


def test_a_page_reads_a_bounded_number_of_flows(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_pages, "READ_AT_ONCE", 2)
    monkeypatch.setattr(flow_pages, "READ_MAX", 4)
    put_numbered(service, 11)
    page = service.flows(name="f0").wait()
    assert page.flows == []
    assert page.cursor, "more pages follow"
    assert names(service, name="f0") == ["f0"]
    assert len(names(service, most=3)) == 11


def test_filter_by_state(service: Service) -> None:
    graph: dict[str, tuple[str, ...]] = {"a": (), "b": ("a",)}
    for name in ("finished", "failed", "cancelled", "running"):
        flow_id, jobs = put_flow(service, graph, flow=name)
        if name == "finished":
            for step in graph:
                finish(service, take_step(service, jobs[step]))
        elif name == "failed":
            fail(service, take(service)[0])
        elif name == "cancelled":
            service.cancel_flow(flow_id).wait()
    states: tuple[FlowState, ...] = ("finished", "failed", "cancelled", "running")
    for state in states:
        assert names(service, state=state) == [state]
    summaries = {flow.name: flow for flow in service.flows().wait().flows}
    assert summaries["failed"].ended_at_ms is not None
    assert (summaries["failed"].failed, summaries["failed"].consequences) == (1, 1)
    assert summaries["running"].ended_at_ms is None


def test_filter_by_name(service: Service) -> None:
    for name in ("checkout", "check-in", "report", ""):
        put_flow(service, {"only": ()}, flow=name)
    assert sorted(names(service, name="check*")) == ["check-in", "checkout"]
    assert names(service, name="report") == ["report"]


def test_flows_with_a_job_in_another_queue_are_left_out(service: Service) -> None:
    put_flow(service, {"only": ()}, flow="mail", queue="mail.out")
    put_flow(service, {"only": ()}, flow="shop", queue="shop")
    flow_id = service.store.new_id("shop")
    flow = FlowRef(flow_id, "both")
    service.enqueue([new("shop", flow=flow), new("mail.out", flow=flow)], whole=True).wait()
    assert service.flow(flow_id).wait().summary.queues == ("shop", "mail.out")
    assert names(service, queues=("mail.*",)) == ["mail"]
    assert sorted(names(service, queues=("mail.*", "shop"))) == ["both", "mail", "shop"]


def test_a_cursor_of_another_list_is_refused(service: Service) -> None:
    with pytest.raises(BadInput, match="cursor"):
        service.flows(cursor="bm8=").wait()
