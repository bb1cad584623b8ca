"""windlass jobs watch: jobs are followed until they end, in a pipe, as JSON and on a terminal."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.cli.live.terminal import WINDLASS, Terminal
from tests.service.helpers import new, put, take
from tests.support.console import environment, run, run_ok
from tests.support.threaded_server import threaded_server
from windlass.core.ids import format_id, short_id
from windlass.core.job import Blob, Codec
from windlass.core.operations import Fail, Finish, Update
from windlass.service import Service
from windlass.settings import Settings

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
UNKNOWN = "01a1e21f-2249-7000-aad3-893cc7fff097"
ERROR = Blob(msgspec.msgpack.encode({"type": "OSError", "message": "connection refused"}), Codec.MSGPACK)
LIMIT_S = 60


@pytest.fixture(params=["engine", "server"])
def settings(request: pytest.FixtureRequest, service: Service) -> Iterator[dict[str, str]]:
    """Settings of a command that uses the engine itself, or a server."""
    with contextlib.ExitStack() as stack:
        more = {}
        if request.param == "server":
            service.store.open_sync()
            options = Settings(port=0, bedrock_port=0, roles="api")
            more = {"WINDLASS_URL": stack.enter_context(threaded_server(service.store.clone(), options))}
        yield {**environment(service), **more}


def watch(settings: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*WINDLASS, "jobs", "watch", *arguments], env=settings, **options)


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def test_lines_in_a_pipe(service: Service, settings: dict[str, str]) -> None:
    (made,) = put(service, new(result_ttl_ms=60_000))
    with watch(settings, format_id(made.id)) as process:
        assert read_line(process).split("\t")[1:] == [format_id(made.id), "snapshot queued", "0", "0%", ""]
        (job,) = take(service)
        assert read_line(process).split("\t")[2:] == ["running", "1", "0%", ""]
        service.update([Update(id=job.id, token=job.lease_token, progress=0.5, note="half\x1b[31m")]).one().wait()
        assert read_line(process).split("\t")[2:] == ["progress", "1", "50%", "half\\x1b[31m"]
        service.finish([Finish(job.id, job.lease_token, Blob(b'{"sent": 3}'))]).one().wait()
        rest, notes = process.communicate(timeout=LIMIT_S)
    assert [line.split("\t")[2:] for line in rest.splitlines()] == [["finished", "1", "100%", '{"sent":3}']]
    assert (notes, process.returncode) == ("", 0)


def test_objects_of_json(service: Service, settings: dict[str, str]) -> None:
    (made,) = put(service, new())
    with watch(settings, format_id(made.id), "--json") as process:
        first = json.loads(read_line(process))
        assert (first["kind"], first["state"], first["id"]) == ("snapshot", "queued", format_id(made.id))
        (job,) = take(service)
        assert json.loads(read_line(process))["kind"] == "running"
        service.fail([Fail(id=job.id, token=job.lease_token, then="final", error=ERROR)]).one().wait()
        rest, _ = process.communicate(timeout=LIMIT_S)
    last = json.loads(rest)
    assert (last["kind"], last["state"], last["result"]) == ("failed", "failed", None)
    assert last["last_attempt"]["error"] == {"type": "OSError", "message": "connection refused"}
    assert process.returncode == 1


def test_several_jobs(service: Service, settings: dict[str, str]) -> None:
    made = put(service, new(unique="one"), new(unique="two"))
    with watch(settings, "one", "two", format_id(made[0].id)) as process:  # the same job twice is one job
        first = sorted(read_line(process).split("\t")[1] for _ in range(2))
        assert first == sorted(format_id(answer.id) for answer in made)
        service.cancel([made[0].id]).wait()
        assert read_line(process).split("\t")[1:3] == [format_id(made[0].id), "cancelled"]
        (job,) = take(service)
        service.finish([Finish(job.id, job.lease_token)]).one().wait()
        rest, _ = process.communicate(timeout=LIMIT_S)
    assert [line.split("\t")[2] for line in rest.splitlines()] == ["running", "finished"]
    assert process.returncode == 1  # one was cancelled


def test_ends_before_the_watch(service: Service) -> None:
    for _ in range(2):
        put(service, new(result_ttl_ms=60_000))
    finished, failed = take(service, most=2)
    service.finish([Finish(finished.id, finished.lease_token, Blob(b"[1,\n 2]"))]).one().wait()
    service.fail([Fail(id=failed.id, token=failed.lease_token, then="final", error=ERROR)]).one().wait()
    rows = run_ok(service, "jobs", "watch", finished.key).rows
    assert [row[2:] for row in rows] == [["snapshot finished", "1", "100%", ""], ["finished", "1", "100%", "[1,2]"]]
    done = run(service, "jobs", "watch", failed.key)
    assert (done.code, done.rows[-1][2], done.rows[-1][5]) == (1, "failed", "OSError: connection refused")


def test_a_job_that_is_not_kept(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    done = run(service, "jobs", "watch", job.key)
    assert (done.code, [row[2] for row in done.rows]) == (1, ["snapshot ended", "ended"])


def test_the_wait_limit(service: Service, settings: dict[str, str]) -> None:
    (made,) = put(service, new())
    with watch(settings, format_id(made.id), "--wait-limit", "100ms") as process:
        _, notes = process.communicate(timeout=LIMIT_S)
    assert notes == "windlass: 1 job has not ended within 100ms; it continues.\n"
    assert process.returncode == 75


def test_refusals(service: Service) -> None:
    assert run(service, "jobs", "watch", UNKNOWN).code == 1
    assert run(service, "jobs", "watch").code == 2
    made = put(service, *(new() for _ in range(101)))
    done = run(service, "jobs", "watch", *(format_id(answer.id) for answer in made))
    assert (done.code, "At most 100 jobs can be watched at once, not 101." in done.err) == (2, True)


def test_bars_on_a_terminal(service: Service) -> None:
    (made,) = put(service, new("mail", "send", result_ttl_ms=60_000))
    terminal = Terminal(service, "jobs", "watch", format_id(made.id))
    terminal.read_until(f"send {short_id(made.id)}  queued")
    (job,) = take(service, "mail")
    service.update([Update(id=job.id, token=job.lease_token, progress=0.25, note="page 1")]).one().wait()
    terminal.read_until("page 1")
    assert "25 %" in terminal.seen
    service.finish([Finish(job.id, job.lease_token, Blob(b'"done"'))]).one().wait()
    assert terminal.end() == 0
    bar, outcome = [line for line in terminal.lines if line.strip()][-2:]
    assert "finished" in bar
    assert "100 %" in bar
    assert outcome == f'send {short_id(made.id)} has finished: "done"'
