"""Alert rules on a real engine: evaluation, moves with their messages, cool-down, mute, several servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.service.helpers import new
from tests.support.engine_process import EngineProcess
from tests.support.namespace import dump_keys, record_operations, send_command
from windlass.background.alerts.evaluator import CLAIM_MS, AlertEvaluator
from windlass.core.alerts.incident import Figure, decide
from windlass.core.alerts.message import ALERT_QUEUE
from windlass.core.alerts.rule import AlertKind, AlertRule
from windlass.core.alerts.validation import ALERTS_MAX
from windlass.core.callbacks.callback import FailedDelivery, LeasedCallback
from windlass.core.errors import BadInput, TooLarge, UnknownAlert
from windlass.core.job import Callback
from windlass.core.operations import Fail, Finish, Take, WorkerInfo
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
SECOND, MINUTE = 1_000, 60_000
HOUR = 60 * MINUTE
TARGET = "https://hooks.example.com/a/secret"


def rule_of(kind: AlertKind = "no_worker", name: str = "r", **fields: Any) -> AlertRule:
    return AlertRule(name=name, kind=kind, **({"targets": (TARGET,), "threshold": 1} | fields))


class Clock:
    """Evaluations of one server, with time that the test moves."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.evaluator = AlertEvaluator("https://jobs.example.com")

    async def after(self, pause_ms: int = CLAIM_MS) -> int:
        self.service.store.clock_offset_ms += pause_ms
        return await self.evaluator.run_once(self.service)

    async def messages(self) -> list[dict[str, Any]]:
        """Return the messages that wait for their delivery, and settle them."""
        found = (await self.service.take_callbacks(most=100)).callbacks
        await self.service.settle_callbacks([LeasedCallback(one.id, one.token) for one in found])
        return [msgspec.json.decode(one.job.payload.data) for one in found]

    async def events(self) -> list[str]:
        return [message["event"] for message in await self.messages()]


@pytest.fixture
async def clock(service: Service, store: Store) -> Any:
    async with store:
        yield Clock(service)


async def test_an_incident_notifies_once_and_once_when_it_is_over(service: Service, clock: Clock) -> None:
    await service.set_alert(rule_of(pattern="mail-*", note="Call Ann."))
    assert await clock.after() == 0
    put_job = await service.enqueue([new(queue="mail-a"), new(queue="other")])
    assert put_job
    assert await clock.after() == 1
    [message] = await clock.messages()
    assert (message["event"], message["alert"], message["figure"], message["subjects"]) == (
        "alert_opened", "r", 1, ["mail-a"]
    )  # fmt: skip
    assert message["url"] == "https://jobs.example.com/queues/mail-a"
    assert message["note"] == "Call Ann."
    assert await clock.after() == 0
    assert await clock.events() == []
    [job] = (await service.take(_take("mail-a"))).jobs
    await service.finish([Finish(job.id, job.lease_token)])
    assert await clock.after() == 1
    assert await clock.events() == ["alert_over"]
    found = await service.alerts()
    assert [past.subjects for past in found.past] == [("mail-a",)]
    assert found.rules[0].state.phase == "ok"
    assert (await service.alerts(past=0)).past == []


def _take(queue: str) -> Take:
    return Take(queues=(queue,), most=10)


async def test_servers_share_the_work(service: Service, clock: Clock) -> None:
    await service.set_alert(rule_of())
    await service.enqueue([new()])
    service.store.clock_offset_ms += CLAIM_MS
    others = [AlertEvaluator(), AlertEvaluator()]
    assert [await one.run_once(service) for one in others] == [1, 0]
    assert await clock.events() == ["alert_opened"]


async def test_of_two_evaluations_one_stores_the_move(service: Service, clock: Clock) -> None:
    """Both have read the same state, as after a pause of the first process."""
    await service.set_alert(rule_of())
    found = await service.claim_alerts(interval_ms=1)
    [one] = found.rules
    transition = decide(one.status.rule, Figure(value=1), one.status.state, found.now_ms)
    assert transition is not None
    assert await service.move_alert(one, transition, found.now_ms)
    assert not await service.move_alert(one, transition, found.now_ms)
    assert await clock.events() == ["alert_opened"]


async def test_without_rules_an_evaluation_writes_nothing(
    engine: EngineProcess, service: Service, store: Store, clock: Clock
) -> None:
    await service.enqueue([new()])
    before = dump_keys(store)
    with record_operations(engine, store) as called:
        assert await clock.after() == 0
    assert called == ["claim_alerts"]
    assert dump_keys(store) == before


async def test_an_evaluation_reads_what_its_rules_need(
    engine: EngineProcess, service: Service, store: Store, clock: Clock
) -> None:
    await service.set_alert(rule_of("oldest_age", "a", threshold=MINUTE))
    await service.set_alert(rule_of("no_worker", "b", threshold=100))
    await service.enqueue([new(queue=f"q{number}") for number in range(30)])
    await clock.after()
    with record_operations(engine, store) as called:
        await clock.after()
    assert called == ["claim_alerts", "queues", "stats", "workers"]


async def test_the_cool_down_holds_messages_back(service: Service, clock: Clock) -> None:
    await service.set_alert(rule_of(cool_down_ms=10 * MINUTE))
    for round_number in range(3):
        await service.enqueue([new()])
        await clock.after()
        [job] = (await service.take(_take("q"))).jobs
        await service.finish([Finish(job.id, job.lease_token)])
        await clock.after()
        assert await clock.events() == (["alert_opened", "alert_over"] if round_number == 0 else [])
    await service.enqueue([new()])
    await clock.after(10 * MINUTE)
    [message] = await clock.messages()
    assert (message["event"], message["suppressed"]) == ("alert_opened", 2)


async def test_failures_per_minute(service: Service, clock: Clock) -> None:
    await service.set_alert(rule_of("failures", pattern="q*", threshold=0.2, window_ms=10 * MINUTE))
    await clock.after()
    await service.enqueue([new(), new(), new(queue="other")])
    for queue in ("q", "other"):
        jobs = (await service.take(_take(queue))).jobs
        await service.fail([Fail(id=job.id, token=job.lease_token, reason="boom") for job in jobs])
    await clock.after()
    [message] = await clock.messages()
    assert (message["figure"], message["unit"], message["subjects"]) == (0.2, "per_minute", ["q"])
    await clock.after(11 * MINUTE)
    assert await clock.events() == ["alert_over"]


@pytest.mark.parametrize("window_ms", [MINUTE, 10 * MINUTE, 7 * HOUR, 24 * HOUR])
async def test_failures_count_for_the_whole_window(service: Service, clock: Clock, window_ms: int) -> None:
    """Failures are counted by minutes or longer steps, which the window does not begin or end with."""
    await service.set_alert(rule_of("failures", threshold=MINUTE / window_ms / 2, window_ms=window_ms))
    now_ms = (await service.alerts()).now_ms
    await clock.after(2 * window_ms - now_ms % window_ms - 5 * SECOND)  # just before the next step begins
    await service.enqueue([new()])
    [job] = (await service.take(_take("q"))).jobs
    await service.fail([Fail(id=job.id, token=job.lease_token, reason="boom")])
    await clock.after(20 * SECOND)
    assert [status.state.phase for status in (await service.alerts()).rules] == ["open"]
    await clock.after(window_ms + 16 * MINUTE)
    assert [status.state.phase for status in (await service.alerts()).rules] == ["ok"]


async def test_the_oldest_age_and_how_long_it_lasts(service: Service, clock: Clock) -> None:
    await service.set_alert(rule_of("oldest_age", threshold=5 * MINUTE, for_ms=MINUTE))
    await service.enqueue([new()])
    await clock.after(5 * MINUTE)
    assert await clock.events() == []
    await clock.after(MINUTE)
    [message] = await clock.messages()
    assert message["unit"] == "ms"
    assert 6 * MINUTE <= message["figure"] < 7 * MINUTE


async def test_a_live_worker_or_a_pause_answers_for_a_queue(service: Service, clock: Clock) -> None:
    await service.set_alert(rule_of())
    await service.enqueue([new(queue="served"), new(queue="paused")])
    await service.register(b"w" * 16, WorkerInfo(queues=("served",)), beat_ms=MINUTE)
    await service.pause("paused")
    await clock.after()
    assert await clock.events() == []
    await clock.after(2 * MINUTE)
    [message] = await clock.messages()
    assert message["subjects"] == ["served"]


async def test_a_schedule_that_is_late_or_missed(service: Service, clock: Clock) -> None:
    await service.set_alert(rule_of("schedule_missed", threshold=MINUTE, window_ms=10 * MINUTE))
    await service.schedule(Schedule(name="nightly", job=new(), every_ms=5 * MINUTE, misfire="none"))
    await clock.after()
    await clock.after(7 * MINUTE)
    [late] = await clock.messages()
    assert late["subjects"] == ["nightly"]
    await service.fire()
    await clock.after()
    assert (await service.alerts()).rules[0].state.phase == "open", "it was counted as missed"
    await service.pause_schedule("nightly")
    await clock.after(9 * MINUTE)
    assert await clock.events() == []
    await clock.after(MINUTE)
    assert await clock.events() == ["alert_over"]


async def test_callbacks_given_up_without_those_of_alerts(service: Service, clock: Clock) -> None:
    await service.set_alert(rule_of("callback_given_up", "g"))
    await service.set_alert(rule_of("no_worker", "n"))
    await service.enqueue([new()])
    await clock.after()
    await _give_up_all(service)
    await clock.after()
    assert {one.rule.name: one.state.phase for one in (await service.alerts()).rules} == {"g": "ok", "n": "open"}
    await service.enqueue([new(queue="p", callback=Callback(url="https://a.example.com"))])
    [job] = (await service.take(_take("p"))).jobs
    await service.finish([Finish(job.id, job.lease_token)])
    await _give_up_all(service)
    await clock.after()
    assert await clock.events() == ["alert_opened"]
    await clock.after(10 * MINUTE)
    assert "alert_over" in await clock.events()


async def _give_up_all(service: Service) -> None:
    found = (await service.take_callbacks(most=10)).callbacks
    assert found
    await service.retry_callbacks([FailedDelivery(id=one.id, token=one.token, give_up=True) for one in found])


async def test_risks_of_the_engine(service: Service, clock: Clock) -> None:
    """The engine of the tests keeps no append-only file."""
    await service.set_alert(rule_of("engine_risk"))
    await clock.after()
    [message] = await clock.messages()
    assert "no_persistence" in message["subjects"]


async def test_mute_and_test(service: Service, clock: Clock) -> None:
    await service.set_alert(rule_of(targets=(TARGET, "mailto:ops@example.com")))
    await service.mute_alert("r", for_ms=5 * MINUTE)
    await service.enqueue([new()])
    await clock.after()
    assert await clock.events() == []
    assert await service.test_alert("r") == 2
    assert await clock.events() == ["alert_test", "alert_test"]
    await service.mute_alert("r", for_ms=0)
    await clock.after()
    assert await clock.events() == ["alert_opened", "alert_opened"]


async def test_a_removed_rule_leaves_only_its_past(service: Service, store: Store, clock: Clock) -> None:
    await service.set_alert(rule_of(targets=()))
    await service.enqueue([new()])
    await clock.after()
    await service.remove_alert("r")
    found = await service.alerts()
    assert (found.rules, [past.name for past in found.past]) == ([], ["r"])
    assert send_command(store, "HLEN", f"{store.root(0)}:alert_states") == 0
    for operation in (service.remove_alert("r"), service.mute_alert("r", for_ms=1), service.test_alert("r")):
        with pytest.raises(UnknownAlert):
            await operation


async def test_a_test_needs_a_target(service: Service, clock: Clock) -> None:
    await service.set_alert(rule_of(targets=()))
    with pytest.raises(BadInput, match="no target"):
        await service.test_alert("r")


async def test_rules_are_bounded(service: Service, clock: Clock) -> None:
    for number in range(ALERTS_MAX):
        await service.set_alert(rule_of(name=f"r{number}"))
    with pytest.raises(TooLarge):
        await service.set_alert(rule_of(name="one-more"))
    await service.set_alert(rule_of(name="r7", threshold=9))


async def test_declared_rules_are_changed_in_the_settings(service: Service, clock: Clock) -> None:
    await service.set_alert(rule_of(name="own"))
    await service.declare_alerts([rule_of(name="one"), rule_of(name="two")])
    for refused in (service.set_alert(rule_of(name="one")), service.remove_alert("one")):
        with pytest.raises(BadInput, match="settings"):
            await refused
    await service.declare_alerts([rule_of(name="two", threshold=3)])
    rules = {one.rule.name: one.rule for one in (await service.alerts()).rules}
    assert {name: rule.is_declared for name, rule in rules.items()} == {"own": False, "two": True}
    assert rules["two"].threshold == 3


async def test_the_doctor_knows_the_keys(service: Service, store: Store, clock: Clock) -> None:
    await service.set_alert(rule_of())
    await service.enqueue([new()])
    await clock.after()
    await service.mute_alert("r", for_ms=0)
    found = await service.doctor()
    assert [
        finding.code for finding in found.findings if finding.code in ("unknown_key", "ghost", "callback_not_listed")
    ] == []
    send_command(store, "HSET", f"{store.root(0)}:alert_states", "gone", "x")
    assert [finding.code for finding in (await service.doctor(True)).findings if finding.code == "ghost"] == ["ghost"]
    assert send_command(store, "HLEN", f"{store.root(0)}:alert_states") == 1


async def test_listings_hide_the_secret_part_of_a_target(service: Service, clock: Clock) -> None:
    await service.set_alert(rule_of())
    await service.test_alert("r")
    [pending] = (await service.callbacks()).callbacks
    assert pending.callback.destination == "https://hooks.example.com/…"
    [taken] = (await service.take_callbacks()).callbacks
    assert taken.callback.destination == TARGET


async def test_an_open_incident_goes_on_after_an_import(service: Service, clock: Clock, target: Service) -> None:
    await service.declare_alerts([rule_of()])
    await service.enqueue([new()])
    await clock.after()
    lines = [line async for line in service.export()]
    async with target.store:
        target.store.clock_offset_ms = service.store.clock_offset_ms
        report = await target.import_jobs(lines)
        assert (report.added["alert"], report.added["callback"], report.refused) == (1, 1, {})
        moved = Clock(target)
        assert await moved.events() == ["alert_opened"], "the message that was on its way"
        assert await moved.after() == 0, "the open incident is known here"
        [one] = (await target.alerts()).rules
        assert (one.rule.is_declared, one.state.phase) == (False, "open")
        again = await target.import_jobs(lines)
        assert (again.existing["alert"], again.refused) == (1, {})
        await target.set_alert(rule_of(threshold=7))
        assert (await target.import_jobs(lines)).refused == {"alert": 1}


async def test_an_export_cannot_bring_other_messages(service: Service, clock: Clock, target: Service) -> None:
    await service.set_alert(rule_of())
    await service.test_alert("r")
    async for line in service.export():
        if b'"kind":"callback"' not in line:
            continue
        for before, after in (
            (b"https://hooks", b"ftp://hooks"), (b"windlass.webhook", b"windlass.other"), (b"alert_test", b"other"),
            (b'"queue":"windlass.alerts"', b'"queue":"q"'),
        ):  # fmt: skip
            assert before in line
            lines = [*[one async for one in service.export()][:1], line.replace(before, after)]
            async with target.store:
                with pytest.raises(BadInput):
                    await target.import_jobs(lines)
            return
    raise AssertionError("the message is a callback of the export")


async def test_several_partitions(divided_store: Callable[[int], Store]) -> None:
    """Rules lie in partition 0; queues, schedules and callbacks in any."""
    store = divided_store(4)
    service = Service(store)
    async with store:
        clock = Clock(service)
        await service.set_alert(rule_of(pattern="q*"))
        await service.set_alert(rule_of("callback_given_up", "g", targets=()))
        callback = Callback(url="https://a.example.com")
        await service.enqueue([new(queue=f"q{number}") for number in range(12)])
        await service.enqueue([new(queue=f"p{number}", callback=callback) for number in range(12)])
        for number in range(12):
            [job] = (await service.take(_take(f"p{number}"))).jobs
            await service.finish([Finish(job.id, job.lease_token)])
        await _give_up_all(service)
        await clock.after()
        values = {one.rule.name: one.state.value for one in (await service.alerts()).rules}
        assert values == {"r": 12, "g": 10}, "ten callbacks were taken and given up"
        assert "alert_opened" in [
            msgspec.json.decode(one.job.payload.data).get("event") if one.job.queue == ALERT_QUEUE else ""
            for one in (await service.take_callbacks(most=100)).callbacks
        ]
