"""Child processes: jobs that crash, hang, exceed their memory or leave processes behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from windlass.processes.pool import START_PAUSES, ChildDied, ChildNotReady, ChildPool, ChildRun, HandlerRaised

pytestmark = pytest.mark.anyio
MEGABYTE = 1 << 20


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@contextlib.asynccontextmanager
async def children(
    most: int = 1, target: str = "tests.processes.child_target:code", **options: Any
) -> AsyncIterator[ChildPool]:
    pool = ChildPool(target, most, **options)
    yield pool
    pids = pool.pids
    await pool.close()
    assert not [pid for pid in pids if exists(pid)]  # no zombies either


def exists(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return False


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def begun(pool: ChildPool, code: str, at: Path, **options: Any) -> ChildRun:
    """Start a job and wait until its code runs."""
    run = pool.start(f"open({str(at)!r}, 'w').close()\n{code}".encode(), **options)
    await until(at.exists)
    return run


async def pid_of(pool: ChildPool) -> int:
    return int(await pool.run(b"import os; answer = os.getpid()"))


async def test_a_child_is_started_when_needed_and_used_again() -> None:
    async with children(2) as pool:
        assert pool.pids == []
        assert [await pool.run(b"answer = jobs") for _ in range(3)] == [b"1", b"2", b"3"]
        assert pool.pids == [await pid_of(pool)]


async def test_a_target_may_have_a_method_that_makes_the_handler() -> None:
    async with children(target="tests.processes.child_target:application") as pool:
        assert await pool.run(b"hello") == b"application: hello"


async def test_many_runs_over_few_children_each_get_their_own_answer() -> None:
    async with children(4, target="tests.processes.child_target:echo") as pool:
        numbers = iter(range(200))
        answers: dict[int, bytes] = {}

        async def lane() -> None:
            for number in numbers:
                answers[number] = await pool.run(b"%d" % number)

        await asyncio.gather(*(lane() for _ in range(4)))
        assert answers == {number: b"%d" % number for number in range(200)}
        assert len(pool.pids) == 4


async def test_large_requests_and_answers_arrive_whole() -> None:
    async with children(target="tests.processes.child_target:echo") as pool:
        request = os.urandom(5 * MEGABYTE)
        assert await pool.run(request) == request


async def test_more_than_the_slots_is_refused(tmp_path: Path) -> None:
    async with children() as pool:
        run = await begun(pool, "import time; time.sleep(1000)", tmp_path / "begun")
        with pytest.raises(RuntimeError, match="All 1 child processes are busy"):
            pool.start(b"")
        run.kill()
        with pytest.raises(ChildDied):
            await run.future


async def test_what_a_job_prints_goes_where_the_worker_prints(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    async with children() as pool:
        code = (
            b"import os, sys; print('printed'); os.write(1, b'written\\n'); print('wrong', file=sys.stderr); answer = 1"
        )
        assert await pool.run(code) == b"1"
        out, err = capfd.readouterr()
        assert set(out.split()) == {"printed", "written"}
        assert err == "wrong\n"
        assert await pool.run(b"import sys; answer = repr(sys.stdin.read())") == b"''"


async def test_what_a_job_sets_in_its_context_is_not_there_for_the_next() -> None:
    async with children() as pool:
        setting = b"import contextvars, sys; sys.v = contextvars.ContextVar('v', default='no'); sys.v.set('yes')"
        await pool.run(setting)
        assert await pool.run(b"import sys; answer = sys.v.get()") == b"no"


@pytest.mark.parametrize(
    ("code", "exit_code", "number"),
    [
        ("import os; os._exit(3)", 3, None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", None, signal.SIGSEGV),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", None, signal.SIGKILL),
    ],
)
async def test_a_crash_is_told_and_the_next_job_gets_a_new_child(
    code: str, exit_code: int | None, number: int | None
) -> None:
    async with children() as pool:
        before = await pid_of(pool)
        with pytest.raises(ChildDied) as caught:
            await pool.run(code.encode())
        assert (caught.value.exit_code, caught.value.signal, caught.value.reason) == (exit_code, number, "crashed")
        assert await pid_of(pool) != before


async def test_a_job_that_crashes_is_not_begun_a_second_time(tmp_path: Path) -> None:
    async with children() as pool:
        at = tmp_path / "begun"
        code = f"import os\nprint('once', file=open({str(at)!r}, 'a'), flush=True)\nos._exit(0)"
        with pytest.raises(ChildDied):
            await pool.run(code.encode())
        assert at.read_text() == "once\n"


async def test_a_crash_is_seen_although_a_forked_process_holds_the_socket_open() -> None:
    async with children() as pool:
        with pytest.raises(ChildDied) as caught:
            await pool.run(b"import os, time\nif os.fork() == 0: time.sleep(1000)\nos._exit(4)")
        assert caught.value.exit_code == 4


async def test_what_a_crashed_job_has_started_ends_with_it(tmp_path: Path) -> None:
    async with children() as pool:
        at = tmp_path / "started"
        code = (
            f"import os, subprocess\nsleeper = subprocess.Popen(['sleep', '1000'])\n"
            f"print(sleeper.pid, file=open({str(at)!r}, 'w'), flush=True)\nos._exit(4)"
        )
        with pytest.raises(ChildDied):
            await pool.run(code.encode())
        await until(lambda: not is_running(int(at.read_text())))


async def test_an_idle_child_that_died_is_replaced_unseen() -> None:
    async with children() as pool:
        pid = await pid_of(pool)
        os.kill(pid, signal.SIGKILL)
        at_once = await pid_of(pool)
        assert at_once != pid
        os.kill(at_once, signal.SIGKILL)
        await until(lambda: not exists(at_once))
        assert await pid_of(pool) not in (pid, at_once)


@pytest.mark.parametrize(
    ("code", "type_name"), [("1 // 0", "ZeroDivisionError"), ("raise SystemExit(3)", "SystemExit")]
)
async def test_what_the_handler_lets_through_is_told_and_the_child_goes_on(code: str, type_name: str) -> None:
    async with children() as pool:
        with pytest.raises(HandlerRaised) as caught:
            await pool.run(code.encode())
        assert caught.value.type == type_name
        assert 'File "<string>", line 1' in caught.value.traceback
        assert await pool.run(b"answer = jobs") == b"2"


@pytest.mark.parametrize(
    "code",
    [
        "grown = bytearray()\nwhile True: grown += bytes(1 << 20)",
        "many = []\nwhile True: many.append(object())",
        "bytes(1 << 40)",
        "class Own(MemoryError): pass\nraise Own",
    ],
)
async def test_a_job_beyond_its_memory_is_told_so_and_the_next_job_is_fine(code: str) -> None:
    async with children() as pool:
        with pytest.raises(ChildDied) as caught:
            await pool.run(code.encode(), memory_bytes=64 * MEGABYTE)
        assert caught.value.reason == "out_of_memory"
        assert "line 1" in caught.value.detail or "line 2" in caught.value.detail
        assert await pool.run(b"answer = jobs", memory_bytes=64 * MEGABYTE) == b"1"


@pytest.mark.parametrize(
    "code",
    [
        "import mmap\nshared = mmap.mmap(-1, 300 << 20)\nfor at in range(0, len(shared), 4096): shared[at] = 1\n",
        "import resource as r\nr.setrlimit(r.RLIMIT_DATA, (-1, -1))\nfilled = bytes(1) * (300 << 20)\n",
    ],
    ids=["shared memory", "the limit raised"],
)
async def test_memory_that_the_limit_does_not_see_is_seen_by_the_parent(code: str) -> None:
    async with children() as pool:
        with pytest.raises(ChildDied) as caught:
            await pool.run(f"{code}\nimport time; time.sleep(1000)".encode(), memory_bytes=64 * MEGABYTE)
        assert (caught.value.reason, caught.value.signal) == ("out_of_memory", signal.SIGKILL)


async def test_a_cap_is_for_one_job_and_counts_what_that_job_adds() -> None:
    allocate = (
        b"import sys; sys.kept = getattr(sys, 'kept', []); sys.kept.append(bytearray(b'x') * (40 << 20)); answer = jobs"
    )
    async with children() as pool:
        assert await pool.run(allocate, memory_bytes=64 * MEGABYTE) == b"1"
        assert await pool.run(allocate, memory_bytes=64 * MEGABYTE) == b"2"
        assert await pool.run(b"bytearray(b'x') * (200 << 20); answer = jobs") == b"3"


async def test_a_memory_error_within_a_job_may_be_handled_by_it() -> None:
    async with children() as pool:
        code = b"try: bytes(1 << 30)\nexcept MemoryError: answer = 'smaller steps'"
        assert await pool.run(code, memory_bytes=64 * MEGABYTE) == b"smaller steps"


async def test_terminate_lets_the_job_clean_up(tmp_path: Path) -> None:
    async with children() as pool:
        before = await pid_of(pool)
        cleaned = tmp_path / "cleaned"
        code = (
            f"import time\ntry:\n    open({str(tmp_path / 'inside')!r}, 'w').close()\n    time.sleep(1000)\n"
            f"finally: open({str(cleaned)!r}, 'w').close()"
        )
        run = await begun(pool, code, tmp_path / "begun")
        await until((tmp_path / "inside").exists)
        run.terminate()
        with pytest.raises(HandlerRaised) as caught:
            await run.future
        assert caught.value.type == "Terminated"
        assert cleaned.exists()
        assert await pid_of(pool) != before
        await until(lambda: not exists(before))


async def test_a_terminated_job_may_answer(tmp_path: Path) -> None:
    async with children() as pool:
        code = (
            "import time\nfrom windlass.sdk.worker.child import Terminated\n"
            f"try:\n    open({str(tmp_path / 'inside')!r}, 'w').close()\n    time.sleep(1000)\n"
            "except Terminated: answer = 'half'"
        )
        run = await begun(pool, code, tmp_path / "begun")
        await until((tmp_path / "inside").exists)
        run.terminate()
        assert await run.future == b"half"


async def test_a_job_that_does_not_care_is_killed_with_what_it_started(tmp_path: Path) -> None:
    async with children() as pool:
        started = tmp_path / "started"
        code = (
            f"import os, subprocess, time\nsleeper = subprocess.Popen(['sleep', '1000'])\nwhile True:\n"
            f"    try:\n        open({str(started)!r}, 'w').write(str(sleeper.pid))\n        time.sleep(1000)\n"
            f"    except BaseException: open({str(tmp_path / 'again')!r}, 'w').close()"
        )
        run = await begun(pool, code, tmp_path / "begun")
        await until(lambda: started.exists() and started.read_text())
        sleeper = int(started.read_text())
        run.terminate()
        await until((tmp_path / "again").exists)
        assert not run.future.done()
        run.kill()
        with pytest.raises(ChildDied) as caught:
            await run.future
        assert (caught.value.signal, caught.value.reason) == (signal.SIGKILL, "crashed")
        await until(lambda: not is_running(sleeper))


async def test_stopping_a_run_that_has_ended_harms_nobody() -> None:
    async with children() as pool:
        run = pool.start(b"answer = jobs")
        assert await run.future == b"1"
        run.terminate()
        run.kill()
        assert await pool.run(b"answer = jobs") == b"2"


async def test_terminate_around_the_end_of_a_job_never_hits_another() -> None:
    async with children(recycle_after=5) as pool:
        answered = raised = 0
        for round_ in range(15):
            run = pool.start(b"sum(range(%d)); answer = 1" % (round_ * 400))
            await asyncio.sleep(0.0002 * round_)
            run.terminate()
            outcome = (await asyncio.gather(run.future, return_exceptions=True))[0]
            answered += outcome == b"1"
            raised += isinstance(outcome, (HandlerRaised, ChildDied))
            assert await pool.run(b"answer = 2") == b"2"
        assert answered + raised == 15


async def test_whoever_cancels_the_wait_ends_the_child(tmp_path: Path) -> None:
    async with children() as pool:
        pid = await pid_of(pool)
        at = tmp_path / "begun"
        code = f"open({str(at)!r}, 'w').close()\nimport time; time.sleep(1000)"
        waiting = asyncio.ensure_future(pool.run(code.encode()))
        await until(at.exists)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: not exists(pid))


async def test_an_interrupt_from_the_terminal_does_not_reach_a_job(tmp_path: Path) -> None:
    async with children() as pool:
        pid = await pid_of(pool)
        assert os.getsid(pid) == pid != os.getsid(0)
        code = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.001)\nanswer = 1"
        run = await begun(pool, code, tmp_path / "begun")
        os.kill(pid, signal.SIGINT)
        (tmp_path / "go").touch()
        assert await run.future == b"1"


async def test_a_child_is_replaced_after_so_many_jobs() -> None:
    async with children(recycle_after=3) as pool:
        assert [await pool.run(b"answer = jobs") for _ in range(7)] == [b"1", b"2", b"3", b"1", b"2", b"3", b"1"]


async def test_a_child_that_has_grown_is_replaced() -> None:
    async with children(recycle_bytes=100 * MEGABYTE) as pool:
        assert await pool.run(b"answer = jobs") == b"1"
        await pool.run(b"import sys; sys.kept = bytearray(b'x') * (200 << 20)")
        assert await pool.run(b"answer = jobs") == b"1"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("tests.processes.child_target:broken", "LookupError: the settings are missing"),
        ("tests.processes.child_target:missing", "has no attribute 'missing'"),
        ("no_such_module:anything", "No module named 'no_such_module'"),
        ("tests.processes.child_target:no_handler", "made 7 instead of a handler"),
    ],
)
async def test_a_target_that_cannot_be_loaded_is_told(target: str, message: str) -> None:
    async with children(target=target) as pool:
        with pytest.raises(ChildNotReady, match=message):
            await pool.run(b"")


@pytest.mark.parametrize("command", [["/no/such/program"], [sys.executable, "-c", "raise SystemExit(7)"]])
async def test_a_command_that_does_not_work_is_told(command: list[str]) -> None:
    async with children(command=command) as pool:
        with pytest.raises(ChildNotReady, match=r"could not be started|exit code 7"):
            await pool.run(b"")


async def test_children_that_do_not_start_are_tried_less_and_less_often() -> None:
    async with children(command=["/no/such/program"]) as pool:
        loop = asyncio.get_running_loop()
        pauses = []
        for _ in range(4):
            begun_at = loop.time()
            with pytest.raises(ChildNotReady):
                await pool.run(b"")
            pauses.append(loop.time() - begun_at)
        # Lower bounds only: a busy machine may take longer.
        assert all(pause >= 0.99 * START_PAUSES.after(number) for number, pause in enumerate(pauses[1:], 1))
        waiting = pool.start(b"")
        waiting.kill()
        with pytest.raises(ChildDied):
            await waiting.future
        abandoned = pool.start(b"")
    with pytest.raises(ChildDied):
        await abandoned.future


async def test_a_run_can_be_stopped_while_its_child_starts() -> None:
    async with children() as pool:
        for stop in (ChildRun.terminate, ChildRun.kill):
            run = pool.start(b"answer = jobs")
            stop(run)
            with pytest.raises(ChildDied):
                await run.future
        assert await pool.run(b"answer = jobs") == b"1"


async def test_close_ends_idle_busy_and_stuck_children(tmp_path: Path) -> None:
    pool = ChildPool("tests.processes.child_target:code", 3, grace_s=0.3)
    stubborn = "import time\nwhile True:\n    try: time.sleep(1000)\n    except BaseException: pass"
    busy = await begun(pool, "import time; time.sleep(1000)", tmp_path / "busy")
    stuck = await begun(pool, stubborn, tmp_path / "stuck")
    await pid_of(pool)
    pids = pool.pids
    assert len(pids) == 3
    await pool.close()
    assert not [pid for pid in pids if exists(pid)]
    outcomes = await asyncio.gather(busy.future, stuck.future, return_exceptions=True)
    assert isinstance(outcomes[0], HandlerRaised)
    assert outcomes[0].type == "Terminated"
    assert isinstance(outcomes[1], ChildDied)
    assert outcomes[1].signal == signal.SIGKILL
    with pytest.raises(RuntimeError, match="closed"):
        pool.start(b"")


async def test_the_begin_of_a_request_is_told_when_a_child_is_ready_for_it() -> None:
    async with children() as pool:
        begun: list[list[int]] = []
        for _ in range(2):
            await pool.run(b"answer = 'done'", on_begin=lambda: begun.append(pool.pids))
        assert begun == [pool.pids, pool.pids]
        assert len(pool.pids) == 1


async def test_idle_children_can_be_ended() -> None:
    async with children(2) as pool:
        await pool.run(b"answer = 'done'")
        (pid,) = pool.pids
        pool.end_idle()
        await until(lambda: not exists(pid))
        await pool.run(b"answer = 'done'")
        assert pid not in pool.pids


PARENT = """
import asyncio, sys
from pathlib import Path
from windlass.processes.pool import ChildPool

async def main(directory):
    pool = ChildPool("tests.processes.child_target:code", 3)
    note = f"import os; open({str(directory)!r} + '/' + str(os.getpid()), 'w').close()\\n"
    started = "import subprocess; p = subprocess.Popen(['sleep', '1000']); "
    started += f"open({str(directory)!r} + '/' + str(p.pid), 'w').close()\\n"
    pool.start((note + started + "import time; time.sleep(1000)").encode())
    pool.start((note + "import re; re.match('(a+)+$', 'a' * 60 + 'b')").encode())  # never lets go of the interpreter
    await pool.run(note.encode())
    await asyncio.sleep(1000)

asyncio.run(main(Path(sys.argv[1])))
"""


async def test_when_the_parent_is_killed_its_children_end_at_once(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], env=environment)  # noqa: ASYNC220
    try:
        await until(lambda: len(os.listdir(tmp_path)) == 4)
        pids = [int(name) for name in os.listdir(tmp_path)]
        assert all(map(is_running, pids))
    finally:
        parent.kill()
        parent.wait()
    await until(lambda: not any(map(is_running, pids)))
