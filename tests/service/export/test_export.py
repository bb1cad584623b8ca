"""export and import_jobs: all stored data leaves as lines, arrives equal in another deployment, and continues there."""

from __future__ import annotations

import json

import pytest

from tests.service.export.example_deployment import HOUR, comparable, drain, export_lines, fill, snapshot, transfer
from tests.service.helpers import counts, new, put, read, take
from tests.service.job_pages import listed
from tests.service.machines import invariants
from windlass.core.errors import BadInput
from windlass.core.filters.saved_filter import SavedFilter
from windlass.core.job import Blob, Codec
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.log import Log, LogLine
from windlass.core.operations import Finish, Update
from windlass.core.scheduling.schedule import Schedule
from windlass.core.states import State
from windlass.service import Service


def test_everything_comes_back_equal(service: Service, target: Service) -> None:
    fill(service)
    lines = export_lines(service)
    answer = target.import_jobs(lines).wait()
    assert answer.refused == {}
    assert answer.reasons == []
    assert answer.remade_ids == answer.unknown_awaited == 0
    assert comparable(export_lines(target)) == comparable(lines)
    invariants.check(snapshot(target.store))
    assert "restoring" not in snapshot(target.store).values
    again = target.import_jobs(lines).wait()
    assert again.added == again.refused == {}
    assert again.existing == answer.added
    assert comparable(export_lines(target)) == comparable(lines)
    invariants.check(snapshot(target.store))


def test_payload_fields_find_imported_jobs(service: Service, target: Service) -> None:
    """Those that the target indexes, and those of the job's producer."""
    fill(service)
    target.configure("q", {"index": ("m",)}).wait()
    put(service, new("q", payload=Blob(b'{"m": 1}')))
    transfer(service, target)
    assert target.configuration("indexed").wait().index == ("order_id", "customer.email")
    (job,) = listed(target, where=("order_id=4711",))
    assert (job.index, job.indexed, job.tags) == (("n",), ("n=7", "order_id=4711"), ("order_id=4711",))
    assert listed(target, where=("n=7",)) == [job]
    assert len(listed(target, where=("m=1",))) == 1
    put(target, new("indexed", payload=Blob(b'{"order_id": 4712}')))
    assert len(listed(target, where=("order_id=4712",))) == 1


def test_what_was_imported_runs_on(service: Service, target: Service) -> None:
    fill(service)
    transfer(service, target)
    queues = service.queues().wait()
    target.resume("stopped").wait()
    target.store.clock_offset_ms = 2 * HOUR
    target.promote().wait()
    assert drain(target, [one for one in queues if one not in ("repeats", "fair")]) > 10
    assert counts(target, "groups") == {}
    assert counts(target, "parents") == {}
    assert counts(target, "steps") == {}
    invariants.check(snapshot(target.store))


def test_a_leased_job_is_exported_as_given_back(service: Service, target: Service) -> None:
    (put_in,) = put(service, new())
    (job,) = take(service, worker=b"w" * 16)
    service.update([Update(id=job.id, token=job.lease_token, progress=0.5, note="half")]).wait()
    service.log([Log(job.id, job.lease_token, [LogLine(5, "info", str(n)) for n in range(200)])] * 2).wait()
    transfer(service, target)
    found = read(target, put_in.id)
    assert (found.progress, found.note) == (0.5, "half")
    assert target.logs(job.id).wait() == service.logs(job.id).wait()
    assert target.logs(job.id).wait().dropped == 200
    assert (found.state, found.attempt, found.lease_token, found.worker) == (State.QUEUED, 0, 0, None)
    assert [one.id for one in take(target)] == [put_in.id]


def test_a_cancel_that_was_requested_is_not_forgotten(service: Service, target: Service) -> None:
    (one,) = put(service, new())
    take(service)
    assert service.cancel([one.id]).one().wait() == "requested"
    transfer(service, target)
    assert counts(target) == {"cancelled": 1}


def test_order_and_later_jobs(service: Service, target: Service) -> None:
    run_at_ms = put_at(service)
    ids = [one.id for one in put(service, *(new(run_at_ms=run_at_ms) for _ in range(20)))]
    transfer(service, target)
    ids += [one.id for one in put(target, new(run_at_ms=run_at_ms))]
    assert [job.id for job in take(target, most=50)] == ids


def put_at(service: Service) -> int:
    (one,) = put(service, new("clock"))
    return read(service, one.id).created_at_ms - 1_000


def test_lines_are_readable(service: Service) -> None:
    put(service, new(payload=Blob(b'{"b": 1.50, "a": null}')), new("raw", payload=Blob(b"\xff", Codec.RAW)))
    header, *rest, end = [json.loads(line) for line in export_lines(service)]
    assert (header["format"], header["version"], header["partitions"]) == ("windlass-export", 1, 1)
    assert header["counts"] == {"queue": 2, "job": 2}
    others = ("limit", "filter", "schedule", "alert", "callback", "flow", "tombstone")
    assert end["counts"] == {"queue": 2, "job": 2, **dict.fromkeys(others, 0)}
    payloads = [line["job"]["payload"] for line in rest if line["kind"] == "job"]
    assert {"json": {"b": 1.5, "a": None}} in payloads
    assert {"base64": "/w==", "codec": "raw"} in payloads


@pytest.mark.parametrize(
    "data", [b"", b"{", b" 1", b"1\n", b"[1,\n2]", b'"\xff"', b"1 2", b"[" * 5_000, b"NaN", b'{"a":1,"a":2}']
)
def test_every_byte_of_a_payload_comes_back(service: Service, target: Service, data: bytes) -> None:
    (one,) = put(service, new(payload=Blob(data)))
    transfer(service, target)
    assert read(target, one.id).payload == Blob(data)


def test_what_is_there_stays_as_it_is(service: Service, target: Service) -> None:
    service.configure("q", {"lease_ms": 5}).wait()
    target.configure("q", {"lease_ms": 6}).wait()
    for one, amount in ((service, 1), (target, 2)):
        one.limit(Limit(name="l", matches=Matcher(queue="q"), running=amount)).wait()
        one.schedule(Schedule(name="s", job=new(), every_ms=HOUR * amount)).wait()
        one.save_filter(SavedFilter(name="f", page="jobs", fields={"tag": f"t{amount}"})).wait()
        one.save_filter(SavedFilter(name="same", page="jobs", fields={"tag": "t"})).wait()
    mine, _ = put(service, new(payload=Blob(b"1")), new(unique="u"))
    put(target, new(id=mine.id, payload=Blob(b"2")), new(unique="u"))
    answer = target.import_jobs(service.export()).wait()
    assert answer.refused == {"queue": 1, "limit": 1, "filter": 1, "schedule": 1, "job": 2}
    assert answer.existing["filter"] == 1
    assert {one.code for one in answer.reasons} == {"id_conflict", "unique_conflict"}
    assert all(one.line > 1 and len(one.reason) > 20 for one in answer.reasons)
    assert target.configuration("q").wait().lease_ms == 6
    assert read(target, mine.id).payload == Blob(b"2")
    assert counts(target) == {"queued": 2}
    invariants.check(snapshot(target.store))


def test_jobs_are_matched_against_the_limits_of_the_target(service: Service, target: Service) -> None:
    target.limit(Limit(name="other", matches=Matcher(queue="elsewhere"), running=9)).wait()
    target.limit(Limit(name="one", matches=Matcher(queue="q"), running=1)).wait()
    service.limit(Limit(name="three", matches=Matcher(queue="q"), running=3)).wait()
    put(service, *(new() for _ in range(4)))
    transfer(service, target)
    assert len(take(target, most=4)) == 1
    invariants.check(snapshot(target.store))


def test_a_job_that_ended_here_lately_does_not_come_again(service: Service, target: Service) -> None:
    put(service, new())
    lines = export_lines(service)
    transfer(service, target)
    drain(target, ["q"])
    answer = target.import_jobs(lines).wait()
    assert [one.code for one in answer.reasons] == ["already_ended"]
    assert counts(target) == {}


def test_a_dependent_of_a_refused_job_stays_waiting(service: Service, target: Service) -> None:
    (first,) = put(service, new("a", payload=Blob(b"1")))
    put(service, new("b", after=(first.id,)))
    lines = [line for line in export_lines(service) if b'"queue":"a"' not in line or b'"after"' in line]
    lines = [line for line in lines if b'"kind":"queue"' not in line]
    end = json.loads(lines[-1])
    end["counts"] |= {"job": 1, "queue": 0}
    answer = target.import_jobs([*lines[:-1], json.dumps(end)]).wait()
    assert answer.unknown_awaited == 1
    assert counts(target, "b") == {"waiting": 1}


@pytest.mark.anyio
async def test_awaited_and_from_an_asynchronous_source(service: Service, target: Service) -> None:
    await service.enqueue([new(), new("r")])
    answer = await target.import_jobs(service.export())
    assert answer.added == {"queue": 2, "job": 2}
    assert [line async for line in target.export()][1:] != []
    answer = await target.import_jobs([line async for line in service.export()])
    assert answer.existing == {"queue": 2, "job": 2}
    await service.store.close()
    await target.store.close()


def parent_with_children(service: Service, between: int = 0) -> list[bytes]:
    """A parent that waits for its child, with so many other relatives made between the two; the child's line first."""
    put(service, new("parent"))
    (parent,) = take(service, "parent")
    if between:
        (first,) = put(service, new("first", delay_ms=HOUR))
        put(service, *(new("between", after=(first.id,)) for _ in range(between)))
    put(service, new("child", parent=parent.id))
    assert service.finish([Finish(parent.id, parent.lease_token)]).one().wait() == "waiting"
    lines = export_lines(service)
    is_child = {line: b'"queue":"child"' in line for line in lines}
    return [lines[0], *(line for line in lines if is_child[line]), *(line for line in lines[1:] if not is_child[line])]


def test_no_wait_ends_before_all_relatives_are_linked(service: Service, target: Service) -> None:
    assert not target.import_jobs(parent_with_children(service, between=300)).wait().refused
    assert counts(target, "parent") == {"waiting": 1}
    drain(target, ["child"])
    assert counts(target, "parent") == {"queued": 1}


def test_a_parent_whose_children_are_half_imported_waits_for_the_rest(service: Service, target: Service) -> None:
    lines = parent_with_children(service)
    with pytest.raises(BadInput, match="truncated"):
        target.import_jobs([*lines[:-1], *lines[-2:-1] * 600]).wait()  # enough lines for a batch to be sent
    assert drain(target, ["child"]) == 1
    assert counts(target, "parent") == {"waiting": 1}
    target.import_jobs(lines).wait()
    assert counts(target, "parent") == {"queued": 1}
    invariants.check(snapshot(target.store))
