"""Dependency injection: makes the values of `Depends` per job or per worker, and closes them in reverse order.

Factories of an async task run on the event loop. Factories of a sync task run in its thread; its async factories run on
the worker's loop. Shared values of the worker scope are made apart from the jobs, by sync factories in a thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from windlass.core.errors import BadInput
from windlass.sdk.context import Context, NullReporter, current_job

from .depends import Dependency, Factory, refuse_context

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass

    from .task import Task

log = logging.getLogger("windlass.worker")

T = TypeVar("T")
BoundArguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
BindArguments: TypeAlias = Callable[[dict[str, Any]], BoundArguments]  # injected values → arguments of the function


class FactoryCall(NamedTuple):
    """Call of a factory that the driver of the steps must make."""

    factory: Factory
    arguments: dict[str, Any]
    is_shared: bool = False


class OpenGenerator(NamedTuple):
    """Generator that is suspended at its yield."""

    factory: Factory
    generator: Any


class Injector:
    """Dependencies of one job or of one inline call.

    `_steps` decides which values are made. `call` and `acall` drive it, without and with an event loop.
    """

    def __init__(self, task: Task[..., Any], context: Context | None, shared: SharedDependencies | None) -> None:
        self._task = task
        self._overrides = task.app.overrides
        self._context = context
        self._shared = shared
        self._values: dict[Any, Any] = {}
        self._opened: list[OpenGenerator] = []

    def _steps(self, dependencies: Mapping[str, Dependency]) -> Generator[FactoryCall, Any, dict[str, Any]]:
        found = {}
        for name, dependency in dependencies.items():
            found[name] = yield from self._resolve(dependency)
        return found

    def _resolve(self, dependency: Dependency) -> Generator[FactoryCall, Any, Any]:
        factory = self._overrides.get(dependency.factory.call, dependency.factory)
        if factory.is_context:
            return self._get_context()
        is_shared = dependency.scope == "worker" and self._shared is not None
        known = (factory.call, is_shared)
        if known not in self._values:
            arguments = {} if is_shared else (yield from self._steps(factory.dependencies))
            self._values[known] = yield FactoryCall(factory, arguments, is_shared)
        return self._values[known]

    def _get_context(self) -> Context:
        if self._context is None:
            self._context = self._task.context_class(self._task.app, self._task, current_job.get(), NullReporter())
        return self._context

    # Without an event loop

    def call(self, dependencies: Mapping[str, Dependency], bind: BindArguments) -> Any:
        try:
            args, kwargs = _run_steps(self._steps(dependencies), self._make, bind)
            value = self._task.function(*args, **kwargs)
        except BaseException as error:
            self._close(error)
            raise
        self._close(None)
        return value

    def _make(self, step: FactoryCall) -> Any:
        factory = step.factory
        if step.is_shared and self._shared is not None:
            return self._shared.value(factory)
        made = factory.call(**step.arguments)
        if factory.kind == "function":
            return made
        if factory.kind == "coroutine":
            return self._run(made, factory)
        # Recorded before it starts: a thread may be interrupted at any instruction.
        self._opened.append(OpenGenerator(factory, made))
        return self._run(_afirst(factory, made), factory) if factory.is_async else _first(factory, made)

    def _run(self, work: Coroutine[Any, Any, T], factory: Factory) -> T:
        if self._shared is not None:
            return self._shared.run(work)
        work.close()
        raise BadInput(
            f"{self._task.name} is not async and depends on {factory.name}, which is: an inline call cannot wait for "
            "it. Pass the value by keyword, or enqueue the task."
        )

    def _close(self, error: BaseException | None) -> None:
        failure = error
        for opened in reversed(self._opened):
            try:
                if opened.factory.is_async:
                    self._run(_afinish(opened, failure), opened.factory)
                else:
                    _finish(opened, failure)
            except BaseException as raised:
                failure = raised
        if failure is not None and failure is not error:
            raise failure

    # On an event loop

    async def acall(self, dependencies: Mapping[str, Dependency], bind: BindArguments) -> Any:
        try:
            args, kwargs = await _run_steps_async(self._steps(dependencies), self._amake, bind)
            value = await self._task.function(*args, **kwargs)
        except BaseException as error:
            await self._aclose(error)
            raise
        await self._aclose(None)
        return value

    async def _amake(self, step: FactoryCall) -> Any:
        factory = step.factory
        if step.is_shared and self._shared is not None:
            return await self._shared.avalue(factory)
        made = factory.call(**step.arguments)
        if factory.kind == "function":
            return made
        if factory.kind == "coroutine":
            return await made
        self._opened.append(OpenGenerator(factory, made))
        return await _afirst(factory, made) if factory.is_async else _first(factory, made)

    async def _aclose(self, error: BaseException | None) -> None:
        failure = error
        for opened in reversed(self._opened):
            try:
                if opened.factory.is_async:
                    await _afinish(opened, failure)
                else:
                    _finish(opened, failure)
            except BaseException as raised:
                failure = raised
        if failure is not None and failure is not error:
            raise failure


class SharedDependencies:
    """Values that are made once per worker, on its event loop. Jobs that need a value while it is made wait for it."""

    def __init__(self, app: Windlass) -> None:
        self._overrides = app.overrides
        self._values: dict[Any, Any] = {}
        self._making: dict[Any, asyncio.Task[Any]] = {}
        self._opened: list[OpenGenerator] = []
        self._loop = self._get_loop()

    def _get_loop(self) -> asyncio.AbstractEventLoop | None:
        return asyncio.get_running_loop()

    def value(self, factory: Factory) -> Any:
        """Return the value. Call it in a thread."""
        if factory.call in self._values:
            return self._values[factory.call]
        return self.run(self.avalue(factory))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the worker's loop and return its result. Call it in a thread."""
        assert self._loop is not None  # noqa: S101
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def avalue(self, factory: Factory) -> Any:
        if factory.call in self._values:
            return self._values[factory.call]
        making = self._making.get(factory.call)
        if making is None:
            # In its own asyncio task with an empty context, so that stopping the first job does not stop it.
            making = asyncio.get_running_loop().create_task(self._make(factory), context=contextvars.Context())
            self._making[factory.call] = making
            making.add_done_callback(lambda done: self._made(factory, done))
        return await asyncio.shield(making)

    def _made(self, factory: Factory, done: asyncio.Task[Any]) -> None:
        del self._making[factory.call]
        if not done.cancelled() and done.exception() is None:
            self._values[factory.call] = done.result()

    async def _make(self, factory: Factory) -> Any:
        refuse_context(factory)  # an override's dependencies were not checked before
        arguments = {
            name: await self.avalue(self._overrides.get(dependency.factory.call, dependency.factory))
            for name, dependency in factory.dependencies.items()
        }
        if factory.kind == "function":
            return await self._call_in_thread(factory.call, **arguments)
        made = factory.call(**arguments)
        if factory.kind == "coroutine":
            return await made
        value = await (_afirst(factory, made) if factory.is_async else self._call_in_thread(_first, factory, made))
        self._opened.append(OpenGenerator(factory, made))
        return value

    async def _call_in_thread(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function in a thread, so that a slow function does not block the event loop."""
        return await asyncio.to_thread(call, *args, **kwargs)

    async def close(self) -> None:
        unfinished = list(self._making.values())
        for making in unfinished:
            making.cancel()
        if unfinished:
            await asyncio.wait(unfinished)
        while self._opened:
            opened = self._opened.pop()
            try:
                await (
                    _afinish(opened, None) if opened.factory.is_async else self._call_in_thread(_finish, opened, None)
                )
            except Exception:
                log.exception("Could not close the dependency %s. The worker goes on closing.", opened.factory.name)
        self._values.clear()


class ChildSharedDependencies(SharedDependencies):
    """Shared values in a child process: made in the thread that runs the jobs, closed when the child ends."""

    def _get_loop(self) -> None:
        """Return None: an event loop is made only if something is async."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        loop = self._loop = self._loop or asyncio.new_event_loop()
        running = loop.create_task(work)
        try:
            return loop.run_until_complete(running)
        finally:
            if not running.done():  # interrupted by a signal: cancel the code
                running.cancel()
                loop.run_until_complete(asyncio.wait([running]))
                running.cancelled() or running.exception()

    async def _call_in_thread(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return call(*args, **kwargs)

    def end(self) -> None:
        if self._opened:
            self.run(self.close())
        if self._loop is not None:
            self._loop.close()


def _run_steps(
    steps: Generator[FactoryCall, Any, dict[str, Any]], make: Callable[[FactoryCall], Any], bind: BindArguments
) -> BoundArguments:
    value: Any = None
    while True:
        try:
            step = steps.send(value)
        except StopIteration as done:
            return bind(done.value)
        value = make(step)


async def _run_steps_async(
    steps: Generator[FactoryCall, Any, dict[str, Any]],
    make: Callable[[FactoryCall], Coroutine[Any, Any, Any]],
    bind: BindArguments,
) -> BoundArguments:
    value: Any = None
    while True:
        try:
            step = steps.send(value)
        except StopIteration as done:
            return bind(done.value)
        value = await make(step)


def _first(factory: Factory, generator: Any) -> Any:
    for value in generator:
        return value
    raise BadInput(f"{factory.name} yields nothing: it has to yield the value once.")


async def _afirst(factory: Factory, generator: Any) -> Any:
    async for value in generator:
        return value
    raise BadInput(f"{factory.name} yields nothing: it has to yield the value once.")


def _finish(opened: OpenGenerator, error: BaseException | None) -> None:
    """Resume the generator after its yield, and raise the job's error there.

    A factory that suppresses the error changes nothing: the job has failed.
    """
    if opened.generator.gi_frame is None:
        return  # it has not reached its yield
    trace = error.__traceback__ if error else None
    try:
        next(opened.generator) if error is None else opened.generator.throw(error)
    except StopIteration:
        return
    except BaseException as raised:
        if not _is_same(raised, error):
            raise
        return
    finally:
        if error is not None:
            error.__traceback__ = trace
    opened.generator.close()
    raise BadInput(f"{opened.factory.name} yields twice: it has to yield the value once.")


async def _afinish(opened: OpenGenerator, error: BaseException | None) -> None:
    if opened.generator.ag_frame is None:
        return
    trace = error.__traceback__ if error else None
    try:
        await (anext(opened.generator) if error is None else opened.generator.athrow(error))
    except StopAsyncIteration:
        return
    except BaseException as raised:
        if not _is_same(raised, error):
            raise
        return
    finally:
        if error is not None:
            error.__traceback__ = trace
    await opened.generator.aclose()
    raise BadInput(f"{opened.factory.name} yields twice: it has to yield the value once.")


def _is_same(raised: BaseException, error: BaseException | None) -> bool:
    """Compare errors. Python turns a StopIteration that passes through a generator into a RuntimeError."""
    is_turned = isinstance(error, StopIteration | StopAsyncIteration) and isinstance(raised, RuntimeError)
    return raised is error or (is_turned and raised.__cause__ is error)
