"""jobs: lists page by page, by queue and state or by tag, in bounded steps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from unittest import mock

import msgspec
import pytest

from tests.service.helpers import new, put, take
from tests.service.job_pages import listed, pages
from tests.support.engine_process import EngineProcess
from tests.support.namespace import dump_keys
from windlass.core.errors import BadInput
from windlass.core.job import Blob, Job
from windlass.core.operations import Edit, Fail, Filter, Finish, Listing
from windlass.core.states import State
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store


def ids(jobs: list[Job]) -> list[bytes]:
    return [job.id for job in jobs]


def test_queued_jobs_come_in_the_order_of_their_taking(service: Service) -> None:
    put(service, *(new(priority=priority) for priority in (3, 1, 2, 1, 3)))
    found = listed(service, queue="q", state="queued", most=2)
    assert [job.priority for job in found] == [1, 1, 2, 3, 3]
    assert ids(found) == ids(take(service, most=5))


def test_newest_first_turns_the_order_round(service: Service) -> None:
    put(service, *(new(delay_ms=60_000 + i) for i in range(7)))
    up = listed(service, queue="q", state="scheduled", most=3)
    down = listed(service, queue="q", state="scheduled", most=3, newest_first=True)
    assert ids(down) == ids(up)[::-1]
    assert len(up) == 7


def test_other_lanes_follow_the_default_lane(service: Service) -> None:
    jobs = put(service, *(new(lane=lane) for lane in ("", "a", "b", "", "a")))
    found = listed(service, queue="q", state="queued", most=2)
    assert [job.lane for job in found] == ["", "", "a", "b", "a"]
    assert sorted(ids(found)) == sorted(job.id for job in jobs)


@pytest.mark.parametrize("state", ["running", "finished", "failed", "cancelled", "history"])
def test_every_state_has_its_list(service: Service, state: str) -> None:
    service.configure("q", {"history_length": 100}).wait()
    put(service, *(new(result_ttl_ms=60_000 if state == "finished" else 0) for _ in range(5)))
    if state == "cancelled":
        service.cancel(ids(listed(service, queue="q", state="queued"))).wait()
    jobs = take(service, most=5)
    if state == "failed":
        service.fail([Fail(id=job.id, token=job.lease_token) for job in jobs]).wait()
    elif state in ("finished", "history"):
        service.finish([Finish(job.id, job.lease_token) for job in jobs]).wait()
    found = listed(service, queue="q", state=state, most=2)
    assert len(set(ids(found))) == 5
    assert listed(service, queue="q", state="queued") == []
    assert listed(service, queue="other", state=state) == []
    assert ids(listed(service, queue="q", state=state, most=2, newest_first=True)) == ids(found)[::-1]


def test_leases_without_a_deadline_are_listed_and_paged(service: Service) -> None:
    from windlass.core.queue import FOREVER_MS

    put(service, *(new() for _ in range(5)))
    take(service, most=5, lease_ms=FOREVER_MS)
    assert len(set(ids(listed(service, queue="q", state="running", most=2)))) == 5


def test_by_name_glob(service: Service) -> None:
    put(service, *(new(name=name) for name in ("mail/a", "mail/b", "sms/a", "Mail/c", "mail")))
    assert [job.name for job in listed(service, queue="q", state="queued", name="mail/*")] == ["mail/a", "mail/b"]
    assert [job.name for job in listed(service, queue="q", state="queued", name="[ms]*/a")] == ["mail/a", "sms/a"]
    assert listed(service, queue="q", state="queued", name="x*") == []


def test_by_tag_over_queues_and_states(service: Service) -> None:
    a, b, c, _ = put(
        service, new(tags=("t",)), new(queue="r", tags=("t", "u"), delay_ms=60_000), new(tags=("t",)), new(tags=("u",))
    )
    assert {job.id for job in listed(service, tag="t", most=1)} == {a.id, b.id, c.id}
    assert ids(listed(service, tag="t", queue="r")) == [b.id]
    assert ids(listed(service, tag="t", state="scheduled")) == [b.id]
    assert {job.id for job in listed(service, tag="t", state="queued", queue="q")} == {a.id, c.id}
    assert listed(service, tag="none") == []


def test_by_time_of_creation(service: Service) -> None:
    (first,) = put(service, new())
    service.store.clock_offset_ms += 10_000
    (second,) = put(service, new())
    at_ms = [service.job([one.id]).one().wait().job.created_at_ms for one in (first, second)]
    assert ids(listed(service, queue="q", state="queued", created_from_ms=at_ms[1])) == [second.id]
    assert ids(listed(service, queue="q", state="queued", created_before_ms=at_ms[1])) == [first.id]
    both = listed(service, queue="q", state="queued", created_from_ms=at_ms[0], created_before_ms=at_ms[1] + 1)
    assert ids(both) == [first.id, second.id]


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("state", ["queued", "scheduled"])
def test_what_stays_is_seen_once_while_others_come_and_go(service: Service, state: str, newest_first: bool) -> None:
    delay_ms = 60_000 if state == "scheduled" else 0
    service.store.clock_offset_ms -= 1_000
    jobs = put(service, *(new(priority=0, delay_ms=delay_ms) for _ in range(60)))
    seen: list[bytes] = []
    removed: set[bytes] = set()
    for number, page in enumerate(pages(service, queue="q", state=state, most=4, newest_first=newest_first)):
        seen += ids(page.jobs)
        if number < 10:
            # The entry at the cursor is removed, and so is a later one.
            gone = [page.jobs[-1].id] if page.jobs else []
            ahead = [job.id for job in jobs if job.id not in seen and job.id not in removed]
            gone += ahead[len(ahead) // 2 :][:1]
            service.delete(gone).wait()
            removed.update(gone)
            put(service, new(priority=-1, delay_ms=delay_ms), new(priority=1, delay_ms=delay_ms))
    assert len(seen) == len(set(seen))
    stayed = {job.id for job in jobs} - removed
    assert stayed <= set(seen)


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_cursor_whose_job_has_moved_loses_no_job(service: Service, newest_first: bool) -> None:
    now_ms = 2**45
    jobs = put(service, *(new(run_at_ms=now_ms + 10 * i) for i in range(9)))
    order = [job.id for job in (jobs[::-1] if newest_first else jobs)]
    first = service.jobs(Listing(queue="q", state="scheduled", most=3, newest_first=newest_first)).wait()
    assert ids(first.jobs) == order[:3]
    # Its last job moves back to where the list began: no longer at the cursor, though still in the list.
    run_at_ms = now_ms + 1_000 if newest_first else now_ms - 1_000
    service.edit([Edit(id=order[2], run_at_ms=run_at_ms)]).one().wait()
    second = service.jobs(
        Listing(queue="q", state="scheduled", most=100, cursor=first.cursor, newest_first=newest_first)
    ).wait()
    assert ids(second.jobs) == order[3:]


def test_a_page_looks_at_a_bounded_number_of_jobs(service: Service) -> None:
    put(service, *(new(name="rare" if i == 1_100 else "n") for i in range(1_200)))
    sizes = [len(page.jobs) for page in pages(service, queue="q", state="queued", name="rare")]
    assert sizes == [0, 0, 1, 0]  # 500 read in each, then the other lanes
    assert len(listed(service, queue="q", state="queued", most=500)) == 1_200


def test_a_long_payload_is_shortened_and_says_so(service: Service) -> None:
    put(service, new(payload=Blob(b"x" * 5_000)), new(payload=Blob(b"y" * 10)))
    long, short = listed(service, queue="q", state="queued")
    assert (long.payload_is_whole, short.payload_is_whole) == (False, True)
    assert 0 < len(long.payload.data) < 1_100
    assert short.payload.data == b"y" * 10


def test_labels_longer_than_the_first_kilobyte_are_whole(service: Service) -> None:
    tags = tuple("t" * 100 + str(i) for i in range(15))
    put(service, new(name="n" * 1_000, tags=tags, payload=Blob(b"x")))
    (job,) = listed(service, queue="q", state="queued")
    assert (job.name, job.tags) == ("n" * 1_000, tags)


@pytest.mark.parametrize("cursor", ["x", "ready:x", "nonsense:", "laned:!!", "ready:bmFuIHg=x", "ü", "\ud800", "0" * 9])
@pytest.mark.parametrize("state", ["queued", "failed"])
def test_a_cursor_that_no_page_gave_out(service: Service, state: str, cursor: str) -> None:
    put(service, new())
    with pytest.raises(BadInput, match="cursor"):
        service.jobs(Listing(queue="q", state=state, cursor=cursor)).wait()


def test_reading_changes_nothing(service: Service, store: Store) -> None:
    put(service, *(new(tags=("t",)) for _ in range(10)))
    before = dump_keys(store)
    listed(service, queue="q", state="queued", most=3)
    listed(service, tag="t", most=3, state=State.QUEUED.label)
    assert dump_keys(store) == before


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_the_order_does_not_depend_on_the_locale_of_the_engine(kind: str, tmp_path: Path) -> None:
    """Lua's own comparison of strings follows LC_COLLATE, the engine's sorted sets follow bytes."""
    locale = str(tmp_path / "en_US.UTF-8")  # made here from the sources that `make test` installs
    subprocess.run(["localedef", "-i", "en_US", "-f", "UTF-8", locale], check=True, capture_output=True)
    with (
        mock.patch.dict(os.environ, {"LOCPATH": str(tmp_path), "LC_ALL": "en_US.UTF-8"}),
        EngineProcess(kind) as engine,  # type: ignore[arg-type]
    ):
        store = Store(parse_url(engine.unix_url), is_test=True)
        service = Service(store)
        service.configure("r", {"name_lanes": True}).wait()
        put(service, *(new(tags=("t",)) for _ in range(300)))
        assert len(set(ids(listed(service, tag="t", most=7)))) == 300
        assert len(set(ids(listed(service, tag="t", most=7, newest_first=True)))) == 300
        jobs = put(service, *(new(queue="r", name="aBcD"[i % 4]) for i in range(300)))
        assert ids(take(service, "r", most=300)) == [job.id for job in jobs]
        put(service, *(new(queue="r", name=name) for name in "abAB"))
        assert [job.name for job in take(service, "r", most=9, wants=Filter(glob="[a-z]"))] == ["a", "b"]
        store.close_sync()


@pytest.mark.parametrize("newest_first", [True, False])
def test_jobs_of_every_priority_are_listed(service: Service, newest_first: bool) -> None:
    put(service, *(new(priority=priority) for priority in (-5, 0, 5, -(2**31), 2**31 - 1)))
    found = listed(service, queue="q", state="queued", newest_first=newest_first, most=2)
    order = [-(2**31), -5, 0, 5, 2**31 - 1]
    assert [job.priority for job in found] == (order[::-1] if newest_first else order)


@pytest.mark.parametrize(
    "listing",
    [Listing(state="queued"), Listing(queue="mine", state="queued"), Listing(tag="t"), Listing(tag="t", most=1)],
)
def test_a_list_within_some_queues_holds_and_counts_these(service: Service, listing: Listing) -> None:
    queues = ("other", "mine", "other", "mine-too", "other")
    put(service, *(new(queue, tags=("t",)) for queue in queues))
    found, looked_at, cursor = [], 0, ""
    while True:
        page = service.jobs_within(msgspec.structs.replace(listing, cursor=cursor), ("mine*",)).wait()
        found += [job.queue for job in page.jobs]
        looked_at += page.looked_at
        cursor = page.cursor
        if not cursor:
            break
    expected = ["mine"] if listing.queue else ["mine", "mine-too"]
    assert (sorted(found), looked_at) == (expected, len(expected))


def test_a_queue_outside_of_those_has_no_jobs(service: Service) -> None:
    put(service, new("other"))
    page = service.jobs_within(Listing(queue="other", state="queued"), ("mine*",)).wait()
    assert (page.jobs, page.looked_at, page.cursor) == ([], 0, "")
