"""Embedded engine with jemalloc where the system has it, and without it elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from windlass.store.embedded import allocator, supervisor
from windlass.store.embedded import engine as embedded
from windlass.store.embedded.allocator import LIBRARY, preload_for
from windlass.store.embedded.engine import EmbeddedEngine, find_server_binary

PATIENCE_S = 15.0
OTHER_LIBRARY = "libanl.so.1"  # part of the C library; an engine does not need it

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="preloading works on Linux only")


@pytest.fixture
def data_dir() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="wl-"))
    yield path
    wait_until(lambda: not (path / supervisor.STATE).exists())  # removed by the supervisor after the engine's end
    shutil.rmtree(path)


@pytest.fixture
def broken_library(tmp_path: Path) -> str:
    path = tmp_path / LIBRARY
    path.write_text("not a library")
    return str(path)


def wait_until(is_so: Callable[[], int]) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := is_so()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
    return answer


def engine_pid(data_dir: Path) -> int:
    return wait_until(lambda: _reported_pid(data_dir))


def _reported_pid(data_dir: Path) -> int:
    """Return the pid that the engine reports; 0 if it does not answer."""
    found = re.search(r"process_id:(\d+)", supervisor.send_command(str(data_dir / supervisor.SOCKET), b"INFO server"))
    return int(found[1]) if found else 0


def libraries_of(data_dir: Path) -> str:
    """Return the libraries that the engine has loaded. Its environment is overwritten by its process title."""
    return Path(f"/proc/{engine_pid(data_dir)}/maps").read_text()


def records_preload(data_dir: Path, preload: str) -> Callable[[], bool]:
    """Return a check that the supervisor has recorded this preload. It does so while the engine starts."""
    return lambda: json.loads((data_dir / supervisor.STATE).read_text()).get("preload") == preload


def scripted_server(tmp_path: Path, before: str) -> Path:
    path = tmp_path / "scripted-server"
    path.write_text(f'#!/bin/sh\n{before}\nexec {find_server_binary()} "$@"\n')
    path.chmod(0o755)
    return path


def test_the_embedded_engine_runs_with_it(data_dir: Path) -> None:
    with EmbeddedEngine(data_dir):
        assert LIBRARY in libraries_of(data_dir)
        wait_until(records_preload(data_dir, LIBRARY))
        assert supervisor.send_command(str(data_dir / supervisor.SOCKET), b"SET a 1") == "+OK"
    assert "jemalloc" not in (data_dir / supervisor.LOG).read_text()


def test_only_the_engine_gets_it(data_dir: Path) -> None:
    with EmbeddedEngine(data_dir):
        supervisor_pid = json.loads((data_dir / supervisor.STATE).read_text())["keeper_pid"]
        assert LIBRARY not in Path(f"/proc/{supervisor_pid}/maps").read_text()
    assert LIBRARY not in os.environ.get("LD_PRELOAD", "")


def test_an_existing_preload_stays_and_comes_first(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", OTHER_LIBRARY)
    with EmbeddedEngine(data_dir):
        libraries = libraries_of(data_dir)
        wait_until(records_preload(data_dir, f"{OTHER_LIBRARY}:{LIBRARY}"))
    assert OTHER_LIBRARY in libraries
    assert LIBRARY in libraries


def test_a_library_that_cannot_be_loaded_is_not_preloaded(
    data_dir: Path, broken_library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in (broken_library, "libjemalloc-is-not-here.so.2"):
        monkeypatch.setattr(allocator, "LIBRARY", library)
        assert preload_for(find_server_binary()) == ""
    monkeypatch.setenv("LD_PRELOAD", OTHER_LIBRARY)
    with EmbeddedEngine(data_dir):
        libraries = libraries_of(data_dir)
    assert OTHER_LIBRARY in libraries
    assert "jemalloc" not in libraries
    assert "ld.so" not in (data_dir / supervisor.LOG).read_text()


def test_an_engine_starts_where_the_library_has_gone_since(
    data_dir: Path, broken_library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "preload_for", lambda _server: broken_library)
    with EmbeddedEngine(data_dir):
        assert "jemalloc" not in libraries_of(data_dir)


def test_an_engine_that_does_not_start_with_it_is_started_without(data_dir: Path, tmp_path: Path) -> None:
    refusing = '[ "$1" = --version ] || case "$LD_PRELOAD" in *jemalloc*) exit 9;; esac'
    server = scripted_server(tmp_path, refusing)
    assert preload_for(server) == LIBRARY
    with EmbeddedEngine(data_dir, server=server):
        assert "jemalloc" not in libraries_of(data_dir)
        wait_until(records_preload(data_dir, ""))


def test_an_engine_that_dies_soon_after_its_start_is_started_without(data_dir: Path) -> None:
    with EmbeddedEngine(data_dir) as engine:

        def is_without() -> bool:
            if LIBRARY not in libraries_of(data_dir):
                return True
            os.kill(engine_pid(data_dir), signal.SIGKILL)
            engine.ensure()
            return False  # if the kill came late, the next engine has the library again

        wait_until(is_without)


@pytest.mark.parametrize("body", ["echo Redis server v=7.0.15 malloc=jemalloc-5.3.0; exit", "exit 127"])
def test_a_server_that_has_it_or_does_not_run_gets_no_other(tmp_path: Path, body: str) -> None:
    assert preload_for(scripted_server(tmp_path, body)) == ""


def test_a_missing_server_gets_no_preload(tmp_path: Path) -> None:
    assert preload_for(tmp_path / "none") == ""
