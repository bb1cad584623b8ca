"""When a floor counts as missed, in both directions, and what the table says then."""

from __future__ import annotations

import pytest

from bench import floors
from bench.figures import Reading
from bench.floors import FLOORS, Floor, is_any_missed, is_missed, table, times_the_floor, verdict

RATE = Floor("a rate", "best peer", 4, 7)
COST = Floor("a cost", "idle", 0.8, 0.4, is_more_better=False)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.9, 3.9, 9.0], True),
        ([3.9, 9.0, 3.9], True),
        ([3.9, 9.0, 9.0], False),
        ([9.0, 9.0, 9.0], False),
        ([4.0, 4.0, 4.0], False),
        ([3.9], True),
        ([4.0], False),
    ],
)
def test_a_floor_is_missed_when_two_of_three_rounds_miss_it(values: list[float], expected: bool) -> None:
    assert is_missed(values, RATE.floor, is_more_better=True) is expected
    assert is_missed([1 / value for value in values], 1 / RATE.floor, is_more_better=False) is expected


@pytest.mark.parametrize(
    ("floor", "values", "expected"),
    [
        (RATE, [7, 7, 1], "goal"),
        (RATE, [7, 6.9, 6.9], "floor"),
        (RATE, [3, 3, 100], "MISSED"),
        (COST, [0.4, 0.4, 9], "goal"),
        (COST, [0.5, 0.5, 0.1], "floor"),
        (COST, [0.9, 0.9, 0.1], "MISSED"),
        (RATE, [], "not measured"),
    ],
)
def test_the_verdict_follows_the_rows_direction(floor: Floor, values: list[float], expected: str) -> None:
    assert verdict(floor, values) == expected


def test_every_goal_is_beyond_its_floor() -> None:
    for row, floor in FLOORS.items():
        assert verdict(floor, [floor.goal] * 3) == "goal", row
        assert verdict(floor, [floor.floor] * 3) == "floor", row
        assert times_the_floor(floor, floor.goal) > times_the_floor(floor, floor.floor) == 1, row


def test_a_reading_is_compared_round_by_round() -> None:
    assert Reading("bulk", [10, 20, 30], [10, 5, 3]).values == [1, 4, 10]
    assert Reading("bytes_queued", [280, 281, 282]).values == [280, 281, 282]


def test_what_was_not_measured_is_not_held() -> None:
    found = {row: Reading(row, [floor.goal] * 3) for row, floor in FLOORS.items()}
    assert not is_any_missed(found, FLOORS)
    del found["bulk"]
    assert is_any_missed(found, FLOORS)
    assert not is_any_missed(found, list(found))


def test_the_table_names_the_peer_and_each_round() -> None:
    found = {
        "bulk": Reading("bulk", [50, 80, 140], [10, 10, 10], "rq", keeping=[5, 8, 7], keeping_name="docket"),
        "bytes_queued": Reading("bytes_queued", [450, 450, 300]),
    }
    rows = {row[0]: row[1:] for row in table("t", found).rows}
    assert rows["enqueue in bulk"] == [
        "best peer: rq",
        "8.00×",
        "5.00×  8.00×  14.00×",
        "10.00× (docket)",
        "≥ 6×",
        "≥ 12×",
        "floor held",
    ]
    assert rows["bytes per queued no-op job"] == [
        "",
        "450 bytes",
        "450  450  300",
        "",
        "≤ 400 bytes",
        "≤ 300 bytes",
        "MISSED",
    ]
    assert rows["drain, 2 processes"] == ["best peer", "–", "", "", "≥ 10×", "≥ 20×", "not measured"]


def test_reasons_stand_only_beside_what_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors, "WHY", {"bulk": "because", "drain_2": "of the cores", "enqueue_one": "unused"})
    found = {
        "bulk": Reading("bulk", [1, 1, 1]),
        "drain_2": Reading("drain_2", [12, 12, 12]),
        "enqueue_one": Reading("enqueue_one", [2, 2, 2]),
    }
    assert floors.reasons(found) == [
        "- **enqueue in bulk** (MISSED): because",
        "- **drain, 2 processes** (floor held): of the cores",
    ]


def test_reasons_are_about_rows_that_exist() -> None:
    assert set(floors.WHY) <= set(FLOORS)
