"""A question put to the engine: `await` it, or call `.wait()` where there is no event loop. The flow behind both is the
same generator; it does no I/O itself."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from windlass.core.errors import Refusal

T = TypeVar("T")
Flow: TypeAlias = Generator[Any, Any, T]  # of whatever its performer can perform


class FlowRunner(Protocol):
    """A store; or what stands in its place where the engine is behind a server."""

    async def run(self, flow: Flow[T]) -> T: ...

    def run_sync(self, flow: Flow[T]) -> T: ...

    def start_sync(self, flow: Flow[T]) -> Callable[[], T]: ...

    def begin(self, flow: Flow[T]) -> Coroutine[Any, Any, T]: ...


class Operation(Generic[T]):
    __slots__ = ("_flow", "_store")

    def __init__(self, store: FlowRunner, flow: Callable[[], Flow[T]]) -> None:
        self._store = store
        self._flow = flow

    def __await__(self) -> Generator[Any, None, T]:
        return self._store.run(self._flow()).__await__()

    def wait(self) -> T:
        return self._store.run_sync(self._flow())

    def begin(self) -> Callable[[], T]:
        """Sends it, if it can be; what it answers waits, as `wait` does. For who has more to ask meanwhile."""
        return self._store.start_sync(self._flow())

    def sent(self) -> Coroutine[Any, Any, T]:
        """The same in an event loop: mostly on its way when this returns; its answer is to be awaited."""
        return self._store.begin(self._flow())


class BatchOperation(Operation[list[T | Refusal]]):
    """Answered per item, refusals among them."""

    __slots__ = ()

    def one(self) -> Operation[T]:
        """For a single item: its answer itself; a refusal is raised."""

        def flow() -> Flow[T]:
            (answer,) = yield from self._flow()
            if isinstance(answer, Refusal):
                raise answer
            return answer

        return Operation(self._store, flow)


class WaitingOperation(Operation[T]):
    """A question that may wait for something to happen: its two drivers differ in how they wait."""

    __slots__ = ("_driver", "_driver_now")

    def __init__(
        self, store: FlowRunner, driver: Callable[[], Coroutine[Any, Any, T]], driver_now: Callable[[], T]
    ) -> None:
        self._store = store
        self._driver = driver
        self._driver_now = driver_now

    def __await__(self) -> Generator[Any, None, T]:
        return self._driver().__await__()

    def wait(self) -> T:
        return self._driver_now()

    def begin(self) -> Callable[[], T]:
        return self._driver_now

    def sent(self) -> Coroutine[Any, Any, T]:
        return self._driver()
