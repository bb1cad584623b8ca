"""Former module paths, kept for programs, settings and documents that name them.

A former path is the same module object as its current path. Django settings store such paths as text, for example.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    Loader = MetaPathFinder = object  # importlib.abc would load a dozen modules

FORMER_MODULES = {
    "windlass.core.audit": "windlass.core.access.audit",
    "windlass.core.cron": "windlass.core.scheduling.cron",
    "windlass.core.limit": "windlass.core.limits.limit",
    "windlass.core.repeat": "windlass.core.scheduling.repeat",
    "windlass.core.requests": "windlass.core.operations",
    "windlass.core.schedule": "windlass.core.scheduling.schedule",
    "windlass.sdk.contrib": "windlass.contrib",
    "windlass.sdk.contrib.django.finding": "windlass.contrib.django.task_lookup",
    "windlass.sdk.contrib.django.running": "windlass.contrib.django.runner",
    "windlass.sdk.contrib.django.serving": "windlass.contrib.django.worker_apps",
    "windlass.sdk.contrib.watching": "windlass.contrib.attempt_end",
}
# Packages whose other modules kept their names.
FORMER_PACKAGES = {"windlass.sdk.contrib.": "windlass.contrib."}
# Former names in a module. They are added when the module is imported by its former path.
FORMER_NAMES = {
    "windlass.core.requests": {
        "ANYTHING": "ANY_JOB",
        "Conclude": "CompleteWithChildren",
        "Exchanged": "FinishedAndTaken",
        "Held": "LeaseRef",
        "Members": "MemberPage",
        "Pushed": "PushReport",
        "Running": "WorkerJob",
        "Said": "WorkerReport",
    },
}


def current_path(former: str) -> str | None:
    """Return the current path of a former module path, or None if the path is not an alias."""
    if former in FORMER_MODULES:
        return FORMER_MODULES[former]
    for old, new in FORMER_PACKAGES.items():
        if former.startswith(old):
            return new + former.removeprefix(old)
    return None


class _AliasLoader(Loader):
    def __init__(self, target: str) -> None:
        self._target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._target)
        self._spec = module.__spec__
        for old, new in FORMER_NAMES.get(spec.name, {}).items():
            setattr(module, old, getattr(module, new))
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has replaced it with the spec of the alias


class _AliasFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("windlass."):
            return None
        current = current_path(fullname)
        if current is None:
            return None
        from importlib.util import find_spec

        found = find_spec(current)
        if found is None:
            return None
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, _AliasLoader(current), is_package=is_package)


def install() -> None:
    """Make former paths importable. The finder comes first: an alias of a package shares the package's search path."""
    sys.meta_path.insert(0, _AliasFinder())
