"""Findings about engines, from the replies of real engines and of engines that are not available here."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.engine_process import EngineProcess
from windlass.core.job import Durability
from windlass.service import Service
from windlass.store.connection.connection import EngineReplyError
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store
from windlass.store.topology.health import check_engine, read_engine

GOOD: dict[str, str] = {
    "redis_version": "7.2.4", "valkey_version": "9.1.2", "aof_enabled": "1", "aof_last_write_status": "ok",
    "maxmemory_policy": "noeviction", "used_memory": "100", "maxmemory": "1000", "connected_clients": "5",
    "maxclients": "100", "role": "master", "connected_slaves": "0", "rejected_connections": "0",
}  # fmt: skip
CONFIG = {"appendfsync": "always", "busy-reply-threshold": "5000", "no-appendfsync-on-rewrite": "no"}


def codes(
    info: dict[str, str] | None = None,
    config: dict[str, str] | None = None,
    *,
    durability: Durability = "memory",
    libraries: tuple[str, ...] = ("windlass_now",),
    clock_ms: int = 1_000_000,
    is_forbidden: bool = False,
    is_managed: bool = False,
) -> set[str]:
    replies: list[Any] = [
        "\r\n".join(f"{name}:{value}" for name, value in (GOOD | (info or {})).items()).encode(),
        EngineReplyError("NOPERM")
        if is_forbidden
        else [word.encode() for pair in (CONFIG | (config or {})).items() for word in pair],
        [[b"library_name", name.encode(), b"engine", b"LUA", b"functions", []] for name in libraries],
        [str(clock_ms // 1000).encode(), b"0"],
    ]
    engine = read_engine(replies, 1_000_000, durability, "windlass_now", is_managed=is_managed)
    return {finding.code for finding in check_engine(engine)}


def test_a_good_engine_gives_no_finding() -> None:
    assert codes() == set()


@pytest.mark.parametrize(
    ("info", "code"),
    [
        ({"maxmemory_policy": "allkeys-lru"}, "eviction"),
        ({"maxmemory_policy": "volatile-lru"}, "eviction_of_temporary_keys"),
        ({"aof_enabled": "0"}, "no_persistence"),
        ({"aof_last_write_status": "err"}, "write_failed"),
        ({"aof_last_bgrewrite_status": "err"}, "background_save_failed"),
        ({"rdb_last_bgsave_status": "err"}, "background_save_failed"),
        ({"latest_fork_usec": "3000000"}, "slow_fork"),
        ({"role": "slave"}, "is_replica"),
        ({"used_memory": "800"}, "memory_nearly_full"),
        ({"used_memory": "80", "maxmemory": "0", "total_system_memory": "100"}, "memory_nearly_full"),
        ({"connected_clients": "80"}, "connections_nearly_used_up"),
        ({"rejected_connections": "1"}, "connections_rejected"),
    ],
)
def test_findings_from_info(info: dict[str, str], code: str) -> None:
    assert codes(info) == {code}


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"appendfsync": "no"}, "fsync_never"),
        ({"appendfsync": "everysec"}, "fsync_every_second"),
        ({"no-appendfsync-on-rewrite": "yes"}, "fsync_pauses"),
        ({"busy-reply-threshold": "10"}, "short_patience"),
    ],
)
def test_findings_from_config(config: dict[str, str], code: str) -> None:
    assert codes(config=config) == {code}


def test_other_findings() -> None:
    assert codes(is_forbidden=True) == {"config_forbidden"}
    assert codes(durability="replica") == {"no_replica"}
    assert codes({"connected_slaves": "1"}, durability="replica") == set()
    assert codes(clock_ms=1_010_000) == {"clock_differs"}
    assert codes(libraries=("windlass_now", "windlass_old")) == {"old_libraries"}


def test_a_service_that_makes_writes_durable_by_itself() -> None:
    managed = {"managed_durability"}
    assert codes({"aof_enabled": "0"}, is_managed=True) == managed
    assert codes(is_forbidden=True, durability="replica", is_managed=True) == managed
    assert codes(config={"appendfsync": "no"}, is_managed=True) == managed


def test_redis_7_0_may_restore_half_a_transaction() -> None:
    fields = {name: value for name, value in GOOD.items() if name != "valkey_version"} | {"redis_version": "7.0.15"}
    engine = read_engine(
        ["\r\n".join(f"{name}:{value}" for name, value in fields.items()).encode(), [], [], [b"0", b"0"]],
        0,
        "memory",
        "w",
    )
    assert [finding.code for finding in check_engine(engine)] == ["half_transactions"]


@pytest.mark.parametrize(("kind", "expected"), [("valkey", set()), ("redis", {"half_transactions"})])
def test_a_well_configured_real_engine(kind: Any, expected: set[str]) -> None:
    with EngineProcess(kind, config=("--save", "", "--appendonly", "yes", "--appendfsync", "always")) as engine:
        store = Store(parse_url(engine.unix_url))
        assert {finding.code for finding in Service(store).doctor().wait().findings} == expected
        store._sync_connection.call(
            "FUNCTION", "LOAD", "#!lua name=windlass_old\nredis.register_function('windlass_old', function() end)"
        )
        (old,) = [finding for finding in Service(store).doctor().wait().findings if finding.code == "old_libraries"]
        assert old.examples == ("windlass_old",)
        store.close_sync()


def test_a_provider_that_forbids_config() -> None:
    with EngineProcess("valkey", config=("--save", "", "--appendonly", "yes", "--appendfsync", "always")) as engine:
        store = Store(parse_url(engine.unix_url))
        store.open_sync()
        store._sync_connection.call("ACL", "SETUSER", "default", "-config")
        found = {finding.code for finding in Service(store).doctor().wait().findings}
        assert found == {"config_forbidden"}
        store.close_sync()
