"""Backups that are killed, or whose disk becomes full: no half file under the final name, no engine left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.helpers import new, put
from tests.support.embedded_process import wait_until
from windlass.service import Service
from windlass.store.embedded import private_engine

TRIES = 20
pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


@pytest.fixture
def large(service: Service) -> Service:
    put(service, *(new("large") for _ in range(20_000)))
    return service


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for copies, with a path that is short enough for their sockets."""
    with tempfile.TemporaryDirectory(prefix="wl-") as directory:
        monkeypatch.setenv("TMPDIR", directory)
        yield Path(directory)


def start(service: Service, *arguments: str, before: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    settings = {"WINDLASS_URL": str(service.store.endpoint), "WINDLASS_NAMESPACE": service.store.namespace}
    command = [*before, sys.executable, "-m", "windlass", "backup", *arguments]
    return subprocess.Popen(command, env=os.environ | settings, stderr=subprocess.PIPE)


def unfinished(file: Path) -> list[Path]:
    return list(file.parent.glob(f".{file.name}.*.unfinished"))


def kill_while_writing(service: Service, file: Path) -> None:
    """Kill a backup while it writes, unless it ends first: on a busy machine this process may look too late."""
    with start(service, str(file)) as process:
        wait_until(lambda: process.poll() is not None or any(path.stat().st_size for path in unfinished(file)))
        process.send_signal(signal.SIGKILL)


def test_a_killed_backup_leaves_no_file_under_its_name(large: Service, tmp_path: Path, temporary: Path) -> None:
    file = tmp_path / "b.jsonl"
    for _ in range(TRIES):
        file.write_text("the backup before")
        kill_while_writing(large, file)
        copies = list(temporary.glob(f"{private_engine.PREFIX}*"))
        if any(unfinished(file)) and copies:  # a kill just before the end finds the copy removed
            break
    assert any(unfinished(file))
    assert copies
    assert file.read_text() == "the backup before"
    # Their supervisors have ended the engines.
    wait_until(lambda: not any((copy / "engine.sock").exists() for copy in copies))


@pytest.mark.parametrize(("bound", "arguments"), [(2_000_000, ("--live",)), (100_000, ())])
def test_a_full_disk_leaves_no_file(large: Service, tmp_path: Path, bound: int, arguments: tuple[str, ...]) -> None:
    """No file may grow beyond the bound: of the backup, and of the copy."""
    limit = "import os,resource,signal,sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({bound}, {bound})); os.execv(sys.argv[1], sys.argv[1:])"
    with start(large, str(tmp_path / "b.jsonl"), *arguments, before=(sys.executable, "-c", limit)) as process:
        assert process.stderr
        said = process.stderr.read().decode()
    assert (process.returncode, "cannot be written: File too large" in said) == (1, True), said
    assert list(tmp_path.iterdir()) == []
