"""Aliases of `windlass.contrib`: settings and programs may name the integrations by their former paths.

`windlass.sdk.contrib.django.backend` is the same module object as `windlass.contrib.django.backend`. Django settings
store such paths as text, so they must keep working.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from windlass import contrib

_OLD, _NEW = f"{__name__}.", f"{contrib.__name__}."
_RENAMED = {
    "django.finding": "django.task_lookup",
    "django.running": "django.runner",
    "django.serving": "django.worker_apps",
    "watching": "attempt_end",
}
__path__ = contrib.__path__


class _AliasLoader(Loader):
    def __init__(self, target: str) -> None:
        self._target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._target)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has just replaced it by the alias's


class _AliasFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_OLD):
            return None
        name = fullname.removeprefix(_OLD)
        found = find_spec(_NEW + _RENAMED.get(name, name))
        if found is None:
            return None
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, _AliasLoader(found.name), is_package=is_package)


sys.meta_path.insert(0, _AliasFinder())
