"""Deployment with data of every kind, and helpers for the tests of export and import."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.service.helpers import new, put, take
from tests.service.machines import invariants
from tests.support.connections import open_sync_reconnecting
from windlass.core.alerts.rule import AlertRule
from windlass.core.callbacks.callback import FailedDelivery
from windlass.core.export.import_report import ImportReport
from windlass.core.filters.saved_filter import SavedFilter
from windlass.core.job import Blob, Callback, Codec
from windlass.core.limits.condition import Condition
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.log import Log, LogLine
from windlass.core.operations import Edit, Fail, Finish, Update
from windlass.core.retry import Backoff
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.store.store import Store

HOOK = Callback(url="https://example.org/hook", headers=(("X-A", "b"),), data=Blob(b"\xff", Codec.RAW))
HOUR = 3_600_000


def snapshot(store: Store, partition: int = 0) -> invariants.Snapshot:
    root = store.root(partition)
    with open_sync_reconnecting(store.endpoint) as link:
        seconds, micros = link.call("TIME")
        now_ms = int(seconds) * 1000 + int(micros) // 1000 + store.clock_offset_ms
        return invariants.snapshot(link, root, now_ms, among=f"{root}*")


def export_lines(service: Service) -> list[bytes]:
    return list(service.export())


def comparable(lines: Sequence[bytes]) -> list[Any]:
    """Return all lines but the header, sorted: an export has no order."""
    return sorted((json.loads(line) for line in lines[1:]), key=lambda line: json.dumps(line, sort_keys=True))


def transfer(service: Service, target: Service) -> ImportReport:
    answer = target.import_jobs(service.export()).wait()
    assert not answer.refused, answer.reasons
    return answer


def fill(service: Service) -> None:
    """Add data of every kind."""
    service.configure("named", {"name_lanes": True, "history_length": 5, "retention_ms": 5 * HOUR}).wait()
    service.configure("fair", {"fair_share": True, "aging_ms": 1_000, "lease_renewal": False}).wait()
    service.configure("indexed", {"index": ("order_id", "customer.email")}).wait()
    put(service, new("indexed", payload=Blob(b'{"order_id": 4711, "n": 7}'), index=("n",), tags=("order_id=4711",)))
    service.set_weights("fair", {"a": 3}).wait()
    service.pause("fair", lane="a", reason="too much").wait()
    service.pause("named", name="slow").wait()
    service.pause("stopped", reason="for the night").wait()
    service.limit(Limit(name="two", matches=Matcher(queue="q"), running=2)).wait()
    some = Matcher(queue=Condition(in_=("p", "r")), payload={"n": Condition(gte=1, not_=7)}, not_=Matcher(name="x"))
    service.limit(Limit(name="some", matches=some, running=3)).wait()
    service.limit(Limit(name="each", matches=Matcher(queue="fair"), rate=5, per_ms=1_000, key="user")).wait()
    service.save_filter(SavedFilter(name="slow", page="jobs", fields={"state": "failed", "queue": "q"})).wait()
    fill_schedules(service)
    fill_states(service)
    fill_dependencies(service)
    fill_callbacks(service)
    fill_alerts(service)


def fill_schedules(service: Service) -> None:
    job = new("planned", payload=Blob(b'{"a": 1}'), tags=("s",))
    service.schedule(Schedule(name="hourly", job=job, every_ms=HOUR, overlap="skip")).wait()
    service.schedule(Schedule(name="nightly", job=job, cron="0 3 * * *", timezone="Europe/Berlin")).wait()
    service.pause_schedule("nightly", reason="holidays").wait()
    service.run_schedule("hourly").wait()


def fill_states(service: Service) -> None:
    retry = Backoff(tries=4, base_ms=5)
    put(service, *(new("named", name, payload=Blob(name.encode(), Codec.RAW)) for name in ("slow", "fast", "fast")))
    put(service, *(new("fair", lane=lane, payload=Blob(b'{"user": "u"}'), priority=-3) for lane in "aab"))
    put(service, new(payload=Blob(b'{"x": [1, 2.50, "\xc3\xbc"]}'), tags=("t", "u"), trace="00-1", unique="held"))
    put(service, new(delay_ms=HOUR, expires_in_ms=2 * HOUR, unique="later", unique_while_kept=True, lease_ms=77))
    put(service, *(new("both", unique="declared", unique_check="none") for _ in range(2)))
    put(service, new("repeats", repeat="SCHEDULED, +1 DAY", retry=retry, timeout_ms=5_000))
    put(
        service,
        *(new("work", retry=retry, result_ttl_ms=HOUR, payload=Blob(b" 1 \n"), unique=f"w{n}") for n in range(6)),
    )
    jobs = take(service, "work", 5, worker=b"w" * 16)
    said = [LogLine(1, "info", "ü\n"), LogLine(2, "error", "")]
    service.log([Log(one.id, one.lease_token, said) for one in jobs[:4]]).wait()
    service.log([Log(jobs[0].id, jobs[0].lease_token, said * 100)]).one().wait()
    service.finish([Finish(jobs[0].id, jobs[0].lease_token, Blob(b'{"done": true}'))]).one().wait()
    error = Blob(b"\x81\xa1a\x01", Codec.MSGPACK)
    failed = [Fail(id=one.id, token=one.lease_token, reason="bad", error=error) for one in jobs[1:2]]
    again = [Fail(id=one.id, token=one.lease_token, then="retry", delay_ms=HOUR) for one in jobs[2:3]]
    service.fail([*failed, *again]).wait()
    service.update([Update(id=jobs[3].id, token=jobs[3].lease_token, progress=0.25, note="a quarter ✓")]).wait()
    put(service, new("remembered", tombstone_ms=HOUR), new("remembered", tombstone_ms=HOUR))
    (forgotten,) = take(service, "remembered")
    service.finish([Finish(forgotten.id, forgotten.lease_token)]).one().wait()
    (slow,) = put(service, new("named", "done"))
    (done,) = take(service, "named")
    service.finish([Finish(done.id, done.lease_token)]).one().wait()
    service.cancel([put(service, new("work"))[0].id]).wait()
    service.edit([Edit(id=slow.id, priority=9)]).wait()


def fill_dependencies(service: Service) -> None:
    put(service, new("parents"), new("parents"))
    handing, holding = take(service, "parents", 2)
    for parent in (handing, holding):
        put(service, *(new("children", parent=parent.id, held=True) for _ in range(3)))
    service.finish([Finish(handing.id, handing.lease_token)]).one().wait()
    child, second = take(service, "children", 2)
    service.finish([Finish(child.id, child.lease_token, Blob(b"7"))]).one().wait()
    service.fail([Fail(id=second.id, token=second.lease_token)]).wait()
    first, other, last = put(service, new("steps"), new("steps"), new("steps", delay_ms=HOUR))
    put(service, new("steps", after=(first.id, last.id), on_failure="ignore"), new("steps", after=(other.id,)))
    (done,) = take(service, "steps")
    service.finish([Finish(done.id, done.lease_token, Blob(b"[]"))]).one().wait()
    group = service.store.new_id("groups")
    put(service, new("groups", id=group, joins=True), *(new("groups", parent=group) for _ in range(2)))
    put(service, new("groups", after=(group,)))


def fill_callbacks(service: Service) -> None:
    put(service, new("hooks", callback=HOOK))
    ended = put(service, *(new("hooks", callback=HOOK, payload=Blob(b"[1]")) for _ in range(3)))
    service.cancel([one.id for one in ended]).wait()
    first, second = service.take_callbacks(most=2).wait().callbacks
    service.retry_callbacks([FailedDelivery(id=first.id, token=first.token, give_up=True, error="410\nGone")]).wait()
    service.retry_callbacks([FailedDelivery(id=second.id, token=second.token, delay_ms=5, error="500")]).wait()


def fill_alerts(service: Service) -> None:
    targets = ("https://a.example.com/x", "slack:https://b.example.com/y", "mailto:ops@example.com")
    service.set_alert(AlertRule(name="failures", kind="failures", pattern="q*", threshold=0.5, targets=targets)).wait()
    service.set_alert(AlertRule(name="engine", kind="engine_risk", is_enabled=False, note="See the wiki.")).wait()
    service.mute_alert("failures", for_ms=HOUR).wait()
    service.test_alert("failures").wait()


def drain(service: Service, queues: Sequence[str]) -> int:
    """Run all takeable jobs. Return their number."""
    done = 0
    while True:
        jobs = [job for queue in queues for job in take(service, queue, 50)]
        if not jobs:
            return done
        done += len(jobs)
        service.finish([Finish(job.id, job.lease_token) for job in jobs]).wait()
