"""The applications that workers are given: `windlass worker windlass.contrib.django:app`, with the settings that
DJANGO_SETTINGS_MODULE names."""

from __future__ import annotations

from importlib import import_module

import django
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import autodiscover_modules

from windlass.core.errors import BadSetting

from .application import DjangoApplication


class WorkerApps:
    """One per backend of settings.TASKS, by its alias."""

    def __getattr__(self, alias: str) -> DjangoApplication:
        try:
            if not apps.ready:
                django.setup()
            from .backend import WindlassBackend
            from .interface import task_backends

            backend = task_backends[alias]
        except ImproperlyConfigured as error:  # which the exception of an alias that does not exist is, too
            raise BadSetting(str(error)) from error
        if not isinstance(backend, WindlassBackend):
            raise BadSetting(f"settings.TASKS[{alias!r}] has another backend than WindlassBackend.")
        autodiscover_modules("tasks")
        for module in backend.app.modules:
            import_module(module)
        backend.app.adopt_declared()
        return backend.app
