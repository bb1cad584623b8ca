"""Windlass application behind a backend: its connection, and Django's tasks as Windlass tasks.

There is one per alias and process, because Django makes a backend per thread.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from windlass.core.errors import BadInput
from windlass.sdk.app import Windlass
from windlass.sdk.tasks.options import make_job_options
from windlass.sdk.tasks.task import Task as WindlassTask

from . import runner
from .interface import InvalidBackend
from .task_lookup import TaskNotFound, declared_tasks, find_task

log = logging.getLogger("windlass.django")

APP_OPTIONS = ("url", "data_dir", "namespace", "durability", "patience")
TASK_OPTIONS = ("retry", "timeout", "keep_result", "lease")
DEFAULT_QUEUE = "default"


class DjangoApplication(Windlass):
    """Windlass application of one alias in settings.TASKS."""

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        options = dict(params.get("OPTIONS", {}))
        self.params = params
        self.alias = alias
        self.modules = tuple(options.pop("modules", ()))
        unknown = options.keys() - {*APP_OPTIONS, *TASK_OPTIONS}
        if unknown:
            raise InvalidBackend(
                f"TASKS[{alias!r}]['OPTIONS'] has unknown options: {', '.join(sorted(unknown))}. "
                f"The options are {', '.join((*APP_OPTIONS, *TASK_OPTIONS, 'modules'))}."
            )
        super().__init__(**{name: options[name] for name in APP_OPTIONS if name in options})
        self.tasks = TaskRegistry(self._find_or_warn)
        self.retries_errors = "retry" in options
        self._task_options = {name: options[name] for name in TASK_OPTIONS if name in options}
        try:
            make_job_options(self._task_options)
        except BadInput as error:
            raise InvalidBackend(f"TASKS[{alias!r}]['OPTIONS'] is invalid: {error}") from error

    def queues(self) -> tuple[str, ...]:
        return tuple(self.params.get("QUEUES", ())) or (DEFAULT_QUEUE,)

    def known_names(self) -> tuple[str, ...]:
        return ()

    def find(self, path: str) -> Any:
        """Return Django's task. Raises TaskNotFound."""
        return find_task(path, self.modules)

    def get_task(self, path: str) -> WindlassTask[..., Any]:
        """Return Django's task as a Windlass task. Raises TaskNotFound."""
        known = dict.get(self.tasks, path)
        return known if known is not None else self._adopt(self.find(path))

    def adopt_declared(self) -> None:
        """Register the project's tasks before jobs name them, so that a worker can list them.

        These are the tasks that are declared for this backend, or all tasks if there are none and only
        `using(backend=…)` sends calls here.
        """
        found = declared_tasks(self.modules)
        for task in [task for task in found if task.backend == self.alias] or found:
            self.get_task(task.module_path)

    def _adopt(self, django_task: Any) -> WindlassTask[..., Any]:
        is_async = inspect.iscoroutinefunction(django_task.func)
        function = runner.in_event_loop if is_async else runner.in_thread
        options: dict[str, Any] = {"name": django_task.module_path, "queue": django_task.queue_name}
        made = WindlassTask[..., Any](self, function(self, django_task), options | self._task_options)
        return self.tasks.setdefault(made.name, made)

    def _find_or_warn(self, path: str) -> WindlassTask[..., Any] | None:
        try:
            return self.get_task(path)
        except TaskNotFound as error:
            log.warning("Found no task for a job, which waits for a worker that has it. %s", error)
            return None


class TaskRegistry(dict[str, WindlassTask[..., Any]]):
    """Tasks by name. Unknown names are looked up on demand."""

    def __init__(self, find: Callable[[str], WindlassTask[..., Any] | None]) -> None:
        super().__init__()
        self._find = find

    def get(self, name: str, default: Any = None) -> Any:
        known = super().get(name)
        return known if known is not None else (self._find(name) or default)


applications: dict[str, DjangoApplication] = {}
_lock = threading.Lock()


def get_application(alias: str, params: Mapping[str, Any]) -> DjangoApplication:
    """Return the application of an alias. It is made again only if the settings have changed, as in tests."""
    with _lock:
        found = applications.get(alias)
        if found is None or found.params != params:
            if found is not None:
                found.close()
            found = applications[alias] = DjangoApplication(alias, dict(params))
        return found
