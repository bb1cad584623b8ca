"""Makes what `Depends` asks for, once per job or once per worker, and closes it in reverse order.

Where a factory runs: for an async task on the event loop, for a sync task in its thread (an async factory of it on the
worker's loop). What is shared by a worker is made beside the jobs, plain factories of it in a thread.
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
    """Something to be made now, by whoever drives."""

    factory: Factory
    arguments: dict[str, Any]
    is_shared: bool = False


class OpenGenerator(NamedTuple):
    """A generator that stands at its yield."""

    factory: Factory
    generator: Any


class Injector:
    """What is made for one job, or for one call inline. Decides what is made; the two drivers below do it."""

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
            self._context = Context(self._task.app, self._task, current_job.get(), NullReporter())
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
        self._opened.append(
            OpenGenerator(factory, made)
        )  # before it begins: a thread may be interrupted at any instruction
        return self._run(_afirst(factory, made), factory) if factory.is_async else _first(factory, made)

    def _run(self, work: Coroutine[Any, Any, T], factory: Factory) -> T:
        if self._shared is not None:
            return self._shared.run(work)
        work.close()
        raise BadInput(
            f"{self._task.name} is not async, and {factory.name}, which it depends on, is: called inline it cannot "
            "wait for it. Pass the value by its name, or enqueue the task."
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
    """What is made once for a worker, on its event loop. Jobs that want it while it is made wait for the same."""

    def __init__(self, app: Windlass) -> None:
        self._overrides = app.overrides
        self._values: dict[Any, Any] = {}
        self._making: dict[Any, asyncio.Task[Any]] = {}
        self._opened: list[OpenGenerator] = []
        self._loop = self._get_loop()

    def _get_loop(self) -> asyncio.AbstractEventLoop | None:
        return asyncio.get_running_loop()

    def value(self, factory: Factory) -> Any:
        """In a thread."""
        if factory.call in self._values:
            return self._values[factory.call]
        return self.run(self.avalue(factory))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """In a thread: what is async happens on the worker's loop."""
        assert self._loop is not None  # noqa: S101
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def avalue(self, factory: Factory) -> Any:
        if factory.call in self._values:
            return self._values[factory.call]
        making = self._making.get(factory.call)
        if making is None:
            # A task of its own, in an empty context: a job that is stopped meanwhile does not stop it.
            making = asyncio.get_running_loop().create_task(self._make(factory), context=contextvars.Context())
            self._making[factory.call] = making
            making.add_done_callback(lambda done: self._made(factory, done))
        return await asyncio.shield(making)

    def _made(self, factory: Factory, done: asyncio.Task[Any]) -> None:
        del self._making[factory.call]
        if not done.cancelled() and done.exception() is None:
            self._values[factory.call] = done.result()

    async def _make(self, factory: Factory) -> Any:
        refuse_context(factory)  # of a replacement it is not known before
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
        """What may take its time does not stop the event loop."""
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
                log.exception("%s could not be closed.", opened.factory.name)
        self._values.clear()


class ChildSharedDependencies(SharedDependencies):
    """In a child process: made in the thread that runs the jobs, closed when the child ends."""

    def _get_loop(self) -> None:
        """An event loop only where something is async."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        loop = self._loop = self._loop or asyncio.new_event_loop()
        running = loop.create_task(work)
        try:
            return loop.run_until_complete(running)
        finally:
            if not running.done():  # a signal: its code is stopped as if it was cancelled
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
    """Goes on after the yield; an error of the job is raised there. A factory that keeps it to itself changes nothing:
    the job has failed all the same."""
    if opened.generator.gi_frame is None:
        return  # it has not come to its yield
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
    """Python turns a StopIteration that passes through a generator into a RuntimeError."""
    is_turned = isinstance(error, StopIteration | StopAsyncIteration) and isinstance(raised, RuntimeError)
    return raised is error or (is_turned and raised.__cause__ is error)
