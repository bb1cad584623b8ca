"""Operations: `await` one in an event loop, or call `.wait()` without one. Both run the same sans-I/O flow."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar

from windlass.core.errors import Refusal

T = TypeVar("T")
Flow: TypeAlias = Generator[Any, Any, T]  # of effects that its runner can perform


class FlowRunner(Protocol):
    """A store, or its HTTP counterpart where the engine is behind a server."""

    async def run(self, flow: Flow[T]) -> T: ...

    async def run_unjoined(self, flow: Flow[T]) -> T: ...

    def run_sync(self, flow: Flow[T]) -> T: ...

    def start_sync(self, flow: Flow[T]) -> Callable[[], T]: ...

    def start(self, flow: Flow[T]) -> Coroutine[Any, Any, T]: ...


class Operation(Generic[T]):
    __slots__ = ("_flow", "_store")

    def __init__(self, store: FlowRunner, flow: Callable[[], Flow[T]]) -> None:
        self._store = store
        self._flow = flow

    def __await__(self) -> Generator[Any, None, T]:
        return self._store.run(self._flow()).__await__()

    def wait(self) -> T:
        return self._store.run_sync(self._flow())

    def start_sync(self) -> Callable[[], T]:
        """Send the command now and return a function that waits for its result, so the caller can overlap work.

        An operation that cannot be sent ahead starts when the function is called.
        """
        return self._store.start_sync(self._flow())

    def start(self) -> Coroutine[Any, Any, T]:
        """Send the command now, if possible, and return a coroutine for its result."""
        return self._store.start(self._flow())

    def within(self, wrap: Callable[[Flow[T]], Flow[T]]) -> Self:
        """Return this operation with its flow inside of another flow."""
        flow = self._flow
        return type(self)(self._store, lambda: wrap(flow()))


class BatchOperation(Operation[list[T | Refusal]]):
    """Operation on several items. Its result has one answer or refusal per item."""

    __slots__ = ()

    def run_unjoined(self) -> Coroutine[Any, Any, list[T | Refusal]]:
        """Run without joining the items with those of other callers, because a batcher has joined them already."""
        return self._store.run_unjoined(self._flow())

    def one(self) -> Operation[T]:
        """Return an operation for a single item. Its result is the item's answer; a refusal is raised."""

        def flow() -> Flow[T]:
            (answer,) = yield from self._flow()
            if isinstance(answer, Refusal):
                raise answer
            return answer

        return Operation(self._store, flow)


class WaitingOperation(Operation[T]):
    """Operation that may wait for an event. Its async and sync runs differ in how they wait."""

    __slots__ = ("_run", "_run_sync")

    def __init__(self, store: FlowRunner, run: Callable[[], Coroutine[Any, Any, T]], run_sync: Callable[[], T]) -> None:
        self._store = store
        self._run = run
        self._run_sync = run_sync

    def __await__(self) -> Generator[Any, None, T]:
        return self._run().__await__()

    def wait(self) -> T:
        return self._run_sync()

    def start_sync(self) -> Callable[[], T]:
        return self._run_sync

    def start(self) -> Coroutine[Any, Any, T]:
        return self._run()
