"""Application state: everything that the handlers of one server process share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from windlass.background.liveness import Pulse
from windlass.core.access.tokens import Role
from windlass.core.errors import WindlassError
from windlass.outbound import Policy, PolicySource
from windlass.service import Service
from windlass.service.batcher import Gathering
from windlass.settings import Settings
from windlass.web.listener.messages import Head, Response
from windlass.web.metrics.meter import Meter

from .followers import Followers
from .sessions import Session, StartedSession

if TYPE_CHECKING:
    from .request_context import RequestContext
    from .router import Route

T = TypeVar("T")
RefusalPage: TypeAlias = "Callable[[AppState, WindlassError, Head, RequestContext[Any, Any] | None], Response]"
StillAdmits: TypeAlias = Callable[[Head, frozenset[Role]], Awaitable[bool]]


async def _always_admit(_head: Head, _roles: frozenset[Role]) -> bool:
    return True


class SessionControl(Protocol):
    """Sessions of browsers, as the guard knows them."""

    async def start_session(self, text: str) -> StartedSession | None: ...

    async def end_session(self, head: Head) -> None: ...

    def renew_session(self, head: Head) -> Session | None: ...

    async def needs_login(self) -> bool: ...


def _new_followers(settings: Settings) -> Followers:
    return Followers(settings.followers_max, settings.token_followers_max)


class AppState:
    """What all handlers of a server share."""

    def __init__(self, service: Service, pulse: Pulse | None = None, settings: Settings | None = None) -> None:
        self.service = service
        self.pulse = pulse or Pulse()  # of this process's loops
        self.policy: PolicySource = Policy()  # whom this server may call
        self.settings = settings or Settings()
        self.session_control: SessionControl | None = None  # the guard's, once there is one
        self.refusal_page: RefusalPage | None = None  # a no for somebody with a browser; the dashboard's
        self.callback_counters: Callable[[], Mapping[str, int]] = dict  # of this process's notifier; none: it has none
        self.batcher = Gathering(service)
        self.meter = Meter()
        # Pages of the dashboard count apart: clients of the API must not take their places, nor the other way round.
        self.followers, self.page_followers = _new_followers(self.settings), _new_followers(self.settings)
        self.routes: Sequence[Route] = ()  # all that are served, once they are
        self.still_admits: StillAdmits = _always_admit  # whoever is being answered for long; the guard's, once there is one
        self.stopping = asyncio.Event()  # long polls and streams end by it
        self._waiting: set[asyncio.Task[Any]] = set()

    def stop(self) -> None:
        """Before the listener stops: those who wait are answered with what there is."""
        self.stopping.set()
        for task in self._waiting:
            task.cancel()

    async def wait_or_stop(self, question: Awaitable[T], otherwise: T) -> T:
        """The answer to a question that waits for something; `otherwise` when the server stops before."""
        task = asyncio.current_task()
        if task is None or self.stopping.is_set():
            if asyncio.iscoroutine(question):
                question.close()
            return otherwise
        self._waiting.add(task)
        try:
            return await question
        except asyncio.CancelledError:
            if not self.stopping.is_set():
                raise
            task.uncancel()
            return otherwise
        finally:
            self._waiting.discard(task)
