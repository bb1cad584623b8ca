"""Service over HTTP, for a deployment whose engine is behind a server."""

from __future__ import annotations

from typing import Any

from .admin.access import RemoteAccessOperations
from .admin.callbacks import RemoteCallbackOperations
from .admin.doctor import RemoteDoctorOperations
from .admin.failures import RemoteFailureOperations
from .admin.filters import RemoteFilterOperations
from .admin.transfer import RemoteTransferOperations
from .alerts import RemoteAlertOperations
from .durable.steps import RemoteDurableOperations
from .durable.streams import RemoteStreamOperations
from .enqueue import RemoteEnqueueOperations
from .events import RemoteEventStream
from .flows import RemoteFlowOperations
from .job_admin import RemoteJobAdminOperations
from .jobs import RemoteJobOperations
from .leases import RemoteLeaseOperations
from .limits import RemoteLimitOperations
from .queues import RemoteQueueOperations
from .schedules import RemoteScheduleOperations
from .workers import RemoteWorkerOperations


class RemoteService(
    RemoteEnqueueOperations,
    RemoteLeaseOperations,
    RemoteDurableOperations,
    RemoteStreamOperations,
    RemoteJobAdminOperations,
    RemoteJobOperations,
    RemoteFlowOperations,
    RemoteWorkerOperations,
    RemoteQueueOperations,
    RemoteLimitOperations,
    RemoteScheduleOperations,
    RemoteFilterOperations,
    RemoteAlertOperations,
    RemoteCallbackOperations,
    RemoteFailureOperations,
    RemoteAccessOperations,
    RemoteDoctorOperations,
    RemoteTransferOperations,
):
    """Operations for programs, workers and operators. Those of background loops and of workers in other processes raise
    BadSetting."""

    def follow(self, position: str = "", *, queue: str = "", job: bytes | None = None, shared: bool = False) -> Any:
        self._check(position, queue, job)
        return RemoteEventStream(self.remote, position, queue, job or b"")
