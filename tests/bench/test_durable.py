"""Durable steps beside DBOS: the private PostgreSQL, its processor time, the file of recorded steps, and the tables."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bench.durable import section
from bench.durable.cpu import cpu_us, parse_stat
from bench.durable.measuring import HANGS_AT, Cost, Load, Note, is_repeated, parse_notes
from bench.durable.postgres import DURABLE, NoPostgres, Postgres, binaries
from bench.durable.systems import TITLES, OnPostgres, OnSqlite
from bench.floors import FLOORS
from bench.peers import STEP_PEERS
from bench.peers.environment import HERE, version

STAT = "4242 (postgres: a) b) S 77 1 1 0 -1 0 10 20 30 40 100 20 3 4 20 0 1 0 99"


def cost(per_s: float) -> Cost:
    return Cost(per_s, 10.0, 200.0, 90.0, 80.0)


def costs(**per_s: float) -> dict[tuple[str, str], list[Cost]]:
    """Make the costs of three rounds; `windlass_async=5` is a key."""
    return {(name.split("_")[0], name.split("_")[1]): [cost(rate)] * 3 for name, rate in per_s.items()}


ALL = costs(
    windlass_async=3000, windlass_threads=1000, postgres_async=200, postgres_threads=300, sqlite_async=150,
    sqlite_threads=250,
)  # fmt: skip


def test_the_processor_time_has_the_children_that_ended() -> None:
    assert parse_stat(STAT) == (4242, 77, 127)


def test_the_processor_time_grows_with_work() -> None:
    before = cpu_us(os.getpid())
    until_s = time.process_time() + 0.1
    while time.process_time() < until_s:
        pass
    assert cpu_us(os.getpid()) - before >= 50_000


def test_notes_are_read_up_to_the_last_complete_line() -> None:
    assert parse_notes("0 11 500\n1 11 60") == [Note(0, 11, 500)]


def test_only_the_step_that_hung_may_run_again() -> None:
    first, second = Note(0, 11, 1), Note(HANGS_AT, 11, 2)
    assert not is_repeated([first, second, second])
    assert is_repeated([first, second, first])


def test_a_load_counts_all_its_steps() -> None:
    assert Load(workflows=100, waves=3, steps=20).total == 6_000


def test_the_floor_compares_the_fastest_way_of_each_system() -> None:
    (reading,) = section.readings(ALL)
    assert reading.row in FLOORS
    assert reading.values == [10.0, 10.0, 10.0]


def test_ratios_are_to_the_faster_way_of_dbos_on_postgresql() -> None:
    table = section.steps_table({"many": ALL, "one": ALL}, "A note.")
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["Windlass, async"][1] == "10.00×"
    assert rows["DBOS on PostgreSQL, async"][3] == "0.67×"
    assert rows["DBOS on PostgreSQL, sync, in threads"][1] == "1.00×"


def test_sqlite_has_no_engine_and_no_log_to_measure() -> None:
    table = section.cost_table(ALL, {name: name != "sqlite" for name in TITLES}, 20)
    rows = {row[0]: list(row[1:]) for row in table.rows}
    assert rows["DBOS on SQLite, async"] == ["–", "200 (200–200)", "90.0 (90.0–90.0)", "–"]
    assert rows["Windlass, async"][0] == "10.0 (10.0–10.0)"
    assert not OnSqlite.has_engine


def test_quick_compares_ways_that_the_full_comparison_has() -> None:
    assert {way for _, way in section.QUICK} <= set(section.WAYS)
    assert {name for name, _ in section.QUICK} <= set(TITLES)


@pytest.mark.parametrize("peer", STEP_PEERS)
def test_each_peer_pins_its_packages_and_names_no_address(peer: str) -> None:
    text = (HERE / peer / "requirements.txt").read_text()
    assert version(peer)
    assert all(line.count("==") == 1 for line in text.splitlines())
    assert not {"/", "@"} & set(text)


def test_a_missing_postgresql_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.durable.postgres.DEBIAN", HERE)
    monkeypatch.setenv("PATH", "")
    binaries.cache_clear()
    with pytest.raises(NoPostgres, match="install the package postgresql"):
        Postgres()
    binaries.cache_clear()


def test_a_private_postgresql_is_durable_and_leaves_nothing_behind() -> None:
    with Postgres() as postgres:
        assert [postgres.query(f"SHOW {setting.partition('=')[0]}") for setting in DURABLE] == ["on"] * len(DURABLE)
        system = OnPostgres(postgres)
        system.renew()
        before = system.stored_bytes(), system.written_bytes(), system.cpu_us()
        rows = "CREATE TABLE numbers AS SELECT generate_series(1, 300000) AS number"
        postgres.query(rows, system.url.partition("?")[0].rpartition("/")[2])
        after = system.stored_bytes(), system.written_bytes(), system.cpu_us()
        assert all(now > then for now, then in zip(after, before, strict=True))
    assert not postgres.directory.exists()
    assert not Path(f"/proc/{postgres.pid}").exists()
