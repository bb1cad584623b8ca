"""Snapshots of real engines: whole, of one instant, and refused with the reason."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest

from tests.support.acl_user import create_restricted_user, send_command
from tests.support.engine_process import EngineKind, EngineProcess
from tests.support.scripted_engine import scripted_engine
from windlass.core.errors import EngineNotPermitted, EngineUnavailable
from windlass.store.connection.endpoint import Endpoint, parse_url
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.embedded.private_engine import private_engine
from windlass.store.snapshot.replication import receive_snapshot

WORD = "p"
LARGE = "x" * 3_000_000  # more than one read


def endpoint_of(url: str) -> Endpoint:
    found = parse_url(url)
    assert isinstance(found, Endpoint)
    return found


@pytest.mark.parametrize("kind", ["valkey", "redis"])
@pytest.mark.parametrize("way", ["yes", "no"])
def test_a_snapshot_has_all_data_of_one_instant(kind: EngineKind, way: str) -> None:
    """Sent by the engine's child directly (`yes`), and through a file of the engine (`no`)."""
    with EngineProcess(kind, tcp=True, password=WORD, config=("--repl-diskless-sync", way)) as engine:
        node = endpoint_of(engine.url)
        connection = SyncConnection.open(node)
        connection.call("SET", "large", LARGE)
        connection.call("SET", "small", "1")
        before_s = int(time.time())
        with private_engine() as copy:
            with open(copy.data_file, "wb") as file:
                taken_at_ms = receive_snapshot(node, file)
            connection.call("SET", "late", "1")
            copy.load()
            assert not copy.data_file.exists()
            reader = SyncConnection.open(copy.endpoint())
            assert sorted(reader.call("KEYS", "*")) == [b"large", b"small"]
            assert reader.call("GET", "large") == LARGE.encode()
            reader.close()
        assert before_s * 1_000 <= taken_at_ms <= time.time() * 1_000
        connection.close()


def test_the_private_engine_leaves_nothing() -> None:
    with private_engine() as copy:
        folder = copy.data_file.parent
        assert folder.exists()
    assert not folder.exists()


def test_a_missing_right_is_named() -> None:
    with EngineProcess("valkey") as engine:
        node = endpoint_of(create_restricted_user(engine))
        with pytest.raises(EngineNotPermitted, match=r"\+sync.*--live"):
            receive_snapshot(node, io.BytesIO())
        send_command(engine, "ACL", "SETUSER", "worker", "+sync")
        receive_snapshot(node, io.BytesIO())


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        ((b"-ERR unknown command 'SYNC', with args\r\n",), EngineNotPermitted),
        ((b"-LOADING the dataset\r\n",), EngineUnavailable),
        ((b"\n\n$9\r\nREDIS0011",), EngineUnavailable),  # without its instant
        ((b"y" * 1_000,), EngineUnavailable),
    ],
)
def test_other_answers_are_explained(replies: tuple[bytes, ...], error: type[Exception]) -> None:
    introduced = b"+OK\r\n+OK\r\n"
    with scripted_engine(introduced, *replies) as node, pytest.raises(error):
        receive_snapshot(node, io.BytesIO())


def test_an_engine_that_dies_during_the_snapshot_is_reported(tmp_path: Path) -> None:
    with EngineProcess("valkey", config=("--rdb-key-save-delay", "50000")) as engine:
        node = endpoint_of(engine.unix_url)
        connection = SyncConnection.open(node)
        for number in range(50):  # at 0.05 s each
            connection.call("SET", f"k{number}", LARGE[:100_000])
        connection.close()
        with open(tmp_path / "f", "wb") as file, pytest.raises(EngineUnavailable, match="broke off"):
            receive_snapshot(node, _Killing(file, engine))


class _Killing(io.RawIOBase):
    """File that kills the engine at its first write."""

    def __init__(self, file: io.BufferedWriter, engine: EngineProcess) -> None:
        self._file, self._engine = file, engine

    def write(self, data: object) -> int:
        self._engine.kill()
        return self._file.write(data)  # type: ignore[arg-type]
