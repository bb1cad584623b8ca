"""windlass failed: search by error, retry and delete."""

from __future__ import annotations

import msgspec
import pytest

from tests.service.helpers import counts, new, put, take
from tests.support.console import run, run_ok
from windlass.core.ids import format_id
from windlass.core.job import Blob, Codec
from windlass.core.operations import Fail
from windlass.service import Service

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


def fail_all(service: Service, queue: str, name: str, count: int, message: str) -> None:
    put(service, *(new(queue, name) for _ in range(count)))
    error = Blob(msgspec.msgpack.encode({"type": "OSError", "message": message, "traceback": "…"}), Codec.MSGPACK)
    jobs = take(service, queue, most=count)
    service.fail([Fail(id=job.id, token=job.lease_token, error=error) for job in jobs]).wait()


def fail_one(service: Service, name: str) -> None:
    """Fail one job at the current time of the store's clock."""
    put(service, new("q", name))
    job = next(job for job in take(service, most=9, lease_ms=86_400_000) if job.name == name)
    service.fail([Fail(id=job.id, token=job.lease_token)]).wait()


@pytest.fixture
def filled(service: Service) -> Service:
    fail_all(service, "mail", "send", 3, "connection Refused")
    fail_all(service, "mail", "report", 2, "disk full")
    fail_all(service, "other", "send", 1, "connection refused")
    return service


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ((), 6),
        (("--queue", "mail"), 5),
        (("--queue", "mail", "-q", "other"), 6),
        (("--name", "s*"), 4),
        (("--error", "REFUSED"), 4),
        (("--error", "OSError: disk"), 2),
        (("--queue", "mail", "--name", "send", "--error", "refused"), 3),
        (("--since", "1h"), 6),
        (("--since", "2100-01-01T00:00Z"), 0),
    ],
)
def test_all_commands_use_the_same_filters(filled: Service, options: tuple[str, ...], count: int) -> None:
    assert len(run_ok(filled, "failed", "ls", *options).rows) == count
    run_ok(filled, "failed", "retry", "--yes", *options)
    left = counts(filled, "mail").get("queued", 0) + counts(filled, "other").get("queued", 0)
    assert left == count


def test_ls_shows_errors(filled: Service) -> None:
    rows = run_ok(filled, "failed", "ls", "--queue", "mail").rows
    assert {(row[1], row[2], row[3], row[5]) for row in rows} == {
        ("mail", "send", "1", "OSError: connection Refused"),
        ("mail", "report", "1", "OSError: disk full"),
    }
    (line,) = run_ok(filled, "failed", "ls", "-q", "other", "--json").lines
    assert (line["state"], line["error"]) == ("failed", "OSError: connection refused")
    assert "--limit 0" in run_ok(filled, "failed", "ls", "--limit", "5").err


def test_groups_shows_the_largest_group_first(filled: Service) -> None:
    rows = run_ok(filled, "failed", "groups").rows
    assert rows[0][:3] == ["3", "mail", "send"]
    assert len(rows) == 3
    assert len(run_ok(filled, "failed", "groups", "--queue", "mail", "--name", "rep*").rows) == 1


def test_delete_asks_for_confirmation_with_the_number_of_jobs(filled: Service) -> None:
    refused = run(filled, "failed", "delete", "--queue", "mail", "--error", "full")
    assert refused.code == 2
    assert "Delete 2 failed jobs of queue mail with the error 'full' permanently?" in refused.err
    assert counts(filled, "mail") == {"failed": 5}
    assert run_ok(filled, "failed", "delete", "--queue", "mail", "--error", "full", "--yes").out == "Deleted 2 jobs.\n"
    assert counts(filled, "mail") == {"failed": 3}
    assert "No failed jobs match." in run_ok(filled, "failed", "delete", "--error", "full").err


def test_retry_asks_for_confirmation_only_without_filters(filled: Service) -> None:
    assert run(filled, "failed", "retry").code == 2
    assert counts(filled, "mail") == {"failed": 5}
    assert run_ok(filled, "failed", "retry", "--queue", "mail").out == "Retried 5 jobs.\n"
    assert run_ok(filled, "failed", "retry", "--yes").out == "Retried 1 job.\n"


def fail_chain(service: Service, message: str) -> list[bytes]:
    """Fail the first of three jobs that wait for each other."""
    ids = [service.store.new_id("mail") for _ in range(3)]
    names = ("charge", "ship", "notify")
    put(
        service,
        *(new("mail", name, id=ids[at], after=tuple(ids[max(0, at - 1) : at])) for at, name in enumerate(names)),
    )
    error = Blob(msgspec.json.encode({"type": "CardError", "message": message}))
    (job,) = take(service, "mail")
    service.fail([Fail(id=job.id, token=job.lease_token, error=error)]).wait()
    return ids


def test_consequences_are_shown_with_their_cause_and_not_retried(service: Service) -> None:
    charge, *_ = fail_chain(service, "declined")
    assert [row[2] for row in run_ok(service, "failed", "ls").rows] == ["charge"]
    rows = {row[2]: row[-1] for row in run_ok(service, "failed", "ls", "--later").rows}
    assert rows["charge"] == "CardError: declined"
    assert rows["notify"] == rows["ship"] == f"because of charge (job {format_id(charge)}): CardError: declined"
    groups = run_ok(service, "failed", "groups")
    assert [(*row[:3], row[-1]) for row in groups.rows] == [("1", "mail", "charge", "2")]
    assert "1 failed, 2 later steps failed because of them." in groups.err
    (line,) = run_ok(service, "failed", "groups", "--json").lines
    assert (line["count"], line["consequences"]) == (1, 2)
    only = run_ok(service, "failed", "groups", "--name", "ship")
    assert "1 job failed because of jobs that are not shown here." in only.err
    done = run_ok(service, "failed", "retry", "--name", "ship")
    assert done.out == "Retried 0 jobs. 1 later step follows its cause.\n"
    assert counts(service, "mail") == {"failed": 3}
    done = run_ok(service, "failed", "retry", "--yes")
    assert done.out == "Retried 1 job. 2 later steps follow their causes.\n"
    assert counts(service, "mail") == {"queued": 1, "waiting": 2}


def test_several_batches(service: Service) -> None:
    for _ in range(2):
        fail_all(service, "q", "n", 600, "x")
    assert run_ok(service, "failed", "retry", "--queue", "q").out == "Retried 1,200 jobs.\n"
    assert counts(service) == {"queued": 1_200}


def test_reports_a_refused_retry(service: Service) -> None:
    put(service, new(unique="k"))
    (job,) = take(service)
    service.fail([Fail(id=job.id, token=job.lease_token)]).wait()
    put(service, new(unique="k"))
    done = run(service, "failed", "retry", "--queue", "q")
    assert (done.code, done.out) == (1, "Retried 0 jobs.\n")
    assert f"{job.key}: Another job holds" in done.err


def test_newest_first_and_since_use_the_time_of_failure(service: Service) -> None:
    for name, offset_ms in (("early", -7_200_000), ("late", 0)):
        service.store.clock_offset_ms = offset_ms
        fail_one(service, name)
    assert [row[2] for row in run_ok(service, "failed", "ls").rows] == ["late", "early"]
    assert [row[2] for row in run_ok(service, "failed", "ls", "--since", "1h").rows] == ["late"]
    assert [row[2] for row in run_ok(service, "failed", "ls", "--since", "3h").rows] == ["late", "early"]
