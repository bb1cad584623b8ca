"""Data directory that is deleted, replaced or moved while its engine runs: the engine acknowledges no more jobs."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.embedded_process import (
    engine_pid,
    increment_file,
    is_free,
    is_known_ready,
    new_data_dir,
    remove_tree,
    send_command,
    supervisor_pid,
    wait_until,
)
from tests.support.server_process import is_alive
from windlass.core.errors import DataDirectoryLost, Refusal
from windlass.core.job import NewJob
from windlass.core.operations import Take
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.retry_policy import PERMANENT_PAUSE_S
from windlass.store.embedded import data_directory, supervisor
from windlass.store.embedded.data_directory import DirectoryWatch
from windlass.store.embedded.engine import EmbeddedEngine
from windlass.store.store import Store

JOB = NewJob(queue="mail", name="send")


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with new_data_dir() as path:
        yield path


@pytest.fixture
def service(data_dir: Path) -> Iterator[Service]:
    engine = EmbeddedEngine(data_dir)
    store = Store(parse_url(engine.url), engine=engine)
    store.open_sync()
    wait_until(lambda: is_known_ready(data_dir))
    yield Service(store)
    store.close_sync()


def is_known_to(service: Service, ids: list[bytes]) -> bool:
    return not any(isinstance(answer, Refusal) for answer in service.job(ids).wait())


def delete(data_dir: Path) -> None:
    remove_tree(data_dir)


def replace(data_dir: Path) -> None:
    data_dir.rename(data_dir.with_name("old"))
    data_dir.mkdir(mode=0o700)


def delete_append_only_files(data_dir: Path) -> None:
    remove_tree(data_dir / "appendonlydir")


def replace_written_file(data_dir: Path) -> None:
    written = increment_file(data_dir)
    copy = written.with_suffix(".copy")
    shutil.copy(written, copy)
    copy.replace(written)


@pytest.mark.parametrize("lose", [delete, replace, delete_append_only_files, replace_written_file])
def test_the_engine_ends_when_its_files_are_gone(service: Service, data_dir: Path, lose: object) -> None:
    service.enqueue([JOB]).wait()
    pid = engine_pid(data_dir)
    assert callable(lose)
    lose(data_dir)
    wait_until(lambda: not is_alive(pid))


@pytest.mark.parametrize("lose", [delete, replace, delete_append_only_files])
def test_calls_are_refused_with_the_reason(service: Service, data_dir: Path, lose: object) -> None:
    pid = engine_pid(data_dir)
    assert callable(lose)
    lose(data_dir)
    wait_until(lambda: not is_alive(pid))
    for call in (service.enqueue([JOB]), service.ping()):
        with pytest.raises(DataDirectoryLost, match=r"deleted or replaced.*restart all processes"):
            call.wait()
    assert send_command(data_dir, b"PING") == ""  # no other engine was started


def test_a_directory_that_is_put_back_is_used_again(service: Service, data_dir: Path) -> None:
    (kept,) = service.enqueue([JOB]).wait()
    pid = engine_pid(data_dir)
    data_dir.rename(data_dir.with_name("elsewhere"))
    wait_until(lambda: not is_alive(pid))
    with pytest.raises(DataDirectoryLost):
        service.enqueue([JOB]).wait()
    data_dir.with_name("elsewhere").rename(data_dir)
    (more,) = service.enqueue([JOB]).wait()
    assert is_known_to(service, [kept.id, more.id])


def test_a_directory_that_was_moved_can_be_used_there(service: Service, data_dir: Path) -> None:
    (kept,) = service.enqueue([JOB]).wait()
    elsewhere = data_dir.with_name("elsewhere")
    data_dir.rename(elsewhere)
    wait_until(lambda: is_free(elsewhere / supervisor.SUPERVISOR_LOCK))
    engine = EmbeddedEngine(elsewhere)
    store = Store(parse_url(engine.url), engine=engine)
    assert is_known_to(Service(store), [kept.id])
    store.close_sync()


def test_a_new_process_begins_with_the_new_directory_and_the_old_one_stays_refused(
    service: Service, data_dir: Path
) -> None:
    pid = engine_pid(data_dir)
    replace(data_dir)
    wait_until(lambda: not is_alive(pid))
    with EmbeddedEngine(data_dir):
        new_pid = engine_pid(data_dir)
        with pytest.raises(DataDirectoryLost):
            service.ping().wait()
        service.store.close_sync()
        assert engine_pid(data_dir) == new_pid  # unaffected by the old user's leave


def test_no_job_is_acknowledged_after_the_end_of_the_deletion(service: Service, data_dir: Path) -> None:
    """The engine is frozen during the deletion, so it cannot acknowledge a job before the deletion is noticed."""
    service.enqueue([JOB]).wait()
    pid = engine_pid(data_dir)
    os.kill(pid, signal.SIGSTOP)
    pending = service.enqueue([JOB]).start_sync()
    delete(data_dir)
    wait_until(lambda: not is_alive(pid))
    with pytest.raises(DataDirectoryLost):
        pending()


def test_readiness_detects_the_loss_without_a_supervisor(service: Service, data_dir: Path) -> None:
    pid = engine_pid(data_dir)
    os.kill(supervisor_pid(data_dir), signal.SIGKILL)
    wait_until(lambda: is_free(data_dir / supervisor.SUPERVISOR_LOCK))
    service.ping().wait()
    delete(data_dir)
    with pytest.raises(DataDirectoryLost):
        service.ping().wait()
    os.kill(pid, signal.SIGKILL)  # its supervisor, which would do so, is dead


def test_an_adopted_engine_is_watched_too(service: Service, data_dir: Path) -> None:
    pid = engine_pid(data_dir)
    os.kill(supervisor_pid(data_dir), signal.SIGKILL)
    wait_until(lambda: is_free(data_dir / supervisor.SUPERVISOR_LOCK))
    with EmbeddedEngine(data_dir):
        assert engine_pid(data_dir) == pid
        delete(data_dir)
        wait_until(lambda: not is_alive(pid))


def test_rewriting_the_file_is_no_loss(service: Service, data_dir: Path) -> None:
    pid, before = engine_pid(data_dir), increment_file(data_dir)
    for _ in range(5):
        assert "started" in send_command(data_dir, b"BGREWRITEAOF")
        wait_until(lambda: "aof_rewrite_in_progress:0" in send_command(data_dir, b"INFO persistence"))
        service.enqueue([JOB]).wait()
    wait_until(lambda: not before.exists())
    assert engine_pid(data_dir) == pid


def test_a_change_ends_the_wait_at_once(data_dir: Path) -> None:
    """Runs in a forked process, because the signal must be blocked in all threads."""
    data_dir.mkdir()
    (data_dir / "lock").touch()
    child = os.fork()
    if child == 0:
        fd = os.open(data_dir / "lock", os.O_RDONLY)
        watch = DirectoryWatch(str(data_dir), str(data_dir / "lock"), fd)
        watch.enable_notifications()
        (data_dir / "lock").unlink()
        watch.wait(3600.0)  # without a notification, the test would time out
        os._exit(0 if not watch.is_intact() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_watch_polls_without_notifications(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For systems that do not report changes."""
    monkeypatch.delattr(data_directory.fcntl, "F_NOTIFY")
    data_dir.mkdir()
    (data_dir / "lock").touch()
    fd = os.open(data_dir / "lock", os.O_RDONLY)
    watch = DirectoryWatch(str(data_dir), str(data_dir / "lock"), fd)
    watch.enable_notifications()
    watch.wait(0.001)
    assert watch.is_intact()
    shutil.rmtree(data_dir)
    watch.wait(0.001)
    assert not watch.is_intact()
    os.close(fd)


@pytest.mark.anyio
async def test_waiting_takers_are_refused_and_the_retry_loop_pauses(
    service: Service, data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A refusal comes at once, so a retry loop must pause by itself."""

    def tries() -> list[float]:
        return [record.created for record in caplog.records if "Cannot wait for jobs" in record.getMessage()]

    async with service.store:
        service.store.wakeups.on_cancel_request(lambda _: None)  # listens until the store is closed
        taking = asyncio.ensure_future(service.take(Take(queues=("mail",), wait_ms=60_000)))
        await asyncio.to_thread(wait_until, lambda: "blocked_clients:1" in send_command(data_dir, b"INFO clients"))
        delete(data_dir)
        with pytest.raises(DataDirectoryLost):
            await taking
        await asyncio.to_thread(wait_until, lambda: len(tries()) >= 2)
    first, second = tries()[:2]
    assert second - first >= PERMANENT_PAUSE_S * 0.9
