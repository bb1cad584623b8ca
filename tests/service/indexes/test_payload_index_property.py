"""Indexed payload fields under random changes: a search finds exactly the jobs that the model expects.

Every writer of a payload takes part, from two processes: the one that changes the indexes of the queues has a fresh
view of them, the other one an old view.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.admin.doctor_findings import assert_healthy
from tests.service.helpers import another, new, take
from tests.service.job_pages import listed
from tests.support.engine_process import EngineProcess
from tests.support.profiles import examples
from tests.support.stores import make_store
from windlass.core.errors import BadInput, Refusal
from windlass.core.job import Blob, Codec, Job, NewJob
from windlass.core.limits.payload_index import make_entry
from windlass.core.operations import CompleteWithChildren, Edit, Enqueued, Fail, Finish, Update
from windlass.service import Service

FIELDS = ("a", "b", "c.d")
SCALARS: st.SearchStrategy[Any] = st.sampled_from((1, "1", 2, True, "x", "", "y" * 70, "\n", None, 1.5))
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=10))
PAYLOADS = st.one_of(
    st.fixed_dictionaries({}, optional={"a": VALUES, "b": VALUES, "c": st.fixed_dictionaries({"d": VALUES})}),
    st.sampled_from(([], "text")),
)
INDEXES = st.lists(st.sampled_from(FIELDS), max_size=2, unique=True).map(tuple)
VERBS = (
    "enqueue", "enqueue", "one", "unique", "replace", "debounce", "numbered", "whole", "edit", "edit", "rename", "take",
    "take", "update", "again", "finish_with", "fail_with", "finish", "fail", "retry", "requeue", "delete", "configure",
)  # fmt: skip
STEPS = st.tuples(
    st.sampled_from(VERBS), st.booleans(), st.sampled_from("pq"), st.integers(0, 9), PAYLOADS, INDEXES, st.booleans()
)


def texts_of(value: Any) -> list[str]:
    """Return the texts that find a value. This repeats the rule of docs/tasks.md, not the code."""
    if isinstance(value, list):
        return [text for element in value[:8] if not isinstance(element, list) for text in texts_of(element)]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [str(value)] if isinstance(value, str | int) else []


def entries_of(content: Any, paths: set[str]) -> set[str]:
    found = set()
    for path in paths:
        value = content if isinstance(content, dict) else {}
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        found |= {make_entry(path, text) for text in texts_of(value)}
    return found


class World:
    """Two processes, and what is expected of each job."""

    def __init__(self, service: Service) -> None:
        self.services = (service, another(service))
        self.indexes: dict[str, tuple[str, ...]] = {"p": (), "q": ()}
        self.own: dict[bytes, tuple[str, ...]] = {}
        self.entries: dict[bytes, set[str]] = {}
        self.queues: dict[bytes, str] = {}

    def write(self, job_id: bytes, content: Any, own: tuple[str, ...] | None = None) -> None:
        """Note that a job has a new payload."""
        if own is not None:
            self.own[job_id] = own
        paths = {*self.own[job_id], *self.indexes[self.queues[job_id]]}
        self.entries[job_id] = entries_of(content, paths)

    def added(self, answer: Enqueued | Refusal, job: NewJob, content: Any) -> None:
        if isinstance(answer, Enqueued) and answer.status != "existing":
            self.queues[answer.id] = job.queue
            self.write(answer.id, content, job.index)

    def live(self, service: Service) -> list[Job]:
        jobs = [answer.job for answer in service.job(list(self.entries)).wait() if not isinstance(answer, Refusal)]
        return sorted(jobs, key=lambda job: job.sequence)

    def do(self, step: Any) -> None:
        verb, is_other, queue, number, content, index, is_packed = step
        service = self.services[is_other]
        encode = msgspec.msgpack.encode if is_packed else msgspec.json.encode
        payload = Blob(encode(content), Codec.MSGPACK if is_packed else Codec.JSON)
        if verb == "configure":
            service.configure(queue, {"index": index}).wait()
            self.indexes[queue] = index
        elif verb in ("enqueue", "one", "unique", "replace", "debounce", "numbered", "whole"):
            self.enqueue(service, verb, new(queue=queue, payload=payload, index=index, result_ttl_ms=10**9), content)
        else:
            jobs = self.live(service)
            if jobs:
                self.change(service, verb, jobs[number % len(jobs)], payload, content)

    def enqueue(self, service: Service, verb: str, job: NewJob, content: Any) -> None:
        more: dict[str, Any] = {
            "unique": {"unique": "u"},
            "replace": {"unique": "u", "unique_check": "replace"},
            "debounce": {"unique": "u", "debounce_ms": 1_000},
        }.get(verb, {})
        job = msgspec.structs.replace(job, **more)
        if verb == "one":
            return self.added(service.enqueue_one(job).wait(), job, content)
        enqueue = service.enqueue_numbered if verb == "numbered" else service.enqueue
        answers = service.enqueue([job, job], whole=True).wait() if verb == "whole" else enqueue([job]).wait()
        for answer in answers:
            self.added(answer, job, content)
        return None

    def change(self, service: Service, verb: str, job: Job, payload: Blob, content: Any) -> None:
        token = job.lease_token
        if verb == "edit":
            self.try_write(service.edit([Edit(id=job.id, payload=payload, in_any_state=True)]), job, content)
        elif verb == "rename":
            service.edit([Edit(id=job.id, name="m", in_any_state=True)]).wait()
        elif verb == "take":
            take(service, job.queue)
        elif verb == "update":
            self.try_write(service.update([Update(id=job.id, token=token, payload=payload)]), job, content)
        elif verb in ("again", "finish_with", "fail_with"):
            then: Any = verb.removesuffix("_with")
            run_at_ms = 1 if verb == "again" else None
            wanted = CompleteWithChildren(id=job.id, token=token, then=then, payload=payload, run_at_ms=run_at_ms)
            self.try_write(service.complete_with_children([wanted]), job, content)
        elif verb in ("finish", "fail") and token:
            report = (
                service.finish([Finish(id=job.id, token=token)])
                if verb == "finish"
                else service.fail([Fail(id=job.id, token=token, then="final")])
            )
            report.wait()
        elif verb in ("retry", "requeue", "delete"):
            getattr(service, verb)([job.id]).wait()

    def try_write(self, operation: Any, job: Job, content: Any) -> None:
        (answer,) = operation.wait()
        if not isinstance(answer, Refusal):
            self.write(job.id, content)

    def check(self) -> None:
        service = self.services[0]
        alive = {job.id: job for job in self.live(service)}
        expected: dict[str, set[bytes]] = defaultdict(set)
        for job_id, job in alive.items():
            assert set(job.indexed) == self.entries[job_id]
            assert set(job.index) == set(self.own[job_id])
            for entry in job.indexed:
                expected[entry].add(job_id)
        for entry in {entry for entries in self.entries.values() for entry in entries}:
            assert searched(service, entry) == expected[entry]
        assert_healthy(service)


def searched(service: Service, entry: str) -> set[bytes]:
    try:
        return {job.id for job in listed(service, where=(entry,))}
    except BadInput:  # nothing found, and no queue indexes the field any more
        return set()


@settings(
    max_examples=examples(usual=25, deep=500),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(STEPS, min_size=3, max_size=25))
def test_a_search_finds_what_it_should_and_nothing_else(engine: EngineProcess, steps: list[Any]) -> None:
    world = World(Service(make_store(engine)))
    try:
        for step in steps:
            world.do(step)
        world.check()
    finally:
        for service in world.services:
            service.store.close_sync()
