"""Thread pool: every run ends once, interrupts reach the right run, stuck code costs no slot."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import random
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable

import pytest

from windlass.sdk.worker.threads import JobThreadPool

pytestmark = pytest.mark.anyio
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="untouched")


class Stop(BaseException):
    pass


@contextlib.asynccontextmanager
async def threads(most: int) -> AsyncIterator[JobThreadPool]:
    pool = JobThreadPool(most, name=f"pool-{most}")
    yield pool
    assert pool.close(wait=True) == 0


def spin_until(is_over: Callable[[], bool]) -> None:
    """Execute Python instructions until the event is set, so that an exception can be raised."""
    while not is_over():
        pass


def never() -> bool:
    return False


async def test_values_and_errors_arrive() -> None:
    async with threads(2) as pool:
        assert await pool.start(lambda: 7).future == 7
        with pytest.raises(ZeroDivisionError):
            await pool.start(lambda: 1 // 0).future


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), Stop()])
async def test_what_is_no_exception_does_not_end_the_thread(error: BaseException) -> None:
    def fail() -> None:
        raise error

    async with threads(1) as pool:
        before = await pool.start(threading.get_ident).future
        with pytest.raises(type(error)):
            await pool.start(fail).future
        assert await pool.start(threading.get_ident).future == before


@pytest.mark.parametrize("error", [StopIteration(1), asyncio.CancelledError()])
async def test_what_means_something_else_to_the_awaiter_is_wrapped(error: BaseException) -> None:
    def fail() -> None:
        raise error

    async with threads(1) as pool:
        with pytest.raises(RuntimeError) as caught:
            await pool.start(fail).future
        assert caught.value.__cause__ is error


async def test_a_traceback_shows_only_the_function() -> None:
    def fail() -> None:
        raise ValueError

    async with threads(1) as pool:
        error = await asyncio.wait_for(asyncio.gather(pool.start(fail).future, return_exceptions=True), 10)
        assert isinstance(error[0], ValueError)
        trace = error[0].__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        assert trace is None or "threads.py" not in trace.tb_frame.f_code.co_filename


async def test_threads_are_started_when_needed_and_used_again() -> None:
    async with threads(8) as pool:
        first = {await pool.start(threading.get_ident).future for _ in range(20)}
        assert len(first) == 1
        meeting = threading.Barrier(8)
        both = [pool.start(lambda: (meeting.wait(), threading.get_ident())[1]) for _ in range(8)]
        assert len({await run.future for run in both} | first) == 8


async def test_no_run_waits_for_another_one() -> None:
    """Half of the runs hold their thread until the other half, started after and between them, has ended."""
    async with threads(8) as pool:
        release = threading.Event()
        slow = [pool.start(release.wait) for _ in range(4)]
        for _ in range(50):
            assert await asyncio.gather(*(pool.start(lambda: 1).future for _ in range(4))) == [1] * 4
        release.set()
        await asyncio.gather(*(run.future for run in slow))


async def test_more_than_the_slots_is_refused() -> None:
    async with threads(1) as pool:
        release = threading.Event()
        run = pool.start(release.wait)
        with pytest.raises(RuntimeError, match="All 1 threads are busy"):
            pool.start(lambda: 1)
        release.set()
        await run.future


async def test_each_of_many_runs_ends_once() -> None:
    async with threads(16) as pool:
        done: list[int] = []
        for start in range(0, 4_800, 16):
            runs = [pool.start(lambda number=start + offset: number) for offset in range(16)]  # type: ignore[misc]
            done += await asyncio.gather(*(run.future for run in runs))
        assert done == list(range(4_800))
        assert pool.busy == 0


async def test_what_a_run_sets_is_not_there_for_the_next() -> None:
    async with threads(1) as pool:
        await pool.start(lambda: variable.set("changed")).future
        assert await pool.start(variable.get).future == "untouched"
        context = contextvars.copy_context()
        context.run(variable.set, "given")
        assert await pool.start(variable.get, context).future == "given"


async def test_an_idle_thread_keeps_nothing_alive() -> None:
    class Argument:
        pass

    async with threads(1) as pool:
        argument = Argument()
        seen = weakref.ref(argument)
        await pool.start(lambda argument=argument: None).future  # type: ignore[misc]
        del argument
        await pool.start(lambda: None).future
        gc.collect()
        assert seen() is None


async def test_an_interrupt_reaches_running_code() -> None:
    async with threads(1) as pool:
        begun = threading.Event()
        run = pool.start(lambda: (begun.set(), spin_until(never)))
        await asyncio.to_thread(begun.wait)
        assert run.interrupt(Stop)
        with pytest.raises(Stop):
            await run.future
        assert not run.interrupt(Stop)


async def test_code_that_swallows_an_interrupt_gets_the_next() -> None:
    begun, swallowed = threading.Event(), threading.Event()

    def stubborn() -> None:
        with contextlib.suppress(Stop):
            begun.set()
            spin_until(never)
        swallowed.set()
        spin_until(never)

    async with threads(1) as pool:
        run = pool.start(stubborn)
        await asyncio.to_thread(begun.wait)
        run.interrupt(Stop)
        await asyncio.to_thread(swallowed.wait)
        run.interrupt(Stop)
        with pytest.raises(Stop):
            await run.future


async def test_a_run_interrupted_before_it_begins_is_not_run() -> None:
    async with threads(1) as pool:
        await pool.start(lambda: None).future
        called: list[int] = []
        switch_interval = sys.getswitchinterval()
        sys.setswitchinterval(10)  # the other thread runs only while this one waits
        try:
            run = pool.start(lambda: called.append(1))
            assert run.interrupt(Stop)
        finally:
            sys.setswitchinterval(switch_interval)
        with pytest.raises(Stop):
            await run.future
        assert not called


async def test_an_interrupt_never_hits_the_next_run() -> None:
    """Short runs are interrupted around their end, by several interrupts; the runs right after are left alone."""
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    hit = spared = 0
    try:
        async with threads(2) as pool:
            for round_ in range(3_000):
                over_at = round_ % 40
                run = pool.start(lambda over_at=over_at: sum(range(over_at)))  # type: ignore[misc]
                other = pool.start(lambda: sum(range(20)))
                for _ in range(1 + round_ % 3):
                    run.interrupt(Stop)
                outcome = (await asyncio.gather(run.future, return_exceptions=True))[0]
                hit += isinstance(outcome, Stop)
                spared += outcome == sum(range(over_at))
                assert await pool.start(lambda: sum(range(20))).future == 190
                assert await other.future == 190
    finally:
        sys.setswitchinterval(switch_interval)
    assert hit + spared == 3_000
    assert hit
    assert spared


async def test_interrupts_from_another_thread_never_hit_the_next_run() -> None:
    """Sent without pause for as long as the run takes, so that many arrive while it ends."""
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        async with threads(1) as pool:
            for round_ in range(1_000):
                run = pool.start(lambda over_at=round_ % 400: sum(range(over_at)))  # type: ignore[misc]
                sender = threading.Thread(target=lambda run=run: spin_until(lambda: not run.interrupt(Stop)))  # type: ignore[misc]
                sender.start()
                await asyncio.gather(run.future, return_exceptions=True)
                sender.join()
                assert await pool.start(lambda: sum(range(20))).future == 190
    finally:
        sys.setswitchinterval(switch_interval)


def slowly(action: Callable[[], object]) -> None:
    """Run `action` with a pause before each of its lines, so that other threads can run at every point."""

    def trace(*_: object) -> object:
        time.sleep(random.choice((0.0, 0.00002, 0.0001)))
        return trace

    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(None)


async def test_an_interrupt_that_is_slow_to_be_sent_never_hits_the_next_run() -> None:
    async with threads(1) as pool:
        for round_ in range(400):
            run = pool.start(lambda steps=round_ % 100: [time.sleep(0) for _ in range(steps * 10)])  # type: ignore[misc]
            sender = threading.Thread(target=slowly, args=(lambda run=run: run.interrupt(Stop),))  # type: ignore[misc]
            sender.start()
            await asyncio.gather(run.future, return_exceptions=True)
            for _ in range(20):
                assert await pool.start(lambda: sum(range(200))).future == 19_900
            sender.join()


async def test_an_abandoned_run_frees_its_slot_and_its_thread_ends_later() -> None:
    async with threads(1) as pool:
        release = threading.Event()
        stuck = pool.start(release.wait)
        pool.abandon(stuck)
        assert (pool.stuck, pool.busy) == (1, 0)
        second = await pool.start(threading.current_thread).future
        release.set()
        await stuck.future
        assert (pool.stuck, pool.busy) == (0, 0)
        for _ in range(10):
            await pool.start(lambda: None).future
        alive = [thread for thread in threading.enumerate() if thread.name.startswith("pool-1-")]
        assert len(alive) == 1, second


async def test_close_reports_what_is_still_running_and_ends_the_rest() -> None:
    pool = JobThreadPool(2, name="closing")
    release = threading.Event()
    stuck = pool.start(release.wait)
    await pool.start(lambda: None).future
    assert pool.close(wait=True, patience_s=0.01) == 1
    with pytest.raises(RuntimeError, match="closed"):
        pool.start(lambda: None)
    release.set()
    await stuck.future
    assert pool.close(wait=True) == 0
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("closing")]


def test_stuck_code_does_not_hold_up_the_exit() -> None:
    program = """
import asyncio, threading
from windlass.sdk.worker.threads import JobThreadPool
async def main():
    pool = JobThreadPool(2)
    pool.start(threading.Event().wait)
    await pool.start(lambda: None).future
    print(pool.close())
asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout.strip(), ended.stderr) == ("1", "")


def test_a_run_that_outlives_the_event_loop_harms_nobody() -> None:
    release = threading.Event()
    pools: list[JobThreadPool] = []

    async def main() -> None:
        pools.append(JobThreadPool(1))
        pools[0].start(release.wait)

    asyncio.run(main())
    release.set()
    assert pools[0].close(wait=True) == 0
