"""Invalid input: every method of the service refuses it with a code and a sentence, and changes nothing."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.namespace import dump_keys
from windlass.core.access.audit import AuditEntry
from windlass.core.access.tokens import NewToken, Role, Tokens
from windlass.core.alerts.incident import AlertState, AlertStatus, Transition
from windlass.core.alerts.rule import AlertRule
from windlass.core.bulk_action import Action
from windlass.core.callbacks.callback import DeliveryCapacity, FailedDelivery, LeasedCallback
from windlass.core.durable import (
    ReceiveSignal,
    Rewind,
    Signal,
    StepKind,
    StepStatus,
    StoreStep,
    StreamWrite,
    Suspend,
    Wait,
)
from windlass.core.errors import REFUSALS, Refusal
from windlass.core.event import Emit
from windlass.core.filters.saved_filter import SavedFilter
from windlass.core.job import NULL_BLOB, Blob, Callback, Cap, Codec, FlowRef, NewJob
from windlass.core.job_template import JobTemplate, PreparedJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.log import Log, LogLine
from windlass.core.operations import (
    CompleteWithChildren,
    Edit,
    Fail,
    Filter,
    Finish,
    LeaseRef,
    Listing,
    PushReport,
    Redirect,
    Take,
    TakenRef,
    Update,
    WorkerInfo,
    WorkerReport,
)
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import Backoff
from windlass.core.scale import ScaleTarget
from windlass.core.scheduling.schedule import Schedule
from windlass.core.states import State
from windlass.core.stats.task_figures import TaskSums
from windlass.service import Service
from windlass.store.commands.admin.alerts import StoredStatus
from windlass.store.store import Store
from windlass.store.waiting.callbacks import CapacitySource

SURROGATE = "a\ud800"
LONG = "x" * 100_000
OK_ID = bytes(range(16))
WRONG_IDS: tuple[Any, ...] = (b"x" * 15, b"x" * 17, "x" * 16, 5, None, bytearray(16))
WRONG_TEXTS: tuple[Any, ...] = (5, None, b"q", ["q"], "a\0b", "a\nb", "\x1f", SURROGATE, LONG, "ü" * 3_000)
WRONG_WHOLES: tuple[Any, ...] = (-(2**63), 2**63, 1.5, "5", None, True, [1], float("nan"))
WRONG_BLOBS: tuple[Any, ...] = (b"raw", "text", 5, Blob("text"), Blob(None), Blob(b"", 7), Blob(b"", "json"))  # type: ignore[arg-type]
TOO_LARGE = Blob(b"x" * (1024 * 1024 + 1))
WRONG_LISTS: tuple[Any, ...] = (None, 5, "text", b"bytes", {"a": 1}, {1, 2})
WRONG_CLAIMS: tuple[Any, ...] = (1, 0, "yes", None)
WRONG_BASE_URLS = (
    "x", "ftp://h", "http://", "http://h/?q", "http://h/#f", "http://u:p@h", "http://h:0", "http://h:99999",
    "http://h /", "http://h\r\n", "http://[::1", "//h", "http://h" + "x" * 2_048, "http://ключ",
)  # fmt: skip

Case = tuple[str, str, Callable[[Service], Any]]


def _job(**kw: Any) -> NewJob:
    return NewJob(**({"queue": "q", "name": "n"} | kw))


def _wrong_lists(method: str) -> Iterator[Case]:
    for value in WRONG_LISTS:
        yield method, f"list={value!r}", lambda service, value=value: getattr(service, method)(value)
    for value in (None, 5, "text", object()):
        yield method, f"item={type(value).__name__}", lambda service, value=value: getattr(service, method)([value])


def _wrong(method: str, build: Callable[..., Any], **fields: tuple[Any, ...]) -> Iterator[Case]:
    """Yield one case per field and wrong value. `build` creates the only item of the call."""
    for field, values in fields.items():
        for value in values:
            yield (
                method,
                f"{field}={value!r:.30}",
                lambda service, field=field, value=value: getattr(service, method)([build(**{field: value})]),
            )


def _enqueue() -> Iterator[Case]:
    yield from _wrong_lists("enqueue")
    yield from _wrong(
        "enqueue",
        _job,
        queue=("", "q" * 256, *WRONG_TEXTS),
        name=("", "n" * 1_021, *WRONG_TEXTS),
        cap=(7, "c", Cap(limit="", running=1), Cap(limit="l", running=0)),
        payload=(TOO_LARGE, None, *WRONG_BLOBS),
        id=WRONG_IDS,
        priority=(2**31, -(2**31) - 1, *WRONG_WHOLES),
        run_at_ms=(-1, 2**47 + 1, *WRONG_WHOLES),
        delay_ms=(-1, 2**43 + 1, *WRONG_WHOLES),
        expires_at_ms=(-1, *WRONG_WHOLES),
        expires_in_ms=(-1, *WRONG_WHOLES),
        lane=("l" * 256, *WRONG_TEXTS),
        unique=("u" * 513, *WRONG_TEXTS),
        unique_check=("other", None, 5),
        unique_while_kept=WRONG_CLAIMS,
        if_revision=(1, -1, 2**32, *WRONG_WHOLES),
        retry=(
            None, 5, "3", Backoff(tries=-1), Backoff(tries=2**32), Backoff(tries="3"), Backoff(base_ms=-1),  # type: ignore[arg-type]
            Backoff(base_ms=2**43), Backoff(cap_ms=-1), Backoff(cap_ms=1.5), Backoff(factor=0.5),  # type: ignore[arg-type]
            Backoff(factor=float("inf")), Backoff(factor=float("nan")), Backoff(factor=1e9), Backoff(factor="2"),  # type: ignore[arg-type]
            Backoff(jitter=-0.1), Backoff(jitter=1.1), Backoff(jitter=float("nan")), Backoff(jitter=None),  # type: ignore[arg-type]
        ),
        lease_ms=(-1, FOREVER_MS + 1, float(FOREVER_MS), *WRONG_WHOLES),
        retake=WRONG_CLAIMS,
        hidden=WRONG_CLAIMS,
        lease_rule=("SOON", "10", *WRONG_TEXTS),
        timeout_ms=(-1, *WRONG_WHOLES),
        result_ttl_ms=(-1, *WRONG_WHOLES),
        tombstone_ms=(-1, 2**43 + 1, *WRONG_WHOLES),
        tags=(["a"], "a", None, 5, ("",), ("a", 5), ("t" * 129,), ("a\0b",), (SURROGATE,), ("t",) * 21),
        trace=("t" * 1_025, *WRONG_TEXTS),
        repeat=("SOON", "FINISHED, +1 DAY" + ", +1 DAY" * 40, *WRONG_TEXTS),
        debounce_ms=(5, -1, *WRONG_WHOLES),
        debounce_max_ms=(5, -1, *WRONG_WHOLES),
        throttle_ms=(5, -1, *WRONG_WHOLES),
    )  # fmt: skip
    yield "enqueue", "after itself", lambda service: service.enqueue([_job(id=OK_ID, after=(OK_ID,))])
    yield "enqueue", "after its parent", lambda service: service.enqueue([_job(parent=OK_ID, after=(OK_ID,))])
    yield "enqueue", "two times", lambda service: service.enqueue([_job(run_at_ms=5, delay_ms=5)])
    yield "enqueue", "two expiries", lambda service: service.enqueue([_job(expires_at_ms=5, expires_in_ms=5)])
    yield "enqueue", "durability", lambda service: service.enqueue([_job()], durability="disk")  # type: ignore[arg-type]
    for wrong in (
        7,
        None,
        _job(name=""),
        PreparedJob(JobTemplate(_job()), TOO_LARGE),
        PreparedJob(JobTemplate(_job(name="")), NULL_BLOB),
    ):
        yield "enqueue_one", repr(type(wrong)), lambda service, wrong=wrong: service.enqueue_one(wrong)
    yield "enqueue_one", "durability", lambda service: service.enqueue_one(_job(), durability="disk")  # type: ignore[arg-type]
    yield "enqueue", "good and bad", lambda service: service.enqueue([_job(), _job(name="")])


def _reports() -> Iterator[Case]:
    held: dict[str, tuple[Any, ...]] = {"id": WRONG_IDS, "token": (-1, 2**48, *WRONG_WHOLES)}

    def request(kind: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **kw: kind(**({"id": OK_ID, "token": 1} | kw))

    for method in ("accept", "extend", "release"):
        yield from _wrong_lists(method)
        yield from _wrong(method, request(LeaseRef), **held)
        yield method, "unknown", lambda service, method=method: getattr(service, method)([LeaseRef(OK_ID, 1)])
    for method in ("accept", "extend"):
        for value in (-1, FOREVER_MS + 1, *WRONG_WHOLES):
            yield (
                method,
                f"lease={value!r}",
                lambda service, method=method, value=value: getattr(service, method)(
                    [LeaseRef(OK_ID, 1)], lease_ms=value
                ),
            )
    yield from _wrong_lists("finish")
    yield from _wrong("finish", request(Finish), **held, result=(TOO_LARGE, *WRONG_BLOBS), ignore_repeat=WRONG_CLAIMS)
    yield "finish", "unknown", lambda service: service.finish([Finish(OK_ID, 1)])
    yield from _wrong_lists("fail")
    yield from _wrong(
        "fail",
        request(Fail),
        **held,
        then=("other", None, 5),
        delay_ms=(-1, *WRONG_WHOLES),
        reason=("", "r" * 65, *WRONG_TEXTS),
        error=(Blob(b"x" * 16_385), *WRONG_BLOBS),
    )
    yield "fail", "unknown", lambda service: service.fail([Fail(id=OK_ID, token=1)])
    yield from _wrong_lists("update")
    yield from _wrong(
        "update",
        request(Update),
        **held,
        progress=(-0.1, 1.1, float("nan"), "0.5", True),
        note=("n" * 257, "ü" * 129, 5, b"n", SURROGATE),
        payload=(TOO_LARGE, *WRONG_BLOBS),
    )
    yield "update", "unknown", lambda service: service.update([Update(id=OK_ID, token=1)])


def _interventions() -> Iterator[Case]:
    for method in ("cancel", "retry", "wake", "requeue", "delete", "job"):
        yield from _wrong_lists(method)
        for value in WRONG_IDS:
            yield method, f"id={value!r}", lambda service, method=method, value=value: getattr(service, method)([value])
        yield method, "unknown", lambda service, method=method: getattr(service, method)([OK_ID])
    for value in ("", "r" * 65, *WRONG_TEXTS):
        yield "cancel", f"reason={value!r:.30}", lambda service, value=value: service.cancel([OK_ID], reason=value)
    for value in WRONG_CLAIMS:
        yield (
            "cancel",
            f"counts_waiting={value!r}",
            lambda service, value=value: service.cancel([OK_ID], counts_waiting=value),
        )
        yield (
            "cancel",
            f"even_failed={value!r}",
            lambda service, value=value: service.cancel([OK_ID], even_failed=value),
        )
        yield (
            "cancel",
            f"spares_running={value!r}",
            lambda service, value=value: service.cancel([OK_ID], spares_running=value),
        )
        yield (
            "delete",
            f"even_waiting={value!r}",
            lambda service, value=value: service.delete([OK_ID], even_waiting=value),
        )
        yield "retry", f"fresh={value!r}", lambda service, value=value: service.retry([OK_ID], fresh=value)
        yield (
            "requeue",
            f"gives_attempt_back={value!r}",
            lambda service, value=value: service.requeue([OK_ID], gives_attempt_back=value),
        )
        yield (
            "delete",
            f"even_leased={value!r}",
            lambda service, value=value: service.delete([OK_ID], even_leased=value),
        )
    yield from _wrong_lists("edit")
    yield from _wrong(
        "edit",
        lambda **kw: Edit(**({"id": OK_ID} | kw)),
        id=WRONG_IDS,
        name=("n" * 1_021, *WRONG_TEXTS),
        priority=(2**31, *(value for value in WRONG_WHOLES if value is not None)),
        run_at_ms=(-1, *(value for value in WRONG_WHOLES if value is not None)),
        payload=(TOO_LARGE, *WRONG_BLOBS),
        if_revision=(-1, 2**32, *WRONG_WHOLES),
        if_token=(-1, 2**48, *WRONG_WHOLES),
        in_any_state=WRONG_CLAIMS,
        repeat=("SOON", *(value for value in WRONG_TEXTS if value is not None)),
        attempt=(-1, 2**32, *(value for value in WRONG_WHOLES if value is not None)),
    )
    yield "edit", "unknown", lambda service: service.edit([Edit(id=OK_ID, name="x")])


def _conclusions() -> Iterator[Case]:
    yield from _wrong_lists("complete_with_children")
    yield from _wrong(
        "complete_with_children",
        lambda **kw: CompleteWithChildren(**({"id": OK_ID, "then": "finish"} | kw)),
        id=WRONG_IDS,
        token=(-1, 2**48, *WRONG_WHOLES),
        then=("again", "other", None, 5),
        run_at_ms=(-1, *(value for value in WRONG_WHOLES if value is not None)),
        delay_ms=(-1, 2**43 + 1, *(value for value in WRONG_WHOLES if value is not None)),
        name=("n" * 1_021, *WRONG_TEXTS),
        unique=("u" * 513, *WRONG_TEXTS),
        priority=(2**31, *(value for value in WRONG_WHOLES if value is not None)),
        payload=(TOO_LARGE, *WRONG_BLOBS),
        repeat=("SOON", *(value for value in WRONG_TEXTS if value is not None)),
        attempt=(-1, 2**32, *(value for value in WRONG_WHOLES if value is not None)),
        reason=("", "r" * 65, *WRONG_TEXTS),
        if_revision=(-1, 2**32, *WRONG_WHOLES),
        if_parent_waits=WRONG_CLAIMS,
        in_any_state=WRONG_CLAIMS,
        keeps_members=WRONG_CLAIMS,
    )
    both = CompleteWithChildren(id=OK_ID, then="again", run_at_ms=5, delay_ms=5)
    yield "complete_with_children", "two times", lambda service: service.complete_with_children([both])
    yield (
        "complete_with_children",
        "unknown",
        lambda service: service.complete_with_children([CompleteWithChildren(id=OK_ID, then="finish")]),
    )


def _numbers() -> Iterator[Case]:
    yield from _wrong_lists("number")
    yield from _wrong_lists("enqueue_numbered")
    yield "enqueue_numbered", "id", lambda service: service.enqueue_numbered([_job(id=OK_ID)])
    yield "enqueue_numbered", "good and bad", lambda service: service.enqueue_numbered([_job(), _job(name="")])
    for value in WRONG_IDS:
        yield "number", f"id={value!r}", lambda service, value=value: service.number([value])
        yield "number_in_id", f"id={value!r}", lambda service, value=value: service.number_in_id(value)
    yield "number", "unknown", lambda service: service.number([OK_ID])
    yield "find_numbers", "unknown", lambda service: service.find_numbers([7])
    for value in WRONG_LISTS:
        yield "find_numbers", f"numbers={value!r}", lambda service, value=value: service.find_numbers(value)
    for value in ("", "q" * 256, *WRONG_TEXTS):
        yield "reserve_numbers", f"queue={value!r:.30}", lambda service, value=value: service.reserve_numbers(value)
        yield "numbered_id", f"queue={value!r:.30}", lambda service, value=value: service.numbered_id(value, 1)
        yield "holder", f"queue={value!r:.30}", lambda service, value=value: service.holder(value, "u")
    for value in ("", "u" * 513, *WRONG_TEXTS):
        yield "holder", f"unique={value!r:.30}", lambda service, value=value: service.holder("q", value)
    for value in ("", *WRONG_TEXTS):
        yield "find", f"alias={value!r:.30}", lambda service, value=value: service.find(value)
        yield "find_within", f"alias={value!r:.30}", lambda service, value=value: service.find_within(value, ())
    for value in WRONG_TEXTS:
        yield "find", f"queue={value!r:.30}", lambda service, value=value: service.find("a", queue=value)
        yield (
            "find_within",
            f"queue={value!r:.30}",
            lambda service, value=value: service.find_within("a", (), queue=value),
        )
    for value in (None, ["q"], (5,), ("",)):
        yield "find_within", f"queues={value!r:.30}", lambda service, value=value: service.find_within("a", value)
    for value in (*WRONG_LISTS, [None], [5], [OK_ID]):
        yield "aliases", f"jobs={value!r:.30}", lambda service, value=value: service.aliases(value)
    for value in (*WRONG_LISTS, *([wrong] for wrong in WRONG_IDS)):
        yield "assigned_number", f"ids={value!r:.30}", lambda service, value=value: service.assigned_number(value)
    for value in (0, 2_001, *WRONG_WHOLES):
        yield "reserve_numbers", f"count={value!r}", lambda service, value=value: service.reserve_numbers("q", value)
    for value in (-1, 2**62, *WRONG_WHOLES):
        yield "find_numbers", f"number={value!r}", lambda service, value=value: service.find_numbers([value])
        yield "id_of_number", f"number={value!r}", lambda service, value=value: service.id_of_number(value)
        yield "numbered_id", f"number={value!r}", lambda service, value=value: service.numbered_id("q", value)


def _taken_details() -> Iterator[Case]:
    fields: dict[str, tuple[Any, ...]] = {
        "id": WRONG_IDS,
        "token": (-1, 2**48, *WRONG_WHOLES),
        "lease_ms": (-1, FOREVER_MS + 1, *WRONG_WHOLES),
        "parent": WRONG_IDS,
        "has_members": WRONG_CLAIMS,
    }
    for field, values in fields.items():
        for value in values:
            request = TakenRef(**{"id": OK_ID, "token": 1, field: value})
            yield (
                "taken_details",
                f"{field}={value!r:.30}",
                lambda service, request=request: service.taken_details("q", [request]),
            )
    for value in WRONG_LISTS:
        yield "taken_details", f"list={value!r}", lambda service, value=value: service.taken_details("q", value)
    for value in ("q" * 256, *WRONG_TEXTS):
        yield "taken_details", f"queue={value!r:.30}", lambda service, value=value: service.taken_details(value, [])
    yield "taken_details", "unknown", lambda service: service.taken_details("q", [TakenRef(OK_ID, 1)])


def _take_requests() -> Iterator[tuple[str, Any]]:
    fields: dict[str, tuple[Any, ...]] = {
        "queues": ((), [], "q", None, ("",), ("q", "q"), (5,), (SURROGATE,), tuple(f"q{i}" for i in range(101))),
        "most": (0, 1_001, *WRONG_WHOLES),
        "weights": ([1], (0,), (1, 2), ("1",), (1.5,), 5, None),
        "wants": (
            None, "n", Filter(only=["a"]), Filter(only="a"), Filter(all_but=["a"]), Filter(only=("",)),  # type: ignore[arg-type]
            Filter(only=(5,)), Filter(only=("a",), all_but=("b",)), Filter(only=("a",), glob="b"), Filter(glob=5),  # type: ignore[arg-type]
            Filter(only=tuple(str(i) for i in range(101))), Filter(glob="*" * 17), Filter(glob="a\1b"),
            Filter(glob=SURROGATE), Filter(only=("a\0b",)), Filter(priority=2**31), Filter(priority="0"),  # type: ignore[arg-type]
            Filter(hidden=1), Filter(hidden=None),  # type: ignore[arg-type]
        ),
        "worker": WRONG_IDS,
        "lease_ms": (-1, *WRONG_WHOLES),
        "accept_ms": (-1, *WRONG_WHOLES),
        "fallback_lease_ms": (-1, 2**43 + 1, *WRONG_WHOLES),
        "wait_ms": (-1, *WRONG_WHOLES),
    }  # fmt: skip
    for field, values in fields.items():
        for value in values:
            yield f"{field}={value!r:.40}", Take(**({"queues": ("q",)} | {field: value}))
    for value in (None, 5, "q"):
        yield f"request={value!r}", value
    yield "two leases", Take(queues=("q",), lease_ms=5, fallback_lease_ms=5)
    yield "by name without name lanes", Take(queues=("q",), wants=Filter(only=("n",)))


def _takes() -> Iterator[Case]:
    for label, request in _take_requests():
        yield "take", label, lambda service, request=request: service.take(request)
        yield "finish_and_take", label, lambda service, request=request: service.finish_and_take([], [], request)
    fine = Take(queues=("other",))
    for value in WRONG_LISTS:
        yield (
            "finish_and_take",
            f"finishes={value!r}",
            lambda service, value=value: service.finish_and_take(value, [], fine),
        )
        yield (
            "finish_and_take",
            f"failures={value!r}",
            lambda service, value=value: service.finish_and_take([], value, fine),
        )
    wrong_outcomes = [Finish(b"x", 1)], [None], [Fail(id=OK_ID, token=1)]
    for outcomes in wrong_outcomes:
        yield (
            "finish_and_take",
            f"{outcomes!r:.40}",
            lambda service, outcomes=outcomes: service.finish_and_take(outcomes, [], fine),
        )
    yield "finish_and_take", "too many", lambda service: service.finish_and_take([Finish(OK_ID, 1)] * 1_001, [], fine)


def _reading() -> Iterator[Case]:
    for value in WRONG_IDS:
        yield "explain", f"id={value!r}", lambda service, value=value: service.explain(value)
        yield "find_cause", f"id={value!r}", lambda service, value=value: service.find_cause(value)
        yield "find_causes", f"id={value!r}", lambda service, value=value: service.find_causes([value])
        yield "result", f"id={value!r}", lambda service, value=value: service.result(value)
    for value in (-1, *WRONG_WHOLES):
        yield "result", f"wait_ms={value!r}", lambda service, value=value: service.result(OK_ID, wait_ms=value)
    for value in WRONG_CLAIMS:
        yield "result", f"consume={value!r}", lambda service, value=value: service.result(OK_ID, consume=value)
    yield "result", "unknown", lambda service: service.result(OK_ID)
    yield "explain", "unknown", lambda service: service.explain(OK_ID)
    fields: dict[str, tuple[Any, ...]] = {
        "queue": ("q" * 256, *WRONG_TEXTS),
        "ended_from_ms": (-1, *WRONG_WHOLES),
        "ended_before_ms": (-1, *WRONG_WHOLES),
        "error": ("x" * 256, *WRONG_TEXTS),
        "error_shape": ("x" * 301, 5, None, b"x"),
        "with_errors": WRONG_CLAIMS,
        "state": ("", "dispatched", "other", None, 5, 0),
        "tag": ("t" * 129, *WRONG_TEXTS),
        "name": ("*" * 17, *WRONG_TEXTS),
        "created_from_ms": (-1, *WRONG_WHOLES),
        "created_before_ms": (-1, *WRONG_WHOLES),
        "newest_first": WRONG_CLAIMS,
        "most": (0, 501, *WRONG_WHOLES),
        "cursor": ("x", "ready:MV8w", "ready:bmFuIHg=", *WRONG_TEXTS),
        "text": ("t" * 256, *WRONG_TEXTS),
    }
    for field, values in fields.items():
        for value in values:
            listing = Listing(**({"queue": "q", "state": "queued"} | {field: value}))
            yield "jobs", f"{field}={value!r:.30}", lambda service, listing=listing: service.jobs(listing)
    yield "jobs", "nothing", lambda service: service.jobs(Listing())
    yield "jobs", "a tag's history", lambda service: service.jobs(Listing(tag="t", state="history"))
    for value in (None, 5, "q"):
        yield "jobs", f"request={value!r}", lambda service, value=value: service.jobs(value)


def _failures() -> Iterator[Case]:
    for value in ("q" * 256, *WRONG_TEXTS):
        yield "failures", f"queue={value!r:.30}", lambda service, value=value: service.failures(queue=value)
    for value in ("*" * 17, *WRONG_TEXTS):
        yield "failures", f"name={value!r:.30}", lambda service, value=value: service.failures(name=value)
    for value in (0, 10_001, *WRONG_WHOLES):
        yield "failures", f"looked_at={value!r}", lambda service, value=value: service.failures(looked_at=value)


def _scopes() -> Iterator[Case]:
    """Queue patterns of tokens, and ids whose queues are requested."""
    listing = Listing(queue="q", state="queued")
    for value in (["q"], "q", None, 5, ("",), (5,), ("q" * 256,), ("*" * 17,), ("q",) * 33):
        yield "explain_within", f"{value!r:.30}", lambda service, value=value: service.explain_within(OK_ID, value)
        yield "jobs_within", f"{value!r:.30}", lambda service, value=value: service.jobs_within(listing, value)
        yield "failures", f"queues={value!r:.30}", lambda service, value=value: service.failures(queues=value)
        yield "workers_within", f"{value!r:.30}", lambda service, value=value: service.workers_within([], value)
    for value in (None, 5, "w", [5], [b"w" * 16]):
        yield "workers_within", f"found={value!r}", lambda service, value=value: service.workers_within(value, ())
    for value in WRONG_IDS:
        yield "explain_within", f"id={value!r}", lambda service, value=value: service.explain_within(value, ())
        yield "queue_of", f"id={value!r}", lambda service, value=value: service.queue_of([value])
        yield "tombstone", f"id={value!r}", lambda service, value=value: service.tombstone([value])
        yield "worker", f"id={value!r}", lambda service, value=value: service.worker(value)
    for value in WRONG_LISTS:
        yield "queue_of", f"ids={value!r}", lambda service, value=value: service.queue_of(value)
        yield "tombstone", f"ids={value!r}", lambda service, value=value: service.tombstone(value)
    yield "queue_of", "unknown", lambda service: service.queue_of([OK_ID])
    yield "tombstone", "unknown", lambda service: service.tombstone([OK_ID])
    yield "jobs_within", "nothing", lambda service: service.jobs_within(Listing(), ())


def _flows() -> Iterator[Case]:
    for method in ("flow", "resume_flow", "cancel_flow", "rerun_flow"):
        for value in WRONG_IDS:
            yield method, f"id={value!r}", lambda service, method=method, value=value: getattr(service, method)(value)
        yield method, "unknown", lambda service, method=method: getattr(service, method)(OK_ID)
    fields: dict[str, tuple[Any, ...]] = {
        "state": ("queued", "other", None, 5),
        "name": ("*" * 17, *WRONG_TEXTS),
        "alias": ("xyz", "123", LONG, 5, None, "…abcd…"),
        "most": (0, 501, *WRONG_WHOLES),
        "cursor": ("x", LONG, 5, None),
        "queues": (["q"], "q", None, 5, ("",), (5,), ("*" * 17,)),
    }
    for field, values in fields.items():
        for value in values:
            given = {field: value}
            yield "flows", f"{field}={value!r:.30}", lambda service, given=given: service.flows(**given)
    wrong: tuple[Any, ...] = (
        5, "shop", b"x" * 16, *(FlowRef(value) for value in WRONG_IDS),
        *(FlowRef(OK_ID, value) for value in ("f" * 256, *WRONG_TEXTS)),
        *(FlowRef(OK_ID, "", value) for value in ("s" * 256, *WRONG_TEXTS)),
    )  # fmt: skip
    for value in wrong:
        job = _job(flow=value)
        yield "enqueue", f"flow={value!r:.50}", lambda service, job=job: service.enqueue([job], whole=True)
    good = FlowRef(OK_ID, "shop")
    others = tuple(n.to_bytes(2, "big") + bytes(14) for n in range(1_000))
    for jobs in (
        [_job(flow=good, unique="u", unique_check="refuse")],
        [_job(flow=good, repeat="FINISHED, +1 DAY")],
        [_job(flow=good), _job(flow=FlowRef(OK_ID, "other"))],
        [_job(flow=good, after=others)] * 21,
    ):
        yield "enqueue", "flow", lambda service, jobs=jobs: service.enqueue(jobs, whole=True)
    yield "enqueue", "a flow in parts", lambda service: service.enqueue([_job(flow=good)])
    prepared = PreparedJob(JobTemplate(_job(flow=good)), NULL_BLOB)
    for _ in range(2):
        yield "enqueue_one", "a flow in parts", lambda service: service.enqueue_one(prepared)


def _actions() -> Iterator[Case]:
    good = {"verb": "retry", "listing": Listing(queue="q", state="failed")}
    fields: dict[str, tuple[Any, ...]] = {
        "verb": ("wake", "", None, 5),
        "listing": (None, 5, "q", Listing(), Listing(queue="q", state="queued"), Listing(state="failed", cursor="x")),
        "reason": ("", "x" * 65, *WRONG_TEXTS),
        "asked_by": ("x" * 256, *WRONG_TEXTS),
    }
    for field, values in fields.items():
        for value in values:
            wanted = Action(**(good | {field: value}))  # type: ignore[arg-type]
            yield "act", f"{field}={value!r:.30}", lambda service, wanted=wanted: service.act(wanted)
    for value in (None, 5, "retry"):
        yield "act", f"action={value!r}", lambda service, value=value: service.act(value)
    for value in WRONG_IDS:
        yield "action", f"id={value!r}", lambda service, value=value: service.action(value)
    yield "action", "unknown", lambda service: service.action(OK_ID)


def _lanes() -> Iterator[Case]:
    for value in ("", "q" * 256, *WRONG_TEXTS):
        yield "lanes", f"queue={value!r:.30}", lambda service, value=value: service.lanes(value)
        yield "unknown_names", f"queue={value!r:.30}", lambda service, value=value: service.unknown_names(value)
        yield "unknown_among", f"queue={value!r:.30}", lambda service, value=value: service.unknown_among(value, ["n"])
        yield "holders", f"name={value!r:.30}", lambda service, value=value: service.holders(value)
    for value in (0, 501, *WRONG_WHOLES):
        yield "lanes", f"most={value!r}", lambda service, value=value: service.lanes("q", most=value)
        yield "holders", f"most={value!r}", lambda service, value=value: service.holders("l", most=value)
    for value in (["n"] * 101, ["n" * 1_021], [], *([text] for text in WRONG_TEXTS), *WRONG_LISTS):
        yield "unknown_among", f"names={value!r:.30}", lambda service, value=value: service.unknown_among("q", value)
    for value in ("x", "ü", "x" * 10_000, *WRONG_TEXTS):
        yield "lanes", f"cursor={value!r:.30}", lambda service, value=value: service.lanes("q", cursor=value)
    for value in ("", 5, b"k", "a\0b", LONG):
        yield "holders", f"key={value!r:.30}", lambda service, value=value: service.holders("l", key=value)
    for value in (-1, *WRONG_WHOLES):
        yield "holders", f"start={value!r}", lambda service, value=value: service.holders("l", start=value)


def _scales() -> Iterator[Case]:
    for value in (None, 5, "text", {"max": 5}):
        yield "scale", f"goal={value!r}", lambda service, value=value: service.scale("q", value)
    for field in ("slots", "target", "target_age_ms", "min", "max"):
        for value in (-1, *WRONG_WHOLES):
            yield (
                "scale",
                f"{field}={value!r}",
                lambda service, field=field, value=value: service.scale("q", ScaleTarget(**{field: value})),
            )
    yield "scale", "slots=0", lambda service: service.scale("q", ScaleTarget(slots=0))
    yield "scale", "min above max", lambda service: service.scale("q", ScaleTarget(min=5, max=4))


def _members() -> Iterator[Case]:
    for value in WRONG_IDS:
        yield "list_members", f"id={value!r}", lambda service, value=value: service.list_members(value)
        yield "job_callbacks", f"id={value!r}", lambda service, value=value: service.job_callbacks(value)
    for value in ([State.FAILED], ("failed",), (7,), None, State.FAILED):
        yield "list_members", f"states={value!r}", lambda service, value=value: service.list_members(OK_ID, value)
    for value in (0, 501, *WRONG_WHOLES):
        yield "list_members", f"most={value!r}", lambda service, value=value: service.list_members(OK_ID, most=value)
    for value in ("x", "bmFuIHg=", *WRONG_TEXTS):
        yield (
            "list_members",
            f"cursor={value!r:.30}",
            lambda service, value=value: service.list_members(OK_ID, cursor=value),
        )
    yield "list_members", "unknown", lambda service: service.list_members(OK_ID)


def _tasks() -> Iterator[Case]:
    for value in ("", "q" * 256, *WRONG_TEXTS):
        yield "queue_presence", f"queue={value!r:.30}", lambda service, value=value: service.queue_presence(value)
        yield "remove_queue", f"queue={value!r:.30}", lambda service, value=value: service.remove_queue(value)
    for value in WRONG_CLAIMS:
        yield "remove_queue", f"force={value!r}", lambda service, value=value: service.remove_queue("q", force=value)
    for value in ("", "n" * 1_021, *WRONG_TEXTS):
        yield "task", f"name={value!r:.30}", lambda service, value=value: service.task(value)
    for value in (0, 7, 61, *WRONG_WHOLES):
        yield "task", f"step={value!r}", lambda service, value=value: service.task("n", step_minutes=value)
    for value in (0, 201, *WRONG_WHOLES):
        yield "task", f"steps={value!r}", lambda service, value=value: service.task("n", steps=value)
    for value in (None, "q", ["q"], (5,)):
        yield "task", f"queues={value!r}", lambda service, value=value: service.task("n", queues=value)
        yield "tasks", f"queues={value!r}", lambda service, value=value: service.tasks(queues=value)
        yield (
            "queue_presence",
            f"queues={value!r}",
            lambda service, value=value: service.queue_presence("q", queues=value),
        )
    sums = TaskSums(queue="q", name="n", failed=1)
    for value in WRONG_IDS:
        yield "report_tasks", f"id={value!r}", lambda service, value=value: service.report_tasks(value, 1, [sums])
    for value in (0, 2**49, *WRONG_WHOLES):
        yield (
            "report_tasks",
            f"number={value!r}",
            lambda service, value=value: service.report_tasks(OK_ID, value, [sums]),
        )
    wrong_sums: tuple[Any, ...] = (
        None, {}, TaskSums(queue="", name="n"), TaskSums(queue="q", name=""), TaskSums(queue="q\0", name="n"),
        TaskSums(queue="q", name="n", failed=-1), TaskSums(queue="q", name="n", retried=2**32),
        TaskSums(queue="q", name="n", cancelled=1.5), TaskSums(queue="q", name="n", runs=[1]),  # type: ignore[arg-type]
        TaskSums(queue="q", name="n", runs={129: 1}), TaskSums(queue="q", name="n", runs={-1: 1}),
        TaskSums(queue="q", name="n", runs={1: -1}), TaskSums(queue="q", name="n", runs={"1": 1}),  # type: ignore[dict-item]
    )  # fmt: skip
    for value in (*([wrong] for wrong in wrong_sums), [], [sums] * 501, *WRONG_LISTS):
        yield "report_tasks", f"tasks={value!r:.60}", lambda service, value=value: service.report_tasks(OK_ID, 1, value)
    yield "report_tasks", "unknown worker", lambda service: service.report_tasks(OK_ID, 1, [sums])


WRONG_PATTERNS = (["a"], "a", None, 5, ("",), ("a", 5), ("q" * 256,), ("*" * 17,), ("a",) * 33, (SURROGATE,))


def _pages_by_name() -> Iterator[Case]:
    terms: dict[str, tuple[Any, ...]] = {
        "after": ("n" * 256, *WRONG_TEXTS), "most": (0, 1_001, *WRONG_WHOLES), "queues": WRONG_PATTERNS,
    }  # fmt: skip
    for field, values in terms.items():
        for value in values:
            given = {field: value}
            yield "queues_page", f"{field}={value!r:.30}", lambda service, given=given: service.queues_page(**given)
            yield (
                "schedules_page",
                f"{field}={value!r:.30}",
                lambda service, given=given: service.schedules_page(**given),
            )
    for value in ("n" * 256, *WRONG_TEXTS):
        yield (
            "schedules_page",
            f"search={value!r:.30}",
            lambda service, value=value: service.schedules_page(search=value),
        )
    for value in WRONG_PATTERNS:
        yield "survey", f"{value!r:.30}", lambda service, value=value: service.survey(value)


def _queues_and_workers() -> Iterator[Case]:
    for value in ("", "q" * 256, *WRONG_TEXTS):
        yield "stats", f"name={value!r:.30}", lambda service, value=value: service.stats([value])
        yield "scale", f"queue={value!r:.30}", lambda service, value=value: service.scale(value)
        yield "history", f"queue={value!r:.30}", lambda service, value=value: service.history(value)
        yield "histories", f"queue={value!r:.30}", lambda service, value=value: service.histories([value])
        yield "configure", f"queue={value!r:.30}", lambda service, value=value: service.configure(value, {})
        yield "configuration", f"queue={value!r:.30}", lambda service, value=value: service.configuration(value)
    for value in WRONG_LISTS:
        yield "stats", f"names={value!r}", lambda service, value=value: service.stats(value)
        yield "histories", f"names={value!r}", lambda service, value=value: service.histories(value)
    for value in (0, 7, 61, *WRONG_WHOLES):
        yield "histories", f"step={value!r}", lambda service, value=value: service.histories([], step_minutes=value)
    for value in (0, 201, *WRONG_WHOLES):
        yield "histories", f"steps={value!r}", lambda service, value=value: service.histories([], steps=value)
    yield "histories", "too far", lambda service: service.histories([], steps=49, step_minutes=60)
    for value in (0, 49, *WRONG_WHOLES):
        yield "history", f"hours={value!r}", lambda service, value=value: service.history("q", hours=value)
    wrong_changes: tuple[Any, ...] = (None, 5, "text", ["lease_ms"], {"colour": 5}, {5: 5}, {"bytes": 5})
    wrong_changes += ({"lease_ms": 0},)
    numbers = [value for value in WRONG_WHOLES if value is not None]
    whole_fields = ("lease_ms", "max_length", "max_bytes", "history_length", "history_bytes", "retention_ms")
    wrong_changes += tuple({field: value} for field in whole_fields for value in (-1, *numbers))
    wrong_changes += tuple({"name_lanes": value} for value in WRONG_CLAIMS if value is not None)
    wrong_changes += ({"max_length": 5, "lease_ms": -1},)
    for value in wrong_changes:
        yield "configure", f"changes={value!r}", lambda service, value=value: service.configure("q", value)
    info = WorkerInfo()
    for value in WRONG_IDS:
        yield "register", f"id={value!r}", lambda service, value=value: service.register(value, info)
        yield "beat", f"id={value!r}", lambda service, value=value: service.beat([value])
        yield "beat_holding", f"id={value!r}", lambda service, value=value: service.beat_holding(value, [])
        yield "beat_holding", f"held={value!r}", lambda service, value=value: service.beat_holding(OK_ID, [value])
        yield "unclaimed", f"holder={value!r}", lambda service, value=value: service.unclaimed([(value, [])])
        yield "forget", f"id={value!r}", lambda service, value=value: service.forget(value)
        yield "stop_worker", f"id={value!r}", lambda service, value=value: service.stop_worker(value)
        yield "connect_worker", f"id={value!r}", lambda service, value=value: service.connect_worker(value)
        yield "disconnect_worker", f"id={value!r}", lambda service, value=value: service.disconnect_worker(value, OK_ID)
    for value in (b"", b"short", "x" * 16, None):
        yield "disconnect_worker", f"by={value!r}", lambda service, value=value: service.disconnect_worker(OK_ID, value)
    wrong_infos: tuple[Any, ...] = (
        None, {}, WorkerInfo(host=5), WorkerInfo(host=LONG), WorkerInfo(name="a\nb"), WorkerInfo(pid=-1),  # type: ignore[arg-type]
        WorkerInfo(pid="7"), WorkerInfo(slots=-1), WorkerInfo(slots=10**9), WorkerInfo(queues=["q"]),  # type: ignore[arg-type]
        WorkerInfo(queues=("",)), WorkerInfo(queues=("q",) * 101), WorkerInfo(host=SURROGATE), WorkerInfo(url=5),  # type: ignore[arg-type]
        WorkerInfo(names=["n"]), WorkerInfo(names=("",)), WorkerInfo(names=("n",) * 1_001), WorkerInfo(names=(LONG,)),  # type: ignore[arg-type]
        *(WorkerInfo(url=url) for url in WRONG_BASE_URLS),
    )  # fmt: skip
    for value in wrong_infos:
        yield "register", f"info={value!r:.60}", lambda service, value=value: service.register(OK_ID, value)
    for value in (0, 99, *WRONG_WHOLES):
        yield "register", f"beat={value!r}", lambda service, value=value: service.register(OK_ID, info, beat_ms=value)
    for value in WRONG_LISTS:
        yield "beat", f"ids={value!r}", lambda service, value=value: service.beat(value)
        yield "beat_holding", f"held={value!r}", lambda service, value=value: service.beat_holding(OK_ID, value)
        yield "unclaimed", f"holders={value!r}", lambda service, value=value: service.unclaimed(value)
        yield "unclaimed", f"held={value!r}", lambda service, value=value: service.unclaimed([(OK_ID, value)])
    yield "beat", "unknown", lambda service: service.beat([OK_ID])
    yield "beat_holding", "unknown", lambda service: service.beat_holding(OK_ID, [])
    yield "beat_holding", "too many", lambda service: service.beat_holding(OK_ID, [OK_ID] * 10_001)
    yield "forget", "unknown", lambda service: service.forget(OK_ID)
    yield "stop_worker", "unknown", lambda service: service.stop_worker(OK_ID)
    yield "connect_worker", "unknown", lambda service: service.connect_worker(OK_ID)
    for value in (-1, 2**43 + 1, "1", 1.5):
        yield (
            "recover",
            f"before={value!r}",
            lambda service, value=value: service.recover(silent_before_ms=value),
        )
        yield "recover", f"again={value!r}", lambda service, value=value: service.recover(look_again_ms=value)
    for value in (-1, *WRONG_WHOLES):
        yield "workers", f"start={value!r}", lambda service, value=value: service.workers(start=value)
        yield "workers", f"most={value!r}", lambda service, value=value: service.workers(most=value)
    for value in ("", "x", "-1", "1.5", "²", str(2**64), *WRONG_TEXTS):
        yield "sweep", f"cursor={value!r:.30}", lambda service, value=value: service.sweep(value)
    for value in (-1, "1", None, float("nan"), float("inf"), True):
        yield "listen", f"for_s={value!r}", lambda service, value=value: service.listen(for_s=value)
    for value in (-1, 4096, *WRONG_WHOLES):
        yield "within", f"partition={value!r}", lambda service, value=value: service.within(value)
        yield "stop_torn", f"already={value!r}", lambda service, value=value: service.stop_torn([value])


def _limits_and_pauses() -> Iterator[Case]:
    for value in (None, 7, "", "\n", "x" * 300, b"q"):
        yield "pause", f"queue={value!r}", lambda service, value=value: service.pause(value)
        yield "pauses", f"queue={value!r}", lambda service, value=value: service.pauses(value)
        yield "resume", f"queue={value!r}", lambda service, value=value: service.resume(value)
        yield "set_weights", f"queue={value!r}", lambda service, value=value: service.set_weights(value, {})
        yield "unlimit", f"name={value!r}", lambda service, value=value: service.unlimit(value)
    for value in (None, 7, "l", {"name": "l"}, Limit(name="l", matches=Matcher()), Limit(name="l", matches=None)):  # type: ignore[arg-type]
        yield "limit", f"limit={value!r}", lambda service, value=value: service.limit(value)
    for value in ("", "n" * 129, *WRONG_TEXTS):
        yield "aggregations", f"limit={value!r}", lambda service, value=value: service.aggregations(value)
        yield "aggregation", f"limit={value!r}", lambda service, value=value: service.aggregation(value, "k")
    for value in (0, 501, -1, "1", None, True):
        yield "aggregations", f"most={value!r}", lambda service, value=value: service.aggregations("l", most=value)
    for value in ("c" * 1025, *WRONG_TEXTS):
        yield "aggregations", f"cursor={value!r}", lambda service, value=value: service.aggregations("l", cursor=value)
    for value in (None, 7, b"k", "k" * 65_537, "\ud800"):
        yield "aggregation", f"key={value!r:.20}", lambda service, value=value: service.aggregation("l", value)
    yield from _caps()
    yield "aggregations", "no such limit", lambda service: service.aggregations("l")
    yield "aggregation", "no such limit", lambda service: service.aggregation("l", "k")
    for value in (None, 7, {"a": 0}, {"a": "1"}, {7: 1}, {"a": 101}):
        yield "set_weights", f"weights={value!r}", lambda service, value=value: service.set_weights("q", value)
    for value in (-1, 1, "0", None, True):
        yield "rematch", f"partition={value!r}", lambda service, value=value: service.rematch(value)


def _caps() -> Iterator[Case]:
    for value in ("", "n" * 129, *WRONG_TEXTS):
        yield "set_cap", f"limit={value!r}", lambda service, value=value: service.set_cap(value, "k", running=1)
    for value in (None, 7, b"k", "k" * 65_537, "\ud800"):
        yield "set_cap", f"key={value!r:.20}", lambda service, value=value: service.set_cap("l", value, running=1)
    for value in (0, -1, 2**32, "1", 1.5, True):
        yield "set_cap", f"running={value!r}", lambda service, value=value: service.set_cap("l", "k", running=value)
    for value in (7, b"n", "n" * 4_097, "\ud800"):
        yield "set_cap", f"note={value!r:.20}", lambda service, value=value: service.set_cap("l", "k", note=value)
    yield "set_cap", "no change", lambda service: service.set_cap("l", "k")
    yield "set_cap", "no such limit", lambda service: service.set_cap("l", "k", running=1)


def _statistics() -> Iterator[Case]:
    for value in ("", "c" * 65, *WRONG_TEXTS):
        yield "stats_of", f"component={value!r}", lambda service, value=value: service.stats_of(value)
        yield (
            "publish_stats",
            f"component={value!r}",
            lambda service, value=value: service.publish_stats(value, "i", {}),
        )
    for value in ("", "i" * 256, *WRONG_TEXTS):
        yield "publish_stats", f"instance={value!r}", lambda service, value=value: service.publish_stats("c", value, {})
    many = {f"n{at}": 1 for at in range(1_001)}
    for value in (None, 7, [1], {"a": 1.5}, {"a": "1"}, {"a": True}, {7: 1}, {"": 1}, {"a": 2**63}, many):
        yield (
            "publish_stats",
            f"numbers={value!r:.30}",
            lambda service, value=value: service.publish_stats("c", "i", value),
        )


def _schedules() -> Iterator[Case]:
    fields: dict[str, tuple[Any, ...]] = {
        "name": ("", "n" * 256, *WRONG_TEXTS),
        "job": (
            None,
            5,
            _job(name=""),
            _job(delay_ms=5),
            _job(repeat="DAILY"),
            _job(id=OK_ID),
            _job(payload=TOO_LARGE),
        ),
        "cron": ("* * * * *", "x", *WRONG_TEXTS),
        "timezone": ("", "Europe/Berlin", *WRONG_TEXTS),
        "every_ms": (0, 999, -1, *WRONG_WHOLES),
        "repeat": ("DAILY", *WRONG_TEXTS),
        "overlap": ("some", None, 5, ["skip"]),
        "misfire": ("some", None, 5, ["all"]),
        "misfire_after_ms": (-1, *WRONG_WHOLES),
        "starts_at_ms": (-1, 2**47 + 1, *WRONG_WHOLES),
        "ends_at_ms": (-1, 5, *WRONG_WHOLES),
    }
    for field, values in fields.items():
        for value in values:
            schedule = Schedule(**({"name": "s", "job": _job(), "every_ms": 1_000} | {field: value}))
            yield "schedule", f"{field}={value!r:.30}", lambda service, schedule=schedule: service.schedule(schedule)
    for value in (None, 5, "s"):
        yield "schedule", f"request={value!r}", lambda service, value=value: service.schedule(value)
    good = Schedule(name="s", job=_job(), every_ms=1_000)
    for value in (7, -1, 2**32, *WRONG_WHOLES):
        yield "schedule", f"revision={value!r}", lambda service, value=value: service.schedule(good, if_revision=value)
        yield (
            "unschedule",
            f"revision={value!r}",
            lambda service, value=value: service.unschedule("s", if_revision=value),
        )
    for method in ("unschedule", "pause_schedule", "resume_schedule", "run_schedule", "schedule_of"):
        for value in ("", "unknown", "n" * 256, *WRONG_TEXTS):
            yield (
                method,
                f"name={value!r:.30}",
                lambda service, method=method, value=value: getattr(service, method)(value),
            )
    for value in WRONG_TEXTS:
        yield (
            "pause_schedule",
            f"reason={value!r:.30}",
            lambda service, value=value: service.pause_schedule("s", reason=value),
        )


def _capacity_source(room: Any) -> CapacitySource:
    return CapacitySource(lambda: room)


def _callbacks() -> Iterator[Case]:
    url = "https://example.org/"
    wrong = {
        "url": ("", "example.org", "ftp://h/", "http://", "http://h:x/", "http://[h/", *WRONG_TEXTS),
        "events": ((), None, "failed", ["failed"], ("failed", "running"), (5,), ([],)),
        "headers": (
            None,
            {},
            [("a", "b")],
            (("a",),),
            (5,),
            ((5, "b"),),
            (("", "b"),),
            (("a:", "b"),),
            (("a", "b\n"),),
        ),
        "data": (Blob(b"x" * 8_193), *WRONG_BLOBS),
    }
    for value in (5, url, {}, True):
        yield "enqueue", f"callback={value!r}", lambda service, value=value: service.enqueue([_job(callback=value)])
    for field, values in wrong.items():
        for value in values:
            callback = Callback(**({"url": url} | {field: value}))
            yield (
                "enqueue",
                f"callback.{field}={value!r:.30}",
                lambda service, callback=callback: service.enqueue([_job(callback=callback)]),
            )
    for method, field, values in (
        ("take_callbacks", "most", (0, 101, *WRONG_WHOLES)),
        ("take_callbacks", "lease_ms", (0, *WRONG_WHOLES)),
        ("take_callbacks", "wait_ms", (-1, *WRONG_WHOLES)),
        (
            "take_callbacks",
            "capacity",
            (
                5,
                DeliveryCapacity(most=1),
                *map(
                    _capacity_source, (None, DeliveryCapacity(most=-1), DeliveryCapacity(most=1, per_destination=101))
                ),
            ),
        ),
        ("callbacks", "given_up", WRONG_CLAIMS),
        ("callbacks", "most", (0, 101, *WRONG_WHOLES)),
        ("callbacks", "cursor", ("x", "1", "1.x", "-1.0", ".", *WRONG_TEXTS)),
    ):
        for value in values:
            yield (
                method,
                f"{field}={value!r:.30}",
                lambda service, method=method, field=field, value=value: getattr(service, method)(**{field: value}),
            )


def _pending_callbacks() -> Iterator[Case]:
    debt = OK_ID + bytes(6)

    def request(kind: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **kw: kind(**({"id": debt, "token": 1} | kw))

    held: dict[str, tuple[Any, ...]] = {"id": (OK_ID, *WRONG_IDS), "token": (0, -1, 2**48, *WRONG_WHOLES)}
    yield from _wrong_lists("settle_callbacks")
    yield from _wrong("settle_callbacks", request(LeasedCallback), **held)
    yield "settle_callbacks", "unknown", lambda service: service.settle_callbacks([LeasedCallback(debt, 1)])
    yield from _wrong_lists("retry_callbacks")
    yield from _wrong(
        "retry_callbacks",
        request(FailedDelivery),
        **held,
        delay_ms=(-1, *WRONG_WHOLES),
        error=(5, None, b"e", "e" * 1_025),
        give_up=WRONG_CLAIMS,
        is_unspent=WRONG_CLAIMS,
    )
    both = FailedDelivery(id=debt, token=1, give_up=True, is_unspent=True)
    yield "retry_callbacks", "given up, but not tried", lambda service: service.retry_callbacks([both])
    yield "retry_callbacks", "unknown", lambda service: service.retry_callbacks([FailedDelivery(id=debt, token=1)])
    yield from _wrong_lists("redeliver")
    yield "redeliver", "not an id", lambda service: service.redeliver([debt + b"x"])
    yield "redeliver", "unknown", lambda service: service.redeliver([debt])


def _events() -> Iterator[Case]:
    yield from _wrong_lists("emit")
    yield from _wrong(
        "emit",
        lambda **kw: Emit(**({"id": OK_ID, "token": 1, "value": Blob(b"1")} | kw)),
        id=WRONG_IDS,
        token=(-1, *WRONG_WHOLES),
        value=(Blob(b"x" * 16_385), None, *WRONG_BLOBS),
    )
    yield "emit", "unknown", lambda service: service.emit([Emit(OK_ID, 1, Blob(b"1"))])
    for method in ("events", "follow"):
        wrong = {"position": (5, None, "a\nb", SURROGATE), "queue": WRONG_TEXTS, "job": (b"", *WRONG_IDS)}
        for field, values in wrong.items():
            for value in values if field != "job" else [value for value in values if value is not None]:
                yield (
                    method,
                    f"{field}={value!r:.30}",
                    lambda service, method=method, field=field, value=value: getattr(service, method)(**{field: value}),
                )
    for value in ("x", "0:0-0", "0:1", "0:1-1,", "9:1-1", "0:1-1,1:1-1", "0:-1-1", "0:1-1.5"):
        yield "events", f"position={value}", lambda service, value=value: service.events(value)
    for value in WRONG_CLAIMS:
        yield "follow", f"shared={value!r}", lambda service, value=value: service.follow(shared=value)
    for value in (0, 501, *WRONG_WHOLES):
        yield "events", f"most={value!r}", lambda service, value=value: service.events(most=value)


def _logs() -> Iterator[Case]:
    line = LogLine(1, "info", "x")
    yield from _wrong_lists("log")
    yield from _wrong(
        "log",
        lambda **kw: Log(**({"id": OK_ID, "token": 1, "lines": [line]} | kw)),
        id=WRONG_IDS,
        token=(-1, *WRONG_WHOLES),
        lines=([], [line] * 201, [None], ["x"], [[1, "info", "x"]], *WRONG_LISTS),
    )
    yield from _wrong(
        "log",
        lambda **kw: Log(OK_ID, 1, [line, LogLine(**({"at_ms": 1, "level": "info", "text": "x"} | kw))]),
        at_ms=(-1, 2**47 + 1, *WRONG_WHOLES),
        level=("", "l" * 17, "a\nb", None, 5, []),
        text=("x" * 4_097, "ü" * 2_049, None, 5, b"x", SURROGATE),
    )
    yield "log", "unknown", lambda service: service.log([Log(OK_ID, 1, [line])])
    for value in WRONG_IDS:
        yield "logs", f"id={value!r}", lambda service, value=value: service.logs(value)
    yield "logs", "unknown", lambda service: service.logs(OK_ID)


def _durable() -> Iterator[Case]:
    held: dict[str, tuple[Any, ...]] = {"id": WRONG_IDS, "token": (-1, *WRONG_WHOLES)}
    step_names = ("", "s" * 201, *WRONG_TEXTS)
    signal_names = ("", "s" * 101, *WRONG_TEXTS)
    for method in ("store_steps", "suspend", "receive_signals", "signal", "rewind", "write_stream"):
        yield from _wrong_lists(method)
    for method in ("durable_states", "open_waits"):
        yield from _wrong_lists(method)
    yield from _wrong(
        "store_steps",
        lambda **kw: StoreStep(**({"id": OK_ID, "token": 1, "name": "s"} | kw)),
        **held,
        name=step_names,
        kind=(1, "step", None, StepKind.SIGNAL),
        status=(2, "done", None, StepStatus.WAITING, StepStatus.TIMED_OUT),
        value=(TOO_LARGE, *WRONG_BLOBS),
        tries=(-1, 2**32, *WRONG_WHOLES),
        ran_ms=(-1, *WRONG_WHOLES),
        lease_ms=(-1, *WRONG_WHOLES),
    )
    yield from _wrong(
        "suspend",
        lambda **kw: Suspend(**({"id": OK_ID, "token": 1, "waits": (_wait(),)} | kw)),
        **held,
        waits=((), (None,), (5,), (_wait(), _wait()), (_wait(),) * 101, *WRONG_LISTS),
    )
    yield from _wrong(
        "suspend",
        lambda **kw: Suspend(id=OK_ID, token=1, waits=(_wait(**kw),)),
        name=step_names,
        kind=("other", None, 5, "signal", "children"),
        for_ms=(None, -1, 2**43 + 1, 1.5, "5", True),
        children=((OK_ID,), *WRONG_LISTS),
        needs_all=WRONG_CLAIMS,
        tries=(-1, 2**32, *WRONG_WHOLES),
        schema=(Blob(b"{}"), *WRONG_BLOBS),
        error=(Blob(b"x" * 16_385), *WRONG_BLOBS),
    )
    yield from _wrong(
        "suspend",
        lambda **kw: Suspend(id=OK_ID, token=1, waits=(_wait(kind="signal", **({"signal": "s"} | kw)),)),
        signal=signal_names,
        schema=(Blob(b"x" * 16_385), *WRONG_BLOBS),
    )
    yield from _wrong(
        "suspend",
        lambda **kw: Suspend(id=OK_ID, token=1, waits=(_wait(kind="children", **kw),)),
        children=((), (b"short",), (None,), (OK_ID,) * 1_001),
    )
    yield from _wrong(
        "receive_signals",
        lambda **kw: ReceiveSignal(**({"id": OK_ID, "token": 1, "name": "s", "signal": "s"} | kw)),
        **held,
        name=step_names,
        signal=signal_names,
    )
    yield from _wrong(
        "signal",
        lambda **kw: Signal(**({"id": OK_ID, "name": "s", "value": Blob(b"1")} | kw)),
        id=WRONG_IDS,
        name=signal_names,
        value=(None, Blob(b"x" * 65_537), *WRONG_BLOBS),
        request_id=WRONG_IDS,
        occurrence_at_ms=(-1, 2**47 + 1, *(value for value in WRONG_WHOLES if value is not None)),
        is_one_time=WRONG_CLAIMS,
    )
    yield from _wrong(
        "rewind", lambda **kw: Rewind(**({"id": OK_ID} | kw)), id=WRONG_IDS, step=("s" * 201, *WRONG_TEXTS)
    )
    yield from _wrong(
        "write_stream",
        lambda **kw: StreamWrite(**({"id": OK_ID, "token": 1, "values": (Blob(b"1"),), "sequence": 0} | kw)),
        **held,
        values=((), (None,), (Blob(b"x" * 65_537),), *WRONG_LISTS),
        sequence=(-1, 2**32, *WRONG_WHOLES),
        outside=(-1, 2**32, 1.5, "5", True),
    )
    for value in WRONG_IDS:
        yield "read_stream", f"id={value!r}", lambda service, value=value: service.read_stream(value)
        yield "follow_stream", f"id={value!r}", lambda service, value=value: service.follow_stream(value)
        yield "durable_states", f"id={value!r}", lambda service, value=value: service.durable_states([value])
        yield "open_waits", f"id={value!r}", lambda service, value=value: service.open_waits([value])
    for value in (-1, *WRONG_WHOLES):
        yield "read_stream", f"after={value!r}", lambda service, value=value: service.read_stream(OK_ID, after=value)
        yield "follow_stream", f"{value!r}", lambda service, value=value: service.follow_stream(OK_ID, after=value)
        yield "read_stream", f"most={value!r}", lambda service, value=value: service.read_stream(OK_ID, most=value)
    yield "store_steps", "unknown", lambda service: service.store_steps([StoreStep(id=OK_ID, token=1, name="s")])
    yield "suspend", "unknown", lambda service: service.suspend([Suspend(id=OK_ID, token=1, waits=(_wait(),))])
    yield "signal", "unknown", lambda service: service.signal([Signal(id=OK_ID, name="s", value=Blob(b"1"))])
    yield "rewind", "unknown", lambda service: service.rewind([Rewind(id=OK_ID)])
    yield "durable_states", "unknown", lambda service: service.durable_states([OK_ID])
    yield "open_waits", "unknown", lambda service: service.open_waits([OK_ID])


def _wait(**kw: Any) -> Wait:
    return Wait(**({"name": "w", "kind": "sleep", "for_ms": 1_000} | kw))


def _transfer() -> Iterator[Case]:
    wrong: tuple[Any, ...] = (None, 5, "text", b"bytes", [], [b""], [b"{}"], [b"nonsense"], [5], [None], ["\ud800"])
    for value in wrong:
        yield "import_jobs", f"{value!r:.30}", lambda service, value=value: service.import_jobs(value)
        if value != []:  # a part may be empty
            yield "import_part", f"{value!r:.30}", lambda service, value=value: service.import_part(value)
    for number in (0, -1, 2**53 + 1, "1", None, True):
        yield "import_part", f"first_line {number!r}", lambda service, n=number: service.import_part([], first_line=n)


def _doctor() -> Iterator[Case]:
    for value in WRONG_CLAIMS:
        yield "doctor", f"repair={value!r}", lambda service, value=value: service.doctor(value)
    for value in ("x", 5, []):
        yield "doctor", f"on_progress={value!r}", lambda service, value=value: service.doctor(on_progress=value)


def _tokens() -> Iterator[Case]:
    wrong: dict[str, tuple[Any, ...]] = {
        "name": ("", "n" * 129, *WRONG_TEXTS),
        "roles": (frozenset(), {Role.READ}, (Role.READ,), "read", None, frozenset({"read"}), frozenset({"root"})),
        "queues": WRONG_PATTERNS,
        "rate": (-1, 1_000_001, *WRONG_WHOLES),
        "expires_in_ms": (-1, 2**43 + 1, *WRONG_WHOLES),
        "note": ("n" * 257, *WRONG_TEXTS),
    }
    good: dict[str, Any] = {"name": "t", "roles": frozenset({Role.READ})}
    for field, values in wrong.items():
        for value in values:
            new = NewToken(**(good | {field: value}))
            yield "create_token", f"{field}={value!r:.30}", lambda service, new=new: service.create_token(new)
    bounded = NewToken(name="t", roles=frozenset({Role.ADMIN}), queues=("a",))
    yield "create_token", "admin of some queues", lambda service: service.create_token(bounded)
    for value in (None, "t", good):
        yield "create_token", f"{value!r:.30}", lambda service, value=value: service.create_token(value)
    for value in ("", "unknown", "n" * 129, *WRONG_TEXTS):
        yield "revoke_token", f"{value!r:.30}", lambda service, value=value: service.revoke_token(value)
    yield from _filters()
    for value in (5, "x", (1, 2, []), Tokens(-1, 0, []), Tokens("1", 0, [])):  # type: ignore[arg-type]
        yield "tokens", f"known={value!r}", lambda service, value=value: service.tokens(value)
    for value in ("", "s" * 101, *WRONG_TEXTS):
        yield "end_session", f"{value!r:.30}", lambda service, value=value: service.end_session(value, 1)
    for value in (-1, 2**33 + 1, "1", 1.5, None):
        yield "end_session", f"until_s={value!r}", lambda service, value=value: service.end_session("t.s", value)


def _filters() -> Iterator[Case]:
    good: dict[str, Any] = {"name": "f", "page": "jobs", "fields": {"state": "failed"}}
    wrong: dict[str, tuple[Any, ...]] = {
        "name": ("", "n" * 65, *WRONG_TEXTS),
        "page": ("", "engine", None, 5),
        "fields": (
            {}, None, [], {"cursor": "x"}, {"state": ""}, {"state": 5}, {5: "x"}, {"name": "n" * 256},
            dict.fromkeys(("queue", "name", "tag", "error", "shape"), "a" * 255),
        ),
    }  # fmt: skip
    for field, values in wrong.items():
        for value in values:
            saved = SavedFilter(**(good | {field: value}))
            yield "save_filter", f"{field}={value!r:.30}", lambda service, saved=saved: service.save_filter(saved)
    saved = SavedFilter(**good)
    for value in ("n" * 65, "unknown", *WRONG_TEXTS):
        yield (
            "save_filter",
            f"former={value!r:.30}",
            lambda service, value=value: service.save_filter(saved, former=value),
        )
    for value in (None, "f", good):
        yield "save_filter", f"{value!r:.30}", lambda service, value=value: service.save_filter(value)
    for value in ("", "unknown", "n" * 65, *WRONG_TEXTS):
        yield "remove_filter", f"{value!r:.30}", lambda service, value=value: service.remove_filter(value)


def _signal_links() -> Iterator[Case]:
    for value in WRONG_IDS:
        yield "signal_link", f"id={value!r}", lambda service, value=value: service.signal_link(value, "s")
    for value in ("", "s" * 101, *WRONG_TEXTS):
        yield "signal_link", f"signal={value!r:.30}", lambda service, value=value: service.signal_link(OK_ID, value)
    for value in (0, 2**43 + 1, *WRONG_WHOLES):
        yield (
            "signal_link",
            f"expires_in_ms={value!r}",
            lambda service, value=value: service.signal_link(OK_ID, "s", expires_in_ms=value),
        )
    yield "signal_link", "unknown", lambda service: service.signal_link(OK_ID, "s")
    for value in (5, None, b"token", ["token"]):
        yield "read_signal_link", f"{value!r}", lambda service, value=value: service.read_signal_link(value)


def _alerts() -> Iterator[Case]:
    good = {"name": "r", "kind": "failures", "targets": ("mailto:ops@example.com",)}
    wrong: dict[str, tuple[Any, ...]] = {
        "name": ("", "n" * 129, "a\nb", *WRONG_TEXTS),
        "kind": ("", "other", None, 5),
        "pattern": ("q" * 256, "*" * 17, *(text for text in WRONG_TEXTS if text != "")),
        "threshold": (0, -1, 2.0**44, float("nan"), float("inf"), "1", None, True),
        "window_ms": (0, 59_999, 90_000, 86_460_000, *WRONG_WHOLES),
        "for_ms": (-1, 2**43 + 1, *WRONG_WHOLES),
        "cool_down_ms": (-1, 2**43 + 1, *WRONG_WHOLES),
        "targets": (["mailto:a@b.c"], "mailto:a@b.c", ("ops",), (5,), ("mailto:a@b.c",) * 2, ("https://a",) * 11),
        "note": ("x" * 257, "a\nb", 5, None),
        "is_enabled": (1, None, "yes"),
        "is_declared": (1, None, True),
    }
    for field, values in wrong.items():
        for value in values:
            rule = AlertRule(**(good | {field: value}))  # type: ignore[arg-type]
            yield "set_alert", f"{field}={value!r:.30}", lambda service, rule=rule: service.set_alert(rule)
            if field != "is_declared" or value is not True:
                yield "declare_alerts", f"{value!r:.30}", lambda service, rule=rule: service.declare_alerts([rule])
    engine = AlertRule(name="r", kind="engine_risk", pattern="q")
    yield "set_alert", "pattern of the engine", lambda service: service.set_alert(engine)
    for value in (None, "r", good):
        yield "set_alert", f"{value!r:.30}", lambda service, value=value: service.set_alert(value)
        yield "declare_alerts", f"{value!r:.30}", lambda service, value=value: service.declare_alerts(value)
    for value in ("", "unknown", "n" * 129, *WRONG_TEXTS):
        yield "remove_alert", f"{value!r:.30}", lambda service, value=value: service.remove_alert(value)
        yield "mute_alert", f"{value!r:.30}", lambda service, value=value: service.mute_alert(value, for_ms=1)
        yield "test_alert", f"{value!r:.30}", lambda service, value=value: service.test_alert(value)
    for value in (-1, 366 * 86_400_000, *WRONG_WHOLES):
        yield "mute_alert", f"for_ms={value!r}", lambda service, value=value: service.mute_alert("r", for_ms=value)
        yield "claim_alerts", f"{value!r}", lambda service, value=value: service.claim_alerts(interval_ms=value)
        yield "given_up_since", f"{value!r}", lambda service, value=value: service.given_up_since(within_ms=value)
    for value in (-1, 201, *WRONG_WHOLES):
        yield "alerts", f"past={value!r}", lambda service, value=value: service.alerts(past=value)
    for value in (5, None, "u" * 2049):
        yield "test_alert", f"{value!r:.30}", lambda service, value=value: service.test_alert("r", public_url=value)
    yield from _alert_moves()


def _alert_moves() -> Iterator[Case]:
    status = AlertStatus(rule=AlertRule(name="r", kind="failures"), state=AlertState())
    one, move = StoredStatus(status, b""), Transition(state=AlertState(revision=1))
    yield "move_alert", "no rule", lambda service: service.move_alert(status, move, 1)
    yield "move_alert", "no transition", lambda service: service.move_alert(one, AlertState(), 1)
    for value in (-1, *WRONG_WHOLES):
        yield "move_alert", f"now_ms={value!r}", lambda service, value=value: service.move_alert(one, move, value)
    for value in (5, None, "u" * 2049):
        yield (
            "move_alert",
            f"public_url={value!r:.30}",
            lambda service, value=value: service.move_alert(one, move, 1, public_url=value),
        )


def _audit() -> Iterator[Case]:
    yield from _wrong_lists("audit")
    yield from _wrong(
        "audit",
        lambda **kw: AuditEntry(**({"who": "a", "what": "b"} | kw)),
        who=("", "w" * 129, *WRONG_TEXTS),
        what=("", "w" * 129, *WRONG_TEXTS),
        outcome=("", "w" * 129, *WRONG_TEXTS),
        peer=("w" * 129, *WRONG_TEXTS),
        target=("t" * 513, 5, None, b"t", SURROGATE),
        detail=("d" * 1_025, "ü" * 513, 5, None, b"d", SURROGATE),
    )
    many = [AuditEntry(who="a", what="b")] * 1_001
    yield "audit", "too many", lambda service: service.audit(many)
    for value in (0, 501, *WRONG_WHOLES):
        yield "audits", f"most={value!r}", lambda service, value=value: service.audits(most=value)
    for value in ("x", "1", "1-x", *WRONG_TEXTS):
        yield "audits", f"cursor={value!r:.30}", lambda service, value=value: service.audits(cursor=value)


def _pushes() -> Iterator[Case]:
    for value in (0, 1_001, *WRONG_WHOLES):
        yield "dispatch", f"most={value!r}", lambda service, value=value: service.dispatch(most=value)
    for value in (0, *WRONG_WHOLES):
        yield "dispatch", f"accept_ms={value!r}", lambda service, value=value: service.dispatch(accept_ms=value)
    for value in (-1, *WRONG_WHOLES):
        yield "dispatch", f"wait_ms={value!r}", lambda service, value=value: service.dispatch(wait_ms=value)
    yield from _wrong_lists("pushed")
    pushed = {"id": OK_ID, "token": 1, "worker": OK_ID, "outcome": "accepted"}
    yield from _wrong(
        "pushed", lambda **kw: PushReport(**(pushed | kw)), id=WRONG_IDS, token=WRONG_WHOLES,
        worker=(*WRONG_IDS, bytes(16)), outcome=("", "eaten", 5, None), lease_ms=WRONG_WHOLES,
        pause_ms=(-1, 60_001, *WRONG_WHOLES),
    )  # fmt: skip
    redirect = {"id": OK_ID, "token": 1, "refused_by": (OK_ID,)}
    wrong: dict[str, tuple[Any, ...]] = {
        "id": WRONG_IDS, "token": WRONG_WHOLES, "accept_ms": WRONG_WHOLES,
        "refused_by": ((), [OK_ID], None, (b"x",), (OK_ID,) * 501),
    }  # fmt: skip
    for field, values in wrong.items():
        for value in values:
            request = Redirect(**(redirect | {field: value}))
            yield "redirect", f"{field}={value!r:.30}", lambda service, request=request: service.redirect(request)


def _assignments() -> Iterator[Case]:
    for value in WRONG_LISTS:
        yield "report_worker", f"list={value!r}", lambda service, value=value: service.report_worker(value, silent_ms=1)
    for value in (None, 5, "text", object()):
        yield (
            "report_worker",
            f"item={type(value).__name__}",
            lambda service, value=value: service.report_worker([value], silent_ms=1),
        )
    said = {"queue": "q", "worker": OK_ID, "info": WorkerInfo(), "kind": "finished"}
    wrong: dict[str, tuple[Any, ...]] = {
        "queue": ("", *WRONG_TEXTS), "worker": (*WRONG_IDS, bytes(16)), "info": (None, 5, {}),
        "kind": ("", "heard", "lost", 5, None), "unique": WRONG_TEXTS, "id": WRONG_IDS, "age_ms": (-1, *WRONG_WHOLES),
        "idle_ms": (-1, *WRONG_WHOLES), "progress": (-0.1, 1.1, float("nan"), "1", None),
        "result": (*WRONG_BLOBS, TOO_LARGE), "error": (*WRONG_BLOBS, TOO_LARGE), "then": ("", "later", 5, None),
    }  # fmt: skip
    for field, values in wrong.items():
        for value in values:
            request = WorkerReport(**(said | {field: value}))
            yield (
                "report_worker",
                f"{field}={value!r:.30}",
                lambda service, report=request: service.report_worker([report], silent_ms=1),
            )
    for value in (0, *WRONG_WHOLES):
        yield (
            "report_worker",
            f"silent_ms={value!r}",
            lambda service, value=value: service.report_worker([], silent_ms=value),
        )
    for value in (*WRONG_LISTS, [], [5], [""], ["q"] * 1_001):
        yield "assign", f"queues={value!r:.30}", lambda service, value=value: service.assign(value, accept_ms=1)
    terms: dict[str, tuple[Any, ...]] = {
        "most": (0, 1_001, *WRONG_WHOLES), "accept_ms": (0, *WRONG_WHOLES), "wait_ms": (-1, *WRONG_WHOLES),
        "wakeup_ms": (-1, *WRONG_WHOLES), "spends_attempt": WRONG_CLAIMS,
    }  # fmt: skip
    for field, values in terms.items():
        for value in values:
            given = {"accept_ms": 1, field: value}
            yield "assign", f"{field}={value!r}", lambda service, given=given: service.assign(["q"], **given)


CASES = [
    *_enqueue(), *_reports(), *_interventions(), *_conclusions(), *_numbers(), *_taken_details(), *_takes(),
    *_reading(), *_failures(), *_scopes(), *_flows(), *_actions(), *_lanes(), *_scales(), *_members(),
    *_pages_by_name(), *_queues_and_workers(), *_tasks(), *_limits_and_pauses(), *_schedules(), *_callbacks(),
    *_pending_callbacks(), *_events(), *_logs(), *_durable(), *_transfer(), *_doctor(),
    *_statistics(), *_tokens(), *_alerts(), *_signal_links(), *_audit(), *_pushes(), *_assignments(),
]  # fmt: skip
METHODS = sorted({case[0] for case in CASES})
# Nothing can be given to these but what the type checker sees.
WITHOUT_INPUT = {
    "queues", "overview", "limits", "actions", "promote", "clean", "hear_cancels", "schedules", "fire",
    "export", "complete_import", "now", "ping", "engines", "filters",
}  # fmt: skip


def _refusals(ask: Callable[[], Any]) -> list[Refusal]:
    try:
        answer = ask().wait()
    except Refusal as refusal:
        return [refusal]
    answers = answer if isinstance(answer, list) else getattr(answer, "finished", [answer])
    return [answer for answer in answers if isinstance(answer, Refusal)]


@pytest.mark.parametrize("method", METHODS)
def test_bad_input_is_refused_with_a_code_and_a_sentence_and_changes_nothing(
    service: Service, store: Store, method: str
) -> None:
    service.enqueue([_job(), _job(delay_ms=60_000, tags=("t",))]).wait()
    service.take(Take(queues=("q",))).wait()
    service.enqueue([_job()]).wait()
    before = dump_keys(store)
    accepted: list[str] = []
    cases = [case for case in CASES if case[0] == method]
    for _, label, ask in cases:
        found = _refusals(lambda ask=ask: ask(service))
        if not found:
            accepted.append(label)
        for refusal in found:
            assert REFUSALS[refusal.code] is type(refusal), label
            assert re.fullmatch(r"\S.* .*[.?)]", str(refusal), re.DOTALL), (label, str(refusal))
            assert len(str(refusal)) < 1_000, label
    assert accepted == []
    assert dump_keys(store) == before


def test_every_method_of_the_service_is_in_the_table() -> None:
    public = {name for name, _ in inspect.getmembers(Service, inspect.isfunction) if not name.startswith("_")}
    assert public - WITHOUT_INPUT == set(METHODS)


@pytest.mark.parametrize(
    "job",
    [
        _job(queue="q" * 255, name="n" * 1_020, lane="l" * 255, unique="u" * 512, trace="t" * 1_024),
        _job(tags=tuple(f"{i:0128}" for i in range(20)), payload=Blob(b"x" * 1024 * 1024, Codec.RAW)),
        _job(priority=2**31 - 1, run_at_ms=2**47, expires_at_ms=2**47, timeout_ms=2**43, lease_ms=FOREVER_MS),
        _job(priority=-(2**31), delay_ms=2**43, expires_in_ms=2**43, result_ttl_ms=FOREVER_MS),
        _job(retry=Backoff(tries=2**32 - 1, base_ms=2**42, factor=1_000, cap_ms=2**42, jitter=1)),
        _job(queue="ü{x} \\*?[", name="名 \u200b\u007f", unique="{}", lane=":"),
    ],
)
def test_the_extremes_of_what_is_allowed_are_stored(service: Service, job: NewJob) -> None:
    answer = service.enqueue([job]).one().wait()
    stored = service.job([answer.id]).one().wait().job
    for field in ("queue", "name", "payload", "priority", "lane", "unique", "tags", "trace", "retry", "timeout_ms"):
        assert getattr(stored, field) == (getattr(job, field) or (None if field == "unique" else getattr(job, field)))


def test_a_smaller_payload_limit(store: Store) -> None:
    service = Service(store, payload_max=10)
    service.enqueue([_job(payload=Blob(b"x" * 10))]).one().wait()
    with pytest.raises(Refusal, match="at most 10") as caught:
        service.enqueue([_job(payload=Blob(b"x" * 11))])
    assert caught.value.code == "too_large"
