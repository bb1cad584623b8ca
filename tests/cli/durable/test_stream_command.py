"""windlass jobs stream: stored entries, and entries as they come."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.service.durable.builders import start, take_with_steps
from tests.service.helpers import new, put
from tests.support.console import environment, run, run_ok
from tests.support.threaded_server import threaded_server
from windlass.core.durable import StreamWrite
from windlass.core.job import Blob, Codec, Job
from windlass.core.operations import Fail, Finish
from windlass.service import Service
from windlass.settings import Settings

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
UNKNOWN = "01a1e21f-2249-7000-aad3-893cc7fff097"


def write(service: Service, job: Job, *values: bytes, sequence: int = 0) -> None:
    blobs = tuple(Blob(value, Codec.RAW if value == b"\xff" else Codec.JSON) for value in values)
    request = StreamWrite(id=job.id, token=job.lease_token, values=blobs, sequence=sequence)
    service.write_stream([request]).one().wait()


def retold(service: Service) -> Job:
    """A failed job whose stream has two attempts."""
    job = start(service)
    write(service, job, b'"once"', b'{"text": "upon"}')
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).one().wait()
    (again,) = take_with_steps(service)
    write(service, again, b"\xff")
    service.fail([Fail(id=job.id, token=again.lease_token)]).one().wait()
    return job


def test_values_are_shown_one_per_line(service: Service) -> None:
    job = retold(service)
    shown = run_ok(service, "jobs", "stream", job.key)
    assert shown.out.splitlines() == ['"once"', '{"text":"upon"}', "\\xff"]
    assert "Attempt 2 begins here." in shown.err
    assert run_ok(service, "jobs", "stream", job.key, "--from", "3").out.splitlines() == ["\\xff"]


def test_entries_as_json(service: Service) -> None:
    job = retold(service)
    first, _, mark, last = run_ok(service, "jobs", "stream", job.key, "--json").lines
    assert (first["position"], first["value"], first["attempt"]) == (1, "once", 1)
    assert (mark["position"], mark["is_new_attempt"], mark["attempt"]) == (3, True, 2)
    assert (last["value_base64"], last["is_new_attempt"]) == ("/w==", False)


def test_following_an_ended_job_ends_with_its_state(service: Service) -> None:
    job = retold(service)
    shown = run_ok(service, "jobs", "stream", job.key, "-f", "--from", "1")
    assert shown.out.splitlines() == ['{"text":"upon"}', "\\xff"]
    assert "The job has failed." in shown.err


@pytest.mark.parametrize("over_http", [False, True])
def test_a_running_job_is_followed_until_its_end(service: Service, over_http: bool) -> None:
    job = start(service)
    write(service, job, b"1")
    if not over_http:
        follow_to_the_end(service, job, {})
        return
    with threaded_server(service.store.clone(), Settings(port=0, bedrock_port=0, roles="api")) as url:
        follow_to_the_end(service, job, {"WINDLASS_URL": url})


def follow_to_the_end(service: Service, job: Job, more: dict[str, str]) -> None:
    command = [sys.executable, "-m", "windlass", "jobs", "stream", job.key, "-f"]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env={**environment(service), **more}, **options) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        write(service, job, b"2", sequence=1)
        assert process.stdout.readline() == "2\n"
        service.finish([Finish(job.id, job.lease_token)]).one().wait()
        rest, notes = process.communicate(timeout=60)
    assert (rest, notes, process.returncode) == ("", "The job has finished.\n", 0)


def test_jobs_without_a_stream(service: Service) -> None:
    put(service, new(unique="order-7"))
    assert run_ok(service, "jobs", "stream", "order-7").out == ""
    assert run(service, "jobs", "stream", UNKNOWN).code == 1
    assert run(service, "jobs", "stream", "order-7", "--from", "-1").code == 2
