"""Backend for settings.TASKS: Django's tasks interface on a Windlass deployment."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.core.errors import AlreadyEnded, BadInput, UnknownJob
from windlass.core.ids import parse_id
from windlass.core.job import Ending, Timeline
from windlass.sdk.tasks.codec import decode
from windlass.sdk.tasks.task import Call

from . import results
from .application import DjangoApplication, get_application
from .interface import BaseTaskBackend, InvalidTask, ResultDoesNotExist, normalize_json, signals
from .task_lookup import TaskNotFound


class WindlassBackend(BaseTaskBackend):  # type: ignore[misc]
    """Task backend for Django.

    `aenqueue` and `aget_result` are those of Django's base class, which use a thread. An event loop may live for one
    request only and would need its own connection.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        self.app: DjangoApplication = get_application(alias, params)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self.validate_task(task)
        given = normalize_json(args), normalize_json(kwargs)
        call = self._call(task, *given)
        job = results.new_job(call, task.run_after)
        handle = self.app.make_handle(call, self.app.service.enqueue_one(job, durability=call.durability).wait())
        result = results.new_result(task, handle.id_bytes, *given)
        signals.task_enqueued.send(type(self), task_result=result)
        return result

    def _call(self, task: Any, args: list[Any], kwargs: dict[str, Any]) -> Call[Any]:
        """Make the call. A call that the function would refuse is refused here."""
        context = [None] if task.takes_context else []
        inspect.signature(task.func).bind(*context, *args, **kwargs)
        try:
            ours = self.app.get_task(task.module_path)
        except TaskNotFound as error:
            raise InvalidTask(str(error)) from error
        call = ours.call(args=args, kwargs=kwargs).using(queue=task.queue_name, priority=-int(task.priority))
        return call if task.run_after is None else call.using(run_at=results.run_at(task.run_after))

    def get_result(self, result_id: str) -> Any:
        try:
            job_id = parse_id(result_id)
            timeline: Timeline = self.app.service.job([job_id]).one().wait()
            task = self.app.find(timeline.job.name)
            ending = self.app.service.result(job_id).wait()
        except (BadInput, UnknownJob, AlreadyEnded, TaskNotFound) as error:
            raise ResultDoesNotExist(result_id) from error
        return self._make_result(task, timeline, ending)

    def _make_result(self, task: Any, timeline: Timeline, ending: Ending | None) -> Any:
        result = results.make_result(task, self.alias, timeline)
        if timeline.job.state.label == "finished":
            results.succeed(result, decode(ending.result) if ending and ending.result else None)
        return result
