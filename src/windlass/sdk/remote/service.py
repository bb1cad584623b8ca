"""What may be asked of a server: the service, over HTTP. What it does not offer is refused with a sentence."""

from __future__ import annotations

from typing import Any

from .following import RemoteFollowing
from .intervening import RemoteIntervening
from .producing import RemoteProducing
from .reading import RemoteReading
from .staffing import RemoteStaffing
from .steering import RemoteSteering
from .working import RemoteWorking


class RemoteService(RemoteProducing, RemoteWorking, RemoteIntervening, RemoteReading, RemoteStaffing, RemoteSteering):
    """Everything that a program or a worker needs, of one deployment behind a server."""

    def follow(self, position: str = "", *, queue: str = "", job: bytes | None = None, shared: bool = False) -> Any:
        self._check(position, queue, job)
        return RemoteFollowing(self.remote, position, queue, job or b"")
