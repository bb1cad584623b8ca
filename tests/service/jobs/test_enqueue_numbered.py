"""enqueue_numbered: consecutive numbers, and no second job after a lost answer."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator

import pytest

from tests.service.helpers import another, counts, new, put, take
from tests.service.machines.dependency_builders import assert_consistent
from tests.support.engine_process import EngineProcess
from tests.support.fork import run_in_fork
from windlass.core.errors import BadInput, QueueFull
from windlass.core.ids import number_of_id, numbered_id, partition_of_id
from windlass.core.job import NewJob
from windlass.core.job_template import prepare_single
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Enqueued, Finish
from windlass.service import Service
from windlass.store.commands import enqueue
from windlass.store.connection.connection import EngineReplyError
from windlass.store.connection.endpoint import Endpoint, parse_url
from windlass.store.scripts import library
from windlass.store.store import Store

_ENQUEUE_CODE = (b"\r\nenqueue_", library().script("enqueue").sha.encode())


def create(service: Service, *jobs: NewJob) -> list[int | None]:
    """The numbers of jobs that must all be accepted."""
    answers = service.enqueue_numbered(jobs).wait()
    return [number_of_id(one.id) for one in answers if isinstance(one, Enqueued)]


def send(service: Service, call: int, *jobs: NewJob) -> list[tuple[str, int | None]]:
    """Send a call, or send it again. Return the answer and the number of each job."""
    service.store.open_sync()
    table = service.store.limit_cache.table(0)
    made = enqueue.enqueue(
        [(numbered_id(0, 0), prepare_single(job)) for job in jobs], 0, table, 0, None, reserves_numbers=True
    )
    (command,) = service.store._commands("enqueue", 0, (f"N{call}", "slip", *made.args), None)
    answers = [enqueue.read_enqueued(reply) for reply in service.store._sync_connection.call(*command)]
    return [(one.status, number_of_id(one.id)) for one in answers if isinstance(one, Enqueued)]


def test_numbers_follow_each_other(service: Service) -> None:
    assert create(service, new(), new(name="m")) == [1, 2]
    assert [number_of_id(one) for one in service.reserve_numbers("q").wait()] == [3]
    (made,) = put(service, new())
    assert service.number([made.id]).wait() == [4]
    assert create(service, new(), new(queue="other"), new(delay_ms=5_000)) == [5, 6, 7]
    assert counts(service) == {"queued": 4, "scheduled": 1}
    assert_consistent(service)


def test_they_are_found_by_their_numbers(service: Service) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    assert create(service, new(unique="k", unique_check="none"), new(unique="k", unique_check="none")) == [1, 2]
    assert service.holder("q", "k").wait() == numbered_id(1, 0)
    assert [job.id for job in take(service, most=5)] == [numbered_id(1, 0), numbered_id(2, 0)]
    assert_consistent(service)


def test_a_repeated_call_makes_no_second_job(service: Service) -> None:
    for is_laned in (False, True):
        service.configure("q", {"name_lanes": is_laned}).wait()
        put(service, new(name="there"))
        first = send(service, 2 * is_laned + 1, new(), new(name="m"))
        assert send(service, 2 * is_laned + 1, new(), new(name="m")) == [("existing", number) for _, number in first]
        assert [status for status, _ in send(service, 2 * is_laned + 2, new())] == ["queued"]
    assert counts(service) == {"queued": 8}
    assert_consistent(service)


def test_a_call_repeated_after_its_job_ended_starts_nothing(service: Service) -> None:
    assert send(service, 1, new()) == [("queued", 1)]
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).wait()
    assert send(service, 1, new()) == [("ended", 1)]
    assert counts(service) == {}


@pytest.mark.parametrize("is_laned", [False, True])
def test_an_id_that_was_made_elsewhere_stops_no_job(service: Service, is_laned: bool) -> None:
    """It looks like the number that is drawn next, and has ended: what gets the number is another job."""
    service.configure("q", {"name_lanes": is_laned}).wait()
    put(service, new(id=numbered_id(1, 0)))
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).wait()
    assert create(service, new()) == [1]
    assert counts(service) == {"queued": 1}


def test_a_call_that_comes_long_after_its_answer_changes_nothing(service: Service) -> None:
    send(service, 1, new())
    send(service, 2, new())
    with pytest.raises(EngineReplyError, match="answered before"):
        send(service, 1, new())
    assert counts(service) == {"queued": 2}
    assert create(service, new()) == [3]


def test_changed_limits_cost_no_number(service: Service) -> None:
    create(service, new())
    other = another(service)
    other.limit(Limit(name="l", matches=Matcher(queue="q"), running=1)).wait()
    other.store.close_sync()
    assert create(service, new(), new()) == [2, 3]
    assert_consistent(service)


def test_a_full_queue_refuses(service: Service) -> None:
    service.configure("q", {"name_lanes": True, "max_length": 1}).wait()
    made, refused = service.enqueue_numbered([new(), new()]).wait()
    assert isinstance(made, Enqueued)
    assert isinstance(refused, QueueFull)
    assert counts(service) == {"queued": 1}
    assert_consistent(service)


def test_an_id_cannot_be_given(service: Service) -> None:
    with pytest.raises(BadInput, match="must have no id"):
        service.enqueue_numbered([new(), new(id=b"i" * 16)])
    assert create(service, new()) == [1]


def test_a_forked_process_has_request_ids_of_its_own(service: Service) -> None:
    assert create(service, new()) == [1]
    assert run_in_fork(lambda: str(create(service, new()))) == "[2]"
    assert create(service, new()) == [3]


@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
def test_an_id_leads_to_the_partition_of_its_queue(engine: EngineProcess) -> None:
    store = Store(parse_url(engine.unix_url), namespace="numbered-partitions", partitions=8, is_test=True)
    service = Service(store)
    try:
        for queue in ("q", "r", "bedrock"):
            (made,) = service.enqueue_numbered([new(queue=queue)]).wait()
            assert isinstance(made, Enqueued)
            assert partition_of_id(made.id) == store.partition_of_queue(queue)
            assert [job.id for job in take(service, queue)] == [made.id]
    finally:
        store.close_sync()


# Answers that are lost


@contextlib.contextmanager
def losing_one_answer(target: str) -> Iterator[Endpoint]:
    """A way to the engine on which the first answer to an enqueue is lost with its connection."""
    lost = threading.Event()

    def pass_on(client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as far:
            far.connect(target)
            while request := client.recv(65_536):
                far.sendall(request)
                answer = far.recv(65_536)
                if any(code in request for code in _ENQUEUE_CODE) and answer[:1] == b"*" and not lost.is_set():
                    lost.set()
                    return
                client.sendall(answer)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=pass_on, args=[listener.accept()[0]], daemon=True).start()

    with tempfile.TemporaryDirectory(prefix="wl-") as directory, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{directory}/s")
        listener.listen()
        threading.Thread(target=accept, daemon=True).start()
        yield Endpoint(unix_path=f"{directory}/s")
        assert lost.is_set()
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("begins", [False, True])
def test_a_lost_answer_makes_no_second_job(service: Service, begins: bool) -> None:
    put(service, new())  # the library is there
    path = service.store.endpoint.unix_path  # type: ignore[union-attr]
    assert path is not None
    with losing_one_answer(path) as endpoint:
        other = Service(Store(endpoint, namespace=service.store.namespace, is_test=True, patience_s=10.0))
        asked = other.enqueue_numbered([new(), new()])
        answers = asked.start_sync()() if begins else asked.wait()
        other.store.close_sync()
    assert [number_of_id(one.id) for one in answers if isinstance(one, Enqueued)] == [1, 2]
    assert counts(service) == {"queued": 3}
    assert create(service, new()) == [3]


@pytest.mark.anyio
async def test_a_lost_answer_to_many_callers_makes_no_second_job(service: Service) -> None:
    await service.enqueue([new()])
    path = service.store.endpoint.unix_path  # type: ignore[union-attr]
    assert path is not None
    with losing_one_answer(path) as endpoint:
        async with Store(endpoint, namespace=service.store.namespace, is_test=True, patience_s=10.0) as store:
            answers = await Service(store).enqueue_numbered([new(), new()])
    assert [number_of_id(one.id) for one in answers if isinstance(one, Enqueued)] == [1, 2]
    (stats,) = await service.stats(["q"])
    assert stats.queued == 3
    await service.store.close()
