"""Steps: named pieces of work whose results are stored."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from windlass.core.durable import STEP_VALUE_MAX, StepKind, StepStatus, Wait
from windlass.core.errors import BadInput
from windlass.core.job import Blob, Job
from windlass.core.retry import Backoff
from windlass.pauses import random_fraction
from windlass.sdk.failures import GiveUp, Retry, decode_error, encode_error, encode_exception

from .effects import Effects, FunctionCall, Pause, UnfitFunction, current_step
from .failures import StepFailed
from .run import DurableRun
from .storage import store, wait
from .values import decode_value, encode_value
from .waits import IN_PLACE_MS


class StepCall(NamedTuple):
    """Call of `ctx.step`."""

    name: str  # with key and suffix
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kind: Any  # type of the result
    retry: Backoff | None  # None: an exception passes, and the job's own policy applies
    timeout_ms: int  # 0: none


def run_step(run: DurableRun, call: StepCall) -> Effects[Any]:
    """Return the stored result, or call the function and store its result."""
    stored = run.find(call.name, StepKind.STEP)
    if stored is not None and stored.status is StepStatus.DONE:
        return decode_value(call.name, stored.value, call.kind)
    if stored is not None and stored.status is StepStatus.FAILED:
        raise StepFailed(call.name, decode_error(stored.value), stored.tries)
    tries = stored.tries if stored is not None else 0
    if stored is not None and stored.wake_at_ms is not None:
        yield from _pause(run, call, run.clock.left_s(stored.wake_at_ms), stored.tries, stored.value)
    while True:
        began_s = time.monotonic()
        tries += 1
        try:
            value = yield FunctionCall(call.name, call.function, call.args, call.timeout_ms)
        except (Retry, UnfitFunction):
            raise
        except Exception as error:
            yield from _after_failure(run, call, tries, error, began_s)
        else:
            break
    blob = yield from _store_value(run, call, value, tries, _ran_ms(began_s))
    return decode_value(call.name, blob, call.kind)


def _ran_ms(began_s: float) -> int:
    return round((time.monotonic() - began_s) * 1000)


def _store_value(run: DurableRun, call: StepCall, value: Any, tries: int, ran_ms: int) -> Effects[Blob | None]:
    """Store a result. The code gets it decoded, so that the first run sees the same value as later runs."""
    try:
        blob = encode_value(value)
    except BadInput as error:
        yield from _fail(run, call, encode_exception(error), tries, ran_ms)
    else:
        if blob is not None and len(blob.data) > STEP_VALUE_MAX:
            text = (
                f"The value has {len(blob.data)} bytes, and the limit is {STEP_VALUE_MAX}. Store it elsewhere and "
                "return a reference."
            )
            yield from _fail(run, call, encode_error("TooLarge", text), tries, ran_ms)
        yield from store(run, call.name, value=blob, tries=tries, ran_ms=ran_ms)
    return blob


def _after_failure(run: DurableRun, call: StepCall, tries: int, error: Exception, began_s: float) -> Effects[None]:
    """Wait before the next try, or raise if there is none."""
    if call.retry is None:
        raise error
    if isinstance(error, GiveUp) or not call.retry.wants_retry(tries):
        yield from _fail(run, call, encode_exception(error), tries, _ran_ms(began_s), error)
    delay_ms = call.retry.delay_ms(tries, random_fraction())
    yield from _pause(run, call, delay_ms / 1000, tries, encode_exception(error))


def _fail(
    run: DurableRun, call: StepCall, blob: Blob, tries: int, ran_ms: int, cause: Exception | None = None
) -> Effects[None]:
    yield from store(run, call.name, status=StepStatus.FAILED, value=blob, tries=tries, ran_ms=ran_ms)
    raise StepFailed(call.name, decode_error(blob), tries) from cause


def _pause(run: DurableRun, call: StepCall, left_s: float, tries: int, error: Blob | None) -> Effects[None]:
    """Pause before the next try. A step inside a step always waits in place, as only its outer step is replayed."""
    if left_s * 1000 <= IN_PLACE_MS or current_step.get():
        yield Pause(left_s)
        return
    condition = Wait(name=call.name, kind="retry", tries=tries, error=error)
    yield from wait(run, condition, left_s, ends_in_place=True)


def make_step_id(job: Job, name: str) -> str:
    """Make an idempotency key that is the same in all attempts of an occurrence of the job."""
    planned = f"{job.planned_at_ms}:" if job.planned_at_ms is not None else ""
    return f"{job.key}:{planned}{name}"


def refuse_in_transaction(name: str) -> None:
    """Refuse a step inside a transaction of Django: its result would be stored although the transaction may be rolled
    back."""
    conf, database = sys.modules.get("django.conf"), sys.modules.get("django.db")
    if conf is None or database is None or not conf.settings.configured:  # imported by a library, but not in use
        return
    for connection in database.connections.all(initialized_only=True):
        blocks = connection.atomic_blocks if connection.in_atomic_block else ()
        if blocks and not blocks[-1]._from_testcase:
            raise BadInput(
                f"The step {name!r} is inside a transaction (atomic): its result would be stored even if the "
                "transaction is rolled back. Open the transaction inside the step's function."
            )
