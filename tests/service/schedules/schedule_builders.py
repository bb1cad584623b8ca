"""Builders for the tests of schedules."""

from __future__ import annotations

from typing import Any

from tests.service.helpers import new
from tests.service.machines import invariants
from tests.support.engine_process import admin_endpoint
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.store.commands.command import EngineTime, Flow
from windlass.store.connection.reconnect import SyncReconnectingConnection

_OF_SCHEDULE = frozenset(Schedule.__struct_fields__)


def scheduled(name: str = "s", **kw: Any) -> Schedule:
    """Build a schedule, by default every second. Fields of the job may be given too."""
    of_schedule = {field: value for field, value in kw.items() if field in _OF_SCHEDULE}
    of_job = {field: value for field, value in kw.items() if field not in _OF_SCHEDULE}
    if not {"cron", "repeat"} & kw.keys():
        of_schedule.setdefault("every_ms", 1_000)
    return Schedule(**{"name": name, "job": new(**of_job)} | of_schedule)


def pass_time(service: Service, by_ms: int) -> None:
    service.store.clock_offset_ms += by_ms


def now_ms(service: Service) -> int:
    def flow() -> Flow[int]:
        return (yield EngineTime())  # type: ignore[no-any-return]

    return service.store.run_sync(flow())


def fire(service: Service) -> int:
    """Run steps until nothing is due. Return the number of created jobs."""
    made = 0
    while True:
        step = service.fire().wait()
        made += step.done
        if step.next_at_ms is None or step.next_at_ms > step.now_ms:
            return made


def check(service: Service) -> None:
    """Check the consistency of schedules in the namespace."""
    link = SyncReconnectingConnection(admin_endpoint(service.store.endpoint))  # type: ignore[arg-type]
    root, found = f"{service.store.root(0)}:".encode(), invariants.Snapshot(now_ms(service))
    for key in link.call("KEYS", root + b"s*"):
        kind = link.call("TYPE", key)
        command = {b"hash": ("HGETALL",), b"zset": ("ZRANGE", 0, -1, "WITHSCORES"), b"list": ("LRANGE", 0, -1)}.get(
            kind
        )
        if command:
            value = link.call(command[0], key, *command[1:])
            found.values[key.removeprefix(root).decode("latin-1")] = invariants._read(kind, value)
    link.close()
    invariants.check_schedules(found)
