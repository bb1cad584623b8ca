"""Start of a foreground parent: this process becomes the parent, and its code goes on in a child."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from . import foreground_parent
from .foreground_parent import Plan

NOT_FORKED = -1


class ForegroundChild(NamedTuple):
    """The child's id, and the descriptor of its end of the pair of sockets."""

    id: str
    descriptor: int


def start_foreground_child(
    command: Sequence[str],  # starts the child again; gets `ID:DESCRIPTOR` as its last argument
    recovery: Sequence[str],
    *,
    grace_s: float,
    unwind_s: float,
    is_burst: bool,
    log_format: str,
) -> ForegroundChild:
    """Return in a child of this process, which itself becomes the parent (`foreground_parent.py`) and keeps its pid.

    The first child is a fork, because a new interpreter would have to import everything again. The parent gets rid of
    all that it has imported by an exec. A process with threads, or on a system where a fork without exec is not safe,
    does not fork: the parent starts the child by the command.
    """
    ours, theirs = socket.socketpair()
    descriptors = ours.detach(), theirs.detach()
    child_id = secrets.token_hex(16)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    former = signal.pthread_sigmask(signal.SIG_BLOCK, foreground_parent.HANDLED)
    pid = os.fork() if _can_fork() else NOT_FORKED
    if pid != 0:
        running = max(0, pid)
        _become_parent(
            Plan(running, child_id, *descriptors, grace_s, unwind_s, is_burst, log_format, recovery, command)
        )
    os.close(descriptors[0])
    signal.pthread_sigmask(signal.SIG_SETMASK, former)
    return ForegroundChild(child_id, descriptors[1])


def _can_fork() -> bool:
    return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1


def _become_parent(plan: Plan) -> NoReturn:
    for descriptor in (plan.ours, plan.theirs):
        os.set_inheritable(descriptor, True)
    program = [sys.executable, "-I", "-S", foreground_parent.__file__, *plan.arguments()]
    os.execv(sys.executable, program)  # noqa: S606 -- a command of this program
