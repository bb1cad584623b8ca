"""windlass migrate downloader over a server: roles, URLs of files, and a command that is killed again and again."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

import msgspec
import pytest

from tests.migration.source_redis import SourceRedis, drain
from windlass.core.callbacks.callback import LeasedCallback
from windlass.downloads.worker.order import AGGREGATIONS, QUEUE
from windlass.service import Service

from .conftest import RunOverServer, make_token

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

CAP = 50
KILLS, RUNS_MAX = 5, 30
NEW, ENDED = 200, 40  # downloads of the source at the start of each run
HOUR_MS = 3_600_000  # the engine has forgotten the ids of ended jobs


def add(old: SourceRedis, number: int, *, has_ended: bool = False) -> str:
    download = f"{'ended' if has_ended else 'new'}-{number:05}"
    fields = ["id", download, "aggr_id", "shop", "url", "http://127.0.0.1:9/a.jpg"]
    if has_ended:
        fields += ["download_state", "Success", "callback_url", "http://127.0.0.1:9/done"]
    old.call("HSET", f"job:{download}", *fields)
    old.call("ZADD", "callbackQueue" if has_ended else "jobs:shop", 1_700_000_000 + number, download)
    return download


def add_many(old: SourceRedis, run: int) -> None:
    old.call("HSET", "aggr:shop", "id", "shop", "limit", CAP, "proxy", "http://proxy:3128")
    for number in range(run * NEW, (run + 1) * NEW):
        add(old, number)
    for number in range(run * ENDED, (run + 1) * ENDED):
        add(old, number, has_ended=True)


def deliver(service: Service) -> list[dict[str, str]]:
    """Take and settle all pending callbacks. Return the results of their jobs."""
    done = []
    while taken := service.take_callbacks(most=100).wait().callbacks:
        service.settle_callbacks([LeasedCallback(pending.id, pending.token) for pending in taken]).wait()
        done += [msgspec.json.decode(pending.result.data) for pending in taken if pending.result]
    return done


def test_caps_and_callbacks_arrive(service: Service, served: str, old: SourceRedis, over_server: RunOverServer) -> None:
    add_many(old, 0)
    done = over_server("migrate", "downloader", "--from", old.url)
    assert (done.code, done.out.splitlines()[-1]) == (0, f"Moved {NEW + ENDED} jobs from {old.url}.")
    found = service.aggregation(AGGREGATIONS, "shop").wait()
    assert (found.queued, found.cap, found.note) == (NEW, CAP, "http://proxy:3128")
    assert service.configuration(QUEUE).wait().fair_share
    assert [job.unique for job in drain(service, QUEUE)] == [f"new-{number:05}" for number in range(NEW)]
    results = deliver(service)
    assert len(results) == ENDED
    assert all(result["download_url"].startswith(f"{served}/downloader/files/end/ended-") for result in results)
    assert over_server("migrate", "downloader", "--from", old.url).out.startswith("Moved 0 jobs")


def test_a_named_base_of_the_files(service: Service, old: SourceRedis, over_server: RunOverServer) -> None:
    download = add(old, 7, has_ended=True)
    arguments = ("--from", old.url, "--download-url", "https://files.example.org/")
    assert over_server("migrate", "downloader", *arguments).code == 0
    assert [result["download_url"] for result in deliver(service)] == [f"https://files.example.org/end/{download}"]


@pytest.mark.parametrize("roles", [("work",), ("read", "produce", "work")])
@pytest.mark.parametrize("is_prepared", [False, True])
def test_a_token_without_the_role_admin_moves_nothing(
    service: Service, old: SourceRedis, over_server: RunOverServer, roles: tuple[str, ...], is_prepared: bool
) -> None:
    if is_prepared:  # the limit exists: the first refusal is about the jobs
        assert over_server("migrate", "downloader", "--from", old.url).code == 0
    add(old, 1)
    before = old.dump()
    refused = over_server("migrate", "downloader", "--from", old.url, token=make_token(service, *roles))
    assert (refused.code, "This needs the role" in refused.err, "admin" in refused.err) == (1, True, True)
    assert old.dump() == before
    assert drain(service, QUEUE) == []
    assert over_server("migrate", "downloader", "--from", old.url).code == 0
    assert [job.unique for job in drain(service, QUEUE)] == ["new-00001"]


def test_a_command_that_is_killed_again_and_again(
    service: Service, served: str, admin: str, old: SourceRedis, over_server: RunOverServer
) -> None:
    """Downloads are worked off while the command runs, dies and runs again. Each comes once, in order."""
    random_source = random.Random(7)
    command = [sys.executable, "-m", "windlass", "migrate", "downloader", "--from", old.url, "--url", served]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    got: list[str | None] = []
    delivered: list[str] = []
    runs = kills = 0
    while kills < KILLS and runs < RUNS_MAX:
        add_many(old, runs)
        runs += 1
        left = old.call("ZCARD", "jobs:shop") + old.call("ZCARD", "callbackQueue")
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment | {"WINDLASS_TOKEN": admin},
        )
        with process:
            while process.poll() is None:
                if old.call("ZCARD", "jobs:shop") + old.call("ZCARD", "callbackQueue") < left:  # it moves jobs
                    time.sleep(random_source.random() * 0.05)
                    process.kill()
                    kills += process.wait() < 0
        got += [job.unique for job in drain(service, QUEUE)]
        delivered += [result["job_id"] for result in deliver(service)]
        service.store.clock_offset_ms += HOUR_MS
    assert kills == KILLS
    assert over_server("migrate", "downloader", "--from", old.url).code == 0
    got += [job.unique for job in drain(service, QUEUE)]
    delivered += [result["job_id"] for result in deliver(service)]
    assert got == [f"new-{number:05}" for number in range(runs * NEW)]
    assert sorted(delivered) == [f"ended-{number:05}" for number in range(runs * ENDED)]
