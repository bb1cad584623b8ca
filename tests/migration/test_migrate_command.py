"""windlass migrate: reports, errors, and a command that is killed again and again."""

from __future__ import annotations

import contextlib
import os
import pty
import random
import subprocess
import sys
import time

import pytest

from tests.migration.conftest import PASSWORD
from tests.migration.source_redis import SourceRedis, drain
from tests.migration.test_jobber import QUEUE, entry, uuid4
from tests.support.console import CliResult, environment, run
from tests.support.engine_process import EngineProcess, free_port
from tests.support.server_process import store_options
from windlass.core.ids import format_id
from windlass.service import Service

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

KILLS, RUNS_MAX = 5, 30


def migrate(service: Service, old: SourceRedis, *arguments: str) -> CliResult:
    done = run(service, "migrate", *arguments, "--from", old.url)
    assert PASSWORD in old.url
    assert PASSWORD not in done.out + done.err
    return done


def test_a_report_for_people(service: Service, old: SourceRedis) -> None:
    for number in range(3):
        old.call("LPUSH", QUEUE, entry(number))
    old.call("LPUSH", "in_process_queue", entry(9))
    dry = migrate(service, old, "jobber", "--dry-run")
    assert (dry.code, dry.out.splitlines()[0]) == (0, f"{QUEUE}\t4")
    assert dry.out.splitlines()[1].startswith("Would move 4 jobs from redis://127.0.0.1:")
    assert "1 job had been given to a worker" in dry.err
    assert f"The first: {uuid4(9)}, {uuid4(0)}" in dry.err
    done = migrate(service, old, "jobber")
    assert (done.code, done.out.splitlines()[1].split(" from")[0]) == (0, "Moved 4 jobs")
    assert migrate(service, old, "jobber").out.startswith("Moved 0 jobs")
    assert [format_id(job.id) for job in drain(service, QUEUE)] == [uuid4(number) for number in (9, 0, 1, 2)]


def test_a_report_for_programs(service: Service, old: SourceRedis) -> None:
    old.call("LPUSH", QUEUE, entry(1), "wrong")
    old.call("LPUSH", "in_process_queue", entry(2))
    old.call("SET", uuid4(2), "locked")
    done = migrate(service, old, "jobber", "--json")
    assert done.code == 1
    report = done.document
    assert (report["moved"], report["problems"], report["running"], report["is_dry_run"]) == (1, 1, 1, False)
    assert report["queues"] == {QUEUE: 1}
    [problem] = report["reasons"]
    assert (problem["key"], problem["entry"]) == (QUEUE, "wrong")
    shown = migrate(service, old, "jobber")
    assert (shown.code, f"windlass: left in {QUEUE}: wrong: " in shown.err) == (1, True)
    assert "1 job left: a worker has each of them." in shown.err
    assert migrate(service, old, "jobber", "--include-running").code == 1  # the wrong entry is still there
    assert len(drain(service, QUEUE)) == 2


@pytest.mark.parametrize("dialect", ["jobber", "processor", "downloader"])
def test_an_empty_source(service: Service, old: SourceRedis, dialect: str) -> None:
    old.call("SET", "other", "x")
    before = old.dump()
    done = migrate(service, old, dialect)
    assert (done.code, done.out.split(" from")[0]) == (0, "Moved 0 jobs")
    assert old.dump() == before


def test_a_source_that_cannot_be_used(service: Service, old: SourceRedis) -> None:
    absent = run(service, "migrate", "jobber", "--from", f"redis://user:secret@127.0.0.1:{free_port()}/0")
    assert (absent.code, "Cannot connect to redis://user@127.0.0.1:" in absent.err) == (75, True)
    assert "secret" not in absent.err
    wrong = run(service, "migrate", "jobber", "--from", old.url.replace(PASSWORD, "guess"))
    assert (wrong.code, "refused AUTH" in wrong.err, "guess" in wrong.err) == (1, True, False)
    for url in ("redis+cluster://:secret@a:1,b:2", "http://:secret@a"):
        refused = run(service, "migrate", "jobber", "--from", url)
        assert (refused.code, "secret" in refused.err) == (2, False), refused
    assert run(service, "migrate", "jobber").code == 2
    assert run(service, "migrate", "celery", "--from", old.url).code == 2


def test_a_source_that_may_only_be_read(service: Service, old: SourceRedis, source_engine: EngineProcess) -> None:
    old.call("LPUSH", QUEUE, entry(1))
    old.call("ACL", "SETUSER", "reader", "on", ">word", "~*", "+@read", "+@connection", "+ping")
    url = source_engine.url.replace(f":{PASSWORD}@", "reader:word@")
    refused = run(service, "migrate", "jobber", "--from", url)
    assert (refused.code, "refused EVAL" in refused.err) == (1, True)
    assert drain(service, QUEUE) == []  # held, until the source lets it go
    assert run(service, "migrate", "jobber", "--from", url, "--dry-run").code == 0
    assert migrate(service, old, "jobber").code == 0
    assert len(drain(service, QUEUE)) == 1


def test_a_command_that_is_killed_again_and_again(service: Service, old: SourceRedis) -> None:
    """Jobs are worked off while the command runs, dies and runs again. Every job comes once, in order."""
    random_source = random.Random(7)
    service.store.open_sync()
    arguments = ["migrate", "jobber", "--from", old.url, *store_options(service.store)]
    command = [sys.executable, "-m", "windlass", *arguments]
    got: list[str] = []
    jobs = kills = 0
    for _ in range(RUNS_MAX):
        old.call("LPUSH", QUEUE, *(entry(number) for number in range(jobs, jobs + 500)))
        jobs += 500
        left = old.call("LLEN", QUEUE)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None:
                if old.call("LLEN", QUEUE) < left:  # it moves jobs
                    time.sleep(random_source.random() * 0.02)
                    process.kill()
                    kills += process.wait() < 0
        got += [format_id(job.id) for job in drain(service, QUEUE)]
        service.store.clock_offset_ms += 3_600_000  # the engine forgets the ids of ended jobs
        if kills == KILLS:
            break
    assert kills == KILLS
    assert migrate(service, old, "jobber").code == 0
    got += [format_id(job.id) for job in drain(service, QUEUE)]
    assert got == [uuid4(number) for number in range(jobs)]


def test_a_progress_bar_on_a_terminal_only(service: Service, old: SourceRedis) -> None:
    for number in range(300):
        old.call("LPUSH", QUEUE, entry(number))
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "windlass", "migrate", "jobber", "--from", old.url]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=child,
        env=os.environ | environment(service) | {"TERM": "xterm"},
        check=True,
    )
    os.close(child)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while part := os.read(parent, 65_536):
            shown += part
    os.close(parent)
    assert b"300/300" in shown
    assert done.stdout.splitlines()[-1].startswith(b"Moved 300 jobs")
    assert "300/300" not in migrate(service, old, "jobber").err
