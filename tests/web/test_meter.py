"""Tests of the response counters."""

from __future__ import annotations

from windlass.web.listener.messages import Client, Head
from windlass.web.metrics.meter import BOUNDS_S, Meter

CLIENT = Client("127.0.0.1", False)


def test_each_duration_falls_into_the_first_bucket_that_holds_it() -> None:
    meter = Meter()
    head = Head("GET", "/x", "", {}, "127.0.0.1", "look")
    for bound in BOUNDS_S:
        meter.on_answer(head, 200, 10, bound, CLIENT)
        meter.on_answer(head, 404, 10, bound * 1.01, CLIENT)
    times = meter.latencies["look"]
    assert times.buckets == [1, *[2] * (len(BOUNDS_S) - 1), 1]
    assert meter.answers == {("look", 200): len(BOUNDS_S), ("look", 404): len(BOUNDS_S)}
    assert meter.bytes_sent == 20 * len(BOUNDS_S)


def test_unknown_paths_share_one_counter() -> None:
    meter = Meter()
    for number in range(1000):
        meter.on_answer(Head("GET", f"/{number}", "", {}, "127.0.0.1"), 404, 0, 0.0, CLIENT)
    meter.on_answer(None, 400, 0, 0.0, CLIENT)
    assert meter.answers == {("", 404): 1000, ("", 400): 1}
    assert list(meter.latencies) == [""]
