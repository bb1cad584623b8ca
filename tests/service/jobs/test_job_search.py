"""jobs: search by time of end and by error text, over all queues, with the errors."""

from __future__ import annotations

from unittest import mock

import msgspec
import pytest

from tests.service.helpers import new, put, take
from tests.service.job_pages import listed, pages
from windlass.core.errors import BadInput
from windlass.core.job import Blob, Codec, Job
from windlass.core.operations import Fail, Finish, Listing
from windlass.service import Service
from windlass.store import job_pages as store_pages
from windlass.store.commands import jobs as jobs_commands

HOUR_MS = 3_600_000


def names(jobs: list[Job]) -> list[str]:
    return [job.name for job in jobs]


def fail(service: Service, name: str, error: Blob | None, queue: str = "q", reason: str = "error") -> bytes:
    put(service, new(queue=queue, name=name))
    (job,) = take(service, queue)
    service.fail([Fail(id=job.id, token=job.lease_token, reason=reason, error=error)]).one().wait()
    return job.id


def as_map(kind: str, message: str, traceback: str = "") -> Blob:
    content = {"type": kind, "message": message, "traceback": traceback}
    return Blob(msgspec.msgpack.encode(content), Codec.MSGPACK)


def test_jobs_are_sought_by_the_time_of_their_end(service: Service) -> None:
    ends = []
    for number in range(6):
        fail(service, f"n{number}", None)
        ends.append(service.now().wait())
        service.store.clock_offset_ms += HOUR_MS
    (job,) = (job for job in listed(service, queue="q", state="failed") if job.name == "n2")
    from_ms = job.ended_at_ms or 0
    before_ms = from_ms + 2 * HOUR_MS
    for newest_first in (False, True):
        found = listed(
            service, queue="q", state="failed", ended_from_ms=from_ms, ended_before_ms=before_ms,
            newest_first=newest_first, most=1,
        )  # fmt: skip
        assert names(found) == (["n3", "n2"] if newest_first else ["n2", "n3"])
    assert names(listed(service, queue="q", state="failed", ended_from_ms=before_ms)) == ["n4", "n5"]
    assert names(listed(service, queue="q", state="failed", ended_before_ms=from_ms)) == ["n0", "n1"]
    (page,) = pages(service, queue="q", state="failed", ended_from_ms=before_ms, newest_first=True)
    assert page.looked_at == 2, "the list begins and ends where the time does"


def test_jobs_that_have_not_ended_have_no_time_of_their_end(service: Service) -> None:
    put(service, new(tags=("t",)))
    assert listed(service, queue="q", state="queued", ended_before_ms=2**47) == []
    assert listed(service, queue="q", state="queued", ended_from_ms=1) == []
    assert listed(service, tag="t", ended_from_ms=1) == []
    assert len(listed(service, tag="t")) == 1


@pytest.mark.parametrize(
    "sought",
    ["connection refused", "CONNECTION", "ConnectionError: connection refused by db-7", "line 12", "naïve", 'say "no"'],
)
def test_jobs_are_sought_by_what_their_last_error_says(service: Service, sought: str) -> None:
    said = 'connection refused by db-7: naïve, they say "no"'
    fail(service, "ours", as_map("ConnectionError", said, "File x, line 12"))
    fail(
        service, "json", Blob(msgspec.json.encode({"type": "ConnectionError", "message": said, "traceback": "line 12"}))
    )
    fail(service, "other", as_map("ValueError", "no such order"))
    fail(service, "silent", None)
    found = listed(service, queue="q", state="failed", error=sought)
    assert sorted(names(found)) == ["json", "ours"]
    assert sorted(names(listed(service, state="failed", error=sought))) == ["json", "ours"]


def test_a_reason_can_be_sought_and_numbers_of_the_attempt_are_not_its_text(service: Service) -> None:
    fail(service, "late", None, reason="timeout")
    fail(service, "other", None, reason="crashed")
    assert names(listed(service, queue="q", state="failed", error="time")) == ["late"]
    assert names(listed(service, queue="q", state="failed", error="timeout: no")) == []


def test_pages_carry_last_errors_when_they_are_wanted(service: Service) -> None:
    first = fail(service, "a", as_map("ValueError", "no such order"))
    second = fail(service, "b", None, reason="timeout")
    (page,) = pages(service, queue="q", state="failed", with_errors=True)
    assert {job_id: one.reason for job_id, one in page.last_attempts.items()} == {first: "error", second: "timeout"}
    assert page.last_attempts[first].error == as_map("ValueError", "no such order")
    (page,) = pages(service, queue="q", state="failed")
    assert page.last_attempts == {}
    (page,) = pages(service, state="failed", with_errors=True, error="order")
    assert list(page.last_attempts) == [first]
    put(service, new())
    (page,) = pages(service, state="queued", with_errors=True)
    assert (len(page.jobs), page.last_attempts) == (1, {})


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("most", [1, 3, 50])
def test_a_list_over_all_queues_is_merged_in_the_order_of_time(service: Service, most: int, newest_first: bool) -> None:
    for number in range(12):
        fail(service, f"n{number:02}", None, queue=f"q{number % 3 if number < 9 else 0}")
        service.store.clock_offset_ms += 1_000
    put(service, new(queue="elsewhere"))
    found = names(listed(service, state="failed", most=most, newest_first=newest_first))
    assert found == sorted((f"n{number:02}" for number in range(12)), reverse=newest_first)


@pytest.mark.parametrize("newest_first", [False, True])
def test_many_queues_share_a_page_and_a_full_one_is_not_overtaken(service: Service, newest_first: bool) -> None:
    queues = ["full"] * 5 + [f"q{number}" for number in range(12)] + ["full"] * 5
    for number, queue in enumerate(queues):
        fail(service, f"n{number:02}", None, queue=queue)
        service.store.clock_offset_ms += 1_000
    found = names(listed(service, state="failed", most=3, newest_first=newest_first))
    assert found == sorted((f"n{number:02}" for number in range(len(queues))), reverse=newest_first)


def test_a_merged_list_looks_at_a_bounded_number_of_jobs_and_misses_none(service: Service) -> None:
    for number in range(30):
        fail(service, "wanted" if number in (0, 13, 29) else "other", None, queue=f"q{number % 2}")
        service.store.clock_offset_ms += 1_000
    with mock.patch.object(store_pages, "LOOKED_AT_TOGETHER", 8):
        steps = list(pages(service, state="failed", name="wanted", most=2))
    assert sum(len(page.jobs) for page in steps) == 3
    assert max(page.looked_at for page in steps) <= 8
    assert len(steps) > 3


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_merged_page_is_full_also_when_one_queue_comes_before_all_others(
    service: Service, newest_first: bool
) -> None:
    for queue in range(20):
        service.enqueue([new(queue=f"q{queue}", name=f"{queue} {number}") for number in range(60)]).wait()
        service.store.clock_offset_ms += 1_000
    (page, *_) = pages(service, state="queued", newest_first=newest_first)
    wanted = [f"{queue} {number}" for queue in range(20) for number in range(60)]
    assert names(page.jobs) == (wanted[::-1] if newest_first else wanted)[:50]


def test_queued_jobs_of_all_queues_are_merged_by_priority(service: Service) -> None:
    for number, (queue, lane) in enumerate((("q", ""), ("q", "a"), ("r", ""), ("r", "b"))):
        put(service, *(new(queue=queue, lane=lane, priority=4 * step + number) for step in range(3)))
    found = listed(service, state="queued", most=2)
    assert [job.priority for job in found] == list(range(12))
    assert listed(service, state="running") == []


def test_a_search_that_finds_nothing_goes_on_in_bounded_steps(service: Service) -> None:
    for _ in range(7):
        fail(service, "n", None)
    with mock.patch.object(jobs_commands, "LOOKED_AT", 3):
        steps = list(pages(service, queue="q", state="failed", error="nothing says this"))
    assert [(len(page.jobs), page.looked_at) for page in steps] == [(0, 3), (0, 3), (0, 1)]


def test_finished_jobs_are_sought_by_their_end_too(service: Service) -> None:
    put(service, new(result_ttl_ms=HOUR_MS))
    (job,) = take(service)
    service.store.clock_offset_ms += 5_000
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    ended = listed(service, queue="q", state="finished")[0].ended_at_ms or 0
    assert len(listed(service, state="finished", ended_from_ms=ended)) == 1
    assert listed(service, state="finished", ended_from_ms=ended + 1) == []


def test_a_list_needs_a_state_or_a_tag(service: Service) -> None:
    with pytest.raises(BadInput, match="needs a state or a tag"):
        service.jobs(Listing(queue="q"))
    fail(service, "n", None)
    with pytest.raises(BadInput, match="cursor"):
        service.jobs(Listing(state="failed", cursor="x")).wait()
