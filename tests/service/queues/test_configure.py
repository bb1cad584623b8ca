"""configure: properties of a queue at run time. relane: waiting jobs move to lanes by name afterwards."""

from __future__ import annotations

import pytest

from tests.service.helpers import counts, new, put, take
from tests.support.namespace import leftover_keys
from windlass.core.errors import NamesNeedLanes, QueueFull
from windlass.core.operations import Fail, Filter
from windlass.core.queue import FOREVER_MS, Configuration
from windlass.service import Service
from windlass.store.store import Store


def test_what_was_never_configured_has_the_defaults(service: Service) -> None:
    assert service.configuration("q").wait() == Configuration()
    assert service.queues().wait() == []


def test_changes_stay_and_none_is_the_default_again(service: Service) -> None:
    changes = {"lease_ms": 5_000, "max_length": 7, "max_bytes": 8, "history_length": 9, "history_bytes": 10,
               "retention_ms": FOREVER_MS, "name_lanes": True}  # fmt: skip
    expected = Configuration(**changes)  # type: ignore[arg-type]
    assert service.configure("q", changes).wait() == expected
    assert service.configuration("q").wait() == expected
    assert service.configure("q", {"lease_ms": None, "name_lanes": None}).wait() == Configuration(
        max_length=7, max_bytes=8, history_length=9, history_bytes=10, retention_ms=FOREVER_MS
    )
    assert service.configuration("other").wait() == Configuration()
    assert service.queues().wait() == ["q"]


def test_the_lease_is_that_of_the_queue(service: Service) -> None:
    service.configure("q", {"lease_ms": 5_000}).wait()
    put(service, new())
    (job,) = take(service)
    assert job.started_at_ms is not None
    assert job.lease_deadline_at_ms == job.started_at_ms + 5_000


def test_a_lease_without_a_deadline(service: Service) -> None:
    service.configure("q", {"lease_ms": FOREVER_MS}).wait()
    put(service, new())
    (job,) = take(service)
    assert job.lease_deadline_at_ms is None
    service.store.clock_offset_ms += 365 * 86_400_000
    assert service.recover().wait().done == 0
    assert counts(service) == {"running": 1}


def test_a_full_queue_refuses_and_takes_again_when_drained(service: Service) -> None:
    service.configure("q", {"max_length": 2}).wait()
    answers = service.enqueue([new(), new(delay_ms=60_000), new()]).wait()
    assert isinstance(answers[2], QueueFull)
    take(service)
    put(service, new())
    with pytest.raises(QueueFull):
        service.enqueue([new()]).one().wait()


@pytest.mark.parametrize("end", ["failed", "cancelled"])
@pytest.mark.parametrize("retention_ms", [None, 5_000, FOREVER_MS])
def test_the_retention_of_jobs_that_did_not_end_well(
    service: Service, store: Store, end: str, retention_ms: int | None
) -> None:
    service.configure("q", {"retention_ms": retention_ms}).wait()
    (job,) = put(service, new())
    if end == "failed":
        (taken,) = take(service)
        service.fail([Fail(id=job.id, token=taken.lease_token)]).one().wait()
    else:
        service.cancel([job.id]).one().wait()
    kept_ms = retention_ms or 14 * 86_400_000
    service.store.clock_offset_ms += min(kept_ms, 10**12) - 2_000
    assert service.clean().wait().done == 0
    assert counts(service) == {end: 1}
    service.store.clock_offset_ms += 4_000
    assert service.clean().wait().done == (0 if retention_ms == FOREVER_MS else 1)
    assert counts(service) == ({end: 1} if retention_ms == FOREVER_MS else {})
    assert (leftover_keys(store) == []) == (retention_ms != FOREVER_MS)


def test_name_lanes_divide_what_waits_already(service: Service) -> None:
    """Priorities and order are kept, and every job can be taken by its name afterwards."""
    names = [f"n{i % 7}" for i in range(2_000)]
    jobs = put(service, *(new(name=name, priority=i % 3) for i, name in enumerate(names)))
    with pytest.raises(NamesNeedLanes):
        take(service, wants=Filter(only=("n3",)))
    service.configure("q", {"name_lanes": True}).wait()
    assert counts(service) == {"queued": 2_000}
    assert service.stats(["q"]).wait()[0].lanes == 7
    expected = [jobs[i].id for i in sorted(range(2_000), key=lambda i: (i % 3, i)) if names[i] == "n3"]
    taken = take(service, most=1_000, wants=Filter(only=("n3",)))
    assert [job.id for job in taken] == expected
    rest = [jobs[i].id for i in sorted(range(2_000), key=lambda i: (i % 3, i)) if names[i] != "n3"]
    assert [job.id for job in take(service, most=1_000)] == rest[:1_000]


def test_own_lanes_are_divided_by_name_behind_any_number_of_others(service: Service) -> None:
    put(service, *(new(name=f"n{i}") for i in range(1_200)))
    put(service, new(name="x", lane="a", priority=5), new(name="y", lane="a", priority=5))
    service.configure("q", {"name_lanes": True}).wait()
    assert [job.lane for job in take(service, wants=Filter(only=("y",)))] == ["a"]
    assert [job.lane for job in take(service, wants=Filter(glob="x*"))] == ["a"]


def test_new_jobs_mix_with_those_that_were_divided(service: Service) -> None:
    (old,) = put(service, new(name="a"))
    service.configure("q", {"name_lanes": True}).wait()
    newer = put(service, new(name="a"), new(name="b"))
    assert [job.id for job in take(service, most=5)] == [old.id, newer[0].id, newer[1].id]


def test_name_lanes_switched_off_again_lose_nothing(service: Service) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    first = put(service, new(name="a"), new(name="b"))
    service.configure("q", {"name_lanes": False}).wait()
    second = put(service, new(name="a"))
    with pytest.raises(NamesNeedLanes):
        take(service, wants=Filter(only=("a",)))
    assert [job.id for job in take(service, most=5)] == [job.id for job in first + second]


def test_scheduled_and_running_jobs_come_back_into_name_lanes(service: Service) -> None:
    put(service, new(name="a"), new(name="b", delay_ms=1_000))
    take(service)
    service.configure("q", {"name_lanes": True}).wait()
    service.store.clock_offset_ms += 31_000
    service.recover().wait()
    service.promote().wait()
    assert [job.name for job in take(service, most=2, wants=Filter(only=("b",)))] == ["b"]
    assert [job.name for job in take(service, most=2, wants=Filter(only=("a",)))] == ["a"]
