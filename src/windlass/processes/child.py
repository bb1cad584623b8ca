"""Main program of a child process: loads its target once, then executes requests one by one in its main thread.

    python -m windlass.processes.child TARGET SOCKET PARENT_PIPE

TARGET is `module:attribute`. If the attribute has a method `child_handler()`, that method returns the handler;
otherwise the attribute itself is called without arguments and returns the handler. A handler takes the bytes of a
request and returns the bytes of the answer. It should not catch MemoryError or unknown exceptions: the child reports
both, a MemoryError as an exceeded memory cap.
"""

from __future__ import annotations

import contextlib
import contextvars
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

from .frames import (
    AnswerMessage,
    ChildReadyMessage,
    FrameReader,
    HelloMessage,
    LoadFailedMessage,
    RaisedMessage,
    RequestMessage,
    ToChild,
    pack,
)
from .memory import OwnMemory

with contextlib.suppress(ImportError):  # not on Windows (windlass.processes.posix)
    import fcntl

Handler = Callable[[bytes], bytes]


class Terminated(BaseException):
    """Raised once in the code of a job on SIGTERM, so that it can clean up. SIGKILL follows if it takes too long."""


class Stage(Enum):
    WAITING = "waiting"  # for its target or a request: it can end without losing anything
    RUNNING = "running"
    BETWEEN = "between"  # an answer has still to be sent


def load_handler(target: str) -> Handler:
    module_name, _, path = target.partition(":")
    loaded: Any = importlib.import_module(module_name)
    for name in path.split("."):
        loaded = getattr(loaded, name)
    handler = loaded.child_handler() if hasattr(loaded, "child_handler") else loaded()
    if not callable(handler):
        raise TypeError(
            f"{target} made {handler!r} instead of a handler: it must return a function from bytes to bytes."
        )
    return handler  # type: ignore[no-any-return]


HelloHook = Callable[[HelloMessage], None]  # called before the target is loaded


def _ignore(_hello: HelloMessage) -> None:
    pass


class RequestLoop:
    """The child's side of the protocol: receives requests, runs the handler and sends the answers."""

    def __init__(self, target: str, connection: socket.socket, on_hello: HelloHook = _ignore) -> None:
        self._target = target
        self._connection = connection
        self._on_hello = on_hello
        self._messages = self._receive()
        self._stage = Stage.WAITING
        self._is_ending = False
        self._memory = OwnMemory()

    def serve(self) -> None:
        signal.signal(signal.SIGTERM, self._on_terminate)
        # An empty handler instead of SIG_IGN, which programs started by a job would inherit.
        signal.signal(signal.SIGINT, lambda *_: None)
        handler = self._prepare()
        self._send(pack(ChildReadyMessage()))
        for request in self._messages:
            if isinstance(request, RequestMessage):
                self._send(self._reply(handler, request))
            if self._is_ending:
                return
            self._stage = Stage.WAITING

    def _prepare(self) -> Handler:
        try:
            hello = next(self._messages)
            if isinstance(hello, HelloMessage):
                sys.path[:] = hello.search_path
                self._on_hello(hello)
            return load_handler(self._target)
        except BaseException as error:
            self._send(pack(LoadFailedMessage("".join(traceback.format_exception(error)))))
            raise SystemExit(1) from None

    def _reply(self, handler: Handler, request: RequestMessage) -> bytes:
        try:
            return self._perform(handler, request)
        except Terminated as late:  # raised after the handler had returned
            return self._raised_message(late)
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # a job may have closed or replaced the stream
                    stream.flush()

    def _perform(self, handler: Handler, request: RequestMessage) -> bytes:
        try:
            self._stage = Stage.RUNNING
            with self._memory.capped(request.memory_bytes):
                payload = contextvars.copy_context().run(handler, request.payload)
            self._stage = Stage.BETWEEN
            if not isinstance(payload, bytes):
                raise TypeError(f"The handler returned {type(payload).__name__}; it must return bytes.")
            return pack(AnswerMessage(payload, self._memory.resident_bytes(), self._is_ending))
        except BaseException as error:
            self._stage = Stage.BETWEEN
            # Memory allocated by a failed job may never be freed, so the process is not used again.
            self._is_ending |= isinstance(error, MemoryError)
            return self._raised_message(error)

    def _raised_message(self, error: BaseException) -> bytes:
        text = "".join(traceback.format_exception(error))
        is_out_of_memory = isinstance(error, MemoryError)  # libraries define subclasses
        resident_bytes = self._memory.resident_bytes()
        return pack(RaisedMessage(type(error).__name__, text, is_out_of_memory, resident_bytes, self._is_ending))

    def _on_terminate(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_ending:
            return
        self._is_ending = True
        if self._stage is Stage.RUNNING:
            raise Terminated
        if self._stage is Stage.WAITING:
            raise SystemExit(0)

    def _send(self, frame: bytes) -> None:
        try:
            self._connection.sendall(frame)
        except OSError:
            raise SystemExit(0) from None  # the parent has closed the socket

    def _receive(self) -> Iterator[ToChild]:
        reader = FrameReader()
        decoder = msgspec.msgpack.Decoder(ToChild)
        while portion := self._connection.recv(1 << 18):
            reader.feed(portion)
            for frame in reader.frames():
                yield decoder.decode(frame)


def end_with_parent(parent_pipe: int) -> None:
    """End this process and its children as soon as the parent, which holds the other end of the pipe, has ended.

    On Linux the kernel sends SIGKILL to the whole process group when the pipe is closed, even while a call into C
    blocks every Python thread. (PR_SET_PDEATHSIG would end the child but not its children, and would end it together
    with the thread that created it.) On other systems a thread reads the pipe.
    """
    if sys.platform == "linux":
        fcntl.fcntl(parent_pipe, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(parent_pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(parent_pipe, fcntl.F_SETFL, fcntl.fcntl(parent_pipe, fcntl.F_GETFL) | os.O_ASYNC)
    threading.Thread(target=_end_on_close, args=(parent_pipe,), name="windlass-parent-pipe", daemon=True).start()


def _end_on_close(parent_pipe: int) -> None:
    os.read(parent_pipe, 1)
    os.killpg(0, signal.SIGKILL)


def main(on_hello: HelloHook = _ignore) -> None:
    target, connection_fd, parent_pipe = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # Programs started by a job must not keep these descriptors open when this process has ended.
    os.set_inheritable(connection_fd, False)
    os.set_inheritable(parent_pipe, False)
    end_with_parent(parent_pipe)
    with socket.socket(fileno=connection_fd) as connection:
        RequestLoop(target, connection, on_hello).serve()


if __name__ == "__main__":
    # Imported by name, not run as __main__: a job that imports Terminated must get the class that is raised.
    from .child import main as main_by_name

    main_by_name()
