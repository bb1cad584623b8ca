"""Handles of flows: the whole flow is awaited, cancelled and resumed as one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

import msgspec

from windlass.core.errors import AlreadyEnded, Refusal, UnknownJob
from windlass.core.flow import ResumedFlow
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Attempt, Ending, OnFailure, Timeline
from windlass.core.states import State
from windlass.sdk.driver import OperationFlow, run_flow, run_flow_sync
from windlass.sdk.durations import Duration
from windlass.sdk.failures import JobFailed, decode_error, make_exception
from windlass.sdk.handle import JobHandle
from windlass.sdk.tasks.codec import decode
from windlass.service import Service
from windlass.store.operation import Operation

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass

    from .named import Step

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
MEMBER_FAILED = "member_failed"  # reason of a job that failed because of a job it waited for; the error is its id


class Outcome(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """Outcome of a member of a group with `on_failure="collect"`."""

    id: str
    state: str  # finished, failed, cancelled; gone: deleted, or its result has expired
    value: R | None = None
    error: dict[str, Any] = {}  # if it failed or was cancelled: type, message, traceback, reason

    @property
    def is_ok(self) -> bool:
        return self.state == "finished"


def error_details(last: Attempt | None) -> dict[str, Any]:
    return {"reason": last.reason, **decode_error(last.error)} if last else {}


class WholeFlowHandle(JobHandle[R_co]):
    """Handle of the job that ends when the whole flow has ended."""

    def __init__(
        self,
        app: Windlass,
        job_id: bytes,
        ids: Sequence[bytes],
        flow_id: bytes,
        *,
        like: JobHandle[Any] | None = None,
    ) -> None:
        super().__init__(
            app, job_id, result_type=like.result_type if like else Any, is_kept=like.is_kept if like else False
        )
        self._ids = list(ids)
        self._flow_id = flow_id

    @property
    def flow_id(self) -> str:
        """Id of the flow, for `windlass flows show` and the page of the flow."""
        return format_id(self._flow_id)

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the end and return the result. On failure, raise the failure of the step that caused it."""
        try:
            return super().result(timeout)
        except JobFailed as error:
            raise run_flow_sync(_find_cause(self._app.service, error)) from error

    async def aresult(self, timeout: Duration | None = None) -> R_co:
        try:
            return await super().aresult(timeout)
        except JobFailed as error:
            raise await run_flow(_find_cause(await self._app.aservice(), error)) from error

    def cancel(self) -> str:
        """Cancel every step that has not ended. Running steps are asked to stop."""
        return _cancel_status(self._app.service.cancel(self._ids_last_first).wait())

    async def acancel(self) -> str:
        return _cancel_status(await (await self._app.aservice()).cancel(self._ids_last_first))

    def resume(self) -> ResumedFlow:
        """Queue the steps again that failed or were cancelled by themselves.

        Steps that ended because of them wait again, and `result` waits for the new end.
        """
        return self._app.service.resume_flow(self._flow_id).wait()

    async def aresume(self) -> ResumedFlow:
        return await (await self._app.aservice()).resume_flow(self._flow_id)

    @property
    def _ids_last_first(self) -> list[bytes]:
        """Job ids in reverse order: a cancelled step must not start a later step that ignores failures."""
        return self._ids[::-1]


class FlowHandle(WholeFlowHandle[R_co]):
    """Handle of the last step of a chain."""

    steps: list[JobHandle[Any]]  # type: ignore[assignment]  # of the flow, not the durable steps of one job

    def __init__(
        self,
        app: Windlass,
        job_id: bytes,
        steps: Sequence[JobHandle[Any]],
        ids: Sequence[bytes],
        flow_id: bytes,
        *,
        like: JobHandle[Any] | None = None,
    ) -> None:
        super().__init__(app, job_id, ids, flow_id, like=like)
        self.steps = list(steps)  # handles of all jobs, in the order of the plan


class GroupHandle(FlowHandle[R_co]):
    """Handle of a group. Its result is the list of the members' results, in order."""

    def __init__(self, *args: Any, members: Sequence[JobHandle[Any]], on_failure: OnFailure) -> None:
        super().__init__(*args)
        self.handles = list(members)  # of the members; for a chain, the handle of its last step
        self._on_failure = on_failure

    def result(self, timeout: Duration | None = None) -> R_co:
        super().result(timeout)
        found = [_wait_for_ending(self._app.service.result(handle.id_bytes)) for handle in self.handles]
        return cast(R_co, self._values(found))

    async def aresult(self, timeout: Duration | None = None) -> R_co:
        await super().aresult(timeout)
        service = await self._app.aservice()
        endings = (_await_ending(service.result(handle.id_bytes)) for handle in self.handles)
        return cast(R_co, self._values(await asyncio.gather(*endings)))

    def _values(self, endings: Sequence[Ending | Refusal | None]) -> list[Any]:
        return [self._value_of(*pair) for pair in zip(self.handles, endings, strict=True)]

    def _value_of(self, handle: JobHandle[Any], ending: Ending | Refusal | None) -> Any:
        if self._on_failure == "fail":
            return handle.decode_ending(ending)
        outcome = make_outcome(handle, ending)
        return outcome if self._on_failure == "collect" else outcome.value

    @property
    def progress(self) -> float:
        """Share of members that have ended."""
        return _ended_share(self._app.service.job([handle.id_bytes for handle in self.handles]).wait())

    async def aprogress(self) -> float:
        return _ended_share(await (await self._app.aservice()).job([handle.id_bytes for handle in self.handles]))


class StepHandles(Mapping[str, JobHandle[Any]]):
    """Handles of the steps of a named flow, by name. A step as the key gives the type of its result, too."""

    def __init__(self, handles: Mapping[str, JobHandle[Any]]) -> None:
        self._handles = dict(handles)

    @overload
    def __getitem__(self, step: str) -> JobHandle[Any]: ...
    @overload
    def __getitem__(self, step: Step[R]) -> JobHandle[R]: ...
    def __getitem__(self, step: str | Step[Any]) -> JobHandle[Any]:
        return self._handles[step if isinstance(step, str) else step.name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._handles)

    def __len__(self) -> int:
        return len(self._handles)


class NamedFlowHandle(WholeFlowHandle[dict[str, Any]]):
    """Handle of a named flow. Its result has the results of the last steps, by name: no other step waits for these."""

    steps: StepHandles  # type: ignore[assignment]  # of the flow, not the durable steps of one job

    def __init__(
        self,
        app: Windlass,
        job_id: bytes,
        ids: Sequence[bytes],
        flow_id: bytes,
        *,
        steps: Mapping[str, JobHandle[Any]],
        last: Mapping[str, JobHandle[Any]],
    ) -> None:
        super().__init__(app, job_id, ids, flow_id)
        self.steps = StepHandles(steps)
        self._last = dict(last)

    def result(self, timeout: Duration | None = None) -> dict[str, Any]:
        super().result(timeout)
        return {name: handle.result(0) for name, handle in self._last.items()}

    async def aresult(self, timeout: Duration | None = None) -> dict[str, Any]:
        await super().aresult(timeout)
        values = await asyncio.gather(*(handle.aresult(0) for handle in self._last.values()))
        return dict(zip(self._last, values, strict=True))


def _ended_share(found: Sequence[Timeline | Refusal]) -> float:
    return sum(isinstance(job, Refusal) or job.job.state.is_ended for job in found) / len(found)


def make_outcome(handle: JobHandle[Any], ending: Ending | Refusal | None) -> Outcome[Any]:
    if not isinstance(ending, Ending):
        return Outcome(id=handle.id, state="gone" if handle.is_kept or ending is None else "finished")
    if ending.state.label != "finished":
        return Outcome(id=handle.id, state=ending.state.label, error=error_details(ending.last_attempt))
    value = decode(ending.result, handle.result_type) if ending.result else None
    return Outcome(id=handle.id, state="finished", value=value)


def _find_cause(service: Service, error: JobFailed) -> OperationFlow[JobFailed]:
    """Find the failure that caused this one: that of the failed member, or of a job which that member waited for."""
    if error.reason != MEMBER_FAILED:
        return error
    try:
        cause: Timeline | None = yield service.find_cause(parse_id(error.job_id))
    except Refusal:
        return error
    if cause is None:
        return error
    last = cause.attempts[-1] if cause.attempts else None
    found = make_exception(cause.job.key, Ending(state=cause.job.state, last_attempt=last))
    return found if isinstance(found, JobFailed) and cause.job.state is State.FAILED else error


def _wait_for_ending(operation: Operation[Ending | None]) -> Ending | Refusal | None:
    try:
        return operation.wait()
    except (AlreadyEnded, UnknownJob) as gone:
        return gone


async def _await_ending(operation: Operation[Ending | None]) -> Ending | Refusal | None:
    try:
        return await operation
    except (AlreadyEnded, UnknownJob) as gone:
        return gone


def _cancel_status(answers: Sequence[str | Refusal]) -> str:
    """Return `requested` if a step still runs, else `cancelled`."""
    statuses = [answer for answer in answers if isinstance(answer, str)]
    if not statuses and answers and isinstance(answers[0], Refusal):
        raise answers[0]
    return "requested" if "requested" in statuses else "cancelled"
