"""Number of deliveries in flight."""

from __future__ import annotations

from windlass.background.callbacks.in_flight import SILENT_REMEMBERED, InFlightDeliveries


def test_capacity_matches_the_deliveries_in_flight() -> None:
    deliveries = InFlightDeliveries(3, 2)
    assert (deliveries.begin("a"), deliveries.begin("a"), deliveries.begin("a")) == (True, True, False)
    assert deliveries.capacity().by_destination == {"a": 0}
    assert deliveries.begin("b")
    assert deliveries.capacity().most == 0
    assert not deliveries.begin("c")
    assert deliveries.end("b", is_silent=False)  # it was full in all
    assert deliveries.end("a", is_silent=True)
    assert deliveries.capacity().by_destination == {"a": 0}  # one is under way, and it is silent
    assert deliveries.end("a", is_silent=False)
    assert deliveries.capacity().by_destination == {}
    assert (deliveries.capacity().most, deliveries.capacity().per_destination) == (3, 2)


def test_only_so_many_silent_destinations_are_remembered() -> None:
    deliveries = InFlightDeliveries(1, 5)
    for number in range(SILENT_REMEMBERED + 1):
        deliveries.begin(str(number))
        deliveries.end(str(number), is_silent=True)
    assert len(deliveries.capacity().by_destination) == SILENT_REMEMBERED
    assert "0" not in deliveries.capacity().by_destination
