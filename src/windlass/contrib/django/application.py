"""The Windlass application behind a backend: its connection, and Django's tasks as tasks of ours. One per alias and
process, since Django makes a backend per thread."""

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
    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        options = dict(params.get("OPTIONS", {}))
        self.params = params
        self.alias = alias
        self.modules = tuple(options.pop("modules", ()))
        unknown = options.keys() - {*APP_OPTIONS, *TASK_OPTIONS}
        if unknown:
            raise InvalidBackend(
                f"TASKS[{alias!r}]['OPTIONS'] has no {', '.join(sorted(unknown))}; "
                f"it may have {', '.join((*APP_OPTIONS, *TASK_OPTIONS, 'modules'))}."
            )
        super().__init__(**{name: options[name] for name in APP_OPTIONS if name in options})
        self.tasks = TaskRegistry(self._find_or_warn)
        self.retries_errors = "retry" in options
        self._task_options = {name: options[name] for name in TASK_OPTIONS if name in options}
        try:
            make_job_options(self._task_options)
        except BadInput as error:
            raise InvalidBackend(f"TASKS[{alias!r}]['OPTIONS'] is wrong: {error}") from error

    def queues(self) -> tuple[str, ...]:
        return tuple(self.params.get("QUEUES", ())) or (DEFAULT_QUEUE,)

    def find(self, path: str) -> Any:
        """Django's task; raises NotFound."""
        return find_task(path, self.modules)

    def get_task(self, path: str) -> WindlassTask[..., Any]:
        """The same as a task of ours; raises NotFound."""
        known = dict.get(self.tasks, path)
        return known if known is not None else self._adopt(self.find(path))

    def adopt_declared(self) -> None:
        """Know the project's tasks before jobs name them, so that a worker can list them: those that are declared for
        this backend, or all, where none is and only `using(backend=…)` sends some here."""
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
            log.warning("A job waits for a worker that knows it. %s", error)
            return None


class TaskRegistry(dict[str, WindlassTask[..., Any]]):
    """Tasks by name; one that is not there yet is looked for."""

    def __init__(self, find: Callable[[str], WindlassTask[..., Any] | None]) -> None:
        super().__init__()
        self._find = find

    def get(self, name: str, default: Any = None) -> Any:
        known = super().get(name)
        return known if known is not None else (self._find(name) or default)


applications: dict[str, DjangoApplication] = {}
_lock = threading.Lock()


def get_application(alias: str, params: Mapping[str, Any]) -> DjangoApplication:
    """Made anew only when the settings have changed, as tests do."""
    with _lock:
        found = applications.get(alias)
        if found is None or found.params != params:
            if found is not None:
                found.close()
            found = applications[alias] = DjangoApplication(alias, dict(params))
        return found
