"""Jobs and flows found by the beginning or end of their ids: in every state, within bounds, in allowed queues."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.service.durable.builders import sleep, suspend, take_with_steps
from tests.service.flows.flow_builders import put_flow
from tests.service.helpers import counts, new, put, take
from tests.support.namespace import dump_keys
from windlass.core.errors import BadInput
from windlass.core.ids import format_id, id_part, short_id, with_partition
from windlass.core.operations import Fail, Finish, Listing
from windlass.service import Service
from windlass.store import id_scan
from windlass.store.store import Store


def find(service: Service, alias: str, queue: str = "") -> set[bytes]:
    found = service.find(alias, queue=queue).wait()
    assert found.is_complete
    return {job.id for job in found.jobs}


def fill(service: Service, queue: str = "q") -> list[bytes]:
    """Make one job for each list of a queue. Return their ids."""
    service.configure(queue, {"history_length": 10}).wait()
    (parked, done, failed, kept, running) = (
        made.id for made in put(
            service, new(queue), new(queue), new(queue), new(queue, result_ttl_ms=60_000), new(queue)
        )
    )  # fmt: skip
    jobs = {job.id: job for job in take_with_steps(service, queue=queue, most=5)}
    suspend(service, jobs[parked], sleep())
    service.finish([Finish(jobs[one].id, jobs[one].lease_token) for one in (done, kept)]).wait()
    service.fail([Fail(id=failed, token=jobs[failed].lease_token)]).wait()
    others = [
        made.id for made in put(
            service, new(queue), new(queue, lane="tenant"), new(queue, delay_ms=60_000),
            new(queue, after=(running,)), new(queue),
        )
    ]  # fmt: skip
    service.cancel([others.pop()]).wait()
    assert counts(service, queue) == {
        "queued": 2, "scheduled": 1, "waiting": 1, "suspended": 1, "running": 1, "finished": 1, "failed": 1,
        "cancelled": 1, "history": 1,
    }  # fmt: skip
    (cancelled,) = (job.id for job in service.jobs(Listing(queue=queue, state="cancelled")).wait().jobs)
    return [parked, done, failed, kept, running, *others, cancelled]


def test_a_job_of_every_list_is_found_by_either_end(service: Service) -> None:
    ids = fill(service)
    for job_id in ids:
        assert find(service, short_id(job_id)) == {job_id}
        assert find(service, f"…{short_id(job_id)}") == {job_id}
        assert find(service, format_id(job_id)[:30]) == {job_id}
        assert find(service, f"{format_id(job_id)[:30].upper()}…") == {job_id}
        assert find(service, f"…{format_id(job_id)}") == {job_id}


def test_parts_agree_with_a_model(divided_store: Callable[[int], Store]) -> None:
    """Ids of few different digits, so that many have the same beginning or end."""
    service = Service(divided_store(2))
    draw = random.Random(7)
    jobs = [(bytes(draw.choices((0x11, 0x12, 0x21), k=16)), draw.choice("abc")) for _ in range(40)]
    # The same 8 bytes at the beginning, or at the end, with an odd and an even number of equal digits.
    jobs += [(jobs[0][0][:8] + jobs[at][0][8:], jobs[0][1]) for at in range(1, 5)]
    jobs += [(jobs[at][0][:8] + jobs[0][0][8:], jobs[at][1]) for at in range(1, 5)]
    ids = [with_partition(job_id, service.store.partition_of_queue(queue), 2) for job_id, queue in jobs]
    put(service, *(new(queue, id=job_id) for job_id, (_, queue) in zip(ids, jobs, strict=True)))

    @settings(max_examples=100)
    @given(
        job_id=st.sampled_from(ids),
        digits=st.integers(4, 31),
        way=st.sampled_from(["prefix", "suffix", "prefix only", "suffix only"]),
    )
    def check(job_id: bytes, digits: int, way: str) -> None:
        part = job_id.hex()[:digits] if way.startswith("prefix") else job_id.hex()[-digits:]
        alias = {"prefix only": f"{part}…", "suffix only": f"…{part}"}.get(way, part)
        begins = {one for one in ids if one.hex().startswith(part)} if way != "suffix only" else set()
        ends = {one for one in ids if one.hex().endswith(part)} if way != "prefix only" else set()
        assert find(service, alias) == begins | ends

    check()


@pytest.mark.parametrize("alias", ["abc", "…abc", "-", "wxyz", "12 34", "…", "…1234…", "0x1234"])
def test_other_texts_are_no_part_of_an_id(service: Service, alias: str) -> None:
    assert id_part(alias) is None
    found = service.find(alias).wait()
    assert (found.jobs, found.looked_at, found.is_complete) == ([], 0, True)


def test_another_name_is_preferred_and_costs_no_search(service: Service) -> None:
    (job,) = put(service, new())
    named, *_ = (made.id for made in put(service, new("other", unique=short_id(job.id))))
    found = service.find(short_id(job.id)).wait()
    assert ([found.id for found in found.jobs], found.looked_at) == ([named], 0)
    assert find(service, short_id(job.id), queue="q") == {job.id}


def test_hyphens_and_the_number_of_examined_jobs(service: Service) -> None:
    ids = [made.id for made in put(service, *(new() for _ in range(30)))]
    found = service.find(format_id(ids[7])[-13:]).wait()
    assert ([job.id for job in found.jobs], found.looked_at, found.is_complete) == ([ids[7]], 30, True)


def test_jobs_of_other_queues_are_neither_found_nor_counted(service: Service) -> None:
    mine, theirs = (made.id for made in put(service, new("mine"), new("theirs")))
    found = service.find_within(short_id(theirs), ("mi*",)).wait()
    assert (found.jobs, found.looked_at) == ([], 1)
    assert [job.id for job in service.find_within(short_id(mine), ("mi*",)).wait().jobs] == [mine]
    assert service.find_within(short_id(theirs), ("mi*",), queue="theirs").wait().looked_at == 0
    prefix = format_id(theirs)[:10]  # of both ids: they were made at the same time
    assert [job.id for job in service.find_within(prefix, ("mi*",)).wait().jobs] == [mine]


def test_the_search_is_bounded_and_begins_with_the_newest(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_scan, "LOOKED_AT_MAX", 60)
    monkeypatch.setattr(id_scan, "READ_AT_ONCE", 20)
    ids = [made.id for made in put(service, *(new() for _ in range(100)))]
    few = put(service, *(new(f"few {at}") for at in range(5)))
    for job_id in (ids[-1], *(made.id for made in few)):
        found = service.find(short_id(job_id)).wait()
        assert [job.id for job in found.jobs] == [job_id]
        assert 60 <= found.looked_at < 80
        assert not found.is_complete
    assert service.find(short_id(ids[0])).wait().jobs == []
    assert [job.id for job in service.find(short_id(ids[45]), queue="q").wait().jobs] == [ids[45]]


def test_every_list_of_a_queue_is_read_to_its_end(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_scan, "READ_AT_ONCE", 20)
    ids = [made.id for made in put(service, *(new() for _ in range(50)), new(delay_ms=60_000))]
    for job_id in ids:
        assert find(service, short_id(job_id)) == {job_id}


def test_many_matches_end_the_search(service: Service) -> None:
    put(service, *(new(f"q{at % 3}") for at in range(200)))
    (job, *_) = service.jobs(Listing(state="queued")).wait().jobs
    found = service.find(job.key[:8]).wait()
    assert (len(found.jobs), found.is_complete) == (50, False)
    assert found.looked_at < 160


def test_a_search_of_many_queues_reads_many_in_one_call(service: Service) -> None:
    ids = [made.id for made in put(service, *(new(f"queue {at}") for at in range(250)))]
    assert find(service, short_id(ids[0])) == {ids[0]}
    assert find(service, short_id(ids[-1])) == {ids[-1]}


def test_a_search_by_a_part_changes_nothing(service: Service) -> None:
    (made,) = put(service, new())
    before = dump_keys(service.store)
    find(service, short_id(made.id))
    assert dump_keys(service.store) == before


def test_an_overdue_job_that_is_in_two_lists_is_found_once(service: Service) -> None:
    (made,) = put(service, new(retake=True, lease_ms=1_000))
    take(service)
    service.store.clock_offset_ms += 60_000
    service.recover().wait()
    found = service.find(short_id(made.id)).wait()
    assert [job.id for job in found.jobs] == [made.id]


def test_flows_by_a_part_of_their_id(service: Service) -> None:
    mine, _ = put_flow(service, {"a": ()}, queue="mine")
    theirs, _ = put_flow(service, {"a": ()}, queue="theirs")

    def found(alias: str, queues: tuple[str, ...] = ()) -> list[bytes]:
        return [flow.id for flow in service.flows(alias=alias, queues=queues).wait().flows]

    for alias in (short_id(mine), f"…{short_id(mine)}", format_id(mine), format_id(mine)[:33]):
        assert found(alias) == [mine]
    assert found(short_id(theirs), ("mi*",)) == []
    assert sorted(found(format_id(mine)[:8])) == sorted([mine, theirs])
    with pytest.raises(BadInput, match="at least 4 hex digits"):
        service.flows(alias="xyz")
