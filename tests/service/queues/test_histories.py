"""histories: several queues in steps; past steps are not read again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.helpers import new, put, take
from windlass.core.operations import Finish
from windlass.core.queue import Minute
from windlass.core.stats.rollup import sum_queues
from windlass.service import Service
from windlass.store.cache import history as history_cache
from windlass.store.store import Store

MINUTE_MS = 60_000
HOUR_MS = 3_600_000


def to_a_fresh_hour(service: Service) -> int:
    service.store.clock_offset_ms += HOUR_MS - service.clean().wait().now_ms % HOUR_MS + 1_000
    return service.clean().wait().now_ms // HOUR_MS * HOUR_MS


def busy(service: Service, minutes: int, *queues: str) -> None:
    for _ in range(minutes):
        put(service, *(new(queue=queue) for queue in queues))
        service.store.clock_offset_ms += MINUTE_MS


def read_minutes(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[str]]]:
    """(first minute, queues) of each call from now on."""
    calls: list[tuple[int, list[str]]] = []
    plain = history_cache.history

    def history(names: Any, back: int, partition: int, *, first: int = 0) -> Any:
        calls.append((first, list(names)))
        return plain(names, back, partition, first=first)

    monkeypatch.setattr(history_cache, "history", history)
    return calls


def enqueued(minutes: list[Minute]) -> list[tuple[int, int]]:
    return [(one.at_ms, one.enqueued) for one in minutes]


def test_steps_are_sums_of_their_minutes(service: Service) -> None:
    at_ms = to_a_fresh_hour(service)
    busy(service, 10, "q", "r")
    found = service.histories(["q", "r", "none"], step_minutes=5, steps=12).wait()
    assert list(found) == ["q", "r", "none"]
    assert enqueued(found["q"]) == [(at_ms, 5), (at_ms + 5 * MINUTE_MS, 5)]
    assert found["r"] == found["q"]
    assert found["none"] == []
    assert enqueued(sum_queues(found.values())) == [(at_ms, 10), (at_ms + 5 * MINUTE_MS, 10)]
    assert service.histories([]).wait() == {}


def test_minutes_are_the_same_however_often_they_are_asked_for(
    service: Service, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_ms = to_a_fresh_hour(service)
    minute = at_ms // MINUTE_MS
    busy(service, 3, "q")
    calls = read_minutes(store, monkeypatch)
    assert enqueued(service.histories(["q"]).wait()["q"]) == [(at_ms + n * MINUTE_MS, 1) for n in range(3)]
    busy(service, 1, "q")
    put(service, new(), new())
    expected = [(at_ms + n * MINUTE_MS, 1 if n < 4 else 2) for n in range(5)]
    assert enqueued(service.histories(["q"]).wait()["q"]) == expected
    put(service, new())
    assert enqueued(service.histories(["q"]).wait()["q"])[-1] == (at_ms + 4 * MINUTE_MS, 3)
    assert calls == [(minute - 56, ["q"]), (minute + 3, ["q"]), (minute + 4, ["q"])]
    assert enqueued(service.histories(["q"], steps=3).wait()["q"])[0] == (at_ms + 2 * MINUTE_MS, 1)


def test_steps_older_than_the_cache_are_read_again(service: Service) -> None:
    at_ms = to_a_fresh_hour(service)
    busy(service, 5, "q")
    assert len(service.histories(["q"], steps=2).wait()["q"]) == 1
    assert len(service.histories(["q"], steps=60).wait()["q"]) == 5
    service.store.clock_offset_ms += 3 * HOUR_MS
    assert service.histories(["q"], steps=60).wait()["q"] == []
    assert enqueued(service.histories(["q"], step_minutes=60, steps=4).wait()["q"]) == [(at_ms, 5)]


def test_many_queues_are_asked_for_in_bounded_calls_and_little_is_remembered(
    service: Service, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_a_fresh_hour(service)
    names = [f"q{number}" for number in range(30)]
    busy(service, 1, *names)
    monkeypatch.setattr(history_cache, "QUEUES_MAX", 10)
    calls = read_minutes(store, monkeypatch)
    for _ in range(2):
        found = service.histories(names, step_minutes=15, steps=96).wait()
        assert [len(found[name]) for name in names] == [1] * 30
    assert all(len(part) * 25 <= 25 for _, part in calls[:30])
    calls.clear()
    service.histories(names[-10:], step_minutes=15, steps=96).wait()
    assert [len(part) for _, part in calls] == [10]


def test_histories_have_latencies(service: Service) -> None:
    to_a_fresh_hour(service)
    put(service, new())
    service.store.clock_offset_ms += 5_000
    (job,) = take(service)
    service.store.clock_offset_ms += 900
    service.finish([Finish(job.id, job.lease_token)]).wait()
    (step,) = service.histories(["q"], step_minutes=60, steps=1).wait()["q"]
    assert (step.taken, step.finished) == (1, 1)
    assert 4_096 <= (step.wait_p50_ms or 0) < 8_192
    assert 512 <= (step.run_p95_ms or 0) <= 2_048
