"""Which Django task does a job's name stand for? Names are paths of functions. Whoever may enqueue must not be able to
make a worker import just anything, so only the project's own modules are looked into."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.conf import settings
from django.utils.module_loading import import_string

from .interface import Task


class TaskNotFound(Exception):
    """Says why, and what to do."""


def find_task(path: str, modules: Iterable[str] = ()) -> Any:
    module, _, attribute = path.rpartition(".")
    if not _is_of_project(module, modules):
        raise TaskNotFound(
            f"{path} lies neither in an installed app nor in the project's package: add {module!r} to the backend's "
            "OPTIONS['modules'], so that workers may import it."
        )
    try:
        found = import_string(path)
    except ImportError as error:
        raise TaskNotFound(f"{path} cannot be imported: {error}.") from error
    if not isinstance(found, Task) or found.module_path != path:
        raise TaskNotFound(f"{path} is not a task: give its module a name {attribute} that is one.")
    return found


def declared_tasks(modules: Iterable[str] = ()) -> list[Any]:
    """List the tasks of the project's modules that are imported by now, each under the path by which workers find it.
    Looks at types alone: `isinstance` would make Django's lazy objects load what they stand for."""
    own = tuple(modules)
    loaded = [(name, module) for name, module in list(sys.modules.items()) if module and _is_of_project(name, own)]
    return [
        found
        for name, module in loaded
        for attribute, found in list(getattr(module, "__dict__", {}).items())
        if issubclass(type(found), Task) and found.module_path == f"{name}.{attribute}"
    ]


def _is_of_project(module: str, modules: Iterable[str]) -> bool:
    if apps.get_containing_app_config(module) is not None:
        return True
    settings_module = getattr(settings, "SETTINGS_MODULE", None) or ""
    own = settings_module.partition(".")[0] if "." in settings_module else ""
    return any(module == one or module.startswith(f"{one}.") for one in (own, *modules) if one)
