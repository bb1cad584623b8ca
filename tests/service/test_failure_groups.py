"""failures: failed jobs grouped by error."""

from __future__ import annotations

from unittest import mock

import msgspec
import pytest

from tests.service.helpers import new, put, take
from windlass.core.job import Attempt, Blob, Codec
from windlass.core.operations import Fail, Listing
from windlass.core.text.error_text import error_shape
from windlass.service import Service
from windlass.service import failure_groups as service_failing
from windlass.store.commands import jobs


def fail(service: Service, name: str, message: str, queue: str = "q", kind: str = "ValueError") -> bytes:
    put(service, new(queue=queue, name=name))
    (job,) = take(service, queue)
    error = Blob(msgspec.msgpack.encode({"type": kind, "message": message}), Codec.MSGPACK)
    service.fail([Fail(id=job.id, token=job.lease_token, error=error)]).one().wait()
    service.store.clock_offset_ms += 1_000
    return job.id


def shape(line: str) -> str:
    error = Blob(msgspec.json.encode({"message": line}))
    return error_shape(Attempt(attempt=1, started_at_ms=None, ended_at_ms=1, worker=None, reason="error", error=error))


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("order 17 of 5.25 euros", "order <n> of <n> euros"),
        ("no job 01890a5d-ac96-774b-bcce-b302099a8057", "no job <id>"),
        ("at 0x7f3a2b and deadbeef01", "at <hex> and <hex>"),
        ("no such key 'abc'\nmore", "no such key <text>"),
        ("a decade of effaced facades", "a decade of effaced facades"),
        ("x" * 1_000, "x" * 300),
    ],
)
def test_what_differs_from_job_to_job_is_masked(line: str, masked: str) -> None:
    assert shape(line) == masked


def test_failed_jobs_are_grouped_and_the_largest_group_comes_first(service: Service) -> None:
    first = service.now().wait()
    for number in range(3):
        last = fail(service, "send", f"order {number} is gone")
    fail(service, "send", "order 5 is gone", queue="other")
    fail(service, "make", "order 5 is gone")
    fail(service, "send", "no room", kind="OSError")
    found = service.failures().wait()
    assert (found.is_all, found.looked_at) == (True, 6)
    assert len(found.groups) == 4
    group = found.groups[0]
    assert (group.queue, group.name, group.error_shape, group.count) == (
        "q",
        "send",
        "ValueError: order <n> is gone",
        3,
    )
    assert first <= group.first_at_ms <= group.last_at_ms - 2_000
    assert (group.sample, group.sample_error) == (last, "ValueError: order 2 is gone")
    assert [one.queue for one in service.failures(queue="other").wait().groups] == ["other"]
    assert [one.name for one in service.failures(name="ma*").wait().groups] == ["make"]


def test_the_jobs_of_a_group_can_be_listed(service: Service) -> None:
    wanted = [fail(service, "send", f"order {number} of 'x{number}' is gone") for number in range(3)]
    fail(service, "send", "order of 'x' is gone")
    fail(service, "send", "order 7 of 'y' is gone", kind="OSError")
    groups = service.failures().wait().groups
    found = service.jobs(Listing(queue="q", state="failed", error_shape=groups[0].error_shape)).wait()
    assert [job.id for job in found.jobs] == wanted
    assert groups[0].error_shape == "ValueError: order <n> of <text> is gone"


def test_an_answer_is_bounded_and_remembered_for_some_seconds(service: Service) -> None:
    for number in range(5):
        fail(service, "send", f"order {number}")
    with mock.patch.object(jobs, "LOOKED_AT", 2):
        found = service.failures(queue="q", looked_at=3).wait()
    assert (found.looked_at, found.is_all, found.groups[0].count) == (4, False, 4)
    whole = service.failures().wait()
    fail(service, "send", "order 9")
    with mock.patch.object(service_failing, "REMEMBERED_MS", 3_600_000):
        assert service.failures().wait() is whole
    service.store.clock_offset_ms += service_failing.REMEMBERED_MS + 10_000
    assert service.failures().wait().groups[0].count == 6
    assert whole.groups[0].count == 5


def test_jobs_without_an_error_are_a_group_too(service: Service) -> None:
    put(service, new(expires_in_ms=1_000))
    service.store.clock_offset_ms += 2_000
    service.clean().wait()
    (group,) = service.failures().wait().groups
    assert (group.error_shape, group.count) == ("expired", 1)
    assert service.failures(queue="none").wait().groups == []
