"""Backups that are killed, or whose disk becomes full: no half file under the final name, no engine left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.helpers import new, put
from tests.support.embedded_process import wait_until
from windlass.service import Service
from windlass.store.embedded import private_engine

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


@pytest.fixture
def large(service: Service) -> Service:
    put(service, *(new("large") for _ in range(20_000)))
    return service


def start(service: Service, *arguments: str, before: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    settings = {"WINDLASS_URL": str(service.store.endpoint), "WINDLASS_NAMESPACE": service.store.namespace}
    command = [*before, sys.executable, "-m", "windlass", "backup", *arguments]
    return subprocess.Popen(command, env=os.environ | settings, stderr=subprocess.PIPE)


def test_a_killed_backup_leaves_no_file_under_its_name(
    large: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    file = tmp_path / "b.jsonl"
    file.write_text("the backup before")
    with start(large, str(file)) as process:
        wait_until(lambda: any(path.stat().st_size for path in tmp_path.glob(".b.jsonl.*.unfinished")))
        process.send_signal(signal.SIGKILL)
    assert file.read_text() == "the backup before"
    (copy,) = temporary.glob(f"{private_engine.PREFIX}*")
    wait_until(lambda: not (copy / "engine.sock").exists())  # its supervisor has ended the engine


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
