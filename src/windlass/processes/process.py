"""One child process as its parent sees it: started, given one request at a time, told to end, reaped.

Which child gets which request, and what becomes of a child after a job, is for `children.py` to decide.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from .frames import Answer, FrameReader, Hello, Raised, Ready, Request, ToParent, Unready, pack
from .memory import used_bytes

LOOK_EVERY_S = 0.1  # at the memory of a capped job
SILENT_EXIT_S = 1.0  # a child that has closed its socket has so long to end by itself


CauseOfDeath = Literal["crashed", "out_of_memory"]


class ChildDied(Exception):
    """The process ended, or had to be ended, before it answered."""

    def __init__(
        self,
        exit_code: int | None,
        signal_number: int | None,
        reason: CauseOfDeath,
        detail: str = "",
    ) -> None:
        self.exit_code = exit_code
        self.signal = signal_number
        self.reason = reason
        self.detail = detail
        super().__init__(f"The child process {self._sentence()}{detail and ': '}{detail}")

    def _sentence(self) -> str:
        if self.reason == "out_of_memory":
            return "used more memory than the job may"
        if self.signal is None:
            return f"ended with exit code {self.exit_code} in the middle of a job"
        return f"was ended by signal {self.signal} ({signal.strsignal(self.signal)})"


class ChildNotReady(Exception):
    """The target could not be loaded in a child process; the message has the child's traceback."""


class HandlerRaised(Exception):
    """The handler let an exception through (its type's name and its traceback); the child goes on."""

    def __init__(self, type_name: str, traceback: str) -> None:
        self.type = type_name
        self.traceback = traceback
        super().__init__(traceback)


class ChildRun:
    """One request on its way. `future` ends with the answer, or with ChildDied, ChildNotReady or HandlerRaised."""

    __slots__ = ("child", "frame", "future", "memory_bytes", "on_begin", "was_moved")

    def __init__(
        self,
        future: asyncio.Future[bytes],
        request: bytes,
        memory_bytes: int,
        on_begin: Callable[[], None] = lambda: None,  # called when a child that is ready gets the request
    ) -> None:
        self.future = future
        self.frame = pack(Request(request, memory_bytes))
        self.memory_bytes = memory_bytes
        self.on_begin = on_begin
        self.child: ChildProcess | None = None
        self.was_moved = False

    def terminate(self) -> None:
        """Raises Terminated in the job's code (SIGTERM). It may clean up and answer; the process is not used again."""
        if self.child is not None:
            self.child.stop(self, signal.SIGTERM)

    def kill(self) -> None:
        """Ends the process, and what the job has started in its process group, at once (SIGKILL)."""
        if self.child is not None:
            self.child.stop(self, signal.SIGKILL)

    def succeed(self, answer: bytes) -> None:
        if not self.future.done():
            self.future.set_result(answer)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Pool(Protocol):
    """What a child tells the pool it belongs to."""

    logging: Callable[[], tuple[str, int] | None]

    def child_is_ready(self) -> None: ...

    def child_is_free(self, child: ChildProcess, resident_bytes: int) -> None: ...

    def child_did_not_start(self) -> None: ...

    def child_is_gone(self, child: ChildProcess) -> None: ...

    def may_move(self, run: ChildRun) -> bool: ...


class ChildProcess:
    """Lives on one event loop. Made with the run it is started for; tells its pool when it is free and when gone."""

    def __init__(self, command: Sequence[str], pool: Pool, first: ChildRun) -> None:
        self.jobs = 0
        self.is_leaving = False
        self.gone = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._command = command
        self._pool = pool
        self._run: ChildRun | None = first
        first.child = self
        self._is_ready = False
        self._is_unwanted = False  # before it was ready: that it does not start is then no failure
        self._is_over_memory = False
        self._was_request_read = True
        self._unsent = memoryview(b"")
        self._reader = FrameReader()
        self._decoder = msgspec.msgpack.Decoder(ToParent)
        self._process: subprocess.Popen[bytes] | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._next_step: asyncio.TimerHandle | None = None  # towards its end

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def spawn(self) -> None:
        """On the event loop's thread: with vfork it takes a millisecond or two."""
        if self.gone.is_set():
            return
        self._socket, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603
                [*self._command, str(theirs.fileno()), str(lifeline)],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), lifeline),
                # Ctrl-C in a terminal reaches the worker only, which decides; and a job's own children can be killed.
                start_new_session=True,
            )
        except OSError as error:
            self._release()
            self._did_not_start(f"The child process could not be started: {error}")
            self._lost(None)
            return
        finally:
            theirs.close()
            os.close(lifeline)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._read)
        threading.Thread(target=self._await_exit, args=(self._process,), daemon=True).start()
        self._write(pack(Hello(sys.path, self._pool.logging())))

    def give(self, run: ChildRun) -> bool:
        """False when the child turns out to be gone: the run has not begun and can go to another one."""
        self._run, run.child = run, self
        if not self._write(run.frame):
            self._run = run.child = None
            self.is_leaving = True  # it is gone, and only waits to be reaped
            return False
        self.jobs += 1
        run.on_begin()
        if run.memory_bytes:
            self._look_at_memory(run, used_bytes(self._process.pid) + run.memory_bytes)  # type: ignore[union-attr]
        return True

    def stop(self, run: ChildRun, number: signal.Signals) -> None:
        if run is not self._run:
            return
        self.is_leaving = True  # a signal that comes late must not meet another job
        if number is signal.SIGTERM and self._is_ready:
            self._signal(number)
        else:
            self._kill()

    def leave(self, grace_s: float) -> None:
        """End of input, which an idle child follows at once; then SIGTERM, then SIGKILL."""
        self.is_leaving = True
        if not self._is_ready:
            self._kill()
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._step_later(grace_s, self._press, grace_s)

    def _press(self, grace_s: float) -> None:
        self._signal(signal.SIGTERM)
        self._step_later(grace_s, self._kill)

    def _kill(self) -> None:
        self.is_leaving = self._is_unwanted = True
        if self._process is None and not self.gone.is_set():
            self._lost(ChildDied(None, signal.SIGKILL, "crashed", "it had not been started"))
        self._signal(signal.SIGKILL)

    def _step_later(self, delay_s: float, step: Callable[..., None], *arguments: object) -> None:
        if self._next_step is not None:
            self._next_step.cancel()
        self._next_step = self._loop.call_later(delay_s, step, *arguments)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        # The process is reaped on this thread only: the number cannot have passed to somebody else.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            (os.killpg if number is signal.SIGKILL else os.kill)(self._process.pid, number)

    def _look_at_memory(self, run: ChildRun, most_bytes: int) -> None:
        if run is not self._run:
            return
        if used_bytes(self._process.pid) > most_bytes:  # type: ignore[union-attr]
            self._is_over_memory = True
            self._kill()
        else:
            self._next_look = self._loop.call_later(LOOK_EVERY_S, self._look_at_memory, run, most_bytes)

    def _write(self, frame: bytes | memoryview) -> bool:
        """What does not fit into the socket now is sent as soon as there is room."""
        try:
            sent = self._socket.send(frame)
        except BlockingIOError:
            sent = 0
        except OSError:
            return False
        self._unsent = memoryview(frame)[sent:]  # a view: a large request is not copied again at each step
        if self._unsent:
            self._loop.add_writer(self._socket, self._write_on)
        return True

    def _write_on(self) -> None:
        self._loop.remove_writer(self._socket)
        self._write(self._unsent)

    def _read(self) -> None:
        while True:
            try:
                portion = self._socket.recv(1 << 18)
            except BlockingIOError:
                return
            except ConnectionResetError:  # the kernel's word for: closed, and there were bytes that nobody had read
                self._was_request_read = False
                portion = b""
            except OSError:
                portion = b""
            if not portion:
                self._loop.remove_reader(self._socket)
                self._step_later(SILENT_EXIT_S, self._kill)
                return
            self._reader.feed(portion)
            for frame in self._reader.frames():
                self._hear(self._decoder.decode(frame))
            if len(portion) < 1 << 18:
                return

    def _hear(self, message: ToParent) -> None:
        run = self._run
        if isinstance(message, Ready):
            self._is_ready = True
            self._pool.child_is_ready()
            if run is not None and not self.give(run):
                self._run = run  # it is told when the process has been reaped
        elif isinstance(message, Unready):
            self._did_not_start(message.traceback)
        elif run is not None:
            self._run = None
            if self._next_look is not None:
                self._next_look.cancel()
            self.is_leaving |= message.is_last
            self._pool.child_is_free(self, message.resident_bytes)
            _settle(run, message)

    def _await_exit(self, process: subprocess.Popen[bytes]) -> None:
        """In a thread of its own. Waits without reaping, so that until then the process id is not given away."""
        if sys.platform == "linux":
            with contextlib.suppress(ChildProcessError):  # somebody waits for every child of this process
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:
            process.wait()
        try:
            self._loop.call_soon_threadsafe(self._exited)
        except RuntimeError:  # the event loop is closed
            process.wait()

    def _exited(self) -> None:
        assert self._process is not None  # noqa: S101
        self._read()  # an answer may have been sent just before
        if self._run is not None:
            self._signal(signal.SIGKILL)  # what the crashed job has started goes with it
        code = self._process.wait()
        for timer in (self._next_look, self._next_step):
            if timer is not None:
                timer.cancel()
        self._release()
        if not self._is_ready and not self._is_unwanted:
            self._did_not_start(f"The child process ended (exit code {code}) before it was ready.")
        reason: CauseOfDeath = "out_of_memory" if self._is_over_memory else "crashed"
        self._lost(ChildDied(code if code >= 0 else None, -code if code < 0 else None, reason))

    def _did_not_start(self, why: str) -> None:
        self.is_leaving = self._is_unwanted = True
        self._pool.child_did_not_start()
        run, self._run = self._run, None
        if run is not None:
            run.fail(ChildNotReady(why))

    def _release(self) -> None:
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        os.close(self._lifeline)

    def _lost(self, error: Exception | None) -> None:
        self.is_leaving = True
        self.gone.set()
        self._pool.child_is_gone(self)
        run, self._run = self._run, None
        if run is None or error is None:
            return
        # A child that was dead before it had read the request has not begun the job: it may begin elsewhere, once.
        if self._was_request_read or self._is_unwanted or not self._pool.may_move(run):
            run.fail(error)


def _settle(run: ChildRun, message: Answer | Raised) -> None:
    if isinstance(message, Answer):
        run.succeed(message.payload)
    elif message.is_out_of_memory:
        run.fail(ChildDied(None, None, "out_of_memory", message.traceback))
    else:
        run.fail(HandlerRaised(message.type_name, message.traceback))
