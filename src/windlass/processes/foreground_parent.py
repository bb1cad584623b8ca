"""Parent of one process in the foreground: restarts it when it dies, and starts a program that cleans up after it.

`foreground_start.py` turns the first process of a program into this parent, by exec. It runs as a script in a bare
interpreter and imports only the standard library and a few modules of this package, so it stays small and loads no
code of an application. It follows `supervision_policy.py`, as `supervisor.py` and `blocking_supervisor.py` do, but
differs in three points: its child stays in the process group of the terminal, it adopts a child across an exec, and it
reaps every process, because it may be the first process of a container.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

if not __package__:  # run as a script: make the package importable, without the modules that its __init__.py imports
    _package = sys.modules["windlass"] = ModuleType("windlass")
    _package.__path__ = [os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))]

from windlass.processes.supervision_policy import (
    RESTART_PAUSES,
    STEADY_S,
    RestartBackoff,
    StopOrder,
    describe_exit,
    graceful_stop,
)

STOPS = (signal.SIGTERM, signal.SIGINT)
if hasattr(signal, "SIGHUP"):  # on Windows this module is only imported (windlass.processes.posix)
    ENDS = (signal.SIGHUP, signal.SIGQUIT)  # passed on; they end a child that does not handle them
    PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
    # `foreground_start` blocks them before the exec, so none of them is lost before the handlers are there.
    HANDLED = (*STOPS, *ENDS, *PASSED_ON, signal.SIGTSTP, signal.SIGCHLD)
LOADED, READY = b'{"type":"LoadedMessage"', b'{"type":"ReadyMessage"'  # beginnings of the child's messages
PORTION_BYTES = 1 << 16


class Plan(NamedTuple):
    """Arguments of the program.

    The recovery is started with the child's pid, its exit code and whether it was killed on purpose. It reads the
    child's id and its LoadedMessage from stdin.
    """

    pid: int  # of the running child; 0 if it is still to be started
    child_id: str
    ours: int  # ends of the pair of sockets
    theirs: int
    grace_s: float
    unwind_s: float  # beyond the grace: the time that the child needs to close its connections
    is_burst: bool  # every exit of the child itself is final
    log_format: str
    recovery: Sequence[str]
    command: Sequence[str]

    def arguments(self) -> list[str]:
        numbers = (self.pid, self.child_id, self.ours, self.theirs, self.grace_s, self.unwind_s, int(self.is_burst))
        return [*map(str, numbers), self.log_format, str(len(self.recovery)), *self.recovery, *self.command]


def read_plan(arguments: Sequence[str]) -> Plan:
    pid, child_id, ours, theirs, grace_s, unwind_s, is_burst, log_format, count, *words = arguments
    recovery, command = words[: int(count)], words[int(count) :]
    times = float(grace_s), float(unwind_s)
    return Plan(int(pid), child_id, int(ours), int(theirs), *times, is_burst == "1", log_format, recovery, command)


class ForegroundParent:
    """Parent of one child. `run` returns the exit code of the program."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._policy = graceful_stop(plan.grace_s, plan.unwind_s)
        self._backoff = RestartBackoff(RESTART_PAUSES, STEADY_S)
        self._pid = plan.pid
        self._child_id = plan.child_id
        self._started_at_s = time.monotonic()
        self._unread = b""
        self._loaded = b""
        self._is_ready = False
        self._was_killed = False  # by this parent
        self._stops = 0  # requests to stop
        self._ends: set[int] = set()  # signals passed on that may end the child
        self._exit_code: int | None = None
        self._restart_at_s: float | None = None if plan.pid else 0.0
        self._kill_at_s: float | None = None  # the child, or the recoveries if there is no child
        self._recoveries: set[int] = set()
        self._poll = select.poll()

    def run(self) -> int:
        os.set_blocking(self._plan.ours, False)
        for descriptor in (self._plan.ours, self._plan.theirs):
            os.set_inheritable(descriptor, False)
        self._poll.register(self._plan.ours, select.POLLIN)
        self._poll.register(self._catch_signals(), select.POLLIN)
        self._reap()  # it may have ended before
        while self._exit_code is None or self._recoveries:
            self._act_in_time()
            for descriptor, _ in self._poll.poll(self._patience_ms()):
                if descriptor == self._plan.ours:
                    self._receive()
                else:
                    for number in set(os.read(descriptor, PORTION_BYTES)):
                        self._handle(number)
        return self._exit_code

    def _catch_signals(self) -> int:
        """Return the descriptor from which the numbers of signals are read."""
        readable, writable = os.pipe()
        os.set_blocking(writable, False)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        for number in HANDLED:
            if number in STOPS or signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
                signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        return readable

    # Signals

    def _handle(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif number in STOPS:
            self._stop()
        elif number in ENDS:
            self._ends.add(number)
            self._signal(number)
            if not self._pid:
                self._end(-number)
        elif number == signal.SIGTSTP:
            self._signal(number)
            os.kill(os.getpid(), signal.SIGSTOP)
        elif self._loaded or number == signal.SIGCONT:  # before that, SIGUSR1 would end the child
            self._signal(number)

    def _stop(self) -> None:
        """Take the next step of a stop: by a message, because the terminal may have signalled the child as well."""
        self._stops += 1
        step = self._policy.step(self._stops)
        if step.order is StopOrder.KILL:
            self._kill()
        elif self._loaded:
            with contextlib.suppress(OSError):
                os.write(self._plan.ours, step.order.value + b"\n")
        else:
            self._signal(signal.SIGTERM)  # it does not read messages yet, and holds no work
        if self._pid:
            self._kill_at_s = time.monotonic() + step.patience_s
        else:
            self._end(0)

    def _kill(self) -> None:
        self._was_killed = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self._pid:  # not reaped yet, so the pid is the child's
            os.kill(self._pid, number)

    # Messages and times

    def _receive(self) -> None:
        """Read the child's messages. Only the kind of two of them matters here."""
        with contextlib.suppress(BlockingIOError):
            while received := os.read(self._plan.ours, PORTION_BYTES):
                *lines, self._unread = (self._unread + received).split(b"\n")
                for line in lines:
                    self._loaded = line if line.startswith(LOADED) else self._loaded
                    self._is_ready |= line.startswith(READY)

    def _patience_ms(self) -> float | None:
        times_s = [moment for moment in (self._restart_at_s, self._kill_at_s) if moment is not None]
        return max(0.0, min(times_s) - time.monotonic()) * 1000 + 1 if times_s else None

    def _act_in_time(self) -> None:
        now_s = time.monotonic()
        if self._restart_at_s is not None and now_s >= self._restart_at_s:
            self._restart_at_s = None
            self._start()
        if self._kill_at_s is not None and now_s >= self._kill_at_s:
            self._kill_at_s = None
            if self._pid:
                self._log("error", f"Worker process {self._pid} does not end; killing it.")
                self._kill()
            for pid in self._recoveries if self._exit_code is not None else ():
                os.kill(pid, signal.SIGKILL)

    # Child

    def _start(self) -> None:
        """Start the child again, as a new process that gets a new id."""
        self._child_id = os.urandom(16).hex()
        self._unread, self._loaded, self._is_ready, self._was_killed = b"", b"", False, False
        self._started_at_s = time.monotonic()
        command = [*self._plan.command, f"{self._child_id}:{self._plan.theirs}"]
        os.set_inheritable(self._plan.theirs, True)
        try:
            self._pid = os.posix_spawn(command[0], command, os.environ)
        except OSError as error:
            self._rest(0.0, f"Could not start a worker process ({error})")
        finally:
            os.set_inheritable(self._plan.theirs, False)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, code = ended[0], os.waitstatus_to_exitcode(ended[1])
                if pid == self._pid:
                    self._child_ended(code)
                self._recoveries.discard(pid)

    def _child_ended(self, code: int) -> None:
        self._receive()
        pid, self._pid = self._pid, 0
        was_ended = -code in self._ends
        self._was_killed |= was_ended
        if code and self._is_ready:
            self._recover(pid, code)
        was_its_decision = code >= 0 and (code == 0 or not self._is_ready or self._plan.is_burst)
        if self._stops or was_ended or was_its_decision:
            self._end(code)
        else:
            ran_s = time.monotonic() - self._started_at_s
            self._rest(ran_s, f"Worker process {pid} {describe_exit(code)}")

    def _end(self, code: int) -> None:
        """End with the child's exit code, as a shell shows it, when the recoveries have ended.

        A further request to stop ends them.
        """
        if self._exit_code is None:
            self._exit_code = code if code >= 0 else 128 - code
            self._kill_at_s = time.monotonic() + self._plan.unwind_s
        elif self._stops > 1:
            self._kill_at_s = 0.0
        self._restart_at_s = None

    def _rest(self, ran_s: float, ending: str) -> None:
        pause_s = self._backoff.pause_after(ran_s)
        self._restart_at_s = time.monotonic() + pause_s
        self._log("error", f"{ending}; restarting in {pause_s:g} s.")

    def _recover(self, pid: int, code: int) -> None:
        """Start the recovery in a process group of its own, which Ctrl-C does not reach."""
        readable, writable = os.pipe()
        command = [*self._plan.recovery, str(pid), str(code), str(int(self._was_killed))]
        try:
            to_stdin = [(os.POSIX_SPAWN_DUP2, readable, 0)]
            started = os.posix_spawn(command[0], command, os.environ, file_actions=to_stdin, setpgroup=0)
            self._recoveries.add(started)
            os.close(readable)
            readable = -1
            with open(writable, "wb", closefd=False) as stdin:
                stdin.write(self._child_id.encode() + b"\n" + self._loaded + b"\n")
        except OSError as error:
            words = f"Could not recover the jobs of worker process {pid} ({error})"
            self._log("error", f"{words}. They run again when their leases have expired.")
        finally:
            os.close(writable)
            if readable >= 0:
                os.close(readable)

    def _log(self, level: str, message: str) -> None:
        """Write a log line in the format of the child's. `logging` would cost more memory than the rest."""
        now_s = time.time()
        millis, name = int(now_s * 1000) % 1000, "windlass.supervisor"
        if self._plan.log_format == "json":
            at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now_s))}.{millis:03d}+00:00"
            text = message.replace("\\", "\\\\").replace('"', '\\"')
            fields = {"at": at, "level": level, "logger": name, "message": text}
            quoted = ",".join(f'"{field}":"{value}"' for field, value in fields.items())
            line = f'{{{quoted},"pid":{os.getpid()}}}'
        else:
            at = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now_s))},{millis:03d}"
            line = f"{at} {level.upper()} {name}: {message}"
        with contextlib.suppress(OSError):  # stderr may be a terminal that is gone
            os.write(2, line.encode(errors="backslashreplace") + b"\n")


def main(arguments: Sequence[str]) -> None:
    """Run the parent until its child has ended for good."""
    sys.exit(ForegroundParent(read_plan(arguments)).run())


if __name__ == "__main__":
    main(sys.argv[1:])
