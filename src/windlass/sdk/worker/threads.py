"""Thread pool for sync functions: grows as needed, keeps threads warm, interrupts them as far as Python allows.

Calls do not queue here: the caller starts at most as many runs as there are slots. The worker interprets their
outcomes.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")

_raise_in_thread = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in_thread.argtypes = (ctypes.c_ulong, ctypes.py_object)
_raise_in_thread.restype = ctypes.c_int


class _Absorbed(BaseException):
    """Replaces an interrupt that came too late."""


class ThreadRun(Generic[T]):
    """One call in a thread. `future` ends on the event loop with the call's value or exception.

    The exception can be SystemExit or KeyboardInterrupt. An event loop does not survive these if a task lets them pass:
    catch BaseException where the future is awaited. StopIteration and CancelledError, which mean something else to an
    awaiting caller, arrive as the cause of a RuntimeError.
    """

    __slots__ = (
        "_call",
        "_context",
        "_error",
        "_has_begun",
        "_interruption",
        "_is_ending",
        "_is_sending",
        "_thread_id",
        "_value",
        "future",
        "has_ended",
        "is_abandoned",
    )

    def __init__(self, future: asyncio.Future[T], call: Callable[[], T], context: Context | None) -> None:
        self.future = future
        self.has_ended = False
        self.is_abandoned = False
        self._call: Callable[[], T] | None = call
        self._context = context
        self._value: T | None = None
        self._error: BaseException | None = None
        self._thread_id = 0
        self._has_begun = False
        self._is_ending = False
        self._is_sending = False
        self._interruption: type[BaseException] | None = None

    def interrupt(self, exception: type[BaseException]) -> bool:
        """Raise `exception` in the running code. Returns False if the call has already returned.

        The code sees it at its next Python instruction: a call into C (a sleep, a query, a long computation in a
        library) returns first. Code that catches it continues; an interrupt may be repeated.
        """
        # Handshake: this side sets _is_sending and then reads _is_ending. The thread sets _is_ending and then waits
        # until _is_sending is false. It absorbs any exception sent by then, so none can reach the next run. Flags are
        # used instead of a lock because the exception can be raised at any instruction of the thread: the thread would
        # not know whether it holds the lock, but it can repeat operations on flags.
        self._is_sending = True
        try:
            if self._is_ending:
                return False
            self._interruption = exception
            if self._thread_id:
                _raise_in_thread(self._thread_id, exception)
            return True
        finally:
            self._is_sending = False

    def perform(self, thread_id: int) -> None:
        """Run the call in the thread. When it returns, the outcome is set and no exception is pending."""
        while True:
            try:
                if not self._has_begun:
                    self._has_begun = True
                    self._thread_id = thread_id
                    self._begin()
                self._end()
                return
            except BaseException as error:
                self._is_ending = True
                if self._error is None:
                    self._error = error

    def _begin(self) -> None:
        if self._interruption is not None:
            raise self._interruption
        assert self._call is not None  # noqa: S101
        # Always a separate context: variables that a call sets must not be visible to the next call.
        self._value = (self._context or Context()).run(self._call)

    def _end(self) -> None:
        self._is_ending = True
        while self._is_sending:
            time.sleep(0)
        if self._interruption is not None:
            self._absorb()

    def _absorb(self) -> None:
        # The newest exception replaces a pending one. Clearing it (with a null pointer) is no alternative: Python 3.11
        # would keep checking for it, in every thread and at every interruptible instruction.
        try:
            _raise_in_thread(self._thread_id, _Absorbed)
            while True:
                time.sleep(0)
        except _Absorbed:
            return

    def resolve(self) -> None:
        """Resolve the future on the event loop. A cancelled future stays as it is."""
        self.has_ended = True
        self._call = self._context = None
        if self.future.done():
            return
        if self._error is None:
            self.future.set_result(self._value)  # type: ignore[arg-type]
            return
        self.future.set_exception(_make_presentable(self._error))
        self._error = None
        if self.is_abandoned:
            self.future.exception()  # marks it as retrieved, so that asyncio does not log it


def _make_presentable(error: BaseException) -> BaseException:
    # Drop the frames of this file: they carry no information and keep the run and its arguments alive in a cycle.
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error.__traceback__ = trace
    if not isinstance(error, (StopIteration, asyncio.CancelledError)):
        return error
    stand_in = RuntimeError(f"The function raised {type(error).__name__}.")
    stand_in.__cause__ = error
    return stand_in


class JobThreadPool:
    """Pool of at most `most` threads, used from one event loop."""

    def __init__(self, most: int, name: str = "windlass-job") -> None:
        self.most = most
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: SimpleQueue[ThreadRun[object] | None] = SimpleQueue()
        self._ended: deque[ThreadRun[object]] = deque()
        self._is_wake_due = False
        self._is_closed = False
        self._threads: list[threading.Thread] = []
        self._size = 0  # threads that were not asked to end
        self._in_progress = 0
        self._abandoned = 0

    @property
    def busy(self) -> int:
        """Number of runs whose end has not reached the event loop, without abandoned runs."""
        return self._in_progress - self._abandoned

    @property
    def stuck(self) -> int:
        """Number of abandoned runs whose thread has not returned."""
        return self._abandoned

    def start(self, call: Callable[[], T], context: Context | None = None) -> ThreadRun[T]:
        """Run `call` in a thread at once, in `context` or in an empty context."""
        if self._is_closed or self.busy >= self.most:
            raise RuntimeError("The pool is closed." if self._is_closed else f"All {self.most} threads are busy.")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        run = ThreadRun(self._loop.create_future(), call, context)
        self._in_progress += 1
        if self._in_progress > self._size:
            self._grow()
        # All threads share one queue: a thread that finishes early takes the next run without going to sleep. There are
        # as many threads as runs in progress, so no run waits for another.
        self._waiting.put(run)
        return run

    def abandon(self, run: ThreadRun[T]) -> None:
        """Give up on a run that does not react. Its slot is free, and one thread ends when the run returns.

        Its future stays open until then: stop waiting for it.
        """
        if not run.is_abandoned and not run.has_ended:
            run.is_abandoned = True
            self._abandoned += 1

    def close(self, wait: bool = False, patience_s: float = 10.0) -> int:
        """End idle threads now and the others after their run. Returns the number of threads still at work.

        With `wait`, it blocks up to `patience_s` for them. If an event loop must stay alive, await the futures first.
        Threads are daemons: a stuck thread does not delay the end of the process.
        """
        if not self._is_closed:
            self._is_closed = True
            for _ in range(self._size):
                self._waiting.put(None)
        give_up_at = time.monotonic() + patience_s
        for thread in self._threads if wait else ():
            thread.join(max(0.0, give_up_at - time.monotonic()))
        return self._in_progress - len(self._ended)

    def _grow(self) -> None:
        self._size += 1
        thread = threading.Thread(target=self._work, name=f"{self._name}-{self._size}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        thread_id = threading.get_ident()
        while (run := self._waiting.get()) is not None:
            try:
                run.perform(thread_id)
            except BaseException:
                # A second interrupt arrived while the first was handled.
                run.perform(thread_id)
            self._notify(run)
            del run  # a waiting thread must not keep the last run alive

    def _notify(self, run: ThreadRun[object]) -> None:
        """Wake the event loop once for all runs that end before it handles them."""
        self._ended.append(run)
        if self._is_wake_due:
            return
        self._is_wake_due = True
        assert self._loop is not None  # noqa: S101
        try:
            self._loop.call_soon_threadsafe(self._resolve_ended)
        except RuntimeError:
            self._is_wake_due = False  # the event loop is closed, so no future is awaited

    def _resolve_ended(self) -> None:
        # Reset first, so that a run that ends from here on wakes the loop again.
        self._is_wake_due = False
        while self._ended:
            run = self._ended.popleft()
            self._in_progress -= 1
            if run.is_abandoned:
                self._abandoned -= 1
                self._shrink()
            run.resolve()

    def _shrink(self) -> None:
        """End an idle thread: the thread that replaced an abandoned thread is no longer needed."""
        if self._size > self.most and not self._is_closed:
            self._size -= 1
            self._waiting.put(None)
            self._threads = [thread for thread in self._threads if thread.is_alive()]
