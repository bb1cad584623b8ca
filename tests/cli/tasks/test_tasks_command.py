"""windlass tasks: the list and one task, on the engine and over a server."""

from __future__ import annotations

import pytest

from tests.service.helpers import new, put, take
from tests.support.console import run, run_ok
from windlass.core.job import Blob
from windlass.core.operations import Fail, WorkerInfo
from windlass.core.stats.task_figures import TaskSums, bucket_of
from windlass.service import Service

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
WORKER = b"w" * 16


@pytest.fixture
def mailing(service: Service) -> Service:
    info = WorkerInfo(name="mailer", queues=("mail",), names=("send_mail",))
    service.register(WORKER, info, beat_ms=3_600_000).wait()
    sums = TaskSums(queue="mail", name="send_mail", failed=1, retried=2, runs={bucket_of(100): 60})
    service.report_tasks(WORKER, 1, [sums]).wait()
    put(service, new("mail", "send_mail"))
    (job,) = take(service, "mail")
    error = Blob(b'{"type": "SMTPError", "message": "refused"}')
    service.fail([Fail(id=job.id, token=job.lease_token, then="final", error=error)]).wait()
    return service


def test_ls(mailing: Service) -> None:
    [row] = run_ok(mailing, "tasks", "ls").rows
    assert row[:10] == ["send_mail", "60", "1", "2", "104ms", "111ms", "112ms", "1", "1", "mail"]
    [line] = run_ok(mailing, "tasks", "ls", "--json").lines
    assert (line["name"], line["figures"]["finished"], line["figures"]["run_p50_ms"]) == ("send_mail", 60, 104)


def test_no_tasks(service: Service) -> None:
    assert run_ok(service, "tasks", "ls").out == ""


def test_show(mailing: Service) -> None:
    lines = [" ".join(line.split()) for line in run_ok(mailing, "tasks", "show", "send_mail").out.splitlines()]
    for line in (
        "send_mail", "queues mail", "workers mailer", "finished 60, 1.0 per minute",
        "failed attempts 3, 0.1 per minute; 2 of them are retried", "run time p50 104ms", "run time p99 112ms",
    ):  # fmt: skip
        assert line in lines
    assert any(line.startswith("1 mail ") and line.endswith("SMTPError: refused") for line in lines)
    document = run_ok(mailing, "tasks", "show", "send_mail", "--json", "--last", "15m").document
    assert (document["figures"]["failed"], document["workers"][0]["name"]) == (1, "mailer")


def test_an_unknown_task_fails_with_a_suggestion(mailing: Service) -> None:
    done = run(mailing, "tasks", "show", "send_mial")
    assert (done.code, done.out) == (1, "")
    assert done.err == 'No worker has a task called "send_mial"; did you mean "send_mail"?\n'
