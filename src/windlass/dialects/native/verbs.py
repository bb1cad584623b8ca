"""A verb about jobs is two routes: about one, with its id in the path, and about many, with an id in each item."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from ...core.access import Role
from ...core.errors import Refusal, WindlassError
from ...core.ids import parse_id
from ...web.routing import Ask, Routes
from .shapes import Items, Results, Shape, results

S = TypeVar("S", bound=Shape)
# What is wanted of which job; answers in the same order, refusals among them.
Perform: TypeAlias = Callable[[Ask[Any, Any], Sequence[tuple[bytes, Any]]], Awaitable[Sequence[Any]]]


def verb(
    routes: Routes,
    name: str,
    *,
    roles: frozenset[Role],
    takes: type[Shape],
    item: type[Shape],
    gives: type[Any],
    refuses: tuple[type[WindlassError], ...],
    is_audited: bool = False,
) -> Callable[[Perform], Perform]:
    """`item` is `takes` with an id. The function is given pairs of an id and a shape, one or many."""

    def add(perform: Perform) -> Perform:
        async def one(ask: Ask[Any, Any]) -> Any:
            job_id = ask.job_id
            await ask.may_touch([job_id])
            [answer] = await perform(ask, [(job_id, ask.body)])
            if isinstance(answer, Refusal):
                raise answer
            return answer

        async def many(ask: Ask[Items[Any], Any]) -> Results[Any]:
            pairs = [(parse_id(each.id), each) for each in ask.body.items]
            await ask.may_touch([job_id for job_id, _ in pairs])
            return results(await perform(ask, pairs), lambda answer: answer)

        summary, _, description = (perform.__doc__ or "").partition("\n")
        one.__doc__ = perform.__doc__
        many.__doc__ = f"{summary.rstrip('.')}: up to 1,000 jobs, each answered by itself.\n{description}"
        shared: dict[str, Any] = {"roles": roles, "is_audited": is_audited}
        routes.post(f"/jobs/{{id}}/{name}", operation=name, takes=takes, gives=gives, refuses=refuses, **shared)(one)
        about_many: Any = {"takes": Items[item], "gives": Results[gives]}  # type: ignore[valid-type]
        routes.post(f"/jobs:{name}", operation=f"{name}_many", **about_many, **shared)(many)
        return perform

    return add
