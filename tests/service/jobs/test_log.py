"""log and logs: log lines of running code are kept with their job, bounded, with their attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.service.helpers import new, put, read, take
from tests.support.namespace import dump_keys, list_keys
from windlass.core.errors import AlreadyEnded, BadInput, StaleLease, TooLarge, UnknownJob, WrongState
from windlass.core.job import Blob, Job
from windlass.core.log import BYTES_KEPT, LINES_KEPT, KeptLine, Log, LogLine, Logs
from windlass.core.operations import Edit, Fail, Finish, LeaseRef, Update
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.core.validation.bounds import LOG_LINE_MAX, LOG_LINES_MAX
from windlass.service import Service
from windlass.store.store import Store

LEVELS = ("debug", "info", "warning", "error", "critical", "Level 25", "ü" * 8)
HEAD_BYTES = 21 + len("info")  # of each stored line


def say(service: Service, job: Job, *texts: str) -> None:
    lines = [LogLine(at_ms=7, level="info", text=text) for text in texts]
    service.log([Log(job.id, job.lease_token, lines)]).one().wait()


def texts(service: Service, job_id: bytes) -> list[str]:
    return [line.text for line in service.logs(job_id).wait().lines]


def log_keys(store: Store) -> list[bytes]:
    return [key for key in list_keys(store) if key.startswith(b"l:")]


@pytest.mark.parametrize("size", [1, 5_000])
def test_lines_come_back_as_they_were_said(service: Service, size: int) -> None:
    put(service, new(payload=Blob(b"x" * size)))
    (job,) = take(service)
    said = [
        LogLine(at_ms=0, level="debug", text=""),
        LogLine(at_ms=2**47, level="critical", text="ü\n\0\t✓" * 300),
        *(LogLine(at_ms=1_700_000_000_000, level=level, text=level) for level in LEVELS),
    ]
    service.log([Log(job.id, job.lease_token, said[:3]), Log(job.id, 0, tuple(said[3:]))]).wait()
    kept = [KeptLine(1, line.at_ms, line.level, line.text) for line in said]
    assert service.logs(job.id).wait() == Logs(kept, 0)
    assert read(service, job.id) == job


def test_each_attempt_keeps_what_it_said(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    say(service, job, "first")
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).wait()
    (job,) = take(service)
    say(service, job, "second")
    service.fail([Fail(id=job.id, token=job.lease_token, then="final")]).wait()
    service.retry([job.id]).one().wait()
    (job,) = take(service)
    say(service, job, "anew")
    lines = service.logs(job.id).wait().lines
    assert [(line.attempt, line.text) for line in lines] == [(1, "first"), (2, "second"), (1, "anew")]


def test_a_job_that_said_nothing(service: Service, store: Store) -> None:
    (queued,) = put(service, new())
    assert service.logs(queued.id).wait() == Logs([], 0)
    take(service)
    assert not log_keys(store)
    with pytest.raises(UnknownJob):
        service.logs(service.store.new_id("q")).wait()


@pytest.mark.parametrize("at_once", [1, 7, LOG_LINES_MAX])
def test_the_last_lines_are_kept_and_the_others_counted(service: Service, at_once: int) -> None:
    put(service, new())
    (job,) = take(service)
    said = [str(number) for number in range(2 * LINES_KEPT + 3)]
    requests = [
        Log(job.id, 0, [LogLine(0, "info", text) for text in said[at : at + at_once]])
        for at in range(0, len(said), at_once)
    ]
    service.log(requests).wait()
    found = service.logs(job.id).wait()
    assert ([line.text for line in found.lines], found.dropped) == (said[-LINES_KEPT:], LINES_KEPT + 3)


@pytest.mark.parametrize("at_once", [1, 5, LOG_LINES_MAX])
@pytest.mark.parametrize("size", [1_000, LOG_LINE_MAX])
def test_long_lines_are_fewer(service: Service, at_once: int, size: int) -> None:
    put(service, new())
    (job,) = take(service)
    said = [f"{number:04}".ljust(size, "x") for number in range(LOG_LINES_MAX)]
    for at in range(0, len(said), at_once):
        say(service, job, *said[at : at + at_once])
    fitting = BYTES_KEPT // (HEAD_BYTES + size)
    found = service.logs(job.id).wait()
    assert ([line.text for line in found.lines], found.dropped) == (said[-fitting:], len(said) - fitting)
    say(service, job, "x" * (size // 2))
    assert len(service.logs(job.id).wait().lines) in (fitting, fitting + 1)


def test_others_may_not_log(service: Service, store: Store) -> None:
    queued, ended, _ = put(service, new(delay_ms=60_000), new(), new())
    first, job = take(service, most=2)
    assert first.id == ended.id
    say(service, job, "mine")
    service.finish([Finish(first.id, first.lease_token)]).wait()
    service.release([LeaseRef(job.id, job.lease_token)]).wait()
    take(service)
    before = dump_keys(store)
    changes = [
        (job.id, job.lease_token), (queued.id, 0), (queued.id, 5), (service.store.new_id("q"), 0), (ended.id, 0),
    ]  # fmt: skip
    answers = service.log([Log(one, token, [LogLine(0, "info", "evil")]) for one, token in changes]).wait()
    assert [type(one) for one in answers] == [StaleLease, WrongState, StaleLease, UnknownJob, AlreadyEnded]
    assert dump_keys(store) == before


# They go when their job goes

WaysOut = Callable[[Service, Job], Any]
WAYS_OUT: dict[str, WaysOut] = {
    "finish": lambda service, job: service.finish([Finish(job.id, job.lease_token)]).one().wait(),
    "delete": lambda service, job: service.delete([job.id], even_leased=True).one().wait(),
    "fail and delete": lambda service, job: (
        service.fail([Fail(id=job.id, token=job.lease_token)]).wait(), service.delete([job.id]).one().wait(),
    ),
    "release, cancel and delete": lambda service, job: (
        service.release([LeaseRef(job.id, job.lease_token)]).wait(),
        service.cancel([job.id]).wait(),
        service.delete([job.id]).one().wait(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS_OUT)
def test_they_go_with_their_job(service: Service, store: Store, way: str) -> None:
    put(service, new())
    (job,) = take(service)
    say(service, job, "x")
    assert len(log_keys(store)) == 1
    WAYS_OUT[way](service, job)
    assert not log_keys(store)
    with pytest.raises(AlreadyEnded):
        service.logs(job.id).wait()


def test_they_stay_as_long_as_the_job_is_kept(service: Service, store: Store) -> None:
    put(service, new(result_ttl_ms=10_000), new(retry=Backoff(tries=1), lease_ms=1_000))
    done, lost = take(service, most=2)
    say(service, done, "well")
    say(service, lost, "badly")
    service.finish([Finish(done.id, done.lease_token)]).one().wait()
    store.clock_offset_ms += 2_000
    service.recover().wait()
    assert read(service, lost.id).state is State.FAILED
    assert (texts(service, done.id), texts(service, lost.id)) == (["well"], ["badly"])
    store.clock_offset_ms += 20_000
    service.clean().wait()
    assert texts(service, lost.id) == ["badly"]
    assert len(log_keys(store)) == 1
    store.clock_offset_ms += 15 * 86_400_000
    service.clean().wait()
    assert not log_keys(store)


def test_a_history_keeps_them_while_it_keeps_the_job(service: Service, store: Store) -> None:
    service.configure("q", {"history_length": 1}).wait()
    put(service, new(), new())
    for job in take(service, most=2):
        say(service, job, "x")
        service.finish([Finish(job.id, job.lease_token)]).one().wait()
        store.clock_offset_ms += 1
    assert texts(service, job.id) == ["x"]
    assert len(log_keys(store)) == 1


def test_a_job_that_repeats_goes_on_writing(service: Service) -> None:
    put(service, new(repeat="FINISHED, +0 SECONDS"))
    for run in ("one", "two"):
        (job,) = take(service)
        say(service, job, run)
        service.finish([Finish(job.id, job.lease_token)]).one().wait()
    assert texts(service, job.id) == ["one", "two"]


def test_lines_belong_to_the_job_whatever_its_content_becomes(service: Service, store: Store) -> None:
    put(service, new(unique="u", result_ttl_ms=FOREVER_MS))
    (job,) = take(service)
    say(service, job, "x")
    service.update([Update(id=job.id, token=job.lease_token, payload=Blob(b"y" * 3_000), note="n")]).one().wait()
    put(service, new(unique="u", unique_check="replace", payload=Blob(b"z")))
    service.edit([Edit(id=job.id, name="other", in_any_state=True)]).one().wait()
    assert texts(service, job.id) == ["x"]
    service.delete([job.id], even_leased=True).one().wait()
    assert not log_keys(store)


def test_partitions_keep_their_own(divided_store: Callable[[int], Store]) -> None:
    service = Service(divided_store(4))
    names = [f"q{number}" for number in range(8)]
    put(service, *(new(name) for name in names))
    jobs = [job for name in names for job in take(service, name)]
    service.log([Log(job.id, job.lease_token, [LogLine(1, "info", job.queue)]) for job in jobs]).wait()
    assert [texts(service, job.id) for job in jobs] == [[name] for name in names]


@pytest.mark.parametrize(
    "bad",
    [
        {"level": "a\nb"}, {"level": ""}, {"level": None}, {"level": []}, {"at_ms": -1},
        {"at_ms": 2**47 + 1}, {"at_ms": 1.5}, {"text": b"x"}, {"text": None}, {"text": "\ud800"},
    ],
)  # fmt: skip
def test_bad_lines(service: Service, bad: dict[str, Any]) -> None:
    line = LogLine(**({"at_ms": 1, "level": "info", "text": "x"} | bad))
    with pytest.raises(BadInput):
        service.log([Log(bytes(16), 1, [line])])


@pytest.mark.parametrize("text", ["x" * (LOG_LINE_MAX + 1), "ü" * (LOG_LINE_MAX // 2 + 1)])
def test_a_line_beyond_the_limit(service: Service, text: str) -> None:
    with pytest.raises(TooLarge, match="4096"):
        service.log([Log(bytes(16), 1, [LogLine(1, "info", text)])])


def test_too_many_lines_and_none(service: Service) -> None:
    with pytest.raises(TooLarge, match="200"):
        service.log([Log(bytes(16), 1, [LogLine(1, "info", "x")] * (LOG_LINES_MAX + 1))])
    with pytest.raises(BadInput):
        service.log([Log(bytes(16), 1, [])])
