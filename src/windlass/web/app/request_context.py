"""Request context: a request with everything that its handler needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from windlass.core.access.tokens import Principal, Role
from windlass.core.errors import Forbidden
from windlass.core.ids import format_id, parse_id
from windlass.service import Service
from windlass.web.listener.messages import Request
from windlass.wire.encoding import Encoding

if TYPE_CHECKING:
    from .app_state import AppState

B = TypeVar("B")
Q = TypeVar("Q")
_ANY_ROLE = frozenset(Role)


class RequestContext(Generic[B, Q]):
    """A request, its principal and the application state. The `check_…` methods enforce the queues of the token."""

    __slots__ = (
        "audit_detail",
        "audit_target",
        "body",
        "body_encoding",
        "path",
        "principal",
        "query",
        "request",
        "response_encoding",
        "state",
    )

    def __init__(
        self,
        state: AppState,
        request: Request,
        principal: Principal,
        path: Mapping[str, str],
        query: Q,
        body: B,
        body_encoding: Encoding,
        response_encoding: Encoding,
    ) -> None:
        self.state = state
        self.request = request
        self.principal = principal
        self.path = path
        self.query = query
        self.body = body
        self.body_encoding = body_encoding
        self.response_encoding = response_encoding
        self.audit_target = request.head.path
        self.audit_detail = ""

    @property
    def service(self) -> Service:
        return self.state.service

    @property
    def job_id(self) -> bytes:
        return parse_id(self.path["id"])

    def check_queue(self, queue: str) -> None:
        """Raise Forbidden if the token is for other queues."""
        if self.principal.queues:
            self.principal.check(_ANY_ROLE, queue)

    def check_found(self, queue: str, what: str = "this job") -> None:
        """Raise Forbidden if a thing that was found by id or name belongs to a queue that the token may not use."""
        if self.principal.queues:
            self.principal.check_found(queue, what)

    async def check_jobs(self, ids: Sequence[bytes]) -> None:
        """Raise Forbidden if one of these jobs is in a queue that the token may not use. It costs one read, and only
        for tokens restricted to queues. Unknown ids pass: the operation itself refuses them."""
        if self.principal.queues and ids:
            for job_id, queue in zip(ids, await self.service.queue_of(ids), strict=True):
                if isinstance(queue, str):
                    self.principal.check_found(queue, f"job {format_id(job_id)}")

    async def check_worker(self, worker: bytes, *, with_jobs: bool = False) -> None:
        """Raise Forbidden if a worker serves a queue that the token may not use. `with_jobs`: also if it holds a job of
        such a queue, for operations that end leases. Unknown ids pass."""
        if not self.principal.queues:
            return
        found = await self.service.worker(worker)
        held = [job.id for job in found.running] if with_jobs else []
        for queue in (*found.info.queues, *(await self.service.queue_of(held) if held else ())):
            if isinstance(queue, str):
                self.principal.check_found(queue, "this worker")

    def check_all_queues(self) -> None:
        """Raise Forbidden if the token is restricted to queues, for operations on all queues."""
        if self.principal.queues:
            raise Forbidden(f"The token {self.principal.name!r} is for some queues only; this is about all of them.")
