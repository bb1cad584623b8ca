"""What the quick run concludes from given figures, and with which code it ends; from what was compared to readings."""

from __future__ import annotations

import pytest

from bench import field, quick, readings
from bench.figures import Reading, Setting
from bench.floors import FLOORS
from bench.peers import PEERS

SETTING = Setting(True, lambda _: None)


def reached() -> dict[str, Reading]:
    return {row: Reading(row, [floor.goal] * 3) for row, floor in FLOORS.items()}


def test_it_ends_well_when_every_floor_is_held_in_two_of_three_rounds() -> None:
    found = reached() | {"bulk": Reading("bulk", [1, 6, 6])}
    text, code = quick.concluded(found, list(FLOORS), 93.4)
    assert code == 0
    assert "Every floor is held. It took 93 s." in text
    assert "MISSED" not in text


@pytest.mark.parametrize("row", FLOORS)
def test_one_missed_floor_is_enough(row: str) -> None:
    floor = FLOORS[row]
    bad = floor.floor / 2 if floor.is_more_better else floor.floor * 2
    text, code = quick.concluded(reached() | {row: Reading(row, [bad, floor.goal, bad])}, list(FLOORS), 1)
    assert code == 1
    assert [line.endswith("MISSED") for line in text.splitlines() if line.strip().startswith(floor.title)] == [True]


def test_what_fails_is_not_measured_and_the_rest_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(setting: Setting) -> list[Reading]:
        raise AssertionError("a job ran twice")

    groups = {
        "broken": quick.Group(["drain_2"], broken),
        "other": quick.Group(["bulk"], lambda _: [Reading("bulk", [9, 9, 9])]),
    }
    found = quick.measured(SETTING, groups)
    assert list(found) == ["bulk"]
    assert "a job ran twice" in capsys.readouterr().err
    assert quick.concluded(found, ["bulk"], 1)[1] == 0
    text, code = quick.concluded(found, ["bulk", "drain_2"], 1)
    assert code == 1
    assert text.count("not measured") == 2  # its row, and the last line


def test_it_says_what_to_do_where_nothing_is_prepared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(quick.environment, "is_prepared", lambda peer: peer != field.BEST["bulk"])
    assert quick.main([]) == 2
    said = capsys.readouterr().err
    assert f"No environment for {field.BEST['bulk']}" in said
    assert "`make bench-setup`" in said


def test_the_best_peer_of_the_run_is_the_one_compared_with() -> None:
    found = {
        "bulk": {"windlass": [60.0, 60, 60], "rq": [10.0, 99, 10], "saq": [12.0, 12, 12]},
        "pickup_p50": {"windlass": [1.0, 1, 1], "rq": [4.0, 4, 4], "huey": [2.0, 2, 2]},
        "pickup_p99": {"windlass": [2.0, 2, 2], "rq": [9.0, 9, 9]},
        "pickup_loaded_p99": {"windlass": [5.0, 6, 7], "rq": [1.0, 1, 1]},
        "bytes_queued": {"windlass": [290.0, 290, 290], "huey": [128.0, 128, 128]},
        "drain_2": {"windlass": [1.0, 1, 1]},
    }
    read = {reading.row: reading for reading in readings.readings(found)}
    assert (read["bulk"].against, read["bulk"].values) == ("SAQ", [5, 5, 5])
    assert (read["pickup_p50"].against, read["pickup_p50"].values) == ("Huey", [0.5, 0.5, 0.5])
    assert read["pickup_loaded"].values == [2.5, 3, 3.5]
    assert read["bytes_queued"].values == [290, 290, 290]
    assert "drain_2" not in read


def test_a_second_ratio_is_to_the_best_peer_that_keeps_jobs() -> None:
    found = {
        "enqueue_one": {"windlass": [6.0, 6, 6], "huey": [6.0, 6, 6], "dramatiq": [3.0, 3, 3], "rq": [2.0, 2, 2]},
        "pickup_p50": {"windlass": [1.0, 1, 1], "huey": [2.0, 2, 2], "taskiq_stream": [4.0, 4, 4], "rq": [5.0, 5, 5]},
        "drain_2": {"windlass": [9.0, 9, 9], "huey": [1.0, 1, 1]},
    }
    read = {reading.row: reading for reading in readings.readings(found)}
    assert (read["enqueue_one"].keeping_name, read["enqueue_one"].keeping_values) == ("Dramatiq", [2, 2, 2])
    assert (read["pickup_p50"].keeping_name, read["pickup_p50"].keeping_values) == (
        "taskiq, stream",
        [0.25, 0.25, 0.25],
    )
    assert (read["drain_2"].keeping_name, read["drain_2"].keeping_values) == ("", [])
    (line,) = [line for line in field.table("t", ["enqueue_one"], found, "").rows if "keeps jobs" in line[0]]
    assert line[1] == "2.00× (Dramatiq)"


def test_every_group_of_rows_has_a_picture_with_the_peers_by_name() -> None:
    assert set(field.PICTURES) == set(field.GROUPS)
    found = {"bulk": {"windlass": [60.0, 62.0, 61.0], "rq": [10.0], "bare": [900.0]}}
    (picture,) = readings.picture("enqueue", "Enqueue", field.GROUPS["enqueue"], found)
    (panel,) = picture.panels
    assert (panel.title, panel.values) == ("enqueue in bulk", {"Windlass": 61.0, "RQ": 10.0})
    assert readings.picture("drain", "Drain", field.GROUPS["drain"], found) == []


def test_every_floor_has_somebody_who_measures_it() -> None:
    assert sorted(row for group in quick.GROUPS.values() for row in group.rows) == sorted(FLOORS)
    assert set(quick.BESIDE) <= set(quick.ROWS) <= set(field.ROWS)
    assert set(quick.BESIDE) <= set(field.BEST)


def test_every_row_has_a_peer_that_keeps_jobs() -> None:
    for row in quick.BESIDE:
        assert any(PEERS[who].keeps_jobs for who in field.rivals(row)), row
