"""windlass callbacks: pending and given-up callbacks, and redelivery."""

from __future__ import annotations

import pytest

from tests.service.helpers import new, put, take
from tests.support.console import run, run_ok
from windlass.core.callbacks.callback import FailedDelivery, PendingCallback
from windlass.core.job import Callback
from windlass.core.operations import Finish
from windlass.service import Service

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
HOOK = Callback(url="https://example.org/hook")


def given_up(service: Service, *queues: str, callback: Callback = HOOK) -> list[PendingCallback]:
    for queue in queues:
        put(service, new(queue, callback=callback))
        (job,) = take(service, queue)
        service.finish([Finish(job.id, job.lease_token)]).wait()
    leased = service.take_callbacks(most=100).wait().callbacks
    service.retry_callbacks(
        [FailedDelivery(id=callback.id, token=callback.token, error="no\n\x1b", give_up=True) for callback in leased]
    ).wait()
    return leased


def test_ls(service: Service) -> None:
    assert run_ok(service, "callbacks", "ls").out == run_ok(service, "callbacks", "ls", "--given-up").out == ""
    (callback,) = given_up(service, "mail")
    assert run_ok(service, "callbacks", "ls").rows == []
    (row,) = run_ok(service, "callbacks", "ls", "--given-up").rows
    assert row[:6] == [callback.key, "mail", "n", "finished", "https://example.org/hook", "1"]
    assert row[7] == "no \\x1b"
    (line,) = run_ok(service, "callbacks", "ls", "--given-up", "--json").lines
    assert (line["id"], line["callback"]["url"], line["error"]) == (callback.key, HOOK.url, "no\n\x1b")
    assert line["job"]["id"] == callback.job.key


def test_ls_notes_omitted_rows(service: Service) -> None:
    given_up(service, *["q"] * 3, callback=Callback(type="kafka", destination="ends"))
    done = run_ok(service, "callbacks", "ls", "--given-up", "-n", "2")
    assert [row[4] for row in done.rows] == ["kafka: ends"] * 2
    assert "Only the first 2 callbacks" in done.err


def test_redeliver(service: Service) -> None:
    first, second, third = given_up(service, "a", "b", "b")
    done = run_ok(service, "callbacks", "redeliver", first.key, second.job.key)
    assert done.rows == [[first.key, "owed"], [second.job.key, "owed"]]
    again = run(service, "callbacks", "redeliver", first.key)
    assert (again.code, again.out) == (1, "")
    assert "still pending" in again.err
    listed = [row[0] for row in run_ok(service, "callbacks", "ls").rows]
    assert sorted(listed) == sorted([first.key, second.key])  # both are due at the same instant
    assert run_ok(service, "callbacks", "redeliver", "--all", "--queue", "a").err == "No given-up callbacks.\n"
    assert run(service, "callbacks", "redeliver", "--all").code == 2  # no terminal to ask on
    assert run_ok(service, "callbacks", "redeliver", "--all", "-y").out == "1 callback will be delivered again.\n"
    assert len(run_ok(service, "callbacks", "ls").rows) == 3
    assert third.key in run_ok(service, "callbacks", "ls").out


def test_redeliver_by_a_part_of_the_id_of_a_job(service: Service) -> None:
    (callback,) = given_up(service, "a")
    assert run_ok(service, "callbacks", "redeliver", callback.job.key[-6:]).rows == [[callback.job.key[-6:], "owed"]]
    assert service.callbacks(given_up=True).wait().callbacks == []


@pytest.mark.parametrize(
    ("arguments", "code"), [([], 2), (["--all", "x"], 2), (["x"], 1), (["01890a5d-ac96-7000-8000-b5c1d0b7a3f2-x"], 1)]
)
def test_wrong_usage(service: Service, arguments: list[str], code: int) -> None:
    (callback,) = given_up(service, "a")
    assert run(service, "callbacks", "redeliver", *arguments).code == code
    assert [found.id for found in service.callbacks(given_up=True).wait().callbacks] == [callback.id]


def test_an_unknown_callback(service: Service) -> None:
    done = run(service, "callbacks", "redeliver", "01890a5d-ac96-7000-8000-b5c1d0b7a3f2-7")
    assert done.code == 1
    assert "No pending callback has this id" in done.err
