"""Warning about a job that no worker knows: once per queue and task in a process, when its first job is enqueued."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

from windlass.core.errors import WindlassError
from windlass.core.explain.unknown_names import UnknownName
from windlass.service import Service

log = logging.getLogger("windlass.app")
CHECKED_MAX = 1_000  # queues and tasks of a process; a queue may be computed from arguments


class UnknownTaskWarnings:
    """Asks once per queue and task whether live workers serve the queue and none of them knows the task. The job is
    accepted before; whatever goes wrong in the question is ignored, such as a token without the role to read."""

    def __init__(self) -> None:
        self._checked: set[tuple[str, str]] = set()

    def is_new(self, queue: str, name: str) -> bool:
        key = (queue, name)
        if key in self._checked or len(self._checked) >= CHECKED_MAX:
            return False
        self._checked.add(key)
        return True

    def check(self, service: Service, queue: str, name: str) -> None:
        with contextlib.suppress(WindlassError):
            _warn(queue, service.unknown_among(queue, [name]).wait())

    async def acheck(self, service: Service, queue: str, name: str) -> None:
        with contextlib.suppress(WindlassError):
            _warn(queue, await service.unknown_among(queue, [name]))


def _warn(queue: str, found: Sequence[UnknownName]) -> None:
    for unknown in found:
        log.warning("%s The job waits in queue %s.", unknown.sentence, queue)
