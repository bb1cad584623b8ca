"""One child process from the parent's side: start, send one request at a time, stop, reap.

`pool.py` decides which child gets which request, and whether a child is reused after a job.
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

from .frames import (
    AnswerMessage,
    ChildReadyMessage,
    FrameReader,
    HelloMessage,
    LoadFailedMessage,
    RaisedMessage,
    RequestMessage,
    ToParent,
    pack,
)
from .memory import used_bytes

MEMORY_CHECK_S = 0.1  # interval between checks of a capped job's memory
SILENT_EXIT_S = 1.0  # time that a child which closed its socket has to end by itself


DeathReason = Literal["crashed", "out_of_memory"]


class ChildDied(Exception):
    """The process ended, or had to be killed, before it answered."""

    def __init__(
        self,
        exit_code: int | None,
        signal_number: int | None,
        reason: DeathReason,
        detail: str = "",
    ) -> None:
        self.exit_code = exit_code
        self.signal = signal_number
        self.reason = reason
        self.detail = detail
        super().__init__(f"The child process {self._sentence()}{detail and ': '}{detail}")

    def _sentence(self) -> str:
        if self.reason == "out_of_memory":
            return "used more memory than the job is allowed"
        if self.signal is None:
            return f"ended with exit code {self.exit_code} during a job"
        return f"was ended by signal {self.signal} ({signal.strsignal(self.signal)})"


class ChildNotReady(Exception):
    """The target could not be loaded in a child process; the message has the child's traceback."""


class HandlerRaised(Exception):
    """The handler raised an exception (type name and traceback). The child continues."""

    def __init__(self, type_name: str, traceback: str) -> None:
        self.type = type_name
        self.traceback = traceback
        super().__init__(traceback)


class ChildRun:
    """One request in progress. `future` ends with the answer, or with ChildDied, ChildNotReady or HandlerRaised."""

    __slots__ = ("child", "frame", "future", "memory_bytes", "on_begin", "was_retried")

    def __init__(
        self,
        future: asyncio.Future[bytes],
        request: bytes,
        memory_bytes: int,
        on_begin: Callable[[], None] = lambda: None,  # called when a child that is ready gets the request
    ) -> None:
        self.future = future
        self.frame = pack(RequestMessage(request, memory_bytes))
        self.memory_bytes = memory_bytes
        self.on_begin = on_begin
        self.child: ChildProcess | None = None
        self.was_retried = False

    def terminate(self) -> None:
        """Raise Terminated in the job's code (SIGTERM). It may clean up and answer; the process is not used again."""
        if self.child is not None:
            self.child.stop(self, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and its process group at once (SIGKILL)."""
        if self.child is not None:
            self.child.stop(self, signal.SIGKILL)

    def succeed(self, answer: bytes) -> None:
        if not self.future.done():
            self.future.set_result(answer)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class PoolEvents(Protocol):
    """Interface of the pool that a child reports to."""

    logging: Callable[[], tuple[str, int] | None]

    def child_is_ready(self) -> None: ...

    def child_is_free(self, child: ChildProcess, resident_bytes: int) -> None: ...

    def child_did_not_start(self) -> None: ...

    def child_is_gone(self, child: ChildProcess) -> None: ...

    def retry_elsewhere(self, run: ChildRun) -> bool: ...


class ChildProcess:
    """One child process, bound to one event loop. It is created for its first run, and reports to its pool when it is
    free and when it has ended."""

    def __init__(self, command: Sequence[str], pool: PoolEvents, first: ChildRun) -> None:
        self.jobs = 0
        self.is_closing = False
        self.gone = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._command = command
        self._pool = pool
        self._run: ChildRun | None = first
        first.child = self
        self._is_ready = False
        self._is_unwanted = False  # stopped before it was ready, so a failed start is not an error
        self._is_over_memory = False
        self._was_request_read = True
        self._unsent = memoryview(b"")
        self._reader = FrameReader()
        self._decoder = msgspec.msgpack.Decoder(ToParent)
        self._process: subprocess.Popen[bytes] | None = None
        self._next_check: asyncio.TimerHandle | None = None
        self._next_step: asyncio.TimerHandle | None = None  # of the shutdown

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def spawn(self) -> None:
        """Start the process on the event loop's thread. With vfork this takes one or two milliseconds."""
        if self.gone.is_set():
            return
        self._socket, theirs = socket.socketpair()
        parent_pipe, self._parent_pipe = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603
                [*self._command, str(theirs.fileno()), str(parent_pipe)],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), parent_pipe),
                # Ctrl-C in a terminal reaches only the worker, and the job's children can be killed as a group.
                start_new_session=True,
            )
        except OSError as error:
            self._release()
            self._did_not_start(f"The child process could not be started: {error}")
            self._handle_loss(None)
            return
        finally:
            theirs.close()
            os.close(parent_pipe)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._read)
        threading.Thread(target=self._await_exit, args=(self._process,), daemon=True).start()
        self._write(pack(HelloMessage(sys.path, self._pool.logging())))

    def assign(self, run: ChildRun) -> bool:
        """Send a run to the child. False: the child has ended, and the run can go to another child."""
        self._run, run.child = run, self
        if not self._write(run.frame):
            self._run = run.child = None
            self.is_closing = True  # it has ended and has only to be reaped
            return False
        self.jobs += 1
        run.on_begin()
        if run.memory_bytes:
            self._check_memory(run, used_bytes(self._process.pid) + run.memory_bytes)  # type: ignore[union-attr]
        return True

    def stop(self, run: ChildRun, number: signal.Signals) -> None:
        if run is not self._run:
            return
        self.is_closing = True  # a late signal must not reach another job
        if number is signal.SIGTERM and self._is_ready:
            self._signal(number)
        else:
            self._kill()

    def shut_down(self, grace_s: float) -> None:
        """Close the child's input, which ends an idle child at once; then send SIGTERM, then SIGKILL."""
        self.is_closing = True
        if not self._is_ready:
            self._kill()
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._step_later(grace_s, self._terminate, grace_s)

    def _terminate(self, grace_s: float) -> None:
        self._signal(signal.SIGTERM)
        self._step_later(grace_s, self._kill)

    def _kill(self) -> None:
        self.is_closing = self._is_unwanted = True
        if self._process is None and not self.gone.is_set():
            self._handle_loss(ChildDied(None, signal.SIGKILL, "crashed", "it had not been started"))
        self._signal(signal.SIGKILL)

    def _step_later(self, delay_s: float, step: Callable[..., None], *arguments: object) -> None:
        if self._next_step is not None:
            self._next_step.cancel()
        self._next_step = self._loop.call_later(delay_s, step, *arguments)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        # The process is reaped on this thread only, so its pid cannot belong to another process yet.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            (os.killpg if number is signal.SIGKILL else os.kill)(self._process.pid, number)

    def _check_memory(self, run: ChildRun, most_bytes: int) -> None:
        if run is not self._run:
            return
        if used_bytes(self._process.pid) > most_bytes:  # type: ignore[union-attr]
            self._is_over_memory = True
            self._kill()
        else:
            self._next_check = self._loop.call_later(MEMORY_CHECK_S, self._check_memory, run, most_bytes)

    def _write(self, frame: bytes | memoryview) -> bool:
        """Send a frame. The part that does not fit into the socket is sent when the socket becomes writable."""
        try:
            sent = self._socket.send(frame)
        except BlockingIOError:
            sent = 0
        except OSError:
            return False
        self._unsent = memoryview(frame)[sent:]  # a view, so that a large request is not copied at each step
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
            except ConnectionResetError:  # the child closed the socket without reading all bytes
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
                self._handle_message(self._decoder.decode(frame))
            if len(portion) < 1 << 18:
                return

    def _handle_message(self, message: ToParent) -> None:
        run = self._run
        if isinstance(message, ChildReadyMessage):
            self._is_ready = True
            self._pool.child_is_ready()
            if run is not None and not self.assign(run):
                self._run = run  # it fails, or is retried, when the process has been reaped
        elif isinstance(message, LoadFailedMessage):
            self._did_not_start(message.traceback)
        elif run is not None:
            self._run = None
            if self._next_check is not None:
                self._next_check.cancel()
            self.is_closing |= message.is_last
            self._pool.child_is_free(self, message.resident_bytes)
            _resolve_run(run, message)

    def _await_exit(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the exit in a separate thread, without reaping, so that the process id is not reused until then."""
        if sys.platform == "linux":
            with contextlib.suppress(ChildProcessError):  # other code of this process has reaped the child
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
            self._signal(signal.SIGKILL)  # ends the processes that the crashed job has started
        code = self._process.wait()
        for timer in (self._next_check, self._next_step):
            if timer is not None:
                timer.cancel()
        self._release()
        if not self._is_ready and not self._is_unwanted:
            self._did_not_start(f"The child process ended (exit code {code}) before it was ready.")
        reason: DeathReason = "out_of_memory" if self._is_over_memory else "crashed"
        self._handle_loss(ChildDied(code if code >= 0 else None, -code if code < 0 else None, reason))

    def _did_not_start(self, why: str) -> None:
        self.is_closing = self._is_unwanted = True
        self._pool.child_did_not_start()
        run, self._run = self._run, None
        if run is not None:
            run.fail(ChildNotReady(why))

    def _release(self) -> None:
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        os.close(self._parent_pipe)

    def _handle_loss(self, error: Exception | None) -> None:
        self.is_closing = True
        self.gone.set()
        self._pool.child_is_gone(self)
        run, self._run = self._run, None
        if run is None or error is None:
            return
        # A child that died before it read the request has not started the job, which may start elsewhere, once.
        if self._was_request_read or self._is_unwanted or not self._pool.retry_elsewhere(run):
            run.fail(error)


def _resolve_run(run: ChildRun, message: AnswerMessage | RaisedMessage) -> None:
    if isinstance(message, AnswerMessage):
        run.succeed(message.payload)
    elif message.is_out_of_memory:
        run.fail(ChildDied(None, None, "out_of_memory", message.traceback))
    else:
        run.fail(HandlerRaised(message.type_name, message.traceback))
