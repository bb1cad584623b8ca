"""`windlass processor` as a process with real pipes: its end, kill -9, several on one engine, blocked pipes."""

from __future__ import annotations

import signal
import threading
from collections import Counter

import pytest

from tests.dialects.stdio.processor_client import (
    ProcessorProcess,
    W,
    add,
    idle,
    job_uuid,
    message_line,
    messages_of,
    parse_assignment,
    until,
    worker_line,
    worker_uuid,
)
from windlass.core.operations import Listing
from windlass.core.states import State
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

# A busy machine must not make messages old, nor workers silent.
PATIENT = ("--tick", "60s")


def states(service: Service, queue_name: str = "q") -> Counter[str]:
    found: Counter[str] = Counter()
    for state in ("queued", "running", "finished"):
        page = service.jobs(Listing(queue=queue_name, state=state, most=500)).wait()
        found.update(job.state.label for job in page.jobs)
    return found


def test_a_process_from_its_first_line_to_its_last(service: Service) -> None:
    variables = {
        "SERVICE_NAME": "jobs", "SERVICE_UUID": "me", "SERVICE_HOST": "here", "NAMESPACE_LISTENER": "a",
        "NAMESPACE_PUBLISHER": "b",
    }  # fmt: skip
    with ProcessorProcess(service.store, *PATIENT, "--log-level", "debug", **variables) as one:
        one.send(
            *(
                text.replace('"default/', '"a/')
                for text in ("nonsense\\", add(1, note='a "quote" \\ and\nmore'), idle())
            )
        )
        message = one.receive()
        assert message["topic"] == f"b/job_queue/workers/{W}/job_assignment"
        assert message["payload"]["note"] == 'a "quote" \\ and\nmore'
        assert [message[f"service_{what}"] for what in ("name", "uuid", "host")] == ["jobs", "me", "here"]
        assert one.wait_ended() == 0
        assert one.received_so_far() == []
    assert {tuple(entry) for entry in one.logs} == {("log_level", "created_at", "log_message")}
    assert len(messages_of(one.logs, "ERROR")) == 1
    assert any("was dispatched" in text for text in messages_of(one.logs, "DEBUG"))


def test_killed_in_the_middle_and_started_again(service: Service) -> None:
    """The next process knows the jobs that were dispatched or running, and their workers."""
    with ProcessorProcess(service.store, *PATIENT) as first:
        first.send(add(1), add(2), add(3), idle(), idle(worker_uuid(2)))
        given = dict(parse_assignment(first.receive()) for _ in range(2))
        first.send(message_line("job_queue/job_accepted", {"queue_name": "q", "uuid": given[W]}, W))
        until(lambda: states(service)["running"] == 1)
        first.process.kill()
    with ProcessorProcess(service.store, *PATIENT) as second:
        second.send(
            message_line("job_queue/worker_progress", {"queue_name": "q", "uuid": given[W], "progress": 0.5}, W)
        )
        other = {"queue_name": "q", "uuid": given[worker_uuid(2)]}
        second.send(
            message_line("job_queue/job_accepted", other, worker_uuid(2)),
            message_line("job_queue/job_finished", other, worker_uuid(2)),
        )
        assert parse_assignment(second.receive()) == (worker_uuid(2), job_uuid(3))
        second.send(message_line("job_queue/job_finished", {"queue_name": "q", "uuid": given[W]}, W))
        assert second.wait_ended() == 0
    assert not any("Worker" in text for text in messages_of(second.logs, "WARNING"))
    assert states(service) == {"finished": 2, "dispatched": 1}


def test_two_processors_never_assign_a_job_twice_and_one_that_is_killed_loses_none(service: Service) -> None:
    """Workers report through either of them; then one is killed while jobs run."""
    count, workers = 600, [worker_uuid(number) for number in range(1, 21)]
    with ProcessorProcess(service.store, *PATIENT) as a, ProcessorProcess(service.store, *PATIENT) as b:
        a.send(*(add(number) for number in range(count)))
        a.send(*(idle(worker) for worker in workers[::2]))
        b.send(*(idle(worker) for worker in workers[1::2]))
        given: Counter[str] = Counter()
        until(lambda: _work([a, b], given) or states_done(service) >= count / 2)
        assert set(given.values()) == {1}
        a.process.kill()
        # Nobody speaks of what was said to the dead one, or by it: that goes back when its time is over.
        _work([b], given)
        service.store.clock_offset_ms += 200_000
        service.recover().wait()
        b.send(*(idle(worker) for worker in workers))
        until(lambda: _work([b], given) or states_done(service) == count)
        assert b.wait_ended() == 0
    assert len(given) >= count - len(workers)  # what the dead one wrote last may be with nobody


def _work(processors: list[ProcessorProcess], given: Counter[str]) -> bool:
    """Finish each assigned job at once, and report it to another processor than the one that assigned it."""
    for one, told in zip(processors, reversed(processors), strict=True):
        for message in one.received_so_far():
            worker, uuid = parse_assignment(message)
            given[uuid] += 1
            told.send(
                worker_line("job_accepted", worker, int(uuid[-12:])),
                worker_line("job_finished", worker, int(uuid[-12:])),
            )
    return False


def states_done(service: Service) -> int:
    (stats,) = service.stats(["q"]).wait()
    return stats.finished


def test_a_blocked_stdout_loses_nothing(service: Service) -> None:
    """Assignments that are not read expire, and the jobs are assigned again."""
    options = (*PATIENT, "--lease", "500ms")
    size, count = 100_000, 40
    with ProcessorProcess(service.store, *options, reads=False) as stuck:
        writer = threading.Thread(
            target=_send_ignoring_errors,
            args=(stuck, [text for n in range(count) for text in (add(n, data="x" * size), idle(worker_uuid(n + 1)))]),
            daemon=True,
        )
        writer.start()
        until(lambda: states(service)["dispatched"] > 0)
        with ProcessorProcess(service.store, *options) as other:
            seen: set[str] = set()
            while len(seen) < 10:
                other.send(idle(worker_uuid(100)))
                message = other.receive()
                worker, uuid = parse_assignment(message)
                other.send(
                    worker_line("job_accepted", worker, int(uuid[-12:])),
                    worker_line("job_finished", worker, int(uuid[-12:])),
                )
                seen.add(uuid)
            other.stdin.close()
            other.process.wait(30)
        stuck.start_reading()
        writer.join(30)
        assert not writer.is_alive()
        assert stuck.wait_ended() == 0
    assert sum(states(service).values()) == count


def _send_ignoring_errors(one: ProcessorProcess, texts: list[str]) -> None:
    one.send(*texts)


def test_a_signal_stops_it(service: Service) -> None:
    with ProcessorProcess(service.store, *PATIENT) as one:
        one.send(add(1), idle())
        one.receive()
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(30) == 0
    (job,) = service.jobs(Listing(queue="q", state="running")).wait().jobs
    assert job.state is State.DISPATCHED


def test_an_unavailable_engine_is_logged_as_an_error(service: Service, store: Store) -> None:
    class UnavailableEngine:
        endpoint, namespace = "unix:///nowhere/at/all", "n"

    with ProcessorProcess(UnavailableEngine(), WINDLASS_PATIENCE="100ms") as one:  # type: ignore[arg-type]
        assert one.wait_ended() == 75
    assert len(messages_of(one.logs, "ERROR")) >= 1
