"""windlass jobs logs: the stored lines of a job, and lines as they come."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.cli.live.terminal import WINDLASS
from tests.cli.live.test_watch_command import LIMIT_S, UNKNOWN, read_line, settings
from tests.service.helpers import new, put, take
from tests.support.console import run, run_ok
from windlass.core.job import Blob, Job
from windlass.core.log import LINES_KEPT, Log, LogLine
from windlass.core.operations import Fail, Finish
from windlass.core.validation.bounds import LOG_LINES_MAX
from windlass.service import Service

__all__ = ["settings"]
pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


def start(service: Service, **fields: Any) -> Job:
    put(service, new(**fields))
    (job,) = take(service)
    return job


def say(service: Service, job: Job, *texts: str) -> None:
    lines = [LogLine(at_ms=1_700_000_000_000, level="info", text=text) for text in texts]
    service.log([Log(job.id, job.lease_token, lines)]).one().wait()


def test_stored_lines(service: Service) -> None:
    job = start(service)
    say(service, job, "connecting", "evil\x1b[31m")
    assert run_ok(service, "jobs", "logs", job.key).out.splitlines() == [
        "2023-11-14 22:13:20.000  attempt 1  info  connecting",
        "2023-11-14 22:13:20.000  attempt 1  info  evil\\x1b[31m",
    ]
    first, _ = run_ok(service, "jobs", "logs", job.key, "--json").lines
    assert first == {"attempt": 1, "at_ms": 1_700_000_000_000, "level": "info", "text": "connecting"}


def test_lines_that_are_no_longer_kept(service: Service) -> None:
    job = start(service)
    for number in range(3):
        say(service, job, *(f"line {number}" for _ in range(LOG_LINES_MAX)))
    shown = run_ok(service, "jobs", "logs", job.key)
    assert len(shown.out.splitlines()) == LINES_KEPT
    assert shown.err == f"{3 * LOG_LINES_MAX - LINES_KEPT} lines are no longer kept.\n"


def test_a_running_job_is_followed_until_its_end(service: Service, settings: dict[str, str]) -> None:
    job = start(service, result_ttl_ms=60_000)
    say(service, job, "one")
    command = [*WINDLASS, "jobs", "logs", job.key, "-f"]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=settings, **options) as process:
        assert read_line(process).endswith("info  one")
        say(service, job, "two", "three")
        assert [read_line(process).split()[-1] for _ in range(2)] == ["two", "three"]
        say(service, job, "four")
        service.finish([Finish(job.id, job.lease_token, Blob(b"1"))]).one().wait()
        rest, notes = process.communicate(timeout=LIMIT_S)
    assert [line.split()[-1] for line in rest.splitlines()] == ["four"]
    assert (notes, process.returncode) == ("The job has finished.\n", 0)


def test_following_an_ended_job(service: Service) -> None:
    job = start(service)
    say(service, job, "one")
    service.fail([Fail(id=job.id, token=job.lease_token, then="final")]).one().wait()
    shown = run_ok(service, "jobs", "logs", job.key, "--follow", "--json")
    assert [line["text"] for line in shown.lines] == ["one"]
    assert shown.err == "The job has failed.\n"


def test_refusals(service: Service) -> None:
    gone = start(service)
    service.finish([Finish(gone.id, gone.lease_token)]).one().wait()
    for options in ((), ("-f",)):
        assert run(service, "jobs", "logs", UNKNOWN, *options).code == 1
        assert run(service, "jobs", "logs", gone.key, *options).code == 1
