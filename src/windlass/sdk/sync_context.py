"""Context of sync tasks: the same calls, which return their values without `await`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .context import Context

if TYPE_CHECKING:
    from .durable.stream import SyncStreamWriter
    from .durations import Duration
    from .tasks.task import Call

T = TypeVar("T")


class SyncContext(Context):
    """Passed to the parameter of a sync task that is annotated with this class. Only its types differ."""

    if TYPE_CHECKING:

        @property
        def stream(self) -> SyncStreamWriter: ...

        def sleep(  # type: ignore[override]
            self, duration: Duration, *, name: str = "sleep", key: str = ""
        ) -> None: ...

        @overload  # type: ignore[override]
        def wait_for(
            self,
            signal: str,
            type: type[T],
            *,
            timeout: Duration | None = None,
            key: str = "",
        ) -> T: ...
        @overload
        def wait_for(
            self,
            signal: str,
            type: Any = Any,
            *,
            timeout: Duration | None = None,
            key: str = "",
        ) -> Any: ...
        def wait_for(self, *args: Any, **kwargs: Any) -> Any: ...

        def run(self, call: Call[T], *, name: str = "", key: str = "") -> T: ...  # type: ignore[override]

        def gather(  # type: ignore[override]
            self,
            *calls: Call[T] | Iterable[Call[T]],
            return_exceptions: bool = False,
            name: str = "gather",
            key: str = "",
        ) -> list[T]: ...
