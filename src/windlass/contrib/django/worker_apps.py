"""Applications for workers: `windlass worker windlass.contrib.django:app`.

DJANGO_SETTINGS_MODULE names the settings.
"""

from __future__ import annotations

from importlib import import_module

import django
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import autodiscover_modules

from windlass.core.errors import BadSetting

from .application import DjangoApplication


class WorkerApps:
    """Applications of the backends in settings.TASKS, as attributes by alias."""

    def __getattr__(self, alias: str) -> DjangoApplication:
        try:
            if not apps.ready:
                django.setup()
            from .backend import WindlassBackend
            from .interface import task_backends

            backend = task_backends[alias]
        except ImproperlyConfigured as error:  # also the base class of Django's error for an unknown alias
            raise BadSetting(str(error)) from error
        if not isinstance(backend, WindlassBackend):
            raise BadSetting(f"The BACKEND of settings.TASKS[{alias!r}] must be WindlassBackend.")
        autodiscover_modules("tasks")
        for module in backend.app.modules:
            import_module(module)
        backend.app.adopt_declared()
        return backend.app
