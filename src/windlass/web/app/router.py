"""Which function answers which request: one table, from which requests are dispatched and OpenAPI is written."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar
from urllib.parse import unquote

import msgspec

from windlass.background.liveness import Pulse
from windlass.core.access.tokens import Principal, Role
from windlass.core.errors import BadInput, Forbidden, WindlassError
from windlass.core.ids import format_id, parse_id
from windlass.outbound import Policy, PolicySource
from windlass.service import Service
from windlass.service.batcher import Gathering
from windlass.settings import Settings
from windlass.web.listener.messages import Head, Request, Response, Streamed
from windlass.web.metrics.meter import Meter

from .encoding import Encoding
from .followers import Followers
from .problems import Headers, MethodNotAllowed, NotFound
from .sessions import Begun, Session

B = TypeVar("B")
Q = TypeVar("Q")
T = TypeVar("T")
_ANY_ROLE = frozenset(Role)
Words: TypeAlias = Callable[[WindlassError, Encoding], Response]
# Which roles may do it; an admin may do everything. None: anybody, even without a token.
READS = frozenset({Role.READ})
PRODUCES = frozenset({Role.PRODUCE})
WORKS = frozenset({Role.WORK})
KNOWS = frozenset({Role.READ, Role.PRODUCE, Role.WORK})  # of a job whose id one has
STEERS = frozenset({Role.PRODUCE})  # ... what its producer may do to it
ADMIN = frozenset({Role.ADMIN})


class Answer(msgspec.Struct, frozen=True, gc=False):
    """An answer that is not just the route's own good one."""

    value: Any
    status: int = 0  # 0: the route's
    headers: Headers = ()


class Later(msgspec.Struct, Generic[T], frozen=True):
    """What a handler gives that waits for one future and nothing else. Such a handler is no coroutine, and needs no
    task."""

    future: asyncio.Future[T]
    shaped: Callable[[T], Answer]  # makes the answer of its result


class Ask(Generic[B, Q]):
    """One request as its handler sees it."""

    __slots__ = ("body", "detail", "encoding", "office", "path", "query", "request", "target", "wanted", "who")

    def __init__(
        self,
        office: Office,
        request: Request,
        who: Principal,
        path: Mapping[str, str],
        query: Q,
        body: B,
        encoding: Encoding,
        wanted: Encoding,
    ) -> None:
        self.office = office
        self.request = request
        self.who = who
        self.path = path
        self.query = query
        self.body = body
        self.encoding = encoding  # of the body
        self.wanted = wanted  # of the answer
        self.target = request.head.path  # for the audit log
        self.detail = ""  # ... of what was asked for

    @property
    def service(self) -> Service:
        return self.office.service

    @property
    def job_id(self) -> bytes:
        return parse_id(self.path["id"])

    def may_use(self, queue: str) -> None:
        """Raises Forbidden when the token is for other queues."""
        if self.who.queues:
            self.who.check(_ANY_ROLE, queue)

    def check_found(self, queue: str, what: str = "this job") -> None:
        """Raise Forbidden when what was found by its id or name belongs to a queue outside the token's."""
        if self.who.queues:
            self.who.check_found(queue, what)

    async def may_touch(self, ids: Sequence[bytes]) -> None:
        """Raise Forbidden when one of these jobs is in a queue outside the token's. This costs one read, and only for
        tokens that are for some queues. An id without a job passes: the operation itself refuses it."""
        if self.who.queues and ids:
            for job_id, queue in zip(ids, await self.service.queue_of(ids), strict=True):
                if isinstance(queue, str):
                    self.who.check_found(queue, f"job {format_id(job_id)}")

    async def may_act_for(self, worker: bytes, *, with_jobs: bool = False) -> None:
        """Raise Forbidden when a worker serves a queue outside the token's. `with_jobs`: also when it holds a job of
        such a queue, for operations that end leases. An id without a worker passes."""
        if not self.who.queues:
            return
        found = await self.service.worker(worker)
        held = [job.id for job in found.running] if with_jobs else []
        for queue in (*found.info.queues, *(await self.service.queue_of(held) if held else ())):
            if isinstance(queue, str):
                self.who.check_found(queue, "this worker")

    def may_use_all(self) -> None:
        """For what is not about one queue."""
        if self.who.queues:
            raise Forbidden(f"The token {self.who.name!r} is for some queues only; this is about all of them.")


RefusalPage: TypeAlias = "Callable[[Office, WindlassError, Head, Ask[Any, Any] | None], Response]"
StillAdmits: TypeAlias = Callable[[Head, frozenset[Role]], Awaitable[bool]]


async def _always(_head: Head, _roles: frozenset[Role]) -> bool:
    return True


class Entrance(Protocol):
    """Sessions of browsers, as the guard knows them."""

    async def begin_session(self, text: str) -> Begun | None: ...

    async def end_session(self, head: Head) -> None: ...

    def renewed_session(self, head: Head) -> Session | None: ...

    async def needs_login(self) -> bool: ...


def _followers(settings: Settings) -> Followers:
    return Followers(settings.followers_max, settings.token_followers_max)


class Office:
    """What all handlers of a server share."""

    def __init__(self, service: Service, pulse: Pulse | None = None, settings: Settings | None = None) -> None:
        self.service = service
        self.pulse = pulse or Pulse()  # of this process's loops
        self.policy: PolicySource = Policy()  # whom this server may call
        self.settings = settings or Settings()
        self.entrance: Entrance | None = None  # the guard's, once there is one
        self.refusal_page: RefusalPage | None = None  # a no for somebody with a browser; the dashboard's
        self.callback_numbers: Callable[[], Mapping[str, int]] = dict  # of this process's notifier; none: it has none
        self.gathering = Gathering(service)
        self.meter = Meter()
        # Pages of the dashboard count apart: clients of the API must not take their places, nor the other way round.
        self.followers, self.page_followers = _followers(self.settings), _followers(self.settings)
        self.routes: Sequence[Route] = ()  # all that are served, once they are
        self.still_admits: StillAdmits = _always  # whoever is being answered for long; the guard's, once there is one
        self.stopping = asyncio.Event()  # long polls and streams end by it
        self._waiting: set[asyncio.Task[Any]] = set()

    def stop(self) -> None:
        """Before the listener stops: those who wait are answered with what there is."""
        self.stopping.set()
        for task in self._waiting:
            task.cancel()

    async def waiting(self, question: Awaitable[T], otherwise: T) -> T:
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


Handler: TypeAlias = Callable[[Ask[Any, Any]], Awaitable[Any] | Later[Any]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str  # with {names} of segments
    handler: Handler
    operation: str
    tag: str
    summary: str
    description: str
    roles: frozenset[Role] | None
    takes: Any = None  # type of the body
    reads: Callable[[bytes, Encoding], Any] | None = None  # makes something else of it for the handler
    query: type[msgspec.Struct] | None = None
    form: type[msgspec.Struct] | None = None  # fields of a form, which the dashboard reads from the body itself
    gives: Any = None  # type of the good answer; None: it has no body
    status: int = 200
    also: Mapping[int, Any] = {}  # other good answers
    refuses: tuple[type[WindlassError], ...] = ()
    media: str = ""  # of an answer that is neither JSON nor MessagePack
    takes_media: str = ""  # of such a body
    waits: bool = False
    streams_body: bool = False
    headers: Mapping[str, str] = {}  # that it looks at, each with its description
    needs: tuple[str, ...] = ()  # those of them without which it refuses
    is_audited: bool = False
    is_listed: bool = True  # in OpenAPI
    is_page: bool = False  # of the dashboard
    body_max: int = 0  # 0: the server's
    words: Words | None = None  # how its dialect says no; None: as a problem
    says: Any = None  # the type of what these words are; None: plain text

    @property
    def may_be_empty(self) -> bool:
        """Whether a body says nothing that an absent one would not."""
        if self.takes_media or not (isinstance(self.takes, type) and issubclass(self.takes, msgspec.Struct)):
            return False
        return not any(field.required for field in msgspec.structs.fields(self.takes))

    @property
    def names(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


class Routes:
    """The routes of one subject; a dialect has one or several."""

    def __init__(self, prefix: str = "", *, tag: str = "", words: Words | None = None, says: Any = None) -> None:
        """`words`: a dialect's own way to say no, for everything below its prefix; `says`: its type, if no text."""
        self.prefix = prefix
        self.tag = tag
        self.words = words
        self.says = says
        self.all: list[Route] = []

    def __call__(
        self, method: str, path: str, *, roles: frozenset[Role] | None, **more: Any
    ) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            summary, _, description = (inspect.getdoc(handler) or "").partition("\n")
            self.all.append(
                Route(
                    method=method,
                    path=self.prefix + path,
                    handler=handler,
                    operation=more.pop("operation", "") or handler.__name__,
                    tag=self.tag,
                    summary=summary.rstrip("."),
                    description=" ".join(description.split()),
                    roles=roles,
                    words=self.words,
                    says=self.says,
                    **more,
                )
            )
            return handler

        return add

    def get(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        return self("GET", path, **more)

    def post(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        return self("POST", path, **more)

    def put(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        return self("PUT", path, **more)

    def patch(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        return self("PATCH", path, **more)

    def delete(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        return self("DELETE", path, **more)


NOTHING: Mapping[str, str] = {}
Methods: TypeAlias = dict[str, Route]


class Router:
    """Finds a route by method and path. Segments are split before they are decoded: names may hold any character."""

    def __init__(self, routes: Iterable[Routes]) -> None:
        tables = list(routes)
        self.routes = [route for some in tables for route in some.all]
        self._words = [(f"{some.prefix}/", some.words) for some in tables if some.words is not None]
        self._plain: dict[str, Methods] = {}
        self._with_names: dict[int, list[tuple[list[str], Methods]]] = {}
        for route in self.routes:
            if self._methods_at(route.path).setdefault(route.method, route) is not route:
                raise ValueError(f"{route.method} {route.path} is declared twice")

    def _methods_at(self, path: str) -> Methods:
        if "{" not in path:
            return self._plain.setdefault(path, {})
        parts = path.split("/")
        candidates = self._with_names.setdefault(len(parts), [])
        for known, methods in candidates:
            if known == parts:
                return methods
        candidates.append((parts, {}))
        return candidates[-1][1]

    def words_at(self, path: str) -> Words | None:
        """In which words something is refused there."""
        return next((words for prefix, words in self._words if path.startswith(prefix)), None)

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        methods = self._plain.get(path)
        names: Mapping[str, str] = NOTHING
        if methods is None:
            methods, names = self._find_slowly(path)
        route = methods.get(method) or (methods.get("GET") if method == "HEAD" else None)
        if route is None:
            raise MethodNotAllowed(_allowed(methods))
        return route, names

    def _find_slowly(self, path: str) -> tuple[Methods, Mapping[str, str]]:
        """Also where a client has encoded more than it had to, as the colon of jobs:batch."""
        try:
            return self._find_with_names(path)
        except NotFound:
            unreserved = path.replace("%3A", ":").replace("%3a", ":")
            if unreserved in self._plain:
                return self._plain[unreserved], NOTHING
            raise

    def _find_with_names(self, path: str) -> tuple[Methods, Mapping[str, str]]:
        given = path.split("/")
        for parts, methods in self._with_names.get(len(given), ()):
            if all(part == one or (part[:1] == "{" and one) for part, one in zip(parts, given, strict=True)):
                return methods, {
                    part[1:-1]: _decoded(one) for part, one in zip(parts, given, strict=True) if part[:1] == "{"
                }
        raise NotFound


def _allowed(methods: Methods) -> str:
    return ", ".join(sorted({*methods, *(("HEAD",) if "GET" in methods else ())}))


def _decoded(segment: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise BadInput(f"{segment!r} in the path is not UTF-8 once its % signs are decoded.") from error


Given: TypeAlias = Response | Streamed | Answer | msgspec.Struct | None
