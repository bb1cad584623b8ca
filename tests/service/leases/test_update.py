"""update: progress and content from the lease holder."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.service.export.example_deployment import snapshot
from tests.service.helpers import new, put, read, take
from tests.service.machines import invariants
from windlass.core.errors import AlreadyEnded, BadInput, StaleLease, TooLarge, UnknownJob, WrongState
from windlass.core.job import Blob, Codec, Job
from windlass.core.operations import Edit, Fail, Finish, LeaseRef, Listing, Update, Updated
from windlass.service import Service
from windlass.store.store import Store


@pytest.mark.parametrize("size", [1, 5_000])
@pytest.mark.parametrize("progress", [0, 0.25, 1 / 3, 1])
def test_progress_is_no_change_of_content(service: Service, progress: float, size: int) -> None:
    put(service, new(payload=Blob(b"x" * size)))
    (job,) = take(service)
    answer = service.update([Update(id=job.id, token=job.lease_token, progress=progress)]).one().wait()
    assert answer == Updated(1, False)
    stored = read(service, job.id)
    assert stored.progress == pytest.approx(progress, abs=1e-6)
    assert stored.payload.data == b"x" * size


@pytest.mark.parametrize("before", [0, 10, 5_000])
@pytest.mark.parametrize("after", [0, 11, 1024 * 1024])
def test_a_new_payload_is_a_new_revision(service: Service, before: int, after: int) -> None:
    put(service, new(payload=Blob(b"b" * before), tags=("t",), trace="00-trace", unique="u", lane="l"))
    (job,) = take(service)
    payload = Blob(b"a" * after, Codec.MSGPACK)
    answer = service.update([Update(id=job.id, token=job.lease_token, payload=payload)]).one().wait()
    assert answer.revision == 2
    stored = read(service, job.id)
    assert stored.payload == payload
    assert (stored.tags, stored.trace, stored.unique, stored.lane, stored.state) == (
        job.tags, job.trace, job.unique, job.lane, job.state
    )  # fmt: skip
    service.release([LeaseRef(job.id, job.lease_token)]).wait()
    (again,) = take(service)
    assert (again.payload, again.revision) == (payload, 2)
    service.finish([Finish(again.id, again.lease_token)]).one().wait()
    assert service.stats(["q"]).wait()[0].bytes == 0


def test_many_updates_of_one_job_in_one_call(service: Service) -> None:
    put(service, new(payload=Blob(b"x" * 3_000)))
    (job,) = take(service)
    updates = [
        Update(id=job.id, token=job.lease_token, progress=0.1),
        Update(id=job.id, token=job.lease_token, payload=Blob(b"y" * 4_000)),
        Update(id=job.id, token=job.lease_token, progress=0.2),
        Update(id=job.id, token=job.lease_token, payload=Blob(b"z"), progress=0.3),
        Update(id=job.id, token=job.lease_token, progress=0.4),
    ]
    answers = service.update(updates).wait()
    assert [one.revision for one in answers if isinstance(one, Updated)] == [1, 2, 2, 3, 3]
    stored = read(service, job.id)
    assert (stored.payload.data, stored.progress, stored.revision) == (b"z", 0.4, 3)


def test_progress_is_reset_with_each_attempt(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    service.update([Update(id=job.id, token=job.lease_token, progress=0.5)]).wait()
    service.release([LeaseRef(job.id, job.lease_token)]).wait()
    assert take(service)[0].progress == 0


def test_the_answer_says_when_to_stop(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    service.cancel([job.id]).wait()
    assert service.update([Update(id=job.id, token=job.lease_token, progress=0.5)]).one().wait().is_cancel_requested


def test_others_may_not_write(service: Service) -> None:
    queued, _ = put(service, new(name="queued", delay_ms=60_000), new())
    (job,) = take(service)
    service.release([LeaseRef(job.id, job.lease_token)]).wait()
    (again,) = take(service)
    changes: list[tuple[bytes, int]] = [
        (job.id, job.lease_token),
        (queued.id, 0),
        (queued.id, 5),
        (service.store.new_id("q"), 0),
    ]
    answers = service.update(
        [Update(id=one, token=token, payload=Blob(b"evil"), progress=1, note="evil") for one, token in changes]
    ).wait()
    assert [type(one) for one in answers] == [StaleLease, WrongState, StaleLease, UnknownJob]
    stored = read(service, job.id)
    assert (stored.payload, stored.progress, stored.note, stored.revision) == (again.payload, 0, "", 1)
    service.finish([Finish(job.id, 0)]).wait()
    assert isinstance(service.update([Update(id=job.id, token=0, progress=1)]).wait()[0], AlreadyEnded)


def test_the_current_holder(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    assert service.update([Update(id=job.id, token=0, payload=Blob(b"1"))]).one().wait().revision == 2


# Notes


def noted(service: Service, job: Job, note: str, **kw: Any) -> Job:
    service.update([Update(id=job.id, token=job.lease_token, note=note, **kw)]).one().wait()
    return read(service, job.id)


SIZES = [0, 900, 5_000]  # written whole, written whole until the note comes, patched in place


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("oddities", [{}, {"repeat": "HOURLY", "trace": "00-1", "tags": ("t",)}], ids=["plain", "rich"])
def test_the_last_note_is_shown_and_nothing_else_changes(
    service: Service, store: Store, size: int, oddities: dict[str, Any]
) -> None:
    put(service, new(payload=Blob(b"x" * size), **oddities))
    (job,) = take(service)
    assert job.note == ""
    for note in ("half way", "✓\n" * 64, "", "short", "n" * 256, "n" * 255, "again"):
        assert noted(service, job, note) == msgspec.structs.replace(job, note=note)
    service.update([Update(id=job.id, token=job.lease_token, progress=0.5)]).wait()
    assert (read(service, job.id).note, read(service, job.id).progress) == ("again", 0.5)
    invariants.check(snapshot(store))


@pytest.mark.parametrize("size", SIZES)
def test_a_note_beside_a_new_payload(service: Service, store: Store, size: int) -> None:
    put(service, new(payload=Blob(b"x" * size)))
    (job,) = take(service)
    for number, after in enumerate((3_000, 0, 2_000, 10)):
        found = noted(service, job, f"note {number}" * (number + 1), payload=Blob(b"y" * after))
        assert (found.note, found.payload.data) == (f"note {number}" * (number + 1), b"y" * after)
    updates = [Update(id=job.id, token=0, note=note) for note in ("a", "long" * 50, "b")]
    service.update([*updates, Update(id=job.id, token=0, payload=Blob(b"z" * size))]).wait()
    assert (read(service, job.id).note, read(service, job.id).payload.data) == ("b", b"z" * size)
    invariants.check(snapshot(store))


@pytest.mark.parametrize("size", SIZES)
def test_a_note_goes_when_a_new_attempt_starts(service: Service, store: Store, size: int) -> None:
    put(service, new(payload=Blob(b"x" * size)))
    (job,) = take(service)
    noted(service, job, "first", progress=0.5)
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).wait()
    waiting = read(service, job.id)
    assert (waiting.progress, waiting.note) == (0.5, "first")
    (again,) = take(service)
    assert (again.progress, again.note, again.payload.data) == (0, "", b"x" * size)
    assert read(service, job.id) == again
    noted(service, again, "second")
    service.fail([Fail(id=job.id, token=again.lease_token)]).wait()
    assert read(service, job.id).note == "second"
    service.retry([job.id]).one().wait()
    assert (read(service, job.id).note, read(service, job.id).payload.data) == ("", b"x" * size)
    invariants.check(snapshot(store))


def test_a_note_goes_with_the_run_of_a_job_that_repeats(service: Service, store: Store) -> None:
    put(service, new(repeat="FINISHED, +0 SECONDS", trace="00-1"))
    (job,) = take(service)
    noted(service, job, "first run")
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    found = read(service, job.id)
    assert (found.note, found.repeat, found.trace) == ("", job.repeat, job.trace)
    invariants.check(snapshot(store))


def test_a_note_of_a_job_that_ended_is_kept_with_it(service: Service) -> None:
    put(service, new(result_ttl_ms=60_000))
    (job,) = take(service)
    noted(service, job, "all done")
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    assert (read(service, job.id).note, read(service, job.id).progress) == ("all done", 1)
    (listed,) = service.jobs(Listing(queue="q", state="finished")).wait().jobs
    assert listed.note == "all done"


@pytest.mark.parametrize("size", SIZES)
def test_others_who_change_a_job_leave_the_note(service: Service, store: Store, size: int) -> None:
    put(service, new(payload=Blob(b"x" * size), unique="u", repeat="HOURLY"))
    (job,) = take(service)
    noted(service, job, "mine")
    service.edit([Edit(id=job.id, name="other", repeat="DAILY", in_any_state=True)]).one().wait()
    assert (read(service, job.id).note, read(service, job.id).repeat) == ("mine", "DAILY")
    put(service, new(payload=Blob(b"new"), unique="u", unique_check="replace", trace="00-2"))
    found = read(service, job.id)
    assert (found.note, found.payload.data, found.trace, found.repeat) == ("mine", b"new", "00-2", "")
    invariants.check(snapshot(store))


def test_a_long_record_makes_room_once(service: Service) -> None:
    """The record has space for a longer note, so that it is not rewritten."""
    put(service, new(payload=Blob(b"x" * 5_000)))
    (job,) = take(service)
    sizes = set()
    for note in ("a", "longer", "n" * 256, ""):
        noted(service, job, note)
        sizes.add(service.stats(["q"]).wait()[0].bytes)
    assert len(sizes) == 1


def test_a_job_without_a_note_is_stored_as_before(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    before = service.stats(["q"]).wait()[0].bytes
    service.update([Update(id=job.id, token=job.lease_token, progress=0.5, note="")]).one().wait()
    assert service.stats(["q"]).wait()[0].bytes == before


@pytest.mark.parametrize(
    "bad",
    [{"progress": 1.01}, {"progress": -0.1}, {"progress": float("nan")}, {"progress": "1"}, {"token": -1}, {"note": 5}],
)
def test_bad_input(service: Service, bad: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        service.update([Update(**({"id": bytes(16), "token": 1} | bad))])


def test_a_payload_beyond_the_limit(service: Service) -> None:
    with pytest.raises(TooLarge):
        service.update([Update(id=bytes(16), token=1, payload=Blob(b"x" * (1024 * 1024 + 1)))])
