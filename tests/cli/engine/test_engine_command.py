"""windlass engine prepare, and commands of users without permissions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.acl_user import PASSWORD, create_restricted_user, flush_engine, send_command
from tests.support.console import run_with_settings
from tests.support.engine_process import EngineProcess
from tests.support.server_process import environment
from windlass.core.namespace.format import FIRST, KNOWN, SINCE
from windlass.store.connection.connection import EngineReplyError
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.scripts import library


@pytest.fixture(scope="module", params=["valkey", "redis"])
def shared_engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    with EngineProcess(request.param) as engine:
        yield engine


@pytest.fixture
def own_engine(shared_engine: EngineProcess) -> Iterator[EngineProcess]:
    yield shared_engine
    flush_engine(shared_engine)


def test_prepare_loads_the_functions_once_and_prints_working_permissions(own_engine: EngineProcess) -> None:
    first = run_with_settings("engine", "prepare", "--url", own_engine.unix_url)
    assert first.code == 0
    node, _, line = first.out.splitlines()
    assert node == f"{own_engine.unix_url}: function library {library().name} loaded."
    again = run_with_settings("engine", "prepare", "--url", own_engine.unix_url)
    assert again.code == 0
    assert "was already loaded" in again.out
    assert send_command(own_engine, "DBSIZE") == 0

    send_command(own_engine, *line.replace("PASSWORD", PASSWORD).split())
    url = f"unix://windlass:{PASSWORD}@{own_engine.socket_path}?db=0"
    assert run_with_settings("enqueue", "q", "n", "--url", url).code == 0
    assert run_with_settings("doctor", "--url", url).code == 0
    with pytest.raises(EngineReplyError, match="NOPERM"):
        as_user(own_engine, "FUNCTION", "FLUSH")
    send_command(own_engine, "ACL", "DELUSER", "windlass")


def as_user(engine: EngineProcess, *command: str) -> None:
    connection = SyncConnection.open(parse_url(f"unix://windlass:{PASSWORD}@{engine.socket_path}?db=0"))
    try:
        connection.call(*command)
    finally:
        connection.close()


def test_prepare_keeps_functions_of_other_versions(own_engine: EngineProcess) -> None:
    other = "#!lua name=windlass_0123456789ab\nredis.register_function('take_0123456789ab', function() return 1 end)"
    send_command(own_engine, "FUNCTION", "LOAD", other)
    assert run_with_settings("engine", "prepare", "--url", own_engine.unix_url).code == 0
    assert send_command(own_engine, "FCALL", "take_0123456789ab", "0") == 1


def test_prepare_as_json(own_engine: EngineProcess) -> None:
    done = run_with_settings("engine", "prepare", "--json", "--namespace", "shop", "--url", own_engine.unix_url)
    found = done.document
    assert found["library"] == library().name
    assert found["nodes"] == [{"node": own_engine.unix_url, "loaded": True}]
    assert "~shop:*" in found["acl_rules"]


def test_prepare_needs_an_admin(own_engine: EngineProcess) -> None:
    done = run_with_settings("engine", "prepare", "--url", create_restricted_user(own_engine))
    assert done.code == 1
    assert "may not call FUNCTION LOAD" in done.err


def test_the_embedded_engine_needs_no_preparation() -> None:
    done = run_with_settings("engine", "prepare")
    assert done.code == 2
    assert "needs no preparation" in done.err


SERVE = ("serve", "--port", "0", "--bedrock-port", "off")


@pytest.mark.parametrize("words", [("queues", "ls"), ("enqueue", "q", "n"), ("jobs", "ls"), SERVE])
def test_a_command_names_the_missing_permission(own_engine: EngineProcess, words: tuple[str, ...]) -> None:
    done = run_with_settings(*words, "--url", create_restricted_user(own_engine, "-info"))
    assert done.code == 1
    assert "windlass: The engine's user 'worker' may not call INFO (needed to check" in done.err
    assert "`ACL SETUSER worker +info`" in done.err


def test_the_doctor_names_the_missing_permission(own_engine: EngineProcess) -> None:
    done = run_with_settings("doctor", "--url", create_restricted_user(own_engine, "-fcall"))
    assert done.code == 2
    assert "the check was not possible: The engine's user 'worker' may not call FCALL" in done.err


def test_a_server_names_the_missing_preparation(own_engine: EngineProcess) -> None:
    command = [sys.executable, "-m", "windlass", *SERVE, "--url", create_restricted_user(own_engine)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=False)
    assert ended.returncode == 1
    assert "Let an admin run `windlass engine prepare --url URL`" in ended.stderr
    assert "Traceback" not in ended.stderr


# Format of the namespace


def test_the_format_is_shown_and_raised_after_a_question(own_engine: EngineProcess) -> None:
    url = ("--url", own_engine.unix_url)
    shown = run_with_settings("engine", "format", *url)
    assert shown.out == f"Namespace 'wl' has format {FIRST}. This version reads formats up to {KNOWN}.\n"
    unconfirmed = run_with_settings("engine", "format", "--require", str(KNOWN), *url)
    assert unconfirmed.code == 2
    assert f"Refuse versions of Windlass before {SINCE[KNOWN]} from now on?" in unconfirmed.err
    assert send_command(own_engine, "HGET", "wl:{0}", "layout") == b"1"
    raised = f"Namespace 'wl' has format {KNOWN}, for Windlass {SINCE[KNOWN]} or newer. This version reads"
    assert run_with_settings("engine", "format", "--require", str(KNOWN), "--yes", *url).out.startswith(raised)
    assert run_with_settings("engine", "format", "--require", "1", *url).out.startswith(raised), "it is never lowered"
    assert run_with_settings("engine", "format", "--require", str(KNOWN + 1), "--yes", *url).code == 2
    record = {"namespace": "wl", "known": KNOWN, "number": KNOWN, "needs_version": SINCE[KNOWN]}
    assert run_with_settings("engine", "format", "--json", *url).document == record


def test_every_view_shows_the_format(own_engine: EngineProcess) -> None:
    url = ("--url", own_engine.unix_url)
    settings = {"WINDLASS_URL": own_engine.unix_url}
    unused = run_with_settings("config", "--json", settings=settings).document["namespace_format"]
    assert unused == {"value": "none: the namespace is not in use", "from": "engine"}
    assert send_command(own_engine, "DBSIZE") == 0, "a namespace was created"
    assert run_with_settings("engine", "format", "--require", str(KNOWN), "--yes", *url).code == 0
    text = f"{KNOWN}, for Windlass {SINCE[KNOWN]} or newer"
    found = run_with_settings("config", "--json", settings=settings).document["namespace_format"]
    assert found == {"value": text, "from": "engine"}
    assert f"Format   {text}\n" in run_with_settings("doctor", *url).out
    stored = run_with_settings("doctor", "--json", *url).document["namespace_format"]
    assert stored == {"number": KNOWN, "needs_version": SINCE[KNOWN]}


def test_a_restricted_user_may_raise_the_format(own_engine: EngineProcess) -> None:
    assert run_with_settings("engine", "prepare", "--url", own_engine.unix_url).code == 0
    url = create_restricted_user(own_engine)
    assert run_with_settings("engine", "format", "--require", str(KNOWN), "--yes", "--url", url).code == 0
    assert send_command(own_engine, "HGET", "wl:{0}", "layout") == str(KNOWN).encode()
