"""rerun_flow: a copy of a flow with new ids."""

from __future__ import annotations

import msgspec
import pytest

from tests.service.flows.flow_builders import put_flow, read_flow, steps_of, take_step
from tests.service.helpers import new, put, read
from tests.service.machines.dependency_builders import assert_consistent, fail, finish
from windlass.core.errors import FlowIncomplete
from windlass.core.flow.copy import replace_ids
from windlass.core.ids import format_id
from windlass.core.job import Blob, Callback, Codec, FlowRef, NewJob
from windlass.core.retry import Backoff
from windlass.service import Service

GRAPH: dict[str, tuple[str, ...]] = {"a": (), "b": (), "both": ("a", "b"), "last": ("both",)}


def test_a_rerun_has_the_same_steps_with_new_ids(service: Service) -> None:
    flow_id, jobs = put_flow(service, GRAPH, result_ttl_ms=60_000)
    for step in GRAPH:
        finish(service, take_step(service, jobs[step]))
    again = service.rerun_flow(flow_id).wait()
    assert again != flow_id
    before, after = read_flow(service, flow_id), read_flow(service, again)
    assert (after.summary.name, after.summary.total, after.summary.state) == ("shop", 4, "running")
    assert [step.step for step in after.steps] == [step.step for step in before.steps]
    copies = {step.step: step for step in after.steps}
    assert not {step.job_id for step in after.steps} & set(jobs.values())
    for name, waits_for in GRAPH.items():
        assert copies[name].after == tuple(copies[other].job_id for other in waits_for)
    for step in GRAPH:
        finish(service, take_step(service, copies[step].job_id))
    assert read_flow(service, again).summary.state == "finished"
    assert_consistent(service)


def test_a_copy_has_the_content_of_its_original(service: Service) -> None:
    content = {
        "payload": Blob(b'{"x":1}'),
        "priority": 7,
        "lane": "eu",
        "retry": Backoff(tries=3, base_ms=5),
        "lease_ms": 12_000,
        "timeout_ms": 9_000,
        "result_ttl_ms": 60_000,
        "tombstone_ms": 80_000,
        "tags": ("t",),
        "callback": Callback(url="http://127.0.0.1/"),
        "on_failure": "ignore",
    }
    flow_id, job_id = service.store.new_ids(["q", "q"])
    service.enqueue([new(id=job_id, flow=FlowRef(flow_id, "shop", "only"), **content)], whole=True).wait()
    fail(service, take_step(service, job_id))
    again = service.rerun_flow(flow_id).wait()
    (step,) = read_flow(service, again).steps
    job = read(service, step.job_id)
    assert {name: getattr(job, name) for name in content} == content
    assert job.flow == FlowRef(again, "shop", "only")


def test_ids_of_steps_in_payloads_are_replaced(service: Service) -> None:
    (other,) = put(service, new("b"))
    flow_id, first, second = service.store.new_ids(["q"] * 3)
    texts = [format_id(first), format_id(other.id)]
    service.enqueue(
        [
            NewJob("q", "first", id=first, flow=FlowRef(flow_id, "shop", "first")),
            NewJob(
                "q",
                "second",
                id=second,
                payload=Blob(msgspec.json.encode({"results_of": texts})),
                after=(first,),
                flow=FlowRef(flow_id, "shop", "second"),
            ),
        ],
        whole=True,
    ).wait()
    copies = steps_of(service, service.rerun_flow(flow_id).wait())
    payload = msgspec.json.decode(read(service, copies["second"].job_id).payload.data)
    assert payload == {"results_of": [format_id(copies["first"].job_id), format_id(other.id)]}


@pytest.mark.parametrize("codec", list(Codec))
def test_ids_are_replaced_in_every_codec(codec: Codec) -> None:
    old, unknown, replacement = (format_id(bytes([at]) * 16).encode() for at in (1, 2, 3))
    payload = Blob(b"\x93\xd9\x24" + old + b"\xd9\x24" + unknown + b"\xff", codec)
    assert replace_ids(payload, {old: replacement}) == Blob(
        b"\x93\xd9\x24" + replacement + b"\xd9\x24" + unknown + b"\xff", codec
    )


def test_a_running_flow_can_run_again(service: Service) -> None:
    flow_id, _ = put_flow(service, GRAPH)
    again = service.rerun_flow(flow_id).wait()
    assert read_flow(service, again).summary.total == 4
    assert_consistent(service)


def test_without_all_records_it_names_the_missing_steps(service: Service) -> None:
    flow_id, jobs = put_flow(service, GRAPH)
    for step in ("a", "b", "both"):
        finish(service, take_step(service, jobs[step]))
    service.delete([jobs["last"]]).wait()
    with pytest.raises(FlowIncomplete, match=r"Keep the results.*Gone: a, b, both, last\."):
        service.rerun_flow(flow_id).wait()
    assert len(service.flows().wait().flows) == 1, "nothing was enqueued"


def test_a_long_list_of_missing_steps_is_shortened(service: Service) -> None:
    flow_id, jobs = put_flow(service, {f"s{at}": () for at in range(14)})
    service.delete(list(jobs.values())).wait()
    with pytest.raises(FlowIncomplete, match=r"s9 and 4 more\."):
        service.rerun_flow(flow_id).wait()
