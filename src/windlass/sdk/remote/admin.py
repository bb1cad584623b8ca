"""Queues, limits and schedules, over HTTP: what a worker declares, and what its supervisor looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass.core.job import Codec
from windlass.core.limits.limit import Level, Limit, LimitState, Matcher
from windlass.core.queue import Configuration, Minute, Pause, QueueStats
from windlass.core.scheduling.schedule import Schedule, ScheduleStatus
from windlass.core.validation.bounds import PAGE_MAX
from windlass.store.operation import Operation
from windlass.wire.limits import LimitShape, LimitsShape, LimitStateShape, MatchedShape, MatcherShape
from windlass.wire.queues import (
    ConfigurationChangesShape,
    ConfigurationShape,
    HistoryShape,
    PauseShape,
    PausesShape,
    QueueShape,
    QueuesShape,
    ResumeShape,
    WasPausedShape,
)
from windlass.wire.schedules import ScheduleShape, SchedulesShape, ScheduleStatusShape

from .facet import RemoteAsking
from .request import Request, Requests, get, post, segment
from .translation import id_of, new_job_shape

_RHYTHM = tuple(name for name in ScheduleShape.__struct_fields__ if name != "job")


class RemoteSteering(RemoteAsking):
    def queues(self) -> Operation[list[str]]:
        return Operation(self.remote, _queues)

    def stats(self, names: Sequence[str]) -> Operation[list[QueueStats]]:
        super().stats(names)
        return Operation(self.remote, lambda: _stats(names))

    def history(self, queue: str, *, hours: int = 1) -> Operation[list[Minute]]:
        super().history(queue, hours=hours)
        request = get(f"{_path(queue)}/history", HistoryShape, query={"hours": hours})
        return self._one(request, lambda found: [_plain(one, Minute) for one in found.minutes])

    def configure(self, queue: str, changes: Mapping[str, int | bool | None]) -> Operation[Configuration]:
        super().configure(queue, changes)
        path = f"{_path(queue)}/configuration"
        if not changes:
            return self._one(get(path, ConfigurationShape), lambda found: _plain(found, Configuration))
        body = msgspec.convert(dict(changes), ConfigurationChangesShape)
        request = Request(method="PATCH", path=path, gives=ConfigurationShape, body=body)
        return self._one(request, lambda found: _plain(found, Configuration))

    def pause(self, queue: str, *, lane: str = "", name: str = "", reason: str = "") -> Operation[bool]:
        super().pause(queue, lane=lane, name=name, reason=reason)
        request = post(f"{_path(queue)}/pause", WasPausedShape, PauseShape(lane=lane, name=name, reason=reason))
        return self._one(request, lambda found: not found.was_paused)

    def resume(self, queue: str, *, lane: str = "", name: str = "") -> Operation[bool]:
        super().resume(queue, lane=lane, name=name)
        request = post(f"{_path(queue)}/resume", WasPausedShape, ResumeShape(lane=lane, name=name))
        return self._one(request, lambda found: found.was_paused)

    def pauses(self, queue: str) -> Operation[list[Pause]]:
        super().pauses(queue)
        request = get(f"{_path(queue)}/pauses", PausesShape)
        return self._one(request, lambda found: [_plain(one, Pause) for one in found.pauses])

    # Limits

    def limit(self, limit: Limit) -> Operation[int]:
        super().limit(limit)
        fields = {name: getattr(limit, name) for name in LimitShape.__struct_fields__ if name != "matches"}
        body = LimitShape(matches=_plain(limit.matches, MatcherShape), **fields)
        request = Request(method="PUT", path=f"/limits/{segment(limit.name)}", gives=MatchedShape, body=body)
        return self._one(request, lambda found: found.changed)

    def unlimit(self, name: str) -> Operation[int]:
        super().unlimit(name)
        request = Request(method="DELETE", path=f"/limits/{segment(name)}", gives=MatchedShape)
        return self._one(request, lambda found: found.changed)

    def limits(self) -> Operation[list[LimitState]]:
        return self._one(get("/limits", LimitsShape), lambda found: [_limit_state(one) for one in found.limits])

    # Schedules

    def schedule(self, wanted: Schedule, *, if_revision: int = 0) -> Operation[ScheduleStatus]:
        super().schedule(wanted, if_revision=if_revision)
        rhythm = {name: getattr(wanted, name) for name in _RHYTHM}
        request = Request(
            method="PUT",
            path=f"/schedules/{segment(wanted.name)}",
            gives=ScheduleStatusShape,
            body=ScheduleShape(job=new_job_shape(b"", wanted.job), **rhythm),
            query={"if_revision": if_revision or None},
        )
        return self._one(request, _status)

    def unschedule(self, name: str, *, if_revision: int = 0) -> Operation[None]:
        super().unschedule(name, if_revision=if_revision)
        query = {"if_revision": if_revision or None}
        request = Request(method="DELETE", path=f"/schedules/{segment(name)}", gives=None, query=query)
        return self._one(request, lambda _nothing: None)

    def schedules(self) -> Operation[list[ScheduleStatus]]:
        return self._one(get("/schedules", SchedulesShape), lambda found: [_status(one) for one in found.schedules])


def _path(queue: str) -> str:
    return f"/queues/{segment(queue)}"


def _plain(shape: msgspec.Struct, wanted: Any) -> Any:
    """Of a shape that has the same fields."""
    return wanted(**{name: getattr(shape, name) for name in wanted.__struct_fields__})


def _queues() -> Requests[list[str]]:
    names: list[str] = []
    after = ""
    while True:
        page = yield get("/queues", QueuesShape, query={"after": after or None, "most": PAGE_MAX})
        names += [one.queue for one in page.queues]
        after = page.after
        if not after:
            return names


def _stats(names: Sequence[str]) -> Requests[list[QueueStats]]:
    found = []
    for name in names:
        queue = yield get(_path(name), QueueShape)
        found.append(_plain(queue.stats, QueueStats))
    return found


def _limit_state(shape: LimitStateShape) -> LimitState:
    fields = {name: getattr(shape, name) for name in Limit.__struct_fields__ if name != "matches"}
    limit = Limit(matches=_plain(shape.matches, Matcher), **fields)
    return LimitState(limit=limit, levels=[_plain(one, Level) for one in shape.levels])


def _status(shape: ScheduleStatusShape) -> ScheduleStatus:
    rhythm = {name: getattr(shape, name) for name in _RHYTHM}
    own = {
        name: getattr(shape, name) for name in ScheduleStatus.__struct_fields__ if name not in ("schedule", "last_job")
    }
    schedule = Schedule(name=shape.name, job=shape.job.new_job(Codec.MSGPACK), **rhythm)
    return ScheduleStatus(schedule=schedule, last_job=id_of(shape.last_job), **own)
