"""Iterations that remember their cursor between attempts."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from windlass.core.durable import StepKind, StepStatus
from windlass.core.errors import BadInput
from windlass.core.job import Blob
from windlass.sdk.tasks.codec import Unreadable, decode, encode

from .run import DurableRun
from .storage import store

T = TypeVar("T")
Rows = AsyncIterable[T] | Iterable[T]


class Each(Generic[T]):
    """Iterator over rows, made by `ctx.each`: `async for` in async tasks, `for` in others.

    A row is completed when the next row is asked for. It is no generator, so a `break` leaves nothing to finalise.
    `run` is None for a task that is called inline.
    """

    def __init__(
        self,
        run: DurableRun | None,
        name: str,
        source: Callable[[Any], Rows[T]],
        start: Any,
        cursor: Callable[[T], Any] | None,
        every: int,
    ) -> None:
        if type(every) is not int or every < 1:
            raise BadInput(f"every is a number of rows, from 1; not {every!r}.")
        if cursor is None and type(start) is not int:
            raise BadInput(f"{name}: without cursor=, the cursor is a number of rows; start must be an int.")
        self._run = run
        self._name = name
        self._cursor_of = cursor
        self._every = every
        self._cursor, self._is_done = _read_position(run, name, start)
        self._row: tuple[T] | None = None  # the row that the loop works on
        self._unsaved = 0  # completed rows since the cursor was stored
        self._source = source
        self._rows: Any = None

    # In async tasks

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        if self._complete_row():
            await self._save()
        if not self._is_done:
            try:
                return self._begin_row(await self._next_row())
            except (StopIteration, StopAsyncIteration):
                self._is_done = True
                await self._save()
        raise StopAsyncIteration

    async def _next_row(self) -> T:
        if self._rows is None:
            rows = self._source(self._cursor)
            self._rows = aiter(rows) if isinstance(rows, AsyncIterable) else _drain(rows)
        return await anext(self._rows)

    async def _save(self) -> None:
        if self._run is not None:
            await self._run.drive(self._name, self._store(self._run))

    # In other tasks

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._complete_row():
            self._save_sync()
        if not self._is_done:
            try:
                return self._begin_row(self._next_row_sync())
            except StopIteration:
                self._is_done = True
                self._save_sync()
        raise StopIteration

    def _next_row_sync(self) -> T:
        if self._rows is None:
            rows = self._source(self._cursor)
            if isinstance(rows, AsyncIterable):
                raise BadInput(f"{self._name}: the source is async, and its task is not.")
            self._rows = iter(rows)
        return next(self._rows)  # type: ignore[no-any-return]

    def _save_sync(self) -> None:
        if self._run is not None:
            self._run.drive(self._name, self._store(self._run))

    # Position

    def _begin_row(self, row: T) -> T:
        self._row = (row,)
        return row

    def _complete_row(self) -> bool:
        """Move the cursor behind the row that the loop has worked on. Returns whether it must be stored."""
        if self._run is not None:
            self._run.refuse_if_suspended()
        if self._row is None:
            return False
        (row,), self._row = self._row, None
        self._cursor = self._cursor + 1 if self._cursor_of is None else self._cursor_of(row)
        self._unsaved += 1
        return self._unsaved >= self._every

    def _store(self, run: DurableRun) -> Any:
        self._unsaved = 0
        status = StepStatus.DONE if self._is_done else StepStatus.WAITING
        return store(run, self._name, kind=StepKind.CURSOR, status=status, value=encode(self._cursor))


async def _drain(rows: Iterable[T]) -> AsyncIterator[T]:
    for row in rows:
        yield row


def _read_position(run: DurableRun | None, name: str, start: Any) -> tuple[Any, bool]:
    found = run.find(name, StepKind.CURSOR) if run is not None else None
    if found is None or found.value is None:
        return start, False
    return _decode_cursor(found.value, start), found.status is StepStatus.DONE


def _decode_cursor(value: Blob, start: Any) -> Any:
    """Decode a cursor as the type of the start, or as it was stored if it is of another type."""
    try:
        return decode(value, type(start))
    except (Unreadable, BadInput):
        return decode(value)
