"""Versions of arguments: old jobs are migrated, jobs of a newer version wait for a newer worker."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from windlass import JobFailed, Windlass, Worker
from windlass.core.errors import BadInput
from windlass.core.ids import format_id
from windlass.core.job import Blob, Codec, NewJob
from windlass.core.operations import Take
from windlass.sdk.tasks.versions import read_version
from windlass.sdk.worker.version_snooze import VersionSnooze
from windlass.store.store import Store

pytestmark = pytest.mark.anyio


def first(app: Windlass) -> Any:
    @app.task
    async def send_mail(address: str) -> Any:
        return [address]

    return send_mail


def second(app: Windlass) -> Any:
    @app.task(version=2)
    async def send_mail(to: str, subject: str) -> Any:
        return [to, subject]

    @send_mail.migrate(1)
    def _(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"to": arguments["address"], "subject": "(none)"}

    return send_mail


def third(app: Windlass) -> Any:
    @app.task(version=3)
    async def send_mail(to: list[str], subject: str) -> Any:
        return [to, subject]

    @send_mail.migrate(1)
    def _(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"to": arguments["address"], "subject": "(none)"}

    @send_mail.migrate(2)
    def _(arguments: dict[str, Any]) -> dict[str, Any]:
        return {**arguments, "to": [arguments["to"]]}

    return send_mail


@pytest.fixture
def deployed(store: Store) -> Any:
    """Return a function that makes the application as of one version, on one shared deployment."""

    def deploy(declare: Any) -> tuple[Windlass, Any]:
        app = Windlass()
        app.connect(store)
        return app, declare(app)

    return deploy


async def run_worker(app: Windlass) -> Worker:
    """Run a worker until there is nothing to take."""
    worker = Worker(app, burst=True, has_loops=False)
    await worker.run()
    await app.aclose()
    return worker


async def test_jobs_of_every_version_run(deployed: Any) -> None:
    handles = [
        deployed(first)[1].enqueue("a@b"),
        deployed(second)[1].enqueue("a@b", subject="hi"),
        deployed(third)[1].enqueue(["a@b", "c@d"], "ho"),
    ]
    app, _ = deployed(third)
    await run_worker(app)
    expected = [[["a@b"], "(none)"], [["a@b"], "hi"], [["a@b", "c@d"], "ho"]]
    assert [await app.job(handle.id).aresult(timeout=30) for handle in handles] == expected


async def test_the_version_travels_with_the_payload(deployed: Any) -> None:
    assert [read_version(deployed(declare)[1].call(**given).new_job().payload) for declare, given in (
        (first, {"address": "a"}),
        (second, {"to": "a", "subject": "b"}),
        (third, {"to": ["a"], "subject": "b"}),
    )] == [1, 2, 3]  # fmt: skip
    assert read_version(Blob(b'{"to": "x", "$windlass": {"v": 4, "keys": {}}}', Codec.JSON)) == 4
    for odd in (b"$windlass", b'["$windlass"]', b'{"$windlass": {"v": "x"}}', b'{"$windlass": 3}'):
        assert read_version(Blob(odd, Codec.JSON)) == 1


async def test_a_job_from_another_language_is_migrated_too(deployed: Any) -> None:
    app, _ = deployed(third)
    payload = Blob(msgspec.json.encode({"to": "a@b", "subject": "s", "$windlass": {"v": 2}}), Codec.JSON)
    (answer,) = app.service.enqueue(
        [NewJob(name="send_mail", payload=payload, queue="default", result_ttl_ms=60_000)]
    ).wait()
    await run_worker(app)
    assert await app.job(format_id(answer.id)).aresult(timeout=30) == [["a@b"], "s"]


async def test_a_job_of_a_newer_version_waits_for_a_newer_worker(
    deployed: Any, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """However often an older worker takes it, no attempt is spent: with retry=1, the first would be the last."""
    new, send_mail = deployed(third)
    handle = send_mail.using(retry=1).enqueue(["a@b"], "s")
    other = send_mail.enqueue(["c@d"], "s")
    for declare in (first, second):
        old, _ = deployed(declare)
        with caplog.at_level(logging.INFO, "windlass.worker"):
            assert (await run_worker(old)).done == 0
        assert [(job.info().state.label, job.info().attempt) for job in (handle, other)] == [("scheduled", 0)] * 2
        knows = f"the arguments are of version 3, its last worker knows version {old.tasks['send_mail'].version}"
        assert knows in handle.explain().summary
        store.clock_offset_ms += 5_000
    assert "is snoozed for 5 s: the arguments are of version 3, its last worker knows version 1" in caplog.text
    await run_worker(new)
    assert [await job.aresult(timeout=30) for job in (handle, other)] == [[["a@b"], "s"], [["c@d"], "s"]]


async def test_an_older_worker_goes_on_with_what_it_knows(deployed: Any, working: Any) -> None:
    new, newest = deployed(third)
    old, known = deployed(second)
    async with working(old, concurrency=1):
        newer = await newest.aenqueue(["a@b"], "s")
        assert await (await known.aenqueue("a@b", "s")) == ["a@b", "s"]
    assert (await newer.ainfo()).attempt == 0  # released when the worker has ended, at the latest
    await new.aclose()


async def test_a_newer_job_is_put_off_longer_the_longer_it_lasts(deployed: Any) -> None:
    app, send_mail = deployed(third)
    job = send_mail.enqueue(["a@b"], "s").info()
    delay_ms = VersionSnooze(app.service)._delay_ms
    instants = (10_000 + passed_ms for passed_ms in (0, 4_000, 40_000, 1_000_000))
    delays = [delay_ms(msgspec.structs.replace(job, started_at_ms=at_ms)) for at_ms in instants]
    assert delays == [5_000, 5_000, 20_000, 60_000]


async def test_a_worker_that_ends_has_put_off_what_it_met(deployed: Any) -> None:
    app, send_mail = deployed(third)
    handle = send_mail.enqueue(["a@b"], "s")
    service = await app.aservice()
    taken = await service.take(Take(queues=("default",)))
    snooze = VersionSnooze(service)
    snooze.snooze(taken.jobs[0], send_mail)
    await snooze.close(10)
    assert (await handle.ainfo()).state.label == "scheduled"
    await app.aclose()


async def test_a_step_that_fails_is_a_bad_argument(app: Windlass, working: Any) -> None:
    @app.task(version=2)
    async def count(n: int) -> int:
        return n

    @count.migrate(1)
    def _(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"n": arguments["number"]}

    payload = Blob(msgspec.msgpack.encode({"m": 1}), Codec.MSGPACK)
    async with working(app):
        service = await app.aservice()
        (answer,) = await service.enqueue([NewJob(name="count", payload=payload, queue="default")])
        with pytest.raises(JobFailed, match="version 1 could not be migrated: KeyError"):
            await app.job(format_id(answer.id))


async def test_steps_that_are_missing_or_too_many(app: Windlass) -> None:
    @app.task(version=3)
    def count(n: int) -> None: ...

    @count.migrate(2)
    def step(arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    with pytest.raises(BadInput, match=r"no step from version 1: declare @count.migrate\(1\)"):
        Worker(app)
    with pytest.raises(BadInput, match="already"):
        count.migrate(2)(step)
    with pytest.raises(BadInput, match="raise version="):
        count.migrate(3)(step)
    for wrong in (0, "2", True):
        with pytest.raises(BadInput, match="version must be a whole number"):
            app.task(version=wrong, name="other")(lambda: None)
