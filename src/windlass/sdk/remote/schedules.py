"""Schedule operations over HTTP."""

from __future__ import annotations

from windlass.core.ids import parse_id
from windlass.core.job import Codec
from windlass.core.operations import Enqueued
from windlass.core.scheduling.schedule import Schedule, ScheduleStatus
from windlass.store.operation import Operation
from windlass.wire.enqueue import EnqueuedShape
from windlass.wire.schedules import PauseScheduleShape, ScheduleShape, SchedulesShape, ScheduleStatusShape

from .enqueue import enqueued_of
from .facet import RemoteFacet
from .request import ApiRequest, get, post, quote_segment
from .translation import id_of, new_job_shape

_CONVERTED_FIELDS = ("schedule", "last_job", "last_jobs")
_TIMING_FIELDS = tuple(name for name in ScheduleShape.__struct_fields__ if name != "job")


class RemoteScheduleOperations(RemoteFacet):
    def schedule(self, wanted: Schedule, *, if_revision: int = 0) -> Operation[ScheduleStatus]:
        super().schedule(wanted, if_revision=if_revision)
        timing = {name: getattr(wanted, name) for name in _TIMING_FIELDS}
        request = ApiRequest(
            method="PUT",
            path=_path(wanted.name),
            response_type=ScheduleStatusShape,
            body=ScheduleShape(job=new_job_shape(b"", wanted.job), **timing),
            query={"if_revision": if_revision or None},
        )
        return self._single(request, _schedule_status)

    def unschedule(self, name: str, *, if_revision: int = 0) -> Operation[None]:
        super().unschedule(name, if_revision=if_revision)
        query = {"if_revision": if_revision or None}
        request = ApiRequest(method="DELETE", path=_path(name), response_type=None, query=query)
        return self._single(request, lambda _nothing: None)

    def pause_schedule(self, name: str, *, reason: str = "") -> Operation[ScheduleStatus]:
        super().pause_schedule(name, reason=reason)
        request = post(f"{_path(name)}/pause", ScheduleStatusShape, PauseScheduleShape(reason=reason))
        return self._single(request, _schedule_status)

    def resume_schedule(self, name: str) -> Operation[ScheduleStatus]:
        super().resume_schedule(name)
        return self._single(post(f"{_path(name)}/resume", ScheduleStatusShape), _schedule_status)

    def run_schedule(self, name: str) -> Operation[Enqueued]:
        """Run a schedule. After a lost answer it is not repeated, as that would create another job."""
        super().run_schedule(name)
        return self._single(post(f"{_path(name)}/run", EnqueuedShape, is_repeatable=False), enqueued_of)

    def schedule_of(self, name: str) -> Operation[ScheduleStatus]:
        super().schedule_of(name)
        return self._single(get(_path(name), ScheduleStatusShape), _schedule_status)

    def schedules(self) -> Operation[list[ScheduleStatus]]:
        return self._single(
            get("/schedules", SchedulesShape), lambda reply: [_schedule_status(shape) for shape in reply.schedules]
        )


def _path(name: str) -> str:
    return f"/schedules/{quote_segment(name)}"


def _schedule_status(shape: ScheduleStatusShape) -> ScheduleStatus:
    timing = {name: getattr(shape, name) for name in _TIMING_FIELDS}
    others = {name: getattr(shape, name) for name in ScheduleStatus.__struct_fields__ if name not in _CONVERTED_FIELDS}
    schedule = Schedule(name=shape.name, job=shape.job.new_job(Codec.MSGPACK), **timing)
    last_jobs = tuple(map(parse_id, shape.last_jobs))
    return ScheduleStatus(schedule=schedule, last_job=id_of(shape.last_job), last_jobs=last_jobs, **others)
