"""publish_stats and stats_of: counters by instance, kept while they are published."""

from __future__ import annotations

import pytest

from tests.service.admin.doctor_findings import assert_healthy
from windlass.core.errors import TooLarge
from windlass.service import Service
from windlass.store.commands.admin import statistics
from windlass.store.store import Store


def test_each_instance_with_what_it_said_last(service: Service) -> None:
    service.publish_stats("processor", "one", {"alive": 1, "failures": 3}).wait()
    service.publish_stats("processor", "two", {"alive": 1}).wait()
    service.publish_stats("processor", "one", {"alive": 1, "failures": 4}).wait()
    service.publish_stats("notifier", "one", {"alive": 1}).wait()
    found = service.stats_of("processor").wait()
    assert found == {"one": {"alive": 1, "failures": 4}, "two": {"alive": 1}}
    assert service.stats_of("nobody").wait() == {}
    assert_healthy(service)


def test_who_is_silent_for_two_intervals_is_forgotten(service: Service, store: Store) -> None:
    service.publish_stats("processor", "one", {"alive": 1}).wait()
    store.clock_offset_ms += 10_000
    assert service.stats_of("processor").wait() == {}
    service.publish_stats("processor", "two", {"alive": 1}).wait()
    store.clock_offset_ms -= 10_000
    assert set(service.stats_of("processor").wait()) == {"two"}  # the first was cleared away


def test_instances_are_bounded(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "INSTANCES_MAX", 2)
    for instance in ("one", "two", "one"):
        service.publish_stats("processor", instance, {}).wait()
    with pytest.raises(TooLarge, match="2 instances"):
        service.publish_stats("processor", "three", {}).wait()
