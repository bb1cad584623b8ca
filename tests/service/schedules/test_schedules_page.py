"""Pages of schedules by name: their order over partitions, searches, and the schedules of a caller's queues."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import pytest

from windlass.core.job import NewJob
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.service import schedules as schedule_operations
from windlass.store.store import Store

COUNT = 23


@pytest.fixture
def divided(divided_store: Callable[[int], Store]) -> Service:
    """Return a service of three partitions with 23 schedules, in two queues by turns."""
    service = Service(divided_store(3))
    for at in range(COUNT):
        job = NewJob(queue="even" if at % 2 == 0 else f"odd-{at}", name="n")
        service.schedule(Schedule(name=f"s{at:02}", job=job, every_ms=3_600_000)).wait()
    return service


def _names(service: Service, most: int, **more: object) -> list[list[str]]:
    """Return the names of all pages."""
    pages, after = [], ""
    while True:
        page = service.schedules_page(after=after, most=most, **more).wait()  # type: ignore[arg-type]
        pages.append([status.schedule.name for status in page.schedules])
        assert page.count == COUNT
        after = page.after
        if not after:
            return pages


def test_pages_cover_all_once_in_order(divided: Service) -> None:
    assert [len(page) for page in _names(divided, 10)] == [10, 10, 3]
    assert list(chain(*_names(divided, 10))) == [f"s{at:02}" for at in range(COUNT)]
    assert [len(page) for page in _names(divided, COUNT)] == [COUNT]


def test_a_search_finds_parts_of_names(divided: Service) -> None:
    assert _names(divided, 5, search="S1") == [[f"s{at}" for at in range(10, 15)], [f"s{at}" for at in range(15, 20)]]
    assert _names(divided, 5, search="nothing") == [[]]


def test_a_caller_sees_the_schedules_of_its_queues(divided: Service) -> None:
    assert _names(divided, 5, queues=("even",)) == [
        ["s00", "s02", "s04", "s06", "s08"], ["s10", "s12", "s14", "s16", "s18"], ["s20", "s22"],
    ]  # fmt: skip


def test_a_page_examines_a_bounded_number(divided: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_operations, "NAMES_LOOKED_AT", 10)
    monkeypatch.setattr(schedule_operations, "NAMES_AT_ONCE", 5)
    first = divided.schedules_page(most=5, search="s22").wait()
    assert ([status.schedule.name for status in first.schedules], first.after) == ([], "s09")
    assert list(chain(*_names(divided, 5, search="s22"))) == ["s22"]
