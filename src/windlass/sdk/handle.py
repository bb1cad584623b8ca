"""Job handle: the result, events, state and actions of a job, for code outside of it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from windlass.core.durable import DurableState, Signal, SignalOutcome
from windlass.core.errors import AlreadyEnded, Refusal, WindlassError, WrongState
from windlass.core.explain.reasons import Explanation
from windlass.core.ids import format_id
from windlass.core.job import ENDS, Ending
from windlass.core.log import Logs
from windlass.core.text.humanize import humanize_duration

from .durations import Duration, duration_ms
from .failures import ResultGone, make_exception, refuse_event_loop
from .job_events import ENDED, Events, JobEvent
from .job_info import JobInfo, make_info
from .streams.reader import JobStream
from .tasks.codec import decode, encode

if TYPE_CHECKING:
    from .app import Windlass

__all__ = ["WAIT_MS", "Events", "JobEvent", "JobHandle"]

R_co = TypeVar("R_co", covariant=True)
WAIT_MS = 600_000  # an unlimited wait repeats its request after this time


class JobHandle(Generic[R_co]):
    """Handle of a job that was enqueued or looked up by its id."""

    __slots__ = ("__weakref__", "_app", "_id", "is_kept", "result_type", "status")

    def __init__(
        self, app: Windlass, job_id: bytes, status: str = "", result_type: Any = Any, is_kept: bool = True
    ) -> None:
        self._app = app
        self._id = job_id
        self.status = status  # the answer of the enqueue: queued, scheduled, waiting, existing, replaced, ended
        self.result_type = result_type
        self.is_kept = is_kept  # the result is stored for a while

    @property
    def id(self) -> str:
        return format_id(self._id)

    @property
    def app(self) -> Windlass:
        return self._app

    @property
    def id_bytes(self) -> bytes:
        return self._id

    # Result

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the end and return the result. Raises JobFailed, JobCancelled or TimeoutError.

        It blocks, so a running event loop refuses it: use `await job`, or `await job.aresult(timeout)`."""
        refuse_event_loop("job.result()", "await job` or `await job.aresult(timeout=…)")
        service = self._app.service
        for wait_ms in _waits(timeout):
            try:
                ending = service.result(self._id, wait_ms=wait_ms).wait()
            except AlreadyEnded as gone:
                return self._missing_result(gone)
            if ending is not None:
                return self._value(ending)
        try:
            explanation = service.explain(self._id).wait()
        except WindlassError:
            explanation = None
        raise self._timed_out(timeout, explanation)

    async def aresult(self, timeout: Duration | None = None) -> R_co:
        service = await self._app.aservice()
        for wait_ms in _waits(timeout):
            try:
                ending = await service.result(self._id, wait_ms=wait_ms)
            except AlreadyEnded as gone:
                return self._missing_result(gone)
            if ending is not None:
                return self._value(ending)
        try:
            explanation = await service.explain(self._id)
        except WindlassError:
            explanation = None
        raise self._timed_out(timeout, explanation)

    def _timed_out(self, timeout: Duration | None, explanation: Explanation | None) -> TimeoutError:
        """Make the error of a wait that is over. It says why the job has not ended, if that could be read."""
        line = f"Job {self.id} has not ended within {humanize_duration(duration_ms('timeout', timeout or 0))}"
        if explanation is None or explanation.state in ENDS:  # it has ended since
            return TimeoutError(f"{line}.")
        why = explanation.summary.removeprefix(f"The job is {explanation.state}: ")
        return TimeoutError(f"{line}: {why[0].lower()}{why[1:]}")

    def __await__(self) -> Generator[Any, None, R_co]:
        return self.aresult().__await__()

    def _missing_result(self, error: Refusal) -> R_co:
        """Return None, or raise ResultGone if a result was to be stored.

        Failed and cancelled jobs are stored for days, so a missing job has finished.
        """
        if self.is_kept:
            raise ResultGone(
                f"Job {self.id} has ended, and its result is no longer stored; see the option keep_result."
            ) from error
        return cast(R_co, None)

    def decode_ending(self, ending: Ending | Refusal | None) -> R_co:
        """Return the result from the engine's answer, or raise as `result` does."""
        if ending is None:
            raise TimeoutError(f"Job {self.id} has not ended in time.")
        return self._value(ending) if isinstance(ending, Ending) else self._missing_result(ending)

    def _value(self, ending: Ending) -> R_co:
        if ending.state.label != "finished":
            raise make_exception(self.id, ending)
        if ending.result is None:
            return cast(R_co, None)
        return cast(R_co, decode(ending.result, self.result_type))

    # Events

    def events(self) -> Events:
        """Return the job's events, for `async for`, or for `for` without an event loop.

        The first is a snapshot of the job, and the last its end, also if it has ended before."""
        return Events(self._app, self._id)

    # Stream

    def stream(self, start: int = 0, type: Any = Any) -> JobStream:  # noqa: A002
        """Return the entries of the job's stream after the position `start`, until the job ends.

        Use it in `async for`, or in `for` without an event loop, during the run or after its end. Values are decoded
        as `type`. Raises ResultGone if the job has ended and is no longer stored."""
        return JobStream(self._app, self._id, start, type)

    # State and actions

    def info(self) -> JobInfo:
        """Return the job with its unsuccessful attempts. `print` shows it in a few lines."""
        return make_info(self._app.service.job([self._id]).one().wait())

    async def ainfo(self) -> JobInfo:
        return make_info(await (await self._app.aservice()).job([self._id]).one())

    @property
    def state(self) -> str:
        """State of the job.

        One of `scheduled`, `queued`, `waiting`, `dispatched`, `running`, `suspended`, `finished`, `failed`,
        `cancelled`, or `ended` if it has ended and is no longer stored.
        """
        try:
            return self.info().state.label
        except AlreadyEnded:
            return ENDED

    async def astate(self) -> str:
        try:
            return (await self.ainfo()).state.label
        except AlreadyEnded:
            return ENDED

    @property
    def progress(self) -> float:
        """Progress from 0 to 1, as the job's code last reported it."""
        return self.info().progress

    def logs(self) -> Logs:
        """Return the lines that the job's code wrote with `ctx.log`, in all attempts."""
        return self._app.service.logs(self._id).wait()

    async def alogs(self) -> Logs:
        return await (await self._app.aservice()).logs(self._id)

    def explain(self) -> Explanation:
        """Explain why the job does not run, which worker runs it, or how it ended."""
        return self._app.service.explain(self._id).wait()

    async def aexplain(self) -> Explanation:
        return await (await self._app.aservice()).explain(self._id)

    # Durable calls

    def steps(self) -> DurableState:
        """Return the steps that the job has stored, what it waits for, and its unread signals."""
        return self._app.service.durable_states([self._id]).one().wait()

    async def asteps(self) -> DurableState:
        return await (await self._app.aservice()).durable_states([self._id]).one()

    def signal(self, name: str, value: Any = None) -> SignalOutcome:
        """Send a signal: `received` if the job waits for it, `kept` if it does not yet."""
        return self._app.service.signal([self._make_signal(name, value)]).one().wait()

    async def asignal(self, name: str, value: Any = None) -> SignalOutcome:
        return await (await self._app.aservice()).signal([self._make_signal(name, value)]).one()

    def _make_signal(self, name: str, value: Any) -> Signal:
        # The id makes a repeated request harmless: the store repeats a call whose reply was lost.
        return Signal(id=self._id, name=name, value=encode(value), request_id=secrets.token_bytes(16))

    def cancel(self) -> str:
        """Cancel the job.

        Returns `cancelled` if it was waiting, `requested` if it runs and was asked to stop, `ended` if it had ended
        already.
        """
        return _cancel_status(self._app.service.cancel([self._id]).wait())

    async def acancel(self) -> str:
        return _cancel_status(await (await self._app.aservice()).cancel([self._id]))

    def __repr__(self) -> str:
        return f"<job {self.id}{f' {self.status}' if self.status else ''}>"


def _cancel_status(answers: list[str | Refusal]) -> str:
    (answer,) = answers
    if isinstance(answer, AlreadyEnded | WrongState):
        return "ended"
    if isinstance(answer, Refusal):
        raise answer
    return answer


def _waits(timeout: Duration | None) -> Iterator[int]:
    """Yield the waits that make up a timeout. Without a timeout they do not end."""
    if timeout is None:
        while True:
            yield WAIT_MS
    give_up_at_s = time.monotonic() + duration_ms("timeout", timeout) / 1000
    left_ms = duration_ms("timeout", timeout)
    while True:
        yield min(left_ms, WAIT_MS)
        left_ms = int((give_up_at_s - time.monotonic()) * 1000)
        if left_ms <= 0:
            return
