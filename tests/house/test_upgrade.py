"""Data directories of earlier versions can be opened, read, and drained to the last job."""

from __future__ import annotations

import asyncio
import json
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.embedded_process import new_data_dir
from windlass import Windlass, Worker
from windlass.core.access.tokens import digest_of, parse_token
from windlass.core.diagnosis import Severity
from windlass.core.durable import DurableState, Signal
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Job, Timeline
from windlass.core.namespace.format import WITH_STEPS
from windlass.core.operations import ANY_JOB_WITH_STEPS, Finish, Listing, Take
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.embedded.engine import EmbeddedEngine
from windlass.store.store import Store

ARCHIVES = sorted(Path(__file__).with_name("upgrade").glob("*.tar.gz"))
WITH_ADDITIONS = [path for path in ARCHIVES if not path.name.startswith("0.1.0")]  # what 0.1.0 does not store
DAY_MS, HOUR_MS = 86_400_000, 3_600_000
of_every_version = pytest.mark.parametrize("old", ARCHIVES, ids=lambda path: path.name, indirect=True)
of_later_versions = pytest.mark.parametrize("old", WITH_ADDITIONS, ids=lambda path: path.name, indirect=True)


class Old(NamedTuple):
    app: Windlass
    contents: dict[str, Any]
    directory: Path

    @property
    def service(self) -> Service:
        return self.app.service

    @property
    def jobs(self) -> dict[str, bytes]:
        return {key: parse_id(job[0]) for key, job in self.contents["jobs"].items()}

    @property
    def finished(self) -> set[str]:
        return {key for key, (_, _, state) in self.contents["jobs"].items() if state == "finished"}

    def read(self, key: str) -> Job:
        return self.service.job([self.jobs[key]]).one().wait().job

    def take(self, *queues: str) -> list[Job]:
        return self.service.take(Take(queues=queues, most=100, wants=ANY_JOB_WITH_STEPS)).wait().jobs

    def pass_time(self, ms: int) -> None:
        self.service.store.clock_offset_ms += ms
        self.service.promote().wait()
        self.service.recover().wait()
        self.service.fire().wait()


@pytest.fixture
def old(request: pytest.FixtureRequest) -> Iterator[Old]:
    """A deployment of an earlier version, with the clock at the moment of its creation."""
    with new_data_dir() as directory:
        with tarfile.open(request.param) as archive:
            archive.extractall(directory, filter="data")
        contents = json.loads((directory / "contents.json").read_text())
        app = Windlass()
        engine = EmbeddedEngine(directory)
        store = Store(parse_url(engine.url), engine=engine, is_test=True)
        store.clock_offset_ms = contents["written_at_ms"] - time.time_ns() // 1_000_000
        app.connect(store)
        yield Old(app, contents, directory)
        store.close_sync()


def added_limits(old: Old) -> list[str]:
    return ["large orders"] if "added" in old.contents else []


@of_every_version
def test_all_data_is_unchanged(old: Old) -> None:
    service = old.service
    answers = service.job(list(old.jobs.values())).wait()
    found = {answer.job.id: answer.job for answer in answers if isinstance(answer, Timeline)}
    jobs = {key: found[job_id] for key, job_id in old.jobs.items()}
    read = {key: [job.key, job.queue, job.state.label] for key, job in jobs.items()}
    assert read == old.contents["jobs"]
    queued = jobs["queued"]
    assert (queued.priority, queued.tags, queued.payload.data[:14]) == (-5, ("shop", "urgent"), b'{"customer": "')
    assert service.result(old.jobs["finished"]).wait().result == Blob(b'{"parcel": 18446744073709551616}')
    assert {found.limit.name for found in service.limits().wait()} == {"one feed", *added_limits(old)}
    assert [found.schedule.name for found in service.schedules().wait()] == ["nightly", "often"]
    assert [callback.job.id for callback in service.callbacks().wait().callbacks] == [old.jobs["finished"]]
    assert service.numbered_id("bedrock", 1) == old.jobs["numbered"]
    (token,) = service.tokens().wait().tokens
    assert (token.name, token.digest) == ("deploy", digest_of(parse_token(old.contents["token"]).secret))
    problems = [finding for finding in service.doctor().wait().findings if finding.severity is Severity.ERROR]
    assert problems == []


@of_every_version
def test_the_files_of_the_data_directory_keep_their_names(old: Old) -> None:
    old.service.queues().wait()
    names = {str(file.relative_to(old.directory)) for file in old.directory.rglob("*")}
    assert set(old.contents["files"]) <= names


@of_every_version
def test_every_job_can_be_drained(old: Old) -> None:
    service, jobs = old.service, old.jobs
    service.retry([jobs["failed"], jobs["cancelled"]]).wait()
    service.resume("newsletters").wait()
    done: set[bytes] = set()
    for _ in range(30):
        old.pass_time(DAY_MS)
        for job in old.take(*service.queues().wait()):
            done.add(job.id)
            service.finish([Finish(job.id, job.lease_token, None)]).wait()
        if {key for key, job_id in jobs.items() if job_id not in done} <= {*old.finished, "group"}:
            break
    assert {key for key, job_id in jobs.items() if job_id not in done} <= {*old.finished, "group"}
    problems = [finding for finding in service.doctor().wait().findings if finding.severity is Severity.ERROR]
    assert problems == []


@of_every_version
def test_a_task_runs_and_its_result_is_read(old: Old) -> None:
    @old.app.task(name="add", queue="tasks", keep_result="1000h")
    def add(a: int, b: int) -> int:
        return a + b

    asyncio.run(Worker(old.app, queues=["tasks"], burst=True).run())
    assert old.app.job(format_id(old.jobs["task"])).result() == 5


# What came after version 0.1.0


def durable_state(old: Old, key: str) -> DurableState:
    return old.service.durable_states([old.jobs[key]]).one().wait()


@of_later_versions
def test_durable_jobs_keep_steps_signals_and_streams(old: Old) -> None:
    for key, wait in (("sleeping", "sleep"), ("awaiting", "signal:approval")):
        steps = {step.name: step for step in durable_state(old, key).steps}
        assert set(steps) == {"charge", wait}
        assert steps["charge"].value == Blob('{"charge": "Zoë"}'.encode())
        items = old.service.read_stream(old.jobs[key]).wait().items
        assert [item.value.data for item in items if item.value] == [b'"first"', b'"second"']
    assert [signal.name for signal in durable_state(old, "awaiting").signals] == ["note"]


@of_later_versions
def test_a_signal_and_the_time_wake_suspended_jobs(old: Old) -> None:
    approval = Signal(id=old.jobs["awaiting"], name="approval", value=Blob(b"true"))
    old.service.signal([approval]).one().wait()
    assert [old.read(key).state.label for key in ("awaiting", "sleeping")] == ["queued", "suspended"]
    (awaiting,) = old.take("payments")
    assert awaiting.id == old.jobs["awaiting"]
    old.service.finish([Finish(awaiting.id, awaiting.lease_token)]).one().wait()
    old.pass_time(6 * HOUR_MS)
    assert [job.id for job in old.take("payments")] == [old.jobs["sleeping"]]


@of_later_versions
def test_a_flow_goes_on(old: Old) -> None:
    flow_id = parse_id(old.contents["added"]["flow"])

    def states() -> dict[str, str | None]:
        return {step.step: step.state and step.state.label for step in old.service.flow(flow_id).wait().steps}

    assert states() == {"reserve": "finished", "ship": "queued"}
    (job,) = old.take("shipping")
    old.service.finish([Finish(job.id, job.lease_token)]).one().wait()
    assert states() == {"reserve": "finished", "ship": "finished"}


@of_later_versions
def test_indexes_filters_alerts_and_tombstones_are_found(old: Old) -> None:
    service = old.service
    assert [job.id for job in service.jobs(Listing(where=("order_id=4711",))).wait().jobs] == [old.jobs["indexed"]]
    assert [saved.name for saved in service.filters().wait()] == ["failed orders"]
    assert [status.rule.name for status in service.alerts().wait().rules] == ["failures"]
    assert service.tombstone([parse_id(old.contents["added"]["tombstone"])]).wait() == ["receipts"]
    assert service.store.open_sync().format.number == WITH_STEPS, "it has stored steps"
