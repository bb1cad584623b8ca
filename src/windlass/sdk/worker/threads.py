"""The threads that sync functions run in: grown as needed, kept warm, interrupted as far as Python allows.

Nothing queues here: whoever starts runs keeps to the number of slots. What a run is and what its end means is the
worker's part.
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
    """Takes the place of an interrupt that came too late."""


class ThreadRun(Generic[T]):
    """One call in a thread. `future` ends on the event loop: with the call's value, or with whatever it raised.

    That includes SystemExit and KeyboardInterrupt, which an event loop does not survive when a task lets them pass:
    catch BaseException where the future is awaited. StopIteration and CancelledError, which mean something else to
    whoever awaits, arrive as the cause of a RuntimeError.
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
        """Raises `exception` in the running code; False when the call has already returned.

        The code sees it at its next Python instruction: a call into C (a sleep, a query, a long computation in a
        library) returns first. Code that catches it goes on; an interrupt may be repeated.
        """
        # The two sides of a handshake: this side says that it sends and then looks whether the run ends; the thread
        # says that it ends and then waits until nobody sends. Whatever was sent by then is absorbed, so nothing can
        # reach the next run. Flags instead of a lock: an exception may be raised at any instruction of the thread,
        # which would not know whether it holds a lock, but can repeat what it does with flags.
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
        """The thread's part: when it returns, the outcome is there and no exception is on its way any more."""
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
        # A context of its own even where none is given: what a call sets must not be there for the next one.
        self._value = (self._context or Context()).run(self._call)

    def _end(self) -> None:
        self._is_ending = True
        while self._is_sending:
            time.sleep(0)
        if self._interruption is not None:
            self._absorb()

    def _absorb(self) -> None:
        # Not by taking the exception back (with a null pointer): Python 3.11 would go on looking for it, in every
        # thread and at every instruction that may be interrupted. The newest exception replaces one that is pending.
        try:
            _raise_in_thread(self._thread_id, _Absorbed)
            while True:
                time.sleep(0)
        except _Absorbed:
            return

    def resolve(self) -> None:
        """On the event loop. A future that was cancelled meanwhile has nobody who wants the outcome."""
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
            self.future.exception()  # nobody else will look at it, and that is no mistake


def _make_presentable(error: BaseException) -> BaseException:
    # Without the frames of this file: they say nothing, and would keep the run and its arguments alive in a cycle.
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error.__traceback__ = trace
    if not isinstance(error, (StopIteration, asyncio.CancelledError)):
        return error
    stand_in = RuntimeError(f"The function raised {type(error).__name__}.")
    stand_in.__cause__ = error
    return stand_in


class ThreadPool:
    """A pool of at most `most` threads, used from one event loop."""

    def __init__(self, most: int, name: str = "windlass-job") -> None:
        self.most = most
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: SimpleQueue[ThreadRun[object] | None] = SimpleQueue()
        self._ended: deque[ThreadRun[object]] = deque()
        self._is_wake_due = False
        self._is_closed = False
        self._threads: list[threading.Thread] = []
        self._size = 0  # threads that have not been told to end
        self._in_progress = 0
        self._abandoned = 0

    @property
    def busy(self) -> int:
        """Runs whose end has not reached the event loop, abandoned ones not counted."""
        return self._in_progress - self._abandoned

    @property
    def stuck(self) -> int:
        """Abandoned runs whose thread has not come back."""
        return self._abandoned

    def start(self, call: Callable[[], T], context: Context | None = None) -> ThreadRun[T]:
        """Runs `call` in a thread at once, in `context` or in an empty one."""
        if self._is_closed or self.busy >= self.most:
            raise RuntimeError("The threads are closed." if self._is_closed else f"All {self.most} threads are busy.")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        run = ThreadRun(self._loop.create_future(), call, context)
        self._in_progress += 1
        if self._in_progress > self._size:
            self._grow()
        # One queue for all: a thread that is done early takes the next run without going to sleep, and since there are
        # as many threads as runs in progress, no run ever waits for another one to end.
        self._waiting.put(run)
        return run

    def abandon(self, run: ThreadRun[T]) -> None:
        """Gives up on a run that does not react: its place is free, and one thread ends when it ever comes back.

        Until then its future stays open: stop waiting for it.
        """
        if not run.is_abandoned and not run.has_ended:
            run.is_abandoned = True
            self._abandoned += 1

    def close(self, wait: bool = False, patience_s: float = 10.0) -> int:
        """Ends the idle threads, and the others after their run. Returns how many are still at work.

        With `wait` it blocks up to `patience_s` for them; with an event loop to keep alive, await the futures first.
        Threads are daemons: one that never comes back does not hold up the end of the process.
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
                # A second interrupt, raised while the first was dealt with.
                run.perform(thread_id)
            self._notify(run)
            del run  # while this thread waits, it keeps nothing of the last run alive

    def _notify(self, run: ThreadRun[object]) -> None:
        """One wake-up of the event loop for all runs that end before it has come round."""
        self._ended.append(run)
        if self._is_wake_due:
            return
        self._is_wake_due = True
        assert self._loop is not None  # noqa: S101
        try:
            self._loop.call_soon_threadsafe(self._resolve_ended)
        except RuntimeError:
            self._is_wake_due = False  # the event loop is closed: nobody waits any more

    def _resolve_ended(self) -> None:
        # First, so that a run that ends from here on wakes the loop again.
        self._is_wake_due = False
        while self._ended:
            run = self._ended.popleft()
            self._in_progress -= 1
            if run.is_abandoned:
                self._abandoned -= 1
                self._shrink()
            run.resolve()

    def _shrink(self) -> None:
        """A thread that was started in place of an abandoned one is not needed any more: whichever is idle ends."""
        if self._size > self.most and not self._is_closed:
            self._size -= 1
            self._waiting.put(None)
            self._threads = [thread for thread in self._threads if thread.is_alive()]
