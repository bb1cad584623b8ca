"""Names of Django's tasks interface, from Django itself or from its backport if that is an installed app."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


def _home() -> str:
    if any(app.partition(".")[0] == "django_tasks" for app in settings.INSTALLED_APPS):
        return "django_tasks"
    try:
        import_module("django.tasks")
    except ModuleNotFoundError as error:
        raise ImproperlyConfigured(
            "This Django has no tasks: install django-tasks and add 'django_tasks' to INSTALLED_APPS."
        ) from error
    return "django.tasks"


_home_name = _home()
_names: Any = import_module(f"{_home_name}.base")
_errors: Any = import_module(f"{_home_name}.exceptions")

Task: Any = _names.Task
TaskContext: Any = _names.TaskContext
TaskError: Any = _names.TaskError
TaskResult: Any = _names.TaskResult
Status: Any = _names.TaskResultStatus
BaseTaskBackend: Any = import_module(f"{_home_name}.backends.base").BaseTaskBackend
ResultDoesNotExist: Any = _errors.TaskResultDoesNotExist
InvalidTask: Any = getattr(_errors, "InvalidTask", None) or _errors.InvalidTaskError
InvalidBackend: Any = getattr(_errors, "InvalidTaskBackend", None) or _errors.InvalidTaskBackendError
task_backends: Any = import_module(_home_name).task_backends
signals: Any = import_module(f"{_home_name}.signals")
normalize_json: Any = import_module(
    "django_tasks.utils" if _home_name == "django_tasks" else "django.utils.json"
).normalize_json
