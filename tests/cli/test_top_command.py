"""windlass workers and windlass top."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tests.docs.console_session import run_in_terminal
from tests.service.helpers import new, put, take
from tests.support.console import environment, run, run_ok
from windlass.cli import top_frame
from windlass.core.ids import format_id
from windlass.core.operations import Finish, WorkerInfo
from windlass.service import Service

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
WORKER = b"w" * 16


@pytest.fixture
def busy(service: Service) -> Service:
    info = WorkerInfo(host="box", pid=77, queues=("mail", "reports"), slots=4, name="mailer")
    service.register(WORKER, info).wait()
    put(service, *(new("mail", "send") for _ in range(5)), new("reports", "daily"))
    first, *_ = take(service, "mail", most=3, worker=WORKER)
    service.finish([Finish(first.id, first.lease_token)]).wait()
    service.pause("reports").wait()
    return service


def test_workers_ls(busy: Service) -> None:
    ((key, name, host, pid, queues, running, longest, _, _, heartbeat),) = run_ok(busy, "workers", "ls").rows
    assert (key, name, host, pid) == ("77777777-7777-7777-7777-777777777777", "mailer", "box", "77")
    assert (queues, running, heartbeat) == ("mail,reports", "2 of 4", "in time")
    assert longest.endswith("s")
    (line,) = run_ok(busy, "workers", "ls", "--json").lines
    assert (line["info"]["slots"], line["running_count"], len(line["running"])) == (4, 2, 2)


def test_one_frame(busy: Service) -> None:
    out = run_ok(busy, "top", "--once").out
    rows = [line.split() for line in out.splitlines()]
    assert ["mail", "2", "2", "0"] in [row[:4] for row in rows]
    assert any(row[:2] == ["reports", "(paused)"] for row in rows)
    (worker,) = [row for row in rows if row[:1] == ["mailer"]]
    assert worker[1:6] == ["box", "77", "2/4", "send", "×2"]
    assert "3 queued · 2 running · 0 scheduled · 0 failed" in out


def test_a_frame_as_json(busy: Service) -> None:
    frame = run_ok(busy, "top", "--json").document
    first = frame["queues"][0]
    per_minute = (round(first["enqueued_per_minute"]), round(first["finished_per_minute"]))
    assert (first["stats"]["queue"], *per_minute) == ("mail", 5, 1)
    assert (frame["totals"]["queued"], frame["workers"][0]["info"]["name"]) == (3, "mailer")
    assert {job["name"] for job in frame["running"]} == {"send"}


def test_an_empty_deployment(service: Service) -> None:
    out = run_ok(service, "top").out  # in a pipe: once
    assert "No queues." in out
    assert "No workers are registered." in out


def test_refuses_a_short_interval(service: Service) -> None:
    assert run(service, "top", "--once", "--every", "10ms").code == 2


def test_a_frame_fits_the_screen(busy: Service) -> None:
    put(busy, *(new(f"queue {number}") for number in range(60)))
    frame = top_frame.read(busy, 24)
    assert len(frame.queues) == 24
    assert (frame.queues[0].stats.queue, frame.queue_count) == ("mail", 62)
    console = Console(width=80, height=24, color_system=None)
    with console.capture() as captured:
        console.print(top_frame.render(frame, 80, 24))
    lines = captured.get().rstrip("\n").split("\n")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert any("mailer" in line for line in lines)
    assert any("queues more" in line for line in lines)


def test_parts_of_servers_are_no_workers(busy: Service) -> None:
    busy.register(b"d" * 16, WorkerInfo(name="downloads", component="downloads", memory_bytes=5_000)).wait()
    assert [row[1] for row in run_ok(busy, "workers", "ls").rows] == ["mailer"]
    infos = {line["info"]["name"]: line["info"] for line in run_ok(busy, "workers", "ls", "--json").lines}
    assert (infos["downloads"]["component"], infos["downloads"]["memory_bytes"]) == ("downloads", 5_000)
    assert infos["mailer"]["component"] == ""


def test_several_pages_of_workers(service: Service) -> None:
    for number in range(1, 503):
        service.register(number.to_bytes(16, "big"), WorkerInfo(name=f"w{number}")).wait()
    assert len({row[1] for row in run_ok(service, "workers", "ls").rows}) == 502


# Stop by name, id or the beginning of an id


def is_stopping(service: Service, worker: bytes) -> bool:
    return next(item for item in service.workers().wait() if item.id == worker).stopping_since_ms is not None


@pytest.mark.parametrize("named", ["mailer", "7777", "77777777", "77777777-7777-7777-7777-777777777777"])
def test_stop_by_name_or_id(busy: Service, named: str) -> None:
    assert run_ok(busy, "workers", "stop", named).out == "The worker will stop after its running jobs.\n"
    assert is_stopping(busy, WORKER)
    assert run_ok(busy, "workers", "stop", named).out == "The worker was already asked to stop.\n"


def test_several_workers_of_a_name_are_listed_and_none_is_stopped(busy: Service) -> None:
    other = b"v" * 16
    busy.register(other, WorkerInfo(host="box2", name="mailer")).wait()
    done = run(busy, "workers", "stop", "mailer")
    assert (done.code, len(done.rows)) == (1, 2)
    assert "2 workers match 'mailer'; give the id of one, or --all." in done.err
    assert not is_stopping(busy, WORKER)
    assert not is_stopping(busy, other)
    asked = run(busy, "workers", "stop", "mailer", "--all")
    assert (asked.code, is_stopping(busy, WORKER)) == (2, False)
    assert len(run_ok(busy, "workers", "stop", "mailer", "--all", "-y").out.splitlines()) == 2
    assert is_stopping(busy, WORKER)
    assert is_stopping(busy, other)


def test_the_end_of_an_id_is_enough_and_several_matches_are_listed(busy: Service) -> None:
    others = [b"v" * 14 + end for end in (b"12", b"34")]
    for worker in others:
        busy.register(worker, WorkerInfo(host="box2")).wait()
    refused = run(busy, "workers", "stop", "7676")  # both begin with it
    assert (refused.code, len(refused.rows)) == (1, 2)
    assert not any(is_stopping(busy, worker) for worker in others)
    run_ok(busy, "workers", "stop", "…3334")
    assert [is_stopping(busy, worker) for worker in others] == [False, True]


def test_a_worker_without_a_name_is_listed_with_the_beginning_of_its_id(busy: Service, tmp_path: Path) -> None:
    busy.register(b"v" * 16, WorkerInfo(host="box2")).wait()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shown = run_in_terminal("windlass workers ls", tmp_path, os.environ | environment(busy) | {"PATH": path}, 80, 0)
    assert "76767676…" in shown
    assert "77777777…" not in shown, "this one has a name"
    (row,) = [row for row in run_ok(busy, "workers", "ls").rows if row[2] == "box2"]
    assert row[:2] == [format_id(b"v" * 16), ""]


@pytest.mark.parametrize("named", ["mailr", "777", "88888888", "w"])
def test_an_unknown_worker_is_refused(busy: Service, named: str) -> None:
    done = run(busy, "workers", "stop", named)
    assert (done.code, done.out) == (1, "")
    assert f"No worker is called '{named}'" in done.err
    assert ("Did you mean 'mailer'?" in done.err) == (named == "mailr")
    assert not is_stopping(busy, WORKER)
