"""The comparison with peers: what needs no peer, no engine and no clock."""

from __future__ import annotations

import pytest

from bench.field import BEST, GROUPS, table
from bench.peers import BARE, PEERS, WINDLASS
from bench.peers.delivery import delivery
from bench.peers.environment import HERE, version
from bench.peers.rows import (
    FEWEST_JOBS,
    MEASURES,
    MOST_JOBS,
    ROWS,
    able,
    best,
    first_rate,
    jobs_for,
    measures_of,
    takers,
)


def test_a_measure_gets_as_many_jobs_as_take_its_time_within_bounds() -> None:
    assert jobs_for(2_000, 1.5) == 3_000
    assert jobs_for(10, 0.7) == FEWEST_JOBS
    assert jobs_for(1e9, 1.5) == MOST_JOBS


def test_a_slow_peer_begins_with_few_jobs() -> None:
    assert jobs_for(first_rate("drain_100", "rq"), 1.5) < 300
    assert first_rate("drain_100", WINDLASS) > first_rate("drain_100", "dramatiq")


def test_delivery_is_exact_when_each_number_ran_once() -> None:
    found = delivery([2, 0, 1], 3)
    assert found.is_exact


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ([0, 2], "of 3 jobs 1 did not run"),
        ([0, 1, 2, 1, 1], "of 3 jobs 2 ran again"),
        ([0, 1, 2, 7], "of 3 jobs 1 ran without an enqueue"),
        ([0, 0, 1], "of 3 jobs 1 did not run, 1 ran again"),
        ([], "of 3 jobs 3 did not run"),
    ],
)
def test_a_wrong_delivery_says_what_is_wrong(numbers: list[int], sentence: str) -> None:
    found = delivery(numbers, 3)
    assert not found.is_exact
    assert found.sentence() == sentence


def test_the_best_peer_has_the_best_median_in_the_direction_of_its_row() -> None:
    values = {WINDLASS: [9.0], BARE: [99.0], "huey": [1.0, 3.0, 8.0], "rq": [2.0, 2.0, 9.0]}
    assert best("drain_100", values) == "huey"
    assert best("pickup_p50", values) == "rq"
    assert best("drain_100", {WINDLASS: [1.0], BARE: [2.0]}) is None


def test_each_row_comes_from_one_measure() -> None:
    assert sorted(row for rows in MEASURES.values() for row in rows) == sorted(ROWS)
    assert measures_of(["pickup_p99", "pickup_p50", "bulk"]) == ["pickup", "bulk"]
    with pytest.raises(ValueError, match="no row drain_7; there are enqueue_one,"):
        measures_of(["drain_7"])


def test_windlass_takes_part_in_every_row_and_peers_where_they_can() -> None:
    assert takers(["bulk"], None) == [WINDLASS, "rq", "docket"]
    assert takers(["drain_100"], {"drain_100": ["huey", BARE]}) == [WINDLASS, "huey", BARE]
    assert takers(["drain_threads"], {"drain_threads": ["rq", "huey", BARE]}) == [WINDLASS, "huey"]
    assert takers(["pickup_p50", "pickup_p99"], {"pickup_p50": ["huey"], "pickup_p99": ["rq"]}) == [
        WINDLASS,
        "huey",
        "rq",
    ]


def test_the_best_peers_are_able_to_do_their_rows() -> None:
    assert set(BEST) == set(ROWS) == {row for rows in GROUPS.values() for row in rows}
    assert all(peer in able(row) and peer != WINDLASS for row, peer in BEST.items())


def test_a_table_has_windlass_first_then_its_ratio_round_by_round() -> None:
    found = {
        "bulk": {WINDLASS: [40.0, 90.0, 60.0], "rq": [10.0, 30.0, 10.0], "docket": [9.0, 9.0, 9.0]},
        "enqueue_one": {WINDLASS: [1.0] * 3, "huey": [2.0] * 3, BARE: [8.0] * 3},
    }
    made = table("Side by side: enqueue", ("enqueue_one", "bulk"), found, "A note.")
    assert [row[0] for row in made.rows] == [
        "Windlass", "against the best peer", "against the best peer that keeps jobs", "RQ", "Huey", "Docket",
        "bare engine",
    ]  # fmt: skip
    assert list(made.rows[1][1:]) == ["0.50× (Huey)", "4.00× (RQ)"]
    assert list(made.rows[2][1:]) == ["–", "4.00× (RQ)"]
    assert made.rows[3][1] == "–"
    assert made.rows[3][2] == "10.0 (10.0–30.0)"
    assert made.rows[6][2] == "–"


def test_a_peer_that_loses_jobs_is_not_among_those_that_keep_them() -> None:
    for who, peer in PEERS.items():
        assert peer.keeps_jobs is not peer.kept.startswith("lost"), who


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer != WINDLASS])
def test_each_peer_pins_its_packages_and_names_no_address(peer: str) -> None:
    text = (HERE / peer / "requirements.txt").read_text()
    assert version(peer)
    assert all(line.count("==") == 1 for line in text.splitlines())
    assert not {"/", "@"} & set(text)
