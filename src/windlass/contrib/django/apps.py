"""Django app configuration. It provides the command `manage.py windlass_worker`."""

from __future__ import annotations

from django.apps import AppConfig


class WindlassConfig(AppConfig):  # type: ignore[misc]
    name = "windlass.contrib.django"
    label = "windlass"
    verbose_name = "Windlass"
