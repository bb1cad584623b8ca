"""Schedule operations over HTTP."""

from __future__ import annotations

from windlass.core.ids import parse_id
from windlass.core.job import Codec
from windlass.core.scheduling.schedule import Schedule, ScheduleStatus
from windlass.store.operation import Operation
from windlass.wire.schedules import ScheduleShape, SchedulesShape, ScheduleStatusShape

from .facet import RemoteFacet
from .request import ApiRequest, get, quote_segment
from .translation import id_of, new_job_shape

_CONVERTED_FIELDS = ("schedule", "last_job", "last_jobs")
_TIMING_FIELDS = tuple(name for name in ScheduleShape.__struct_fields__ if name != "job")


class RemoteScheduleOperations(RemoteFacet):
    def schedule(self, wanted: Schedule, *, if_revision: int = 0) -> Operation[ScheduleStatus]:
        super().schedule(wanted, if_revision=if_revision)
        timing = {name: getattr(wanted, name) for name in _TIMING_FIELDS}
        request = ApiRequest(
            method="PUT",
            path=f"/schedules/{quote_segment(wanted.name)}",
            response_type=ScheduleStatusShape,
            body=ScheduleShape(job=new_job_shape(b"", wanted.job), **timing),
            query={"if_revision": if_revision or None},
        )
        return self._single(request, _schedule_status)

    def unschedule(self, name: str, *, if_revision: int = 0) -> Operation[None]:
        super().unschedule(name, if_revision=if_revision)
        query = {"if_revision": if_revision or None}
        request = ApiRequest(method="DELETE", path=f"/schedules/{quote_segment(name)}", response_type=None, query=query)
        return self._single(request, lambda _nothing: None)

    def schedules(self) -> Operation[list[ScheduleStatus]]:
        return self._single(
            get("/schedules", SchedulesShape), lambda reply: [_schedule_status(shape) for shape in reply.schedules]
        )


def _schedule_status(shape: ScheduleStatusShape) -> ScheduleStatus:
    timing = {name: getattr(shape, name) for name in _TIMING_FIELDS}
    others = {name: getattr(shape, name) for name in ScheduleStatus.__struct_fields__ if name not in _CONVERTED_FIELDS}
    schedule = Schedule(name=shape.name, job=shape.job.new_job(Codec.MSGPACK), **timing)
    last_jobs = tuple(map(parse_id, shape.last_jobs))
    return ScheduleStatus(schedule=schedule, last_job=id_of(shape.last_job), last_jobs=last_jobs, **others)
