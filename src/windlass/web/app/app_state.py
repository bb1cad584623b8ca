"""Application state: everything that the handlers of one server process share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from windlass.background.liveness import Liveness
from windlass.core.access.tokens import Principal, Role
from windlass.core.errors import WindlassError
from windlass.outbound import Policy, PolicySource
from windlass.service import Service
from windlass.service.batcher import RequestBatcher
from windlass.settings import Settings
from windlass.web.listener.messages import Head, Response
from windlass.web.metrics.meter import Meter

from .followers import Followers
from .sessions import Session, StartedSession

if TYPE_CHECKING:
    from .request_context import RequestContext
    from .router import Route

T = TypeVar("T")
ErrorPageRenderer: TypeAlias = "Callable[[AppState, WindlassError, Head, RequestContext[Any, Any] | None], Response]"
StillAdmits: TypeAlias = Callable[..., Awaitable[bool]]  # as Authenticator.still_admits


async def _always_admit(_head: Head, _roles: frozenset[Role], _queue: str = "") -> bool:
    return True


class SessionControl(Protocol):
    """Browser sessions, as the authenticator manages them."""

    async def start_session(self, text: str) -> StartedSession | None: ...

    async def end_session(self, head: Head) -> None: ...

    def renew_session(self, head: Head) -> Session | None: ...

    async def needs_login(self) -> bool: ...


class RequestAuthenticator(SessionControl, Protocol):
    """Authentication of requests. It decides by the head of a request."""

    def admit_cached(self, head: Head, roles: frozenset[Role] | None) -> Principal | None: ...

    def is_probably_admitted(self, head: Head) -> bool: ...

    async def admit(self, head: Head, roles: frozenset[Role] | None) -> Principal: ...

    async def still_admits(self, head: Head, roles: frozenset[Role], queue: str = "") -> bool: ...


def _new_followers(settings: Settings) -> Followers:
    return Followers(settings.followers_max, settings.token_followers_max)


class AppState:
    """State that all handlers of a server process share."""

    def __init__(self, service: Service, liveness: Liveness | None = None, settings: Settings | None = None) -> None:
        self.service = service
        self.liveness = liveness or Liveness()  # of the background loops of this process
        self.policy: PolicySource = Policy()  # addresses that this server may call
        self.settings = settings or Settings()
        self.session_control: SessionControl | None = None  # set by the application
        self.render_error_page: ErrorPageRenderer | None = (
            None  # error page for browsers; set if the dashboard is served
        )
        self.host_login: str | None = None  # page of the host where people log in; None: they log in here
        self.callback_counters: Callable[[], Mapping[str, int]] = dict  # of the notifier; empty if it does not run here
        self.batcher = RequestBatcher(service)
        self.meter = Meter()
        # Separate limits, so that API clients and dashboard pages cannot use up each other's places.
        self.followers, self.page_followers = _new_followers(self.settings), _new_followers(self.settings)
        self.routes: Sequence[Route] = ()  # all served routes; set by the application
        self.still_admits: StillAdmits = _always_admit  # checks the token of a long-running stream again
        self.stopping = asyncio.Event()  # ends long polls and streams
        self._waiting: set[asyncio.Task[Any]] = set()

    def stop(self) -> None:
        """End long polls and streams, so that they are answered. Call it before the listener stops."""
        self.stopping.set()
        for task in self._waiting:
            task.cancel()

    async def wait_or_stop(self, operation: Awaitable[T], default: T) -> T:
        """Await an operation that may take long. Return `default` if the server stops first."""
        task = asyncio.current_task()
        if task is None or self.stopping.is_set():
            if asyncio.iscoroutine(operation):
                operation.close()
            return default
        self._waiting.add(task)
        try:
            return await operation
        except asyncio.CancelledError:
            if not self.stopping.is_set():
                raise
            task.uncancel()
            return default
        finally:
            self._waiting.discard(task)
