"""Names that do not exist are refused with the one that is spelt most alike."""

from __future__ import annotations

import pytest

from tests.cli.remote.command_cases import HOUR_MS
from tests.service.helpers import new, put
from tests.support.console import CliResult, environment, run, run_with_settings
from tests.support.threaded_server import threaded_server
from windlass.core.access.tokens import NewToken, Role
from windlass.core.alerts.rule import AlertRule
from windlass.core.filters.saved_filter import SavedFilter
from windlass.core.ids import make_id
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import WorkerInfo
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.settings import Settings

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


@pytest.fixture
def named(service: Service) -> Service:
    service.schedule(Schedule(name="nightly", job=new(), every_ms=HOUR_MS)).wait()
    service.limit(Limit(name="nightly", matches=Matcher(queue="q"), running=1)).wait()
    service.set_alert(AlertRule(name="nightly", kind="failures", pattern="q")).wait()
    service.save_filter(SavedFilter(name="nightly", page="jobs", fields={"state": "failed"})).wait()
    service.create_token(NewToken(name="nightly", roles=frozenset({Role.ADMIN}))).wait()
    return service


@pytest.mark.parametrize(
    "command",
    [
        "schedules show", "schedules run", "schedules pause", "schedules resume", "schedules rm --yes",
        "schedules edit --every 2h", "limits rm", "limits cap --running 2", "alerts rm", "alerts mute --for 1h",
        "alerts test", "filters rm", "tokens rm", "jobs ls --filter",
    ],
)  # fmt: skip
def test_a_similar_name_is_suggested(named: Service, command: str) -> None:
    words = command.split()
    key = ["k"] if command.startswith("limits cap") else []
    at = len(words) if words[-1] == "--filter" else 2
    done = run(named, *words[:at], "nihgtly", *key, *words[at:])
    assert (done.code, 'Did you mean "nightly"?' in done.err) == (1, True), done
    unlike = run(named, *words[:at], "zzz", *key, *words[at:])
    assert (unlike.code, "Did you mean" in unlike.err) == (1, False), unlike


def test_a_schedule_for_a_task_that_no_worker_knows_is_noted(service: Service) -> None:
    worker = make_id(1_700_000_000_000, 0, 7)
    service.register(worker, WorkerInfo(name="w", queues=("mail",), names=("send_mail",)), beat_ms=HOUR_MS).wait()
    added = run(service, "schedules", "add", "a", "--every", "1h", "--queue", "mail", "--job", "send_mial")
    sentence = 'No worker has a task called "send_mial"; did you mean "send_mail"?\n'
    assert (added.code, added.err) == (0, sentence)
    assert run(service, "schedules", "edit", "a", "--job", "send_mail").err == ""
    assert run(service, "schedules", "edit", "a", "--job", "sned_mail").err.startswith("No worker has a task called")


def test_a_role_that_is_missing_is_that_of_the_command(service: Service) -> None:
    """The look-up before the action needs another role, which would mislead."""
    (job,) = put(service, new("q"))
    token = service.create_token(NewToken(name="shop", roles=frozenset({Role.PRODUCE}))).wait()
    service.store.open_sync()
    with threaded_server(service.store.clone(), Settings(port=0, bedrock_port=None, roles="api")) as url:

        def over_server(*arguments: str) -> CliResult:
            settings = environment(service) | {"WINDLASS_URL": url, "WINDLASS_TOKEN": token.text}
            return run_with_settings(*arguments, settings=settings)

        without = run_with_settings("queues", "ls", settings={"WINDLASS_URL": url})
        assert (without.code, "The command line takes it from WINDLASS_TOKEN." in without.err) == (1, True)
        for command in ("pause", "resume"):
            assert "This needs the role admin; the token" in over_server("queues", command, "q").err
        part = over_server("jobs", "cancel", job.id.hex()[-6:])
        assert "Without the role read only a whole id finds a job" in part.err
        assert over_server("jobs", "cancel", str(job.id.hex())).code == 0
