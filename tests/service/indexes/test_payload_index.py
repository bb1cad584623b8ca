"""Indexed payload fields: what finds a job, and how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import msgspec
import pytest

from tests.service.admin.doctor_findings import assert_healthy, findings
from tests.service.helpers import another, new, put, read, take
from tests.service.job_pages import listed
from tests.support.namespace import send_command
from windlass.core.errors import BadInput, RevisionConflict, StaleLease, TooLarge
from windlass.core.job import Blob, Codec, copy_of
from windlass.core.limits.payload_index import make_entry
from windlass.core.operations import CompleteWithChildren, Edit, Fail, Finish, Listing, Update
from windlass.core.queue import Configuration
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.store import limit_matcher
from windlass.store.store import Store


def json(content: object) -> Blob:
    return Blob(msgspec.json.encode(content))


def found(service: Service, *where: str, **listing: object) -> set[bytes]:
    jobs = [job.id for job in listed(service, where=where, **listing)]
    assert len(set(jobs)) == len(jobs)
    return set(jobs)


def test_a_field_of_the_producer_or_of_the_queue_finds_the_job(service: Service) -> None:
    service.configure("q", {"index": ("customer.email",)}).wait()
    content = json({"order_id": 4711, "customer": {"email": "a@b.c"}})
    own, plain = (one.id for one in put(service, new(payload=content, index=("order_id",)), new(payload=content)))
    assert found(service, "order_id=4711") == {own}
    assert found(service, "customer.email=a@b.c") == {own, plain}
    assert found(service, "order_id=4712") == set()
    assert found(service, "customer.email=a@b.c", "order_id=4711") == {own}
    assert found(service, "customer.email=a@b.c", queue="q", state="queued", name="n") == {own, plain}
    service.configure("other", {"index": ("customer.email",)}).wait()
    assert found(service, "customer.email=a@b.c", queue="other") == set()
    assert found(service, "customer.email=a@b.c", state="failed") == set()
    job = read(service, own)
    assert (job.tags, job.index) == ((), ("order_id",))
    assert job.indexed == ("order_id=4711", "customer.email=a@b.c")
    assert copy_of(job).index == ("order_id",)


def test_user_tags_and_entries_are_not_mistaken_for_each_other(service: Service) -> None:
    tagged, indexed = (
        one.id
        for one in put(service, new(tags=("order_id=7",)), new(payload=json({"order_id": 7}), index=("order_id",)))
    )
    assert [job.id for job in listed(service, tag="order_id=7")] == [tagged]
    assert found(service, "order_id=7") == {indexed}
    assert found(service, "order_id=7", tag="order_id=7") == set()
    assert read(service, tagged).tags == ("order_id=7",)


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("text", ["text"]),
        ("", [""]),
        ("a=b#c", ["a=b#c"]),
        (True, ["true"]),
        (-7, ["-7"]),
        (10**30, [str(10**30)]),
        ("x" * 65, ["x" * 65]),
        ("line\nbreak", ["line\nbreak"]),
        ("\0", ["\0"]),
        ([1, "b", None, 1.5, True], ["1", "b", "true"]),
        ([[1]], []),
        (list(range(12)), [str(number) for number in range(8)]),
        (1.5, []),
        (None, []),
        ({"inner": 1}, []),
    ],
)
def test_which_values_find_a_job(service: Service, value: object, texts: list[str]) -> None:
    (job,) = put(service, new(payload=json({"f": value}), index=("f",)))
    assert read(service, job.id).indexed == tuple(make_entry("f", text) for text in texts)
    for text in texts:
        assert found(service, f"f={text}") == {job.id}
    assert found(service, "f=8") == set()


def test_a_long_value_is_shown_by_its_digest_which_finds_it(service: Service) -> None:
    (job,) = put(service, new(payload=json({"f": "é" * 33}), index=("f",)))
    (entry,) = read(service, job.id).indexed
    assert entry.startswith("f#")
    assert len(entry) == len("f#") + 24
    assert found(service, entry) == {job.id}


def test_payloads_that_cannot_be_read_have_no_entries(service: Service) -> None:
    blobs = (Blob(b"{", Codec.JSON), Blob(b"\xc1", Codec.MSGPACK), Blob(b'{"f":1}', Codec.RAW), json([1]))
    jobs = put(service, *(new(payload=blob, index=("f", "0.f")) for blob in blobs))
    assert [read(service, job.id).indexed for job in jobs] == [(), (), (), ()]
    (packed,) = put(service, new(payload=Blob(msgspec.msgpack.encode({"f": 1}), Codec.MSGPACK), index=("f",)))
    assert found(service, "f=1") == {packed.id}


def test_other_processes_match_the_index_of_a_queue_at_once(service: Service) -> None:
    other = another(service)
    try:
        put(other, new(payload=json({"f": 1})))
        service.configure("q", {"index": ("f",)}).wait()
        (later,) = put(other, new(payload=json({"f": 1})))
        assert found(service, "f=1") == {later.id}
        service.configure("q", {"index": None}).wait()
        (last,) = put(other, new(payload=json({"f": 1})))
        assert read(service, last.id).indexed == ()
    finally:
        other.store.close_sync()


def test_an_equal_definition_changes_nothing_for_enqueuers(service: Service) -> None:
    service.configure("q", {"index": ("f",)}).wait()
    put(service, new())
    version = service.store.limit_cache.table(0).version
    service.configure("q", {"index": ("f",)}).wait()
    service.configure("q", {"lease_ms": 1_000}).wait()
    put(service, new())
    assert service.store.limit_cache.table(0).version == version


def test_the_index_is_a_property_of_the_queue(service: Service) -> None:
    assert service.configuration("q").wait() == Configuration()
    assert service.configure("q", {"index": ("a", "b.c")}).wait().index == ("a", "b.c")
    assert service.configuration("q").wait().index == ("a", "b.c")
    assert service.configure("q", {"index": ()}).wait() == Configuration()
    service.configure("q", {"index": ("a",)}).wait()
    while (step := service.clean().wait()).done:
        pass
    assert step is not None
    assert "q" in service.queues().wait()


@pytest.mark.parametrize("own", [True, False])
def test_every_new_payload_moves_the_job(service: Service, own: bool) -> None:
    service.configure("q", {"index": () if own else ("f",)}).wait()
    numbers = iter(range(1, 100))
    last = 0

    def payload() -> Blob:
        nonlocal last
        last = next(numbers)
        return json({"f": last})

    def check(job_id: bytes) -> None:
        assert found(service, f"f={last}") == {job_id}
        assert found(service, f"f={last - 1}") == set()
        assert read(service, job_id).tags == ("t",)
        assert_healthy(service)

    job = new(payload=payload(), index=("f",) if own else (), tags=("t",), unique="u", result_ttl_ms=3_600_000)
    (put_job,) = put(service, job)
    check(put_job.id)
    put(service, msgspec.structs.replace(job, payload=payload(), unique_check="replace"))
    check(put_job.id)
    service.edit([Edit(id=put_job.id, payload=payload())]).one().wait()
    check(put_job.id)
    service.edit([Edit(id=put_job.id, name="other", priority=3)]).one().wait()
    check(put_job.id)
    (taken,) = take(service)
    service.update([Update(id=taken.id, token=taken.lease_token, payload=payload(), progress=0.5)]).one().wait()
    check(put_job.id)
    service.update([Update(id=taken.id, token=taken.lease_token, note="half")]).one().wait()
    check(put_job.id)
    again = CompleteWithChildren(id=taken.id, then="again", run_at_ms=1, payload=payload())
    service.complete_with_children([again]).one().wait()
    check(put_job.id)
    (taken,) = take(service)
    service.fail([Fail(id=taken.id, token=taken.lease_token, then="final")]).one().wait()
    check(put_job.id)
    service.retry([taken.id]).one().wait()
    check(put_job.id)
    (taken,) = take(service)
    ended = CompleteWithChildren(id=taken.id, then="finish", payload=payload())
    service.complete_with_children([ended]).one().wait()
    check(put_job.id)
    service.edit([Edit(id=put_job.id, payload=payload(), in_any_state=True)]).one().wait()
    check(put_job.id)
    service.delete([put_job.id]).one().wait()
    assert found(service, f"f={last}") == set()
    assert_healthy(service)


def test_a_debounced_call_is_found_by_its_last_payload(service: Service) -> None:
    job = new(payload=json({"f": 1}), index=("f",), unique="u", debounce_ms=60_000)
    (first,) = put(service, job)
    put(service, msgspec.structs.replace(job, payload=json({"f": 2})))
    assert (found(service, "f=1"), found(service, "f=2")) == (set(), {first.id})


def test_jobs_of_schedules_and_flows_and_copies_are_indexed(service: Service) -> None:
    service.configure("q", {"index": ("f",)}).wait()
    job = new(payload=json({"f": 1, "g": 2}), index=("g",))
    service.schedule(Schedule(name="s", every_ms=60_000, job=job)).wait()
    ran = service.run_schedule("s").wait()
    service.store.clock_offset_ms += 61_000
    service.fire().wait()
    whole = service.enqueue([job, job], whole=True).wait()
    numbered = service.enqueue_numbered([job]).one().wait()
    assert len(found(service, "f=1", "g=2")) == 5
    assert {ran.id, numbered.id, *(one.id for one in whole)} < found(service, "g=2")  # type: ignore[union-attr]


def test_a_finished_job_is_found_as_long_as_it_is_kept(service: Service) -> None:
    put(service, new(payload=json({"f": 1}), index=("f",), result_ttl_ms=60_000))
    put(service, new(payload=json({"f": 1}), index=("f",)))
    for job in take(service, most=2):
        service.finish([Finish(id=job.id, token=job.lease_token)]).one().wait()
    assert len(found(service, "f=1", state="finished")) == 1


def test_guards_of_the_caller_hold_for_jobs_with_entries(service: Service) -> None:
    put(service, new(payload=json({"f": 1}), index=("f",)))
    (job,) = take(service)
    with pytest.raises(StaleLease):
        service.update([Update(id=job.id, token=job.lease_token + 1, payload=json({"f": 2}))]).one().wait()
    edit = Edit(id=job.id, payload=json({"f": 2}), if_revision=7, in_any_state=True)
    with pytest.raises(RevisionConflict):
        service.edit([edit]).one().wait()
    assert found(service, "f=1") == {job.id}


def test_a_job_that_changes_while_its_new_payload_is_matched_is_matched_again(service: Service) -> None:
    job = new(payload=json({"f": 1, "g": 1}), index=("f",), tags=("old",), unique="u")
    put(service, job)
    (taken,) = take(service)
    other, match = another(service), limit_matcher._match_content
    replacing = [msgspec.structs.replace(job, index=("g",), tags=("new",), unique_check="replace")]

    def match_late(*arguments: Any) -> Any:
        matched = match(*arguments)
        while replacing:
            put(other, replacing.pop())
        return matched

    with mock.patch.object(limit_matcher, "_match_content", match_late):
        update = Update(id=taken.id, token=taken.lease_token, payload=json({"f": 2, "g": 2}))
        service.update([update]).one().wait()
    other.store.close_sync()
    assert (read(service, taken.id).tags, read(service, taken.id).indexed) == (("new",), ("g=2",))
    assert (found(service, "g=2"), found(service, "f=2")) == ({taken.id}, set())


def test_a_search_by_a_field_that_is_not_indexed_says_what_to_do(service: Service) -> None:
    service.configure("mail", {"index": ("customer",)}).wait()
    put(service, new(payload=json({"order_id": 7}), index=("order_id",)))
    with pytest.raises(BadInput, match="'ordr_id' is not indexed") as error:
        found(service, "ordr_id=7")
    assert "mail: customer; q: order_id" in str(error.value)
    assert "windlass queues configure QUEUE --index ordr_id" in str(error.value)
    with pytest.raises(BadInput, match="not indexed in queue 'mail'"):
        found(service, "order_id=7", queue="mail")
    with pytest.raises(BadInput) as error:
        service.jobs_within(Listing(where=("x=7",)), ("m*",)).wait()
    assert "order_id" not in str(error.value)
    assert service.jobs_within(Listing(where=("customer=7",)), ("m*",)).wait().jobs == []


@pytest.mark.parametrize("where", ["order_id", "=7", "", "a" * 5_000 + "=1"])
def test_conditions_that_are_none(service: Service, where: str) -> None:
    with pytest.raises((BadInput, TooLarge)):
        service.jobs(Listing(where=(where,)))


@pytest.mark.parametrize("path", ["", "a..b", ".a", "a=b", "a#b", "a\nb", "é" * 33])
def test_paths_that_are_none(service: Service, path: str) -> None:
    with pytest.raises((BadInput, TooLarge)):
        service.configure("q", {"index": (path,)})
    with pytest.raises((BadInput, TooLarge)):
        service.enqueue([new(index=(path,))])
    with pytest.raises(TooLarge, match="8 fields"):
        service.configure("q", {"index": tuple("abcdefghi")})


def test_found_over_several_partitions(divided_store: Callable[[int], Store]) -> None:
    service = Service(divided_store(3))
    queues = [f"q{number}" for number in range(9)]
    assert len({service.store.partition_of_queue(queue) for queue in queues}) > 1
    for queue in queues:
        service.configure(queue, {"index": ("f",)}).wait()
    put(service, *(new(queue=queue, payload=json({"f": queue[:1]})) for queue in queues))
    assert len(found(service, "f=q", most=2)) == len(queues)
    with pytest.raises(BadInput, match="4 more queues"):
        found(service, "g=1")


def test_the_doctor_restores_lost_entries_and_lists(service: Service) -> None:
    service.configure("q", {"index": ("f",)}).wait()
    (job,) = put(service, new(payload=json({"f": 1}), index=("g",)))
    root = f"{service.store.root(0)}:".encode()
    send_command(service.store, "ZREM", root + b"t:\1f=1", job.id)
    send_command(service.store, "SREM", root + b"indexed_queues", b"q")
    send_command(service.store, "SADD", root + b"indexed_queues", b"gone")
    assert found(service, "f=1") == set()
    assert findings(service).keys() == {"job_not_in_index", "queue_not_listed", "ghost"}
    findings(service, repair=True)
    assert_healthy(service)
    assert found(service, "f=1") == {job.id}
    (later,) = put(service, new(payload=json({"f": 1})))
    assert found(service, "f=1") == {job.id, later.id}
