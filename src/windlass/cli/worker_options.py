"""Options of `windlass worker`: their types, and the command line of a further process with the same options."""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

import click

from windlass.core.errors import WindlassError
from windlass.core.validation.bounds import QUEUE_MAX
from windlass.core.validation.values import check_text
from windlass.sdk.worker.logs import LogFormat

from .connection import EngineOptions
from .parameters import ParameterType

PROCESSES_MAX = 256


class ProcessRangeType(ParameterType):
    name = "from-to"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(\d{1,3})-(\d{1,3})", value)
        least, most = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 1 <= least <= most <= PROCESSES_MAX:
            self.fail(f"{value!r} must be a minimum and a maximum of processes, e.g. 1-8.", parameter, context)
        return least, most


class QueuesType(ParameterType):
    name = "queues"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> tuple[str, ...]:
        names = value if isinstance(value, tuple) else tuple(name.strip() for name in value.split(",") if name.strip())
        try:
            for name in names:
                check_text("queue", name, QUEUE_MAX)
        except WindlassError as error:
            self.fail(str(error), parameter, context)
        return names


class WorkerOptions(NamedTuple):
    """Options of each worker process."""

    target: str
    queues: tuple[str, ...]
    concurrency: int
    grace: int
    burst: bool
    name: str
    engine: EngineOptions
    no_loops: bool
    log_format: LogFormat | None  # None: from the settings
    log_level: str
    job_log: bool | None  # None: from the settings

    def command(self, number: int = 0) -> list[str]:
        """Return the command line of the n-th process, or of the only one."""
        words = [sys.executable, "-m", "windlass", "worker", self.target, "--grace", f"{self.grace}ms"]
        words += ["-c", str(self.concurrency), "--log-level", self.log_level]
        words += ["--log-format", self.log_format] if self.log_format else []
        words += [] if self.job_log is None else ["--job-log" if self.job_log else "--no-job-log"]
        words += ["-q", ",".join(self.queues)] if self.queues else []
        words += ["--name", f"{self.name}-{number}" if number else self.name] if self.name else []
        words += self.engine.arguments()
        words += ["--burst"] if self.burst else []
        return [*words, "--no-loops"] if self.no_loops else words
