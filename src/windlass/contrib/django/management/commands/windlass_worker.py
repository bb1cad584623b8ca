"""manage.py windlass_worker: runs `windlass worker` with this project's settings."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser, handle_default_options

TARGET = "windlass.contrib.django:aliases"


class Command(BaseCommand):  # type: ignore[misc]
    help = "Run this project's tasks. Takes all options of `windlass worker` (see its --help)."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", help="Alias in settings.TASKS. Default: default.")

    def run_from_argv(self, argv: list[str]) -> None:
        """Pass options that Django does not know to the worker."""
        parser = self.create_parser(argv[0], argv[1], allow_abbrev=False)
        options, worker_options = parser.parse_known_args(argv[2:])
        handle_default_options(options)
        self.handle(*worker_options, backend=options.backend)

    def handle(self, *worker_options: str, backend: str = "default", **_: Any) -> None:
        """Replace this process by the worker, so that signals reach it directly."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-m", "windlass", "worker", f"{TARGET}.{backend}", *worker_options]
        os.execve(sys.executable, command, environment)  # noqa: S606
