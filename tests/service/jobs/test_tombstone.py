"""tombstone: the ids of ended jobs whose records were removed."""

from __future__ import annotations

import re
from typing import Any
from unittest import mock

import pytest

import windlass.store.store as store_module
from tests.service.admin.doctor_findings import assert_healthy, findings
from tests.service.helpers import new, put, take
from tests.support.engine_process import EngineProcess
from tests.support.stores import discard, make_store
from windlass.core.errors import Refusal, UnknownJob
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Fail, Finish
from windlass.core.queue import DAY_MS
from windlass.service import Service
from windlass.store.scripts import Library, library

HOUR = 3_600_000


def lasting(**kw: Any) -> NewJob:
    return new(**{"result_ttl_ms": 5_000, "tombstone_ms": HOUR} | kw)


def finish(service: Service, job: NewJob) -> bytes:
    put(service, job)
    (taken,) = take(service, job.queue)
    service.finish([Finish(taken.id, taken.lease_token, Blob(b"7"))]).one().wait()
    return taken.id


def fail(service: Service, job: NewJob) -> bytes:
    put(service, job)
    (taken,) = take(service, job.queue)
    service.fail([Fail(id=taken.id, token=taken.lease_token)]).one().wait()
    return taken.id


def queue_of(service: Service, job_id: bytes) -> str | None:
    (found,) = service.tombstone([job_id]).wait()
    assert isinstance(found, str | UnknownJob)
    return found if isinstance(found, str) else None


def pass_time(service: Service, by_ms: int) -> None:
    service.store.clock_offset_ms += by_ms
    service.clean().wait()


def test_a_job_leaves_a_tombstone_when_its_record_is_removed(service: Service) -> None:
    job_id = finish(service, lasting(queue="q{1} ü"))
    assert queue_of(service, job_id) is None, "its record exists"
    service.result(job_id, consume=True).wait()
    assert queue_of(service, job_id) is None
    pass_time(service, 5_000)
    assert queue_of(service, job_id) == "q{1} ü"
    pass_time(service, HOUR - 5_000)
    assert queue_of(service, job_id) == "q{1} ü"


def test_it_is_forgotten_after_its_time_even_if_nothing_cleans(service: Service) -> None:
    job_id = finish(service, lasting())
    pass_time(service, 5_000)
    service.store.clock_offset_ms += HOUR
    assert queue_of(service, job_id) is None
    assert service.clean().wait().done == 1
    assert service.clean().wait().next_at_ms is None
    assert_healthy(service)


def test_the_janitor_is_due_when_the_first_is_forgotten(service: Service) -> None:
    finish(service, lasting())
    pass_time(service, 5_000)
    step = service.clean().wait()
    assert step.next_at_ms is not None
    assert 0 < step.next_at_ms - step.now_ms <= HOUR


def test_a_result_that_is_not_kept_leaves_it_at_once(service: Service) -> None:
    assert queue_of(service, finish(service, lasting(result_ttl_ms=0))) == "q"


def test_a_failed_job_leaves_one_after_its_retention(service: Service) -> None:
    job_id = fail(service, lasting())
    pass_time(service, 14 * DAY_MS)
    assert queue_of(service, job_id) == "q"


def test_a_job_that_leaves_the_history_leaves_one(service: Service) -> None:
    service.configure("q", {"history_length": 1}).wait()
    first = finish(service, lasting(result_ttl_ms=0))
    assert queue_of(service, first) is None
    pass_time(service, 1)  # of two jobs that end in the same millisecond either may leave first
    second = finish(service, lasting(result_ttl_ms=0))
    assert (queue_of(service, first), queue_of(service, second)) == ("q", None)


def test_others_leave_none(service: Service) -> None:
    plain = finish(service, lasting(tombstone_ms=0))
    (cancelled,) = put(service, lasting(queue="c"))
    service.cancel([cancelled.id]).wait()
    deleted = finish(service, lasting())
    service.delete([deleted]).one().wait()
    (unstarted,) = put(service, lasting(queue="d"))
    service.delete([unstarted.id]).one().wait()
    assert [queue_of(service, one) for one in (deleted, unstarted.id)] == [None] * 2
    pass_time(service, 14 * DAY_MS)
    assert [queue_of(service, one) for one in (plain, cancelled.id, deleted, unstarted.id)] == [None] * 4


@pytest.mark.parametrize(("before", "after"), [(0, HOUR), (HOUR, 0)])
def test_a_replaced_job_follows_its_new_content(service: Service, before: int, after: int) -> None:
    keyed = {"unique": "u", "unique_check": "replace"}
    put(service, lasting(tombstone_ms=before, **keyed), lasting(tombstone_ms=after, **keyed))
    (taken,) = take(service)
    assert taken.tombstone_ms == after
    service.finish([Finish(taken.id, taken.lease_token)]).one().wait()
    pass_time(service, 5_000)
    assert (queue_of(service, taken.id) is not None) == (after > 0)


def few_tombstones() -> Library:
    return library().rewritten("few", lambda source: re.sub(r"TOMBSTONES_MAX = \d+", "TOMBSTONES_MAX = 3", source))


def test_their_number_is_bounded(engine: EngineProcess) -> None:
    with mock.patch.object(store_module, "library", return_value=few_tombstones()):
        store = make_store(engine)
        service = Service(store)
        store.open_sync()
        try:
            ids = [finish(service, lasting(result_ttl_ms=0, tombstone_ms=HOUR + n)) for n in range(6)]
            kept = [job_id for job_id in ids if queue_of(service, job_id)]
            assert ids[-1] in kept
            assert 2 <= len(kept) <= 3
            assert kept == ids[-len(kept) :], "those that would be forgotten first are dropped"
            assert_healthy(service)
        finally:
            discard(store)


def test_an_import_brings_them(service: Service, target: Service) -> None:
    job_id = finish(service, lasting(queue="kept"))
    waiting = put(service, lasting(queue="waiting"))[0].id
    pass_time(service, 5_000)
    lines = list(service.export())
    assert sum(b'"kind":"tombstone"' in line for line in lines) == 1
    for expected in ("added", "existing"):
        done = target.import_jobs(lines).wait()
        assert getattr(done, expected)["tombstone"] == 1
    target.store.clock_offset_ms = service.store.clock_offset_ms
    assert queue_of(target, job_id) == "kept"
    (taken,) = take(target, "waiting")
    assert (taken.id, taken.tombstone_ms) == (waiting, HOUR)
    assert_healthy(target)


WRONG_LINES = [
    b'{"kind":"tombstone","id":"x","queue":"q","until_ms":5}\n',
    b'{"kind":"tombstone","id":"01890a5d-ac96-7000-8000-b5c1d0b7a3f2","queue":"","until_ms":5}\n',
]


@pytest.mark.parametrize("line", WRONG_LINES)
def test_a_wrong_line_is_refused(service: Service, line: bytes) -> None:
    header, *_, end = service.export()
    with pytest.raises(Refusal):
        service.import_jobs([header, line, end]).wait()


def test_the_doctor_removes_halves(service: Service) -> None:
    first, second = (finish(service, lasting(result_ttl_ms=0)) for _ in range(2))
    root, link = service.store.root(0), service.store._sync_connection
    link.call("HDEL", f"{root}:tombstone_queues", first)
    link.call("ZREM", f"{root}:tombstones", second)
    assert findings(service, repair=True)["ghost"].count == 2
    assert_healthy(service)
    assert link.call("EXISTS", f"{root}:tombstone_queues", f"{root}:tombstones") == 0


def test_a_retried_job_that_had_an_expiry_keeps_its_time(service: Service) -> None:
    (job,) = put(service, lasting(expires_in_ms=1_000))
    pass_time(service, 2_000)
    service.retry([job.id]).one().wait()
    (taken,) = take(service)
    assert taken.tombstone_ms == HOUR
    service.finish([Finish(taken.id, taken.lease_token)]).one().wait()
    pass_time(service, 5_000)
    assert queue_of(service, job.id) == "q"
