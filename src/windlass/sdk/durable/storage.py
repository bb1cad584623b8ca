"""Storing of durable calls and waits, repeated until the engine has answered."""

from __future__ import annotations

import logging
from typing import Any

from windlass.background.outcomes import TRANSIENT
from windlass.core.durable import StoreStep, Wait
from windlass.core.errors import AlreadyEnded, StaleLease, UnknownJob, WrongState
from windlass.core.operations import Update
from windlass.retry_loop import RetryLoop
from windlass.sdk.failures import Stopped
from windlass.service import Service
from windlass.store.operation import Operation

from .effects import Effects, GetService, Pause
from .run import DurableRun, Park

log = logging.getLogger("windlass.worker")

RETRIES = RetryLoop(log, "Could not store a step", TRANSIENT)
LOST = (StaleLease, AlreadyEnded, UnknownJob, WrongState)  # another worker has the job, or it has ended


def get_service(run: DurableRun) -> Effects[Service]:
    service: Service = yield GetService(run.app)
    return service


def ask(operation: Operation[Any]) -> Effects[Any]:
    """Run an operation of the lease's holder. It is repeated while the engine is away: what has been done once must
    not be done again. If the lease is lost, the code is stopped with an exception that it does not handle."""
    failures = 0
    while True:
        try:
            return (yield operation)
        except TRANSIENT as error:
            failures += 1
            yield Pause(RETRIES.pause_s_after(error, failures))
        except LOST as refusal:
            raise Stopped(f"The job is no longer held by this worker: {refusal}") from refusal


def store(run: DurableRun, name: str, **fields: Any) -> Effects[None]:
    """Store the outcome of a call. The engine checks the lease and extends it."""
    service = yield from get_service(run)
    request = StoreStep(id=run.job.id, token=run.job.lease_token, name=name, **fields)
    yield from ask(service.store_steps([request]).one())


def wait(run: DurableRun, condition: Wait, left_s: float | None, *, ends_in_place: bool = False) -> Effects[None]:
    """Suspend the run. `ends_in_place`: returns if its time is over before the run can be suspended."""
    if run.received_payload is not None:  # results of upstream jobs, which may be gone when this job runs again
        service = yield from get_service(run)
        job = run.job
        yield from ask(service.update([Update(id=job.id, token=job.lease_token, payload=run.received_payload)]).one())
        run.received_payload = None
    yield Park(run, condition, left_s, ends_in_place=ends_in_place)
