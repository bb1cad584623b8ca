"""Batch tasks: each job has one argument, and one call of the function gets the arguments of many jobs as a list.

`worker/batching.py` collects the jobs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar, Union, get_args, get_origin, overload

from windlass.core.errors import BadInput
from windlass.core.job import Blob
from windlass.sdk.durations import Duration, duration_ms

from .annotations import Untyped, resolve_annotation
from .arguments import Signature
from .injection import Injector, SharedDependencies
from .task import Task

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
# One result per job, in order; an exception fails only its job. None: no job has a result.
Results: TypeAlias = Sequence[R | Exception] | None
_LISTS = (list, Sequence, Collection, Iterable)
_EXPECTED = "A batch task takes one list and returns None or a list: def index(pages: list[Page]) -> None"


class Batch(NamedTuple):
    most: int  # jobs per call
    wait_ms: int  # time that the first job waits for others


def make_batch(most: int, wait: Duration) -> Batch:
    if type(most) is not int or most < 1:
        raise BadInput(f"most is the number of jobs that one call gets, from 1; not {most!r}.")
    return Batch(most, duration_ms("wait", wait))


class BatchTask(Task[[T], R_co]):
    """Task whose function is called for many jobs at once."""

    batch: Batch

    def __init__(self, app: Windlass, function: Callable[..., Any], batch: Batch, options: Mapping[str, Any]) -> None:
        super().__init__(app, function, options)
        self.batch = batch

    def _check(self) -> None:
        super()._check()
        if self.pool == "process":
            raise BadInput(f"{self.name}: a batch runs on the event loop or in a thread, not in a child process.")
        if self.needs_context:
            raise BadInput(f"{self.name}: a batch has many jobs and no single context; remove the context parameter.")

    def _make_signature(self, function: Callable[..., Any], injected: frozenset[str]) -> Signature:
        python = inspect.signature(function)
        accepted = [parameter for parameter in python.parameters.values() if parameter.name not in injected]
        if len(accepted) != 1 or accepted[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
            raise BadInput(f"{self.name}: {_EXPECTED}.")
        items = self._element(resolve_annotation(function, accepted[0].annotation, {}))
        returns = resolve_annotation(function, python.return_annotation, {})
        result = returns if returns is NoneType else _result_type(self._element(returns))
        item = accepted[0].replace(annotation=items, default=inspect.Parameter.empty)
        return Signature(
            self.name, [item], {item.name: items}, frozenset(), Any if isinstance(result, Untyped) else result
        )

    def _element(self, annotation: Any) -> Any:
        if isinstance(annotation, Untyped) or annotation in (Any, *_LISTS):
            return annotation if isinstance(annotation, Untyped) else Any
        if get_origin(annotation) not in _LISTS:
            raise BadInput(f"{self.name}: {_EXPECTED}, not {annotation}.")
        return get_args(annotation)[0]

    def decode_item(self, payload: Blob) -> Any:
        """Decode the argument of one job."""
        call = self.signature.decode(payload, self.migrations.needed_for(payload))
        return next(iter((*call.args, *call.kwargs.values())))

    def perform_many(self, items: list[Any], shared: SharedDependencies | None) -> Any:
        if not self.dependencies:
            return self.function(items)
        injector = Injector(self, None, shared)
        return (injector.acall if self.is_async else injector.call)(
            self.dependencies, lambda injected: ((items,), injected)
        )


class SyncBatchTask(BatchTask[T, R_co]):
    def __call__(self, items: list[T]) -> Results[R_co]:
        """Run the function inline for a whole list."""
        return self._inline((items,), {})  # type: ignore[no-any-return]


class AsyncBatchTask(BatchTask[T, R_co]):
    def __call__(self, items: list[T]) -> Coroutine[Any, Any, Results[R_co]]:
        return self._inline((items,), {})  # type: ignore[no-any-return]


class BatchDecorator(Protocol):
    """Return type of `app.batch_task(...)`."""

    @overload
    def __call__(self, function: Callable[[list[T]], Coroutine[Any, Any, None]], /) -> AsyncBatchTask[T, None]: ...
    @overload
    def __call__(
        self, function: Callable[[list[T]], Coroutine[Any, Any, Sequence[R | Exception]]], /
    ) -> AsyncBatchTask[T, R]: ...
    @overload
    def __call__(self, function: Callable[[list[T]], None], /) -> SyncBatchTask[T, None]: ...
    @overload
    def __call__(self, function: Callable[[list[T]], Sequence[R | Exception]], /) -> SyncBatchTask[T, R]: ...


def _result_type(element: Any) -> Any:
    """Return the type of one result, without exceptions."""
    if get_origin(element) not in (Union, UnionType):
        return element
    kept = [kind for kind in get_args(element) if not (isinstance(kind, type) and issubclass(kind, BaseException))]
    return reduce(or_, kept) if kept else NoneType
