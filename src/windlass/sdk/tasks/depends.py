"""Dependencies of a task's function, declared by `Depends(factory)` and checked with the task's declaration.

`injection.py` makes and closes them.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any, Literal, TypeAlias, TypeVar, overload

from windlass.core.errors import BadInput
from windlass.sdk.context import Context
from windlass.sdk.sync_context import SyncContext

from .annotations import resolve_annotation

T = TypeVar("T")
Scope: TypeAlias = Literal["job", "worker"]
Kind: TypeAlias = Literal["function", "coroutine", "generator", "async generator"]


# The parameter gets the value that the factory returns, yields or awaits. The first overload that fits counts.
@overload
def Depends(factory: Callable[..., AsyncIterator[T]], *, scope: Scope = "job") -> T: ...
@overload
def Depends(factory: Callable[..., Iterator[T]], *, scope: Scope = "job") -> T: ...
@overload
def Depends(factory: Callable[..., Coroutine[Any, Any, T]], *, scope: Scope = "job") -> T: ...
@overload
def Depends(factory: Callable[..., T], *, scope: Scope = "job") -> T: ...
def Depends(factory: Callable[..., Any], *, scope: Scope = "job") -> Any:  # noqa: N802 (a name known from FastAPI)
    """Make the default of a parameter whose value a factory makes when the job runs.

    Example: `db: Session = Depends(get_session)`.
    """
    return Dependency(Factory(factory), scope)


def _kind(call: Callable[..., Any]) -> Kind:
    if inspect.isclass(call):
        return "function"
    plain = call if inspect.isroutine(call) else getattr(call, "func", None) or type(call).__call__
    if inspect.isasyncgenfunction(plain):
        return "async generator"
    if inspect.iscoroutinefunction(plain):
        return "coroutine"
    return "generator" if inspect.isgeneratorfunction(plain) else "function"


class Factory:
    """Function or class that makes a value, and its own dependencies."""

    def __init__(self, call: Callable[..., Any]) -> None:
        if not callable(call):
            raise BadInput(f"Depends takes a function or a class that makes the value, not {call!r}.")
        self.call = call
        self.name: str = getattr(call, "__qualname__", repr(call))
        self.is_context = call is Context or call is SyncContext
        self.kind = _kind(call)
        self.dependencies: dict[str, Dependency] = (
            {} if self.is_context else _find_factory_dependencies(call, self.name)
        )

    @property
    def is_async(self) -> bool:
        return self.kind in ("coroutine", "async generator")


class Dependency:
    """Default value that `Depends` leaves in a signature."""

    def __init__(self, factory: Factory, scope: Scope) -> None:
        if scope not in ("job", "worker"):
            raise BadInput(f"The scope of a dependency must be job or worker, not {scope!r}.")
        self.factory = factory
        self.scope = scope
        if scope == "worker":
            refuse_context(factory)

    def __repr__(self) -> str:
        return f"Depends({self.factory.name})"


CONTEXT_DEPENDENCY = Dependency(Factory(Context), "job")


def find_dependencies(function: Callable[..., Any], name: str) -> dict[str, Dependency]:
    """Return the dependencies of a function by parameter."""
    parameters = _parameters(function)
    found: dict[str, Dependency] = {}
    for parameter in parameters.values():
        if isinstance(parameter.default, Dependency):
            _refuse_unreachable(name, parameter, parameters)
            found[parameter.name] = parameter.default
    return found


def _find_factory_dependencies(call: Callable[..., Any], name: str) -> dict[str, Dependency]:
    """Return the dependencies of a factory by parameter.

    A parameter annotated with Context needs no default here, because factories have no other arguments.
    """
    found = find_dependencies(call, name)
    for parameter in _parameters(call).values():
        if parameter.name in found or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.kind is not parameter.POSITIONAL_ONLY and _is_context(call, parameter):
            found[parameter.name] = CONTEXT_DEPENDENCY
        elif parameter.default is parameter.empty:
            raise BadInput(f"{name}: {parameter.name} has no value; give it a default, or a Depends(…) of its own.")
    return found


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some classes written in C have no signature
        return {}


def depends_on_context(dependencies: Mapping[str, Dependency]) -> bool:
    return any(
        dependency.factory.is_context or depends_on_context(dependency.factory.dependencies)
        for dependency in dependencies.values()
    )


def _is_context(function: Callable[..., Any], parameter: inspect.Parameter) -> bool:
    home: Callable[..., Any] = function.__init__ if inspect.isclass(function) else function
    if parameter.annotation is parameter.empty:
        return False
    return resolve_annotation(home, parameter.annotation, {}) in (Context, SyncContext)


def _refuse_unreachable(name: str, parameter: inspect.Parameter, parameters: Mapping[str, inspect.Parameter]) -> None:
    has_variadic = any(other.kind is other.VAR_POSITIONAL for other in parameters.values())
    if parameter.kind is parameter.POSITIONAL_ONLY or (
        has_variadic and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ):
        raise BadInput(
            f"{name}: {parameter.name} is injected by keyword: move it after *, where it can be passed by keyword."
        )


def refuse_context(factory: Factory) -> None:
    """Refuse the context in a dependency of the worker scope: it outlives the job."""
    for name, dependency in factory.dependencies.items():
        if dependency.factory.is_context:
            raise BadInput(
                f"{factory.name}: {name} is the context of one job, and this dependency is shared by all jobs of a "
                "worker; use scope='job'."
            )
        refuse_context(dependency.factory)


def refuse_circle(factory: Factory, overrides: Mapping[Any, Factory], above: tuple[Any, ...] = ()) -> None:
    """Refuse a replacement that depends on the factory that it replaces."""
    if factory.call in above:
        raise BadInput(f"{factory.name} would depend on itself; call it in the replacement instead.")
    for dependency in factory.dependencies.values():
        refuse_circle(overrides.get(dependency.factory.call, dependency.factory), overrides, (*above, factory.call))
