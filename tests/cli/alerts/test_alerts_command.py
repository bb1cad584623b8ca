"""windlass alerts: set, listed, muted, tested, removed; also over a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.service.helpers import new, put
from tests.support.console import CliResult, environment, run, run_ok, run_with_settings
from tests.support.threaded_server import threaded_server
from windlass.background.alerts.evaluator import CLAIM_MS, AlertEvaluator
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
Run = Callable[..., CliResult]


@pytest.fixture(params=["engine", "server"])
def command(request: pytest.FixtureRequest, service: Service, store: Store) -> Iterator[Run]:
    """Run commands on the engine, or over a server."""
    settings = environment(service)
    if request.param == "engine":
        yield lambda *words: run_with_settings("alerts", *words, settings=settings)
        return
    # Only the role api: nothing evaluates or delivers beside the test.
    with threaded_server(store.clone(), Settings(port=0, bedrock_port=None, roles="api")) as url:
        yield lambda *words: run_with_settings(
            "alerts", *words, settings={"WINDLASS_URL": url, "WINDLASS_NAMESPACE": ""}
        )


def test_set_ls_mute_test_and_rm(service: Service, command: Run) -> None:
    target = "https://hooks.example.com/x"
    options = ("--kind", "no_worker", "--queue", "mail-*", "--to", target, "--note", "Call Ann.", "--cool-down", "1h")
    assert command("set", "idle", *options).out == "Alert rule idle is set.\n"
    (row,) = command("ls").rows
    assert row == ["idle", "ok", "", "", "", "1 waiting job or more of mail-* without a worker", target]
    (line,) = command("ls", "--json").lines
    assert (line["name"], line["cool_down_ms"], line["note"], line["phase"]) == ("idle", 3_600_000, "Call Ann.", "ok")
    assert command("test", "idle").out == "A test message is on its way to 1 target.\n"
    assert len(service.callbacks().wait().callbacks) == 1
    assert command("mute", "idle", "--for", "2h").out == "Alert rule idle is muted.\n"
    assert command("ls").rows[0][1] == "ok, muted"
    assert command("mute", "idle", "--for", "0s").out == "Alert rule idle notifies again.\n"
    assert command("rm", "idle").out == "Alert rule idle is removed.\n"
    assert command("rm", "idle").code == 1
    assert command("ls").code == 0


async def _evaluate(service: Service) -> None:
    async with service.store.clone() as store:
        store.clock_offset_ms = CLAIM_MS
        await AlertEvaluator().run_once(Service(store))


@pytest.mark.anyio
async def test_open_and_past_incidents(service: Service) -> None:
    run_ok(service, "alerts", "set", "idle", "--kind", "no_worker")
    put(service, new("mail"))
    await _evaluate(service)
    (row,) = run_ok(service, "alerts", "ls").rows
    assert (row[:3], row[4]) == (["idle", "open", "1 waiting job"], "mail")
    run_ok(service, "alerts", "rm", "idle")
    (row,) = run_ok(service, "alerts", "ls", "--past").rows
    assert (row[0], row[3:]) == ("idle", ["1 waiting job", "mail", "sent"])


@pytest.mark.parametrize(
    "options",
    [
        (), ("--kind", "other"), ("--kind", "failures", "--threshold", "many"), ("--kind", "failures", "--to", "ops"),
        ("--kind", "oldest_age", "--threshold", "10"), ("--kind", "failures", "--schedule", "x"),
        ("--kind", "schedule_missed", "--queue", "x"), ("--kind", "engine_risk", "--queue", "x"),
        ("--kind", "failures", "--window", "10"), ("--kind", "failures", "--queue", "a", "--schedule", "b"),
    ],
)  # fmt: skip
def test_wrong_options(service: Service, options: tuple[str, ...]) -> None:
    assert run(service, "alerts", "set", "x", *options).code == 2
    assert service.alerts().wait().rules == []
