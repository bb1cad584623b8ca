"""What may be asked of a server: the service, over HTTP. What it does not offer is refused with a sentence."""

from __future__ import annotations

from typing import Any

from .admin import RemoteSteering
from .enqueue import RemoteProducing
from .events import RemoteFollowing
from .job_admin import RemoteIntervening
from .jobs import RemoteReading
from .leases import RemoteWorking
from .workers import RemoteStaffing


class RemoteService(RemoteProducing, RemoteWorking, RemoteIntervening, RemoteReading, RemoteStaffing, RemoteSteering):
    """Everything that a program or a worker needs, of one deployment behind a server."""

    def follow(self, position: str = "", *, queue: str = "", job: bytes | None = None, shared: bool = False) -> Any:
        self._check(position, queue, job)
        return RemoteFollowing(self.remote, position, queue, job or b"")
