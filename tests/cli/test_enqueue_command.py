"""windlass enqueue: the stored job, the output, and --wait."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest

from tests.service.helpers import another, counts, new, put, read, take
from tests.support.console import run, run_ok
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Codec
from windlass.core.operations import Fail, Finish, Take, WorkerInfo
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
EXACT = b'{"n": 12345678901234567890123, "f": 1.10, "a": 1, "a": 2}'
ID = "01a1e21f-2249-7000-aad3-893cc7fff097"


def test_prints_only_the_id_and_uses_the_defaults_of_the_sdk(service: Service) -> None:
    done = run_ok(service, "enqueue", "mail", "send", '{"order_id": 7}')
    job = read(service, parse_id(done.out.strip()))
    assert done.out == job.key + "\n"
    assert done.err == ""
    assert (job.queue, job.name, job.payload, job.state) == ("mail", "send", Blob(b'{"order_id": 7}'), State.QUEUED)
    assert (job.retry, job.timeout_ms, job.result_ttl_ms) == (Backoff(), 900_000, 3_600_000)


def test_every_option_reaches_the_job(service: Service) -> None:
    options = "--run-at 2100-01-01T12:00+02:00 --priority -5 --unique k --tag a --tag b=c --expires 2100-01-02T00:00Z"
    more = f"--tries 0 --timeout 0s --keep-result forever --tenant acme --id {ID}"
    job = read(service, parse_id(run_ok(service, "enqueue", "q", "n", *f"{options} {more}".split()).out.strip()))
    assert (job.key, job.state, job.run_at_ms, job.expires_at_ms) == (
        ID, State.SCHEDULED, 4102480800000, 4102531200000,
    )  # fmt: skip
    assert (job.priority, job.unique, job.tags, job.lane) == (-5, "k", ("a", "b=c"), "acme")
    assert (job.retry.tries, job.timeout_ms, job.result_ttl_ms) == (0, 0, 2**48 - 1)


def test_delay_and_expiry_are_relative_to_now(service: Service) -> None:
    done = run_ok(service, "enqueue", "q", "n", "--delay", "1h", "--expires", "2h")
    job = read(service, parse_id(done.out.strip()))
    assert job.expires_at_ms is not None
    assert round((job.run_at_ms - job.created_at_ms) / 60_000) == 60
    assert round((job.expires_at_ms - job.created_at_ms) / 60_000) == 120


def test_stores_a_payload_as_typed_from_any_source(service: Service, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(EXACT + b"\n")
    run_ok(service, "enqueue", "q", "n", EXACT.decode())
    run_ok(service, "enqueue", "q", "n", "-", given=EXACT + b"\n")
    run_ok(service, "enqueue", "q", "n", f"@{tmp_path}/p.json")
    run_ok(service, "enqueue", "q", "n")
    assert [job.payload.data for job in take(service, most=9)] == [EXACT, EXACT, EXACT, b"{}"]


def test_an_existing_unique_key_is_noted(service: Service) -> None:
    first = run_ok(service, "enqueue", "q", "n", "--unique", "k")
    second = run_ok(service, "enqueue", "q", "n", "--unique", "k")
    assert second.out == first.out
    assert "nothing was added" in second.err
    assert run_ok(service, "enqueue", "q", "n", "--unique", "k", "--json").document["status"] == "existing"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("q", "n", "{bad"), "not JSON"),
        (("q", "n", "NaN"), "not JSON"),
        (("q", "n", "text"), "quotes"),
        (("q", "n", "[" * 5000 + "]" * 5000), "nested too deeply"),
        (("q", "n", '"' + "x" * 1024 * 1024 + '"'), "too large"),
        (("q", "n", "@/nowhere/at/all"), "cannot be read"),
        (("q", "n", "--delay", "10"), "not a duration"),
        (("q", "n", "--run-at", "soon"), "not an instant"),
        (("q", "n", "--run-at", "2100-01-01T12:00"), "no offset"),
        (("q", "n", "--run-at", "1900-01-01T12:00Z"), "too long ago"),
        (("q", "n", "--run-at", "2100-01-01T12:00Z", "--delay", "1s"), "not both"),
        (("q", "n", "--priority", "2147483648"), "range"),
        (("q", "n", "--id", "7"), "not a job id"),
        (("q",), "NAME"),
    ],
)
def test_bad_input_is_a_usage_error(service: Service, arguments: tuple[str, ...], message: str) -> None:
    done = run(service, "enqueue", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert service.queues().wait() == []


@pytest.mark.parametrize("arguments", [("q" * 300, "n"), ("", "n"), ("q", "n", "--tag", "x" * 200)])
def test_refuses_invalid_jobs(service: Service, arguments: tuple[str, ...]) -> None:
    done = run(service, "enqueue", *arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("windlass: ")


def test_a_full_queue_exits_with_75(service: Service) -> None:
    service.configure("q", {"max_length": 1}).wait()
    put(service, new())
    assert run(service, "enqueue", "q", "n").code == 75


# Waiting


class OneJobWorker(threading.Thread):
    """Takes one job with its own store, and ends it with the given error or result."""

    def __init__(self, service: Service, error: Blob | None, result: Blob | None) -> None:
        super().__init__()
        self._service, self._error, self._result = another(service), error, result
        self.start()

    def run(self) -> None:
        (job,) = self._service.take(Take(queues=("q",), wait_ms=20_000)).wait().jobs
        if self._error is None:
            self._service.finish([Finish(job.id, job.lease_token, self._result)]).wait()
        else:
            self._service.fail([Fail(id=job.id, token=job.lease_token, error=self._error)]).wait()
        self._service.store.close_sync()


def msgpack(value: object) -> Blob:
    return Blob(msgspec.msgpack.encode(value), Codec.MSGPACK)


@pytest.mark.parametrize(
    ("result", "printed"), [(msgpack({"sent": 2**64 - 1}), '{"sent":18446744073709551615}\n'), (None, "")]
)
def test_wait_prints_the_result(service: Service, result: Blob | None, printed: str) -> None:
    worker = OneJobWorker(service, None, result)
    assert run_ok(service, "enqueue", "q", "n", "--wait").out == printed
    worker.join()


def test_wait_for_a_failed_job_prints_its_traceback_and_exits_with_1(service: Service) -> None:
    error = msgpack({"type": "ValueError", "message": "no", "traceback": "Traceback …\nValueError: no\n"})
    worker = OneJobWorker(service, error, None)
    done = run(service, "enqueue", "q", "n", "--wait")
    worker.join()
    assert (done.code, done.out) == (1, "")
    assert "ValueError: no" in done.err
    assert "failed: error" in done.err


def test_wait_with_json_prints_the_end(service: Service) -> None:
    worker = OneJobWorker(service, msgpack({"type": "E", "message": "m"}), None)
    done = run(service, "enqueue", "q", "n", "--wait", "--json", "--id", ID)
    worker.join()
    assert done.code == 1
    end = done.document
    assert (end["id"], end["state"], end["last_attempt"]["error"]) == (ID, "failed", {"type": "E", "message": "m"})


def test_a_wait_limit_exits_with_75_and_the_job_continues(service: Service) -> None:
    done = run(service, "enqueue", "q", "n", "--wait-limit", "50ms", "--id", ID)
    assert (done.code, done.out) == (75, "")
    assert f"{ID} has not ended within 50ms" in done.err
    assert counts(service) == {"queued": 1}
    assert format_id(take(service)[0].id) == ID


# Names that look misspelt


def test_a_name_that_no_worker_knows_is_reported_after_the_id(service: Service) -> None:
    service.register(b"w" * 16, WorkerInfo(queues=("mail",), names=("send_mail",)), beat_ms=600_000).wait()
    assert run_ok(service, "enqueue", "mail", "send_mail").err == ""
    done = run_ok(service, "enqueue", "mail", "send_mial")
    assert done.err == 'No worker has a task called "send_mial"; did you mean "send_mail"?\n'
    assert read(service, parse_id(done.out.strip())).name == "send_mial"
    done = run_ok(service, "enqueue", "mail", "send_mial", "--json", "--delay", "1h")
    assert done.document["status"] == "scheduled"
    assert "did you mean" in done.err


def test_a_queue_that_looks_misspelt_is_reported_once(service: Service) -> None:
    put(service, new("mail"))
    done = run_ok(service, "enqueue", "mial", "send_mail")
    assert done.err == 'No worker takes from queue "mial"; did you mean "mail"?\n'
    assert counts(service, "mial") == {"queued": 1}
    assert run_ok(service, "enqueue", "mial", "send_mail").err == "", "the queue exists now"
    assert run_ok(service, "enqueue", "video", "cut").err == "", "no queue has a similar name"
