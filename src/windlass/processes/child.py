"""A child process: loads its target once, then performs one request after the other in its main thread.

    python -m windlass.processes.child TARGET SOCKET LIFELINE

TARGET is `module:attribute`. An attribute with a method `child_handler()` is asked for the handler; any other must be
callable and is called for it, without arguments. A handler takes the bytes of a request and returns the bytes of the
answer. It lets MemoryError and what it does not know pass: both are reported, the first as the cap's doing.
"""

from __future__ import annotations

import contextlib
import contextvars
import fcntl
import importlib
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from enum import Enum
from types import FrameType
from typing import Any

import msgspec

from .frames import Answer, FrameReader, Hello, Raised, Ready, Request, ToChild, Unready, pack
from .memory import OwnMemory

Handler = Callable[[bytes], bytes]


class Terminated(BaseException):
    """Raised in the code of a job by SIGTERM, once, so that it can clean up. SIGKILL follows when it takes too long."""


class Stage(Enum):
    WAITING = "waiting"  # for a target or a request: there is nothing to lose
    RUNNING = "running"
    BETWEEN = "between"  # there is an answer to be sent


def load(target: str) -> Handler:
    module_name, _, path = target.partition(":")
    loaded: Any = importlib.import_module(module_name)
    for name in path.split("."):
        loaded = getattr(loaded, name)
    handler = loaded.child_handler() if hasattr(loaded, "child_handler") else loaded()
    if not callable(handler):
        raise TypeError(f"{target} made {handler!r} instead of a handler: a function from bytes to bytes is wanted.")
    return handler  # type: ignore[no-any-return]


Greet = Callable[[Hello], None]  # called before the target is loaded


def _ignore(_hello: Hello) -> None:
    """Leave the process as it is."""


class Child:
    """The process's side of the conversation."""

    def __init__(self, target: str, connection: socket.socket, greet: Greet = _ignore) -> None:
        self._target = target
        self._connection = connection
        self._greet = greet
        self._messages = self._receive()
        self._stage = Stage.WAITING
        self._was_told_to_end = False
        self._memory = OwnMemory()

    def serve(self) -> None:
        signal.signal(signal.SIGTERM, self._on_terminate)
        # A handler that does nothing, not SIG_IGN, which programs started by a job would inherit.
        signal.signal(signal.SIGINT, lambda *_: None)
        handler = self._prepare()
        self._send(pack(Ready()))
        for request in self._messages:
            if isinstance(request, Request):
                self._send(self._reply(handler, request))
            if self._was_told_to_end:
                return
            self._stage = Stage.WAITING

    def _prepare(self) -> Handler:
        try:
            hello = next(self._messages)
            if isinstance(hello, Hello):
                sys.path[:] = hello.search_path
                self._greet(hello)
            return load(self._target)
        except BaseException as error:
            self._send(pack(Unready("".join(traceback.format_exception(error)))))
            raise SystemExit(1) from None

    def _reply(self, handler: Handler, request: Request) -> bytes:
        try:
            return self._perform(handler, request)
        except Terminated as late:  # raised while the end of the job was being noted
            return self._raised(late)
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # a job may have closed or replaced it
                    stream.flush()

    def _perform(self, handler: Handler, request: Request) -> bytes:
        try:
            self._stage = Stage.RUNNING
            with self._memory.capped(request.memory_bytes):
                payload = contextvars.copy_context().run(handler, request.payload)
            self._stage = Stage.BETWEEN
            if not isinstance(payload, bytes):
                raise TypeError(f"The handler returned {type(payload).__name__}; bytes are wanted.")
            return pack(Answer(payload, self._memory.resident_bytes(), self._was_told_to_end))
        except BaseException as error:
            self._stage = Stage.BETWEEN
            # What was allocated for nothing may never be given back: such a process is not used again.
            self._was_told_to_end |= isinstance(error, MemoryError)
            return self._raised(error)

    def _raised(self, error: BaseException) -> bytes:
        text = "".join(traceback.format_exception(error))
        is_out_of_memory = isinstance(error, MemoryError)  # libraries have classes of their own for it
        resident_bytes = self._memory.resident_bytes()
        return pack(Raised(type(error).__name__, text, is_out_of_memory, resident_bytes, self._was_told_to_end))

    def _on_terminate(self, _number: int, _frame: FrameType | None) -> None:
        if self._was_told_to_end:
            return
        self._was_told_to_end = True
        if self._stage is Stage.RUNNING:
            raise Terminated
        if self._stage is Stage.WAITING:
            raise SystemExit(0)

    def _send(self, frame: bytes) -> None:
        try:
            self._connection.sendall(frame)
        except OSError:
            raise SystemExit(0) from None  # the parent does not listen any more

    def _receive(self) -> Iterator[ToChild]:
        reader = FrameReader()
        decoder = msgspec.msgpack.Decoder(ToChild)
        while portion := self._connection.recv(1 << 18):
            reader.feed(portion)
            for frame in reader.frames():
                yield decoder.decode(frame)


def hang_on(lifeline: int) -> None:
    """Ends this process and what it started as soon as the parent, which holds the other end of the pipe, is gone.

    On Linux by the kernel itself, which sends SIGKILL to the whole process group when the pipe is closed, even while a
    call into C keeps every Python thread from running. (PR_SET_PDEATHSIG would end the child but not what it started,
    and ends it with the thread that made it.) Elsewhere by a thread that reads the pipe.
    """
    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    threading.Thread(target=_end_with, args=(lifeline,), name="windlass-lifeline", daemon=True).start()


def _end_with(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


def main(greet: Greet = _ignore) -> None:
    target, connection_fd, lifeline = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # What a job starts must not hold these open when this process is gone.
    os.set_inheritable(connection_fd, False)
    os.set_inheritable(lifeline, False)
    hang_on(lifeline)
    with socket.socket(fileno=connection_fd) as connection:
        Child(target, connection, greet).serve()


if __name__ == "__main__":
    # By its own name: a job that imports Terminated must get the class that is raised.
    from .child import main as main_by_name

    main_by_name()
