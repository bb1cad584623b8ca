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
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Timeline
from windlass.core.operations import Finish, Take
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.embedded.engine import EmbeddedEngine
from windlass.store.store import Store

ARCHIVES = sorted(Path(__file__).with_name("upgrade").glob("*.tar.gz"))
DAY_MS = 86_400_000
pytestmark = pytest.mark.parametrize("old", ARCHIVES, ids=lambda path: path.name, indirect=True)


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
    assert [found.limit.name for found in service.limits().wait()] == ["one feed"]
    assert [found.schedule.name for found in service.schedules().wait()] == ["nightly", "often"]
    assert [callback.job.id for callback in service.callbacks().wait().callbacks] == [old.jobs["finished"]]
    assert service.numbered_id("bedrock", 1) == old.jobs["numbered"]
    (token,) = service.tokens().wait().tokens
    assert (token.name, token.digest) == ("deploy", digest_of(parse_token(old.contents["token"]).secret))
    problems = [finding for finding in service.doctor().wait().findings if finding.severity is Severity.ERROR]
    assert problems == []


def test_the_files_of_the_data_directory_keep_their_names(old: Old) -> None:
    old.service.queues().wait()
    names = {str(file.relative_to(old.directory)) for file in old.directory.rglob("*")}
    assert set(old.contents["files"]) <= names


def test_every_job_can_be_drained(old: Old) -> None:
    service, jobs = old.service, old.jobs
    service.retry([jobs["failed"], jobs["cancelled"]]).wait()
    service.resume("newsletters").wait()
    done: set[bytes] = set()
    for _ in range(30):
        old.pass_time(DAY_MS)
        taken = service.take(Take(queues=(*service.queues().wait(),), most=100)).wait().jobs
        for job in taken:
            done.add(job.id)
            service.finish([Finish(job.id, job.lease_token, None)]).wait()
        if set(jobs.values()) <= done | {jobs["finished"], jobs["group"]}:
            break
    assert {key for key, job_id in jobs.items() if job_id not in done} <= {"finished", "group"}
    problems = [finding for finding in service.doctor().wait().findings if finding.severity is Severity.ERROR]
    assert problems == []


def test_a_task_runs_and_its_result_is_read(old: Old) -> None:
    @old.app.task(name="add", queue="tasks", keep_result="1000h")
    def add(a: int, b: int) -> int:
        return a + b

    asyncio.run(Worker(old.app, queues=["tasks"], burst=True).run())
    assert old.app.job(format_id(old.jobs["task"])).result() == 5
