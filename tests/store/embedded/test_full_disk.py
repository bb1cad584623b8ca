"""Embedded engine on a full disk: clients report it at once, and continue when there is space."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.embedded_process import (
    engine_pid,
    increment_file,
    is_known_ready,
    is_stopped,
    new_data_dir,
    wait_until,
)
from windlass.core.errors import DiskFull, Refusal
from windlass.core.job import Blob, Codec, NewJob
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.embedded.engine import EmbeddedEngine, find_server_binary
from windlass.store.store import Store

JOB = NewJob(queue="mail", name="send", payload=Blob(b'"' + b"x" * 20_000 + b'"', Codec.JSON))


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with new_data_dir() as path:
        yield path


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """Engine whose writes beyond a file size limit fail, as on a full disk, instead of killing it with SIGXFSZ."""
    path = tmp_path / "server"
    path.write_text(f"#!/bin/sh\ntrap '' XFSZ\nexec {find_server_binary()} \"$@\"\n")
    path.chmod(0o755)
    return path


def opened(engine: EmbeddedEngine) -> Store:
    store = Store(parse_url(engine.url), engine=engine, patience_s=60)
    store.open_sync()
    return store


def may_write(pid: int, file_bytes: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (file_bytes, resource.RLIM_INFINITY))


def test_a_write_that_fails_is_reported_and_later_ones_succeed(data_dir: Path, server: Path) -> None:
    store = opened(EmbeddedEngine(data_dir, server=server))
    service = Service(store)
    (kept,) = service.enqueue([JOB]).wait()
    wait_until(lambda: is_known_ready(data_dir))
    pid = engine_pid(data_dir)
    may_write(pid, increment_file(data_dir).stat().st_size + 100)
    with pytest.raises(DiskFull, match=rf"disk of the engine is full \(.*\).*make room for {data_dir}"):
        service.enqueue([JOB]).wait()
    wait_until(lambda: _accepts(service))  # the next engine has no limit
    assert not isinstance(service.job([kept.id]).wait()[0], Refusal)
    store.close_sync()


def _accepts(service: Service) -> bool:
    try:
        service.enqueue([JOB]).wait()
    except DiskFull:
        return False
    return True


@pytest.fixture
def small_disk(data_dir: Path) -> Iterator[Path]:
    """Separate disk of one MiB."""
    if os.geteuid() != 0:
        pytest.skip("a small disk needs a mount; the test above does not")
    data_dir.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "none", data_dir], check=True)
    yield data_dir
    wait_until(lambda: is_stopped(data_dir))
    subprocess.run(["umount", data_dir], check=True)


def test_a_disk_that_is_really_full(small_disk: Path) -> None:
    store = opened(EmbeddedEngine(small_disk))
    service = Service(store)
    accepted = [service.enqueue([JOB]).wait()[0].id]
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    with pytest.raises(DiskFull, match=f"disk of the engine is full.*make room for {small_disk}"):
        service.enqueue([JOB]).wait()
    with pytest.raises(DiskFull):  # called by /readyz
        service.ping().wait()
    filler.unlink()
    wait_until(lambda: _accepts(service))
    assert not isinstance(service.job(accepted).wait()[0], Refusal)
    store.close_sync()
