"""windlass doctor --engine: the table of what an engine can do, its verdict, and the rules that it prints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.acl_user import PASSWORD, flush_engine, send_command
from tests.support.console import run_with_settings
from tests.support.engine_process import EngineProcess
from windlass.cli.engine_page import acl_line
from windlass.store.connection.endpoint import parse_url
from windlass.store.topology.capabilities import ProbeOptions, find_capabilities, is_suitable
from windlass.store.topology.permissions import acl_rules
from windlass.store.topology.probe import ProbeReplies, probe_nodes
from windlass.store.topology.topology import Standalone

DOCUMENT = Path(__file__).parents[3] / "docs/engines.md"
URL = "redis://windlass@127.0.0.1:1/0"
SAFE = ("--appendonly", "yes", "--appendfsync", "always", "--maxmemory", "1gb")
SAME_SETTINGS = (("maxmemory", "1gb"), ("maxmemory-policy", "noeviction"), ("appendonly", "yes"))


@pytest.fixture(scope="module", params=["valkey", "redis"])
def shared_engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    with EngineProcess(request.param, config=SAFE) as engine:
        yield engine


@pytest.fixture
def engine(shared_engine: EngineProcess) -> Iterator[EngineProcess]:
    yield shared_engine
    for name, value in SAME_SETTINGS:
        send_command(shared_engine, "CONFIG", "SET", name, value)
    send_command(shared_engine, "ACL", "DELUSER", "windlass")
    flush_engine(shared_engine)


def is_before_7_2(engine: EngineProcess) -> bool:
    return b"redis_version:7.0." in send_command(engine, "INFO", "server")


def user_url(engine: EngineProcess, *rules: str) -> str:
    send_command(engine, "ACL", "SETUSER", "windlass", "reset", "on", f">{PASSWORD}", *rules)
    return f"unix://windlass:{PASSWORD}@{engine.socket_path}?db=0"


def probe(url: str, code: int, **settings: str) -> dict[str, Any]:
    """Return the rows by name, after a check of the exit code."""
    shown = run_with_settings("doctor", "--engine", url, "--json", settings=settings)
    assert shown.code == code, shown
    found: dict[str, Any] = shown.document
    assert found["is_suitable"] is (code == 0)
    return {row["name"]: row for row in found["capabilities"]} | {"acl": found["acl"]}


def blocking(rows: dict[str, Any]) -> set[str]:
    return {name for name, row in rows.items() if row.get("verdict") == "blocking"}


def test_a_good_engine(engine: EngineProcess) -> None:
    rows = probe(engine.unix_url, 0)
    limited = {name for name, row in rows.items() if row.get("verdict") == "limited"}
    assert limited == {"durability replica"} | ({"half_transactions"} if is_before_7_2(engine) else set())
    assert rows["operations"]["found"] == "by functions (FCALL)"
    assert send_command(engine, "DBSIZE") == 0, "nothing is left behind"
    assert send_command(engine, "FUNCTION", "LIST") == []


def test_the_table_for_people(engine: EngineProcess) -> None:
    shown = run_with_settings("doctor", "--engine", engine.unix_url, "--namespace", "shop")
    assert shown.code == 0
    assert f"Engine  {engine.unix_url}, namespace 'shop'" in shown.out
    assert re.search(r"^✓  eviction +noeviction +Nothing is evicted\.", shown.out, re.MULTILINE)
    assert f"windlass on >PASSWORD {' '.join(acl_rules('shop', calls_by='scripts'))}\n" in shown.out
    assert shown.out.rstrip().endswith("Rows marked with ! say what is weaker or missing.")


def test_the_printed_rules_are_enough(engine: EngineProcess) -> None:
    line = probe(engine.unix_url, 0)["acl"]["minimal"]
    assert not {"fcall", "function", "config", "keys"} & set(re.findall(r"\+([a-z]+)", line))
    send_command(engine, *line.replace("PASSWORD", PASSWORD).split())
    url = f"unix://windlass:{PASSWORD}@{engine.socket_path}?db=0"
    rows = probe(url, 0)
    assert rows["operations"]["found"] == "by scripts (EVALSHA)"
    assert "may not call FCALL" in rows["operations"]["effect"]
    assert rows["permissions"]["verdict"] == "limited"
    assert run_with_settings("enqueue", "q", "n", "--url", url).code == 0
    assert probe(url, 0)["namespace"]["found"] == "in use, 1 partition, format 1"
    assert run_with_settings("doctor", "--url", url).code == 0


def test_the_document_has_both_lines() -> None:
    lines = [
        line for line in DOCUMENT.read_text().splitlines() if line.startswith("ACL SETUSER windlass on >PASSWORD ")
    ]
    expected = [acl_line(acl_rules("wl", calls_by="functions")), acl_line(acl_rules("wl", calls_by="scripts"))]
    assert lines == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (("~wl:*", "+@all", "-info"), {"engine", "permissions"}),
        (("~wl:*", "+@all", "-blpop", "-hexists"), {"permissions", "waiting"}),
        (("~wl:*", "+@all", "-evalsha", "-fcall"), {"permissions", "operations"}),
        (("~other:*", "+@all"), {"permissions", "operations", "writes", "waiting", "namespace"}),
        (("+ping", "+select"), {"engine", "permissions", "operations", "writes", "waiting", "namespace"}),
    ],
)
def test_a_user_with_too_few_permissions(engine: EngineProcess, rules: tuple[str, ...], expected: set[str]) -> None:
    assert blocking(probe(user_url(engine, *rules), 1)) == expected


def test_a_prepared_engine_for_a_user_that_may_not_load_functions(engine: EngineProcess) -> None:
    url = user_url(engine, *acl_rules("wl"))
    rows = probe(url, 1)
    assert blocking(rows) == {"operations"}
    assert "windlass engine prepare" in rows["operations"]["effect"]
    assert run_with_settings("engine", "prepare", "--url", engine.unix_url).code == 0
    assert probe(url, 0)["operations"]["verdict"] == "ok"


def test_policies_of_eviction(engine: EngineProcess) -> None:
    send_command(engine, "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    assert probe(engine.unix_url, 0)["eviction"]["verdict"] == "limited"
    send_command(engine, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    assert blocking(probe(engine.unix_url, 1)) == {"eviction"}
    assert probe(engine.unix_url, 0, WINDLASS_ALLOW_EVICTION="1")["eviction"]["verdict"] == "limited"


def test_a_full_engine_and_an_unknown_format(engine: EngineProcess) -> None:
    send_command(engine, "HSET", "wl:{0}", "layout", "99", "needs_version", "9.0.0")
    send_command(engine, "CONFIG", "SET", "maxmemory", "1")
    rows = probe(engine.unix_url, 1)
    assert blocking(rows) == {"writes", "namespace"}
    assert rows["memory"]["verdict"] == "limited"
    assert rows["namespace"]["found"] == "format 99, for Windlass 9.0.0 or newer"


def test_durability(engine: EngineProcess) -> None:
    rows = probe(engine.unix_url, 0)
    assert (rows["persistence"]["found"], rows["durability fsync"]["verdict"]) == ("fsync", "ok")
    send_command(engine, "CONFIG", "SET", "appendonly", "no")
    rows = probe(engine.unix_url, 0)
    assert (rows["persistence"]["verdict"], rows["durability fsync"]["verdict"]) == ("limited", "limited")
    assert "WINDLASS_ENGINE_DURABILITY=managed" in rows["persistence"]["effect"]
    rows = probe(engine.unix_url, 0, WINDLASS_ENGINE_DURABILITY="managed")
    names = ("persistence", "durability fsync", "durability replica")
    assert [rows[name]["verdict"] for name in names] == ["ok", "ok", "ok"]


def test_an_engine_that_does_not_answer_is_given_up(engine: EngineProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.cli.commands.doctor.PROBE_LIMIT_S", 0.5)
    engine.freeze()
    try:
        shown = run_with_settings("doctor", "--engine", engine.unix_url)
    finally:
        engine.thaw()
    assert shown.code == 2
    assert "within 0.5 s" in shown.err


def test_an_engine_that_refuses_the_connection_is_not_suitable() -> None:
    with EngineProcess("valkey", tcp=True) as engine:
        as_cluster = f"redis+cluster://127.0.0.1:{engine.port}"
        shown = run_with_settings("doctor", "--engine", as_cluster)
        assert (shown.code, "is not a node of a cluster" in shown.err) == (1, True)
        send_command(engine, "ACL", "SETUSER", "windlass", "on", f">{PASSWORD}", "~*", "+@all", "-select")
        shown = run_with_settings("doctor", "--engine", f"redis://windlass:{PASSWORD}@127.0.0.1:{engine.port}/3")
        assert shown.code == 1
        assert "may not call SELECT (needed to select the database of the URL)" in shown.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--engine", "redis://127.0.0.1:1/0"), 2, "Cannot connect to redis://127.0.0.1:1/0"),
        (("--engine", "nonsense"), 2, "it must begin with redis://"),
        (("--engine", "http://127.0.0.1:1"), 2, "not of a server"),
        (("--engine", "redis://127.0.0.1:1/0", "--repair"), 2, "takes only --namespace and --json"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], code: int, words: str) -> None:
    shown = run_with_settings("doctor", *arguments)
    assert shown.code == code
    assert words in shown.err


def test_the_embedded_engine_is_started_for_the_probe(tmp_path: Path) -> None:
    rows = probe(f"embedded:{tmp_path}/d", 0)
    assert (rows["persistence"]["found"], rows["eviction"]["found"]) == ("fsync", "noeviction")


# Engines that are not available here, from their replies


def replies(engine: EngineProcess, *more: str, **changed: Any) -> ProbeReplies:
    """Return the replies of a real engine, with lines of INFO added and replies replaced."""
    (found,) = probe_nodes(Standalone(parse_url(engine.unix_url)), "wl", 5.0)  # type: ignore[arg-type]
    info = found.replies["info"] + "".join(f"{line}\r\n" for line in more).encode()
    return found._replace(replies={**found.replies, "info": info, **changed})


def rows_of(*nodes: ProbeReplies, **options: Any) -> dict[str, Any]:
    return {row.name: row for row in find_capabilities(nodes, ProbeOptions(**options))}


def test_other_products_and_states(engine: EngineProcess) -> None:
    assert rows_of(replies(engine, "dragonfly_version:df-v1.30"))["engine"].found.startswith("dragonfly df-v1.30 (as")
    assert rows_of(replies(engine, "valkey_version:6.2", "redis_version:6.2"))["engine"].verdict == "blocking"
    assert rows_of(replies(engine, "role:slave"))["topology"].verdict == "blocking"
    assert "redis+cluster://" in rows_of(replies(engine, "cluster_enabled:1"))["topology"].effect
    assert rows_of(replies(engine, "cluster_enabled:1"), is_cluster=True)["topology"].verdict == "ok"
    assert rows_of(replies(engine, "maxclients:1"))["connections"].verdict == "limited"
    assert rows_of(replies(engine, time=[b"1", b"0"]))["clock"].verdict == "limited"
    assert rows_of(replies(engine, "connected_slaves:2"))["durability replica"].found == "2 connected (WAIT)"
    slow = replies(engine)._replace(round_trips_us=[9_000])
    assert rows_of(slow)["round trip"].verdict == "limited"


def test_the_weakest_of_several_nodes_counts_and_is_named(engine: EngineProcess) -> None:
    good, bad = replies(engine), replies(engine, "maxmemory_policy:allkeys-lru")
    rows = find_capabilities([good, bad._replace(node=parse_url(URL))], ProbeOptions())
    (eviction,) = [row for row in rows if row.name == "eviction"]
    assert (eviction.verdict, eviction.found) == ("blocking", f"{parse_url(URL)}: allkeys-lru")
    assert not is_suitable(rows)
    assert next(row for row in rows if row.name == "engine").found.split()[0] in ("valkey", "redis")
    assert json.dumps([row._asdict() for row in rows])
