"""Supervisor of several processes on an event loop: starts, watches, restarts and stops them.

The server (`windlass.server.prefork`) and the worker (`windlass.sdk.worker.supervision.supervisor`) derive from it.
`blocking_supervisor.py` does the same for one child without an event loop. Both follow `supervision_policy.py`.

Its processes notice the death of the supervisor by the end of their sockets, finish their work in progress and stop.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar

from windlass.pauses import Pauses

from .event_loop import handle_signals
from .supervised_process import SupervisedProcess
from .supervision_policy import RESTART_PAUSES, STEADY_S, RestartBackoff, StopOrder, StopPolicy, describe_exit

SIGNALS = (signal.SIGTERM, signal.SIGINT)
Process = TypeVar("Process", bound=SupervisedProcess)


class ExitVerdict(Enum):
    """Consequence of the exit of a process that was not stopped."""

    RESTART = "restart"  # after a pause
    HOLD = "hold"  # start no process before `restart_all`
    FINISH = "finish"  # start no process any more; the others end by themselves
    GIVE_UP = "give up"  # stop all processes, and return the exit code of this one


class Supervisor(ABC, Generic[Process]):
    """Parent of `wanted` processes. `run` returns the exit code.

    While no process is proven, only one is started, so that an error in settings or code is reported once.
    """

    def __init__(
        self,
        wanted: int,
        policy: StopPolicy,
        log: logging.Logger,
        noun: str,  # of a process, in log lines
        *,
        pauses: Pauses = RESTART_PAUSES,
        steady_s: float = STEADY_S,
    ) -> None:
        self.wanted = wanted
        self.processes: list[Process] = []
        self.was_ready = False  # some process was ready once
        self.is_ending = False  # no process is started any more
        self.stops = 0  # requests to stop
        self._policy = policy
        self._log = log
        self._noun = noun
        self._exit_code = 0
        self._is_held = False
        self._backoffs = defaultdict[int, RestartBackoff](lambda: RestartBackoff(pauses, steady_s))  # by number
        self._resting: dict[int, asyncio.TimerHandle] = {}  # numbers whose restart waits
        self._changed = asyncio.Event()
        self._background: set[asyncio.Task[Any]] = set()

    # What a use adds

    @abstractmethod
    def make_process(self, number: int) -> Process: ...

    @abstractmethod
    async def start_process(self, process: Process) -> None: ...

    @abstractmethod
    def receive(self, process: Process, line: bytes) -> None:
        """Handle a line of a process. A ValueError is logged."""

    def is_proven(self, process: Process) -> bool:
        """Return whether the process has come so far that others of its kind can start."""
        return process.is_ready

    def process_ended(self, process: Process, code: int) -> None:
        """Handle the end of a process, whether or not it was stopped."""

    def judge_exit(self, process: Process, code: int) -> ExitVerdict:
        """Return the consequence of the exit of a process that was not stopped."""
        return ExitVerdict.GIVE_UP if code and not self.was_ready else ExitVerdict.RESTART

    def usefulness(self, process: Process) -> tuple[int, ...]:
        """Return the sort key of surplus processes: the lowest are stopped."""
        return (-process.number,)

    async def close(self) -> None:
        """Release what the use has opened, after the last process has ended."""

    # Lifecycle

    async def run(self) -> int:
        """Run until `stop`, SIGTERM or SIGINT, or until a verdict ends it."""
        self._loop = asyncio.get_running_loop()
        handle_signals(SIGNALS, self.stop)
        try:
            while not self.is_ending or self.processes:
                await self._fill()
                await self._changed.wait()
                self._changed.clear()
        finally:
            await self._shut_down()
        return self._exit_code

    def stop(self) -> None:
        """Stop all processes. Each further call takes the next step of the policy at once."""
        self.is_ending = True
        self.stops += 1
        for process in self.processes:
            self._stop(process)
        self.wake()

    def scale(self, wanted: int) -> None:
        self.wanted = wanted
        self.wake()

    def restart_all(self) -> None:
        """Replace all processes, now and without pauses."""
        self._is_held = False
        self._backoffs.clear()
        for pause in self._resting.values():
            pause.cancel()
        self._resting.clear()
        for process in self.staying:
            self._stop(process)
        self.wake()

    @property
    def staying(self) -> list[Process]:
        return [process for process in self.processes if not process.is_stopping]

    def wake(self) -> None:
        """Make the supervisor look at its processes again."""
        self._changed.set()

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run work of a use until the last process has ended."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background_done)
        return task

    def _background_done(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("A part of the supervisor has ended unexpectedly. Restart this program.", exc_info=error)
            self.wake()

    async def _shut_down(self) -> None:
        for pause in self._resting.values():
            pause.cancel()
        tasks = list(self._background)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.close()
        for number in SIGNALS:
            self._loop.remove_signal_handler(number)

    # Starts

    async def _fill(self) -> None:
        """Start missing processes and stop surplus ones."""
        staying = self.staying
        for process in sorted(staying, key=self.usefulness)[: max(0, len(staying) - self.wanted)]:
            self._log.info("Stopping %s %d: it is no longer needed.", self._noun, process.pid)
            self._stop(process)
        for number in self._due_numbers(staying):
            if not self.is_ending:
                await self._start(number)

    def _due_numbers(self, staying: Sequence[Process]) -> list[int]:
        missing = self.wanted - len(staying)
        is_proven = any(self.is_proven(process) for process in staying)
        if self.is_ending or self._is_held or missing <= 0 or (staying and not is_proven):
            return []
        taken = {process.number for process in self.processes}
        free = itertools.islice((number for number in itertools.count(1) if number not in taken), missing)
        due = [number for number in free if number not in self._resting]
        return due if is_proven else due[:1]

    async def _start(self, number: int) -> None:
        process = self.make_process(number)
        try:
            await self.start_process(process)
        except OSError as error:
            self._rest(number, 0.0, f"Could not start a {self._noun} ({error})")
            return
        self.processes.append(process)
        if self.is_ending:
            self._stop(process)  # the request came while it started
        self.run_in_background(self._follow(process))

    def _rest(self, number: int, ran_s: float, ending: str) -> None:
        """Wait before the next start, longer with each quick exit in a row."""
        pause_s = self._backoffs[number].pause_after(ran_s)
        self._resting[number] = self._loop.call_later(pause_s, self._end_rest, number)
        self._log.error("%s; restarting in %g s.", ending, pause_s)

    def _end_rest(self, number: int) -> None:
        del self._resting[number]
        self.wake()

    # Ends

    async def _follow(self, process: Process) -> None:
        code = await process.follow(lambda line: self._receive(process, line))
        self.processes.remove(process)
        self.process_ended(process, code)
        if not self.is_ending and not process.is_stopping:
            self._apply(self.judge_exit(process, code), process, code)
        self.wake()

    def _receive(self, process: Process, line: bytes) -> None:
        try:
            self.receive(process, line)
        except ValueError as error:
            self._log.warning("Ignored a malformed message of %s %d: %s.", self._noun, process.pid, error)

    def _apply(self, verdict: ExitVerdict, process: Process, code: int) -> None:
        if verdict is ExitVerdict.RESTART:
            ending = f"{self._noun.capitalize()} {process.pid} {describe_exit(code)}"
            self._rest(process.number, time.monotonic() - process.started_at_s, ending)
        elif verdict is ExitVerdict.HOLD:
            self._is_held = True
        elif verdict is ExitVerdict.FINISH:
            self.is_ending = True
        else:
            self._exit_code = code if code > 0 else 1
            self.stop()

    def _stop(self, process: Process) -> None:
        step = self._policy.step(max(1, self.stops))
        process.send(step.order)
        if step.order is not StopOrder.KILL:
            self._loop.call_later(step.patience_s, self._kill_if_alive, process)

    def _kill_if_alive(self, process: Process) -> None:
        if process in self.processes:
            self._log.error("%s %d does not end; killing it.", self._noun.capitalize(), process.pid)
            process.send(StopOrder.KILL)
