"""How many deliveries may be under way."""

from __future__ import annotations

from windlass.background.callbacks.in_flight import SILENT_REMEMBERED, InFlightDeliveries


def test_traffic_counts_what_it_promises() -> None:
    traffic = InFlightDeliveries(3, 2)
    assert (traffic.begin("a"), traffic.begin("a"), traffic.begin("a")) == (True, True, False)
    assert traffic.capacity().by_destination == {"a": 0}
    assert traffic.begin("b")
    assert traffic.capacity().most == 0
    assert not traffic.begin("c")
    assert traffic.end("b", is_silent=False)  # it was full in all
    assert traffic.end("a", is_silent=True)
    assert traffic.capacity().by_destination == {"a": 0}  # one is under way, and it is silent
    assert traffic.end("a", is_silent=False)
    assert traffic.capacity().by_destination == {}
    assert (traffic.capacity().most, traffic.capacity().per_destination) == (3, 2)


def test_only_so_many_silent_destinations_are_remembered() -> None:
    traffic = InFlightDeliveries(1, 5)
    for number in range(SILENT_REMEMBERED + 1):
        traffic.begin(str(number))
        traffic.end(str(number), is_silent=True)
    assert len(traffic.capacity().by_destination) == SILENT_REMEMBERED
    assert "0" not in traffic.capacity().by_destination
