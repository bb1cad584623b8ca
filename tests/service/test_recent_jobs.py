"""jobs: the newest of all states, and jobs by a text in their payloads; page by page, within bounds."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.service.helpers import new, put, take
from tests.service.job_pages import listed, pages
from windlass.core.bulk_action import Action
from windlass.core.errors import BadInput
from windlass.core.ids import format_id
from windlass.core.job import Blob, Codec, Job, NewJob
from windlass.core.operations import Fail, Finish, Listing
from windlass.service import Service
from windlass.service import jobs as service_jobs
from windlass.store import recent_pages
from windlass.store.store import Store


def names(jobs: list[Job]) -> list[str]:
    return [job.name for job in jobs]


def put_in_turn(service: Service, *jobs: NewJob) -> None:
    """Enqueue jobs, each a second after the last."""
    for job in jobs:
        put(service, job)
        service.store.clock_offset_ms += 1_000


NAMES = ["failed", "running", "parked", "finished", "scheduled", "late", "early", "lane", "cancelled", "waiting"]


def fill(service: Service) -> None:
    """Jobs of all lists but `suspended` in three queues, each created a second after the one before it, as NAMES."""
    put_in_turn(
        service,
        new("a", "failed"),
        new("a", "running"),
        new("a", "parked"),
        new("b", "finished", result_ttl_ms=600_000),
    )
    (failed, running, _), (finished,) = take(service, "a", most=3), take(service, "b")
    service.fail([Fail(id=failed.id, token=failed.lease_token)]).wait()
    service.finish([Finish(finished.id, finished.lease_token)]).wait()
    put_in_turn(
        service, new("c", "scheduled", delay_ms=600_000), new("a", "late", priority=5), new("a", "early", priority=-5),
        new("b", "lane", lane="tenant"), new("c", "cancelled"), new("a", "waiting", after=(running.id,)),
    )  # fmt: skip
    (cancelled,) = (job for job in listed(service, state="queued") if job.name == "cancelled")
    service.cancel([cancelled.id]).wait()


@pytest.mark.parametrize("newest_first", [True, False])
def test_jobs_of_all_states_by_creation(service: Service, newest_first: bool) -> None:
    fill(service)
    (page,) = pages(service, state="all", newest_first=newest_first)
    assert names(page.jobs) == (NAMES[::-1] if newest_first else NAMES)
    assert (page.looked_at, page.cursor, page.is_complete) == (len(NAMES), "", True)


@pytest.mark.parametrize("most", [1, 2, 3, 7])
@pytest.mark.parametrize("newest_first", [True, False])
def test_pages_have_every_job_once(service: Service, most: int, newest_first: bool) -> None:
    fill(service)
    steps = list(pages(service, state="all", most=most, newest_first=newest_first))
    assert all(len(page.jobs) <= most for page in steps)
    assert sorted(names([job for page in steps for job in page.jobs])) == sorted(NAMES)
    for page in steps:
        created = [job.created_at_ms for job in page.jobs]
        assert created == sorted(created, reverse=newest_first)
    assert sum(page.looked_at for page in steps) == len(NAMES)


def test_the_first_page_has_the_newest_of_every_list(service: Service) -> None:
    put(service, new("q", "old", delay_ms=600_000))
    service.store.clock_offset_ms += 1_000
    put(service, *(new("q", f"n{at}") for at in range(60)))
    page = next(pages(service, state="all", most=10, newest_first=True))
    assert names(page.jobs)[-1] == "old"
    assert len(page.jobs) == 10


@pytest.mark.parametrize(
    ("given", "expected"),
    [({"queue": "b"}, ["lane", "finished"]), ({"name": "*e"}, ["lane", "late"]), ({"queue": "none"}, [])],
)
def test_filters_of_jobs_of_all_states(service: Service, given: dict[str, str], expected: list[str]) -> None:
    fill(service)
    assert names(listed(service, state="all", newest_first=True, **given)) == expected


def test_jobs_of_all_states_in_allowed_queues(service: Service) -> None:
    fill(service)
    page = service.jobs_within(Listing(state="all", newest_first=True), ("c",)).wait()
    assert (names(page.jobs), page.looked_at) == (["cancelled", "scheduled"], 2)
    assert service.jobs_within(Listing(queue="a", state="all"), ("c",)).wait().jobs == []


def test_the_history_is_a_list_of_its_own(service: Service) -> None:
    service.configure("q", {"history_length": 10}).wait()
    put(service, new(name="done"))
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).wait()
    assert listed(service, state="all") == []
    assert names(listed(service, state="history", text="null")) == ["done"]


def test_queues_that_are_left_out_are_reported(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    put(service, *(new(f"q{at}") for at in range(4)))
    for state in ("all", "queued"):
        assert service.jobs(Listing(state=state)).wait().is_complete
    monkeypatch.setattr(service_jobs, "MERGED_MAX", 3)
    for state in ("all", "queued"):
        page = service.jobs(Listing(state=state)).wait()
        assert (len(page.jobs), page.is_complete) == (3, False)


@pytest.mark.parametrize("cursor", ["x", "queued", "other=end", "queued=x", "queued=end,,"])
def test_a_wrong_cursor_is_refused(service: Service, cursor: str) -> None:
    put(service, new())
    with pytest.raises(BadInput):
        service.jobs(Listing(state="all", cursor=cursor)).wait()


@pytest.mark.parametrize("listing", [{"state": "all"}, {"state": "queued", "text": "x"}, {"tag": "t", "text": "x"}])
def test_an_action_on_recent_jobs_is_refused(service: Service, listing: dict[str, str]) -> None:
    with pytest.raises(BadInput):
        service.act(Action(verb="delete", listing=Listing(**listing)))


# Text of payloads


def packed(value: object) -> Blob:
    return Blob(msgspec.msgpack.encode(value), Codec.MSGPACK)


def found(service: Service, text: str, **listing: object) -> list[str]:
    return sorted(names(listed(service, text=text, **{"state": "all", **listing})))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("needle", ["json", "long", "msgpack"]), ("NEEDLE", ["json", "long", "msgpack"]), ("order_id", ["msgpack"]),
        ('"order_id":7', ["msgpack"]), ("ä", ["escaped", "utf-8"]), ("Ä", ["escaped", "utf-8"]), ("raw bytes", ["raw"]),
        ("nothing", []), ("12345678901234567890123", ["number"]), ('{"a":["', ["json"]), ("no json", ["broken"]),
    ],
)  # fmt: skip
def test_jobs_by_a_text_in_their_payload(service: Service, text: str, expected: list[str]) -> None:
    put(
        service,
        new(name="json", payload=Blob(b'{"a": [ "Needle" ]}')),
        new(name="msgpack", payload=packed({"order_id": 7, "note": "a needle"})),
        new(name="long", payload=Blob(b'"%s needle"' % (b"x" * 40_000))),
        new(name="escaped", payload=Blob(b'"\\u00e4"')),
        new(name="utf-8", payload=packed("Ä")),
        new(name="raw", payload=Blob(b"\xff raw bytes", Codec.RAW)),
        new(name="number", payload=Blob(b"12345678901234567890123")),
        new(name="broken", payload=Blob(b"no json")),
        new(name="empty"),
    )
    assert found(service, text) == expected
    assert found(service, text, state="queued", queue="q") == expected
    assert found(service, text, state="finished") == []


def test_text_with_other_filters(service: Service) -> None:
    payload = packed({"city": "Athens"})
    put(service, new("a", "send", payload=payload, tags=("t",)), new("b", "send", payload=payload))
    put(service, new("a", "other", payload=payload), new("a", "send", tags=("t",)))
    assert found(service, "athens") == ["other", "send", "send"]
    assert found(service, "athens", name="send") == ["send", "send"]
    assert found(service, "athens", queue="a", name="send") == ["send"]
    assert found(service, "athens", tag="t", state="") == ["send"]
    assert found(service, "athens", tag="t", state="queued") == ["send"]


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("by", [{"state": "all"}, {"state": "queued"}, {"tag": "t"}])
def test_a_search_goes_on_page_by_page(
    divided_store: Callable[[int], Store], monkeypatch: pytest.MonkeyPatch, partitions: int, by: dict[str, str]
) -> None:
    service = Service(divided_store(partitions))
    monkeypatch.setattr(recent_pages, "LOOKED_AT_MAX", 10)
    monkeypatch.setattr(recent_pages, "FIRST_ROUND", 4)
    wanted = [made.id for made in put(service, *(
        new(f"q{at % 3}", tags=("t",), payload=packed("needle" if at % 5 == 0 else "hay")) for at in range(60)
    ))][::5]  # fmt: skip
    for most in (1, 2, 50):
        steps = list(pages(service, text="needle", most=most, newest_first=True, **by))
        assert sorted(job.id for page in steps for job in page.jobs) == sorted(wanted)
        assert all(len(page.jobs) <= most for page in steps)
        assert max(page.looked_at for page in steps) <= 10 + 4
        assert sum(page.looked_at for page in steps) == 60


def test_long_payloads_end_a_page_and_the_next_goes_on(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_jobs, "PAYLOAD_BYTES_MAX", 100_000)
    monkeypatch.setattr(service_jobs, "PAYLOADS_AT_ONCE", 2)
    put(service, *(new(name=f"n{at}", payload=Blob(b'"%s%d"' % (b"x" * 40_000, at))) for at in range(12)))
    steps = list(pages(service, state="queued", text="xxx"))
    assert sorted(names([job for page in steps for job in page.jobs])) == sorted(f"n{at}" for at in range(12))
    assert [page.looked_at for page in steps] == [4, 4, 4]


def test_payloads_of_other_queues_are_not_searched(service: Service) -> None:
    put(service, new("mine", tags=("t",), payload=packed("x")), new("theirs", tags=("t",), payload=packed("secret")))
    for listing in (Listing(state="all", text="secret"), Listing(tag="t", text="secret")):
        page = service.jobs_within(listing, ("mine",)).wait()
        assert page.jobs == []
        assert page.looked_at <= 1


def test_a_text_in_a_job_that_ended(service: Service) -> None:
    put(service, new(payload=packed("needle"), result_ttl_ms=600_000))
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).wait()
    (page,) = pages(service, state="all", text="needle")
    assert [format_id(found.id) for found in page.jobs] == [format_id(job.id)]
