"""Schedules that are declared with a task.

They are checked when the code is loaded and written to the engine when a worker starts. The engine fires them
(docs/schedules.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from windlass.core.errors import BadInput
from windlass.core.scheduling.schedule import Misfire, Overlap, Schedule, ScheduleStatus
from windlass.core.validation.schedules import check_schedule
from windlass.sdk.durations import Duration, duration_ms, instant_ms
from windlass.service import Service

from .arguments import WrongCall
from .task import Call, Task

if TYPE_CHECKING:
    from windlass.sdk.declarations import Declarations

log = logging.getLogger("windlass.app")
T = TypeVar("T", bound=Task[..., Any])


class ScheduleDecorators:
    """Part of an application that declares schedules."""

    declared: Declarations

    def cron(
        self,
        expression: str,
        *,
        tz: str = "UTC",
        overlap: Overlap = "skip",
        misfire: Misfire = "latest",
        misfire_after: Duration = "1m",
        name: str = "",
    ) -> Callable[[T], T]:
        """Schedule a task by a cron expression in a time zone. Put it above `@app.task`.

        `expression` has minute, hour, day, month and weekday, optionally with seconds before them.
        """
        return _decorator(
            lambda task: self.schedule(
                name or task.name,
                _call_without_arguments(task),
                cron=expression,
                tz=tz,
                overlap=overlap,
                misfire=misfire,
                misfire_after=misfire_after,
            ),
            "cron",
        )

    def every(
        self,
        period: Duration,
        *,
        overlap: Overlap = "skip",
        misfire: Misfire = "latest",
        misfire_after: Duration = "1m",
        name: str = "",
    ) -> Callable[[T], T]:
        """Schedule a task once per period, the first time after one period. Put it above `@app.task`."""
        return _decorator(
            lambda task: self.schedule(
                name or task.name,
                _call_without_arguments(task),
                every=period,
                overlap=overlap,
                misfire=misfire,
                misfire_after=misfire_after,
            ),
            "every",
        )

    def schedule(
        self,
        name: str,
        call: Call[Any],
        *,
        cron: str = "",
        tz: str = "UTC",
        every: Duration | None = None,
        repeat: str = "",
        overlap: Overlap = "skip",
        misfire: Misfire = "latest",
        misfire_after: Duration = "1m",
        starts: datetime | None = None,
        ends: datetime | None = None,
    ) -> None:
        """Declare a schedule of a call with arguments. Give exactly one of `cron`, `every` and `repeat`."""
        if not isinstance(call, Call):
            raise BadInput(f"The schedule {name!r} needs a call with its arguments: task.call(…).")
        wanted = Schedule(
            name=name,
            job=call.new_job(),
            cron=cron,
            timezone=tz,
            every_ms=0 if every is None else duration_ms("every", every),
            repeat=repeat,
            overlap=overlap,
            misfire=misfire,
            misfire_after_ms=duration_ms("misfire_after", misfire_after),
            starts_at_ms=0 if starts is None else instant_ms("starts", starts),
            ends_at_ms=0 if ends is None else instant_ms("ends", ends),
        )
        try:
            check_schedule(wanted)
        except BadInput as refusal:
            raise BadInput(f"The schedule {name!r}: {refusal}") from None
        self.declared.add_schedule(wanted)


def _call_without_arguments(task: Task[..., Any]) -> Call[Any]:
    try:
        return task.call()
    except WrongCall as refusal:
        raise BadInput(f"{refusal}; to schedule a call with arguments, use app.schedule(name, call, …).") from None


def _decorator(declare: Callable[[Task[..., Any]], None], word: str) -> Callable[[T], T]:
    def decorate(task: T) -> T:
        if not isinstance(task, Task):
            raise BadInput(f"@app.{word} needs a task: put it above @app.task.")
        declare(task)
        return task

    return decorate


async def apply_schedules(service: Service, wanted: Sequence[Schedule], tasks: Sequence[str]) -> None:
    """Create or change schedules that are not stored as declared.

    Schedules of earlier code are logged and stay: whether they are still wanted cannot be known here.
    """
    known: dict[str, ScheduleStatus] = {status.schedule.name: status for status in await service.schedules()}
    for schedule in wanted:
        if schedule.name not in known or known[schedule.name].schedule != schedule:
            await service.schedule(schedule)
    left = known.keys() - {schedule.name for schedule in wanted}
    for name in sorted(left):
        if known[name].schedule.job.name in tasks:
            log.warning(
                "The schedule %r still makes jobs of %s, but no code declares it. If it is no longer wanted, "
                "remove it: app.service.unschedule(%r).wait()",
                name,
                known[name].schedule.job.name,
                name,
            )
