"""Enqueuing a job that no worker knows logs a warning, once per task and queue."""

from __future__ import annotations

import logging

import pytest

from tests.support.threaded_server import threaded_server
from windlass import Windlass
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import make_id
from windlass.core.operations import WorkerInfo
from windlass.sdk.tasks import unknown_tasks
from windlass.service import Service
from windlass.settings import Settings

SENTENCE = 'No worker has a task called "send_mial"; did you mean "send_mail"? The job waits in queue mail.'
pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


@pytest.fixture
def mailing(service: Service) -> Service:
    """A live worker of the queue that has another task."""
    info = WorkerInfo(name="mailer", queues=("mail",), names=("send_mail",))
    service.register(make_id(1_700_000_000_000, 0, 7), info, beat_ms=3_600_000).wait()
    return service


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "windlass.app"]


def add_tasks(app: Windlass) -> None:
    @app.task(queue="mail")
    def send_mial(number: int) -> int:
        return number

    @app.task(queue="mail")
    def send_mail(number: int) -> int:
        return number


def test_the_first_job_of_an_unknown_task_is_reported(
    app: Windlass, mailing: Service, caplog: pytest.LogCaptureFixture
) -> None:
    add_tasks(app)
    with caplog.at_level(logging.WARNING, "windlass.app"):
        for name in ("send_mial", "send_mail", "send_mial"):
            assert app.tasks[name].enqueue(1).state == "queued"
    assert warnings(caplog) == [SENTENCE]


@pytest.mark.anyio
async def test_it_is_reported_in_an_event_loop(
    app: Windlass, mailing: Service, caplog: pytest.LogCaptureFixture
) -> None:
    add_tasks(app)
    with caplog.at_level(logging.WARNING, "windlass.app"):
        for name in ("send_mial", "send_mail", "send_mial"):
            await app.tasks[name].aenqueue(1)
    assert warnings(caplog) == [SENTENCE]


@pytest.mark.parametrize(("roles", "count"), [({Role.PRODUCE, Role.READ}, 1), ({Role.PRODUCE}, 0)])
def test_over_a_server_the_role_to_read_is_needed(
    mailing: Service, caplog: pytest.LogCaptureFixture, roles: set[Role], count: int
) -> None:
    mailing.store.open_sync()
    mailing.create_token(NewToken(name="root", roles=frozenset({Role.ADMIN}))).wait()
    token = mailing.create_token(NewToken(name="shop", roles=frozenset(roles))).wait()
    with threaded_server(mailing.store.clone(), Settings(port=0, bedrock_port=None, roles="api")) as url:
        remote = Windlass(url, token=token.text)
        add_tasks(remote)
        with caplog.at_level(logging.WARNING, "windlass.app"):
            assert remote.tasks["send_mial"].enqueue(1).id
        remote.close()
    assert warnings(caplog) == [SENTENCE] * count


def test_the_number_of_checks_is_bounded(
    app: Windlass, mailing: Service, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_tasks, "CHECKED_MAX", 1)
    add_tasks(app)
    with caplog.at_level(logging.WARNING, "windlass.app"):
        app.tasks["send_mail"].enqueue(1)
        app.tasks["send_mial"].enqueue(1)
    assert warnings(caplog) == []
