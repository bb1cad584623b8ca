"""Random damage: whatever is removed from or added to the derived keys of a busy namespace, the doctor restores
consistency from the records alone, and all jobs can still be completed."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.service.admin.doctor_findings import assert_healthy, findings
from tests.service.flows.flow_builders import put_flow
from tests.service.helpers import new, put, read, take
from tests.service.machines import invariants
from tests.service.schedules.schedule_builders import now_ms, scheduled
from tests.support.namespace import send_command
from windlass.core.job import Blob, Callback, Cap
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Fail, Finish
from windlass.core.states import ENDED, State
from windlass.service import Service

DERIVED = (
    "ready", "lane", "laned", "heads", "names", "parked", "parked_at", "parked_in", "room", "rates", "held", "holders",
    "scheduled", "waiting", "running", "finished", "failed", "cancelled", "history", "u", "t", "wj", "expiry", "timers",
    "queues", "schedules", "schedule_names", "owed", "od", "owed_to", "token", "seq", "c", "d",
    "caps", "keyed", "under", "idle_caps", "flow", "flows", "flow_retention", "flow_steps",
)  # fmt: skip
SEEDS = range(16)
JUDGED = {"loops_behind", "waits_forever"}


def furnish(service: Service, chance: random.Random) -> None:
    """A bit of everything, in every state."""
    service.configure("q", {"name_lanes": chance.random() < 0.5, "fair_share": chance.random() < 0.5}).wait()
    service.configure("h", {"history_length": 3}).wait()
    has_caps = chance.random() < 0.5
    service.limit(Limit(name="l", matches=Matcher(queue="q"), running=2, key="k", own_caps=has_caps)).wait()
    service.limit(Limit(name="r", matches=Matcher(name="b"), rate=1, per_ms=1_000, burst=2)).wait()
    service.schedule(scheduled("s", every_ms=60_000, queue="h")).wait()
    for at in range(30):
        put(
            service,
            new(
                queue=chance.choice(("q", "q", "h")),
                name=chance.choice("abc"),
                lane=chance.choice(("", "x", "y")),
                priority=chance.randrange(3),
                delay_ms=chance.choice((0, 0, 0, 10_000)),
                expires_in_ms=chance.choice((0, 3_600_000)),
                unique=chance.choice(("", f"u{at}")),
                tags=chance.choice(((), ("t",))),
                payload=Blob(json.dumps({"k": chance.randrange(2)}).encode()),
                result_ttl_ms=chance.choice((0, 3_600_000)),
                callback=chance.choice((None, Callback(url="http://x/"))),
            ),
        )
    if has_caps:
        furnish_caps(service)
    put(service, new("p"))
    (parent,) = take(service, "p")
    children = put(service, *[new("p", parent=parent.id, held=chance.random() < 0.5) for _ in range(3)])
    put(service, new("p", after=(children[0].id, children[1].id)))
    service.finish([Finish(parent.id, parent.lease_token)]).one().wait()
    for graph in ({"a": (), "b": ("a",), "c": ("b",)}, {"a": (), "b": ()}, {"only": ()}):
        _, jobs = put_flow(service, graph, queue="p")
        service.delete([job_id for job_id in jobs.values() if len(graph) < 3 or chance.random() < 0.2]).wait()
    for queue in ("q", "h", "p"):
        for job in take(service, queue, most=4, worker=bytes(15) + b"w"):
            report(service, chance, job)


def furnish_caps(service: Service) -> None:
    """Keys with caps of their own; two of them have lost their jobs."""
    capped = [new(payload=Blob(b'{"k": %d}' % key), cap=Cap(limit="l", running=1 + key)) for key in range(5)]
    sent = put(service, *capped)
    service.delete([sent[3].id, sent[4].id]).wait()


def report(service: Service, chance: random.Random, job: Any) -> None:
    how = chance.randrange(4)
    if how == 0:
        service.finish([Finish(job.id, job.lease_token, Blob(b"1"))]).wait()
    elif how == 1:
        service.fail([Fail(id=job.id, token=job.lease_token, then="final")]).wait()


def damage(service: Service, chance: random.Random) -> None:
    """One key of those that follow from the records: gone, or with an entry less, more, or elsewhere."""
    link, prefix = service.store._sync_connection, f"{service.store.root(0)}:".encode()
    kind = chance.choice(DERIVED).encode()
    keys = [*sorted(send_command(service.store, "KEYS", prefix + kind + b":*")), prefix + kind]
    key = chance.choice(keys)
    found = link.call("TYPE", key)
    if found == b"none":
        return
    if found == b"string" or chance.random() < 0.2:
        link.call("DEL", key)
    elif found == b"zset":
        damage_index(link, chance, key)
    elif found == b"set":
        link.call(chance.choice(("SREM", "SADD")), key, link.call("SRANDMEMBER", key))
    else:
        link.call("HDEL", key, link.call("HRANDFIELD", key))


def damage_index(link: Any, chance: random.Random, key: bytes) -> None:
    entry = chance.choice(link.call("ZRANGE", key, 0, -1))
    how = chance.randrange(3)
    if how == 0:
        link.call("ZREM", key, entry)
    elif how == 1:
        link.call("ZADD", key, 2**47 - chance.randrange(100), entry)
    else:
        ghost = bytes(chance.randrange(1, 255) for _ in range(16))
        link.call("ZADD", key, 2**46, entry[: len(entry) - 16] + ghost if len(entry) in (16, 28) else entry)


def agree(service: Service) -> None:
    store = service.store
    invariants.check(invariants.snapshot(store._sync_connection, store.root(0), now_ms(service), f"{store.root(0)}*"))


def records(service: Service) -> set[bytes]:
    store = service.store
    found = invariants.snapshot(store._sync_connection, store.root(0), now_ms(service), f"{store.root(0)}*")
    return {job_id for job_id, one in found.jobs.items() if one.job.state not in ENDED}


def work_off(service: Service) -> None:
    for _ in range(200):
        taken = [job for queue in ("q", "h", "p") for job in take(service, queue, most=10)]
        for job in taken:
            service.finish([Finish(job.id, job.lease_token)]).wait()
        service.store.clock_offset_ms += 31_000
        service.promote().wait()
        service.recover().wait()
        if not records(service):
            return
    raise AssertionError(f"left: {[read(service, job_id) for job_id in records(service)]}")


@pytest.mark.parametrize("seed", SEEDS)
def test_damage_is_repaired(service: Service, seed: int) -> None:
    chance = random.Random(seed)
    furnish(service, chance)
    assert_healthy(service)
    agree(service)
    pending = records(service)
    for _ in range(chance.choice((1, 3, 10, 40))):
        damage(service, chance)
    for _ in range(4):  # what one repair uncovers is for the next
        if not any(one.repaired for one in findings(service, repair=True).values()):
            break
    left = findings(service)
    assert left.keys() <= JUDGED, {code: one.examples for code, one in left.items()}
    agree(service)
    assert records(service) == pending
    if "waits_forever" in left:  # both lists were lost
        service.wake([job_id for job_id in pending if read(service, job_id).state is State.WAITING]).wait()
    work_off(service)
    assert_healthy(service)
