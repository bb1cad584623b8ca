"""Lookup of Django tasks by the names of jobs, which are paths of functions.

Only the project's own modules are searched, because a client that may enqueue must not make a worker import arbitrary
modules.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.conf import settings
from django.utils.module_loading import import_string

from .interface import Task


class TaskNotFound(Exception):
    """The task cannot be found. The message has the reason and the remedy."""


def find_task(path: str, modules: Iterable[str] = ()) -> Any:
    module, _, attribute = path.rpartition(".")
    if not _is_of_project(module, modules):
        raise TaskNotFound(
            f"{path} is neither in an installed app nor in the project's package. To let workers import it, add "
            f"{module!r} to the backend's OPTIONS['modules']."
        )
    try:
        found = import_string(path)
    except ImportError as error:
        raise TaskNotFound(f"{path} cannot be imported: {error}.") from error
    if not isinstance(found, Task) or found.module_path != path:
        raise TaskNotFound(f"{path} is not a task: its module must have a task under the name {attribute}.")
    return found


def declared_tasks(modules: Iterable[str] = ()) -> list[Any]:
    """List the tasks of the project's modules that are imported by now, each under the path by which workers find it.

    Compares types only: `isinstance` would make Django's lazy objects load their targets.
    """
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
    return any(module == name or module.startswith(f"{name}.") for name in (own, *modules) if name)
