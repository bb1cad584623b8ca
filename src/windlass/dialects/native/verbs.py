"""A verb about jobs is two routes: about one, with its id in the path, and about many, with an id in each item."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from windlass.core.access.tokens import Role
from windlass.core.errors import Refusal, WindlassError
from windlass.core.ids import format_id, parse_id
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import Routes
from windlass.wire.shape import Items, RequestShape, Results, to_results

S = TypeVar("S", bound=RequestShape)
TOLD = 10  # ids of many
# What is wanted of which job; answers in the same order, refusals among them.
Perform: TypeAlias = Callable[[RequestContext[Any, Any], Sequence[tuple[bytes, Any]]], Awaitable[Sequence[Any]]]


def verb(
    routes: Routes,
    name: str,
    *,
    roles: frozenset[Role],
    body: type[RequestShape],
    item: type[RequestShape],
    response: type[Any],
    refuses: tuple[type[WindlassError], ...],
    is_audited: bool = False,
    method: str = "POST",
) -> Callable[[Perform], Perform]:
    """`item` is `body` with an id. The function is given pairs of an id and a shape, one or many. PATCH and DELETE of
    one are of the job's own path; what goes with a DELETE stands in the query."""
    place = "query" if method == "DELETE" else "body"

    def add(perform: Perform) -> Perform:
        async def one(context: RequestContext[Any, Any]) -> Any:
            job_id = context.job_id
            if is_audited:
                context.audit_target = format_id(job_id)
            await context.check_jobs([job_id])
            [answer] = await perform(context, [(job_id, context.query if place == "query" else context.body)])
            if isinstance(answer, Refusal):
                raise answer
            return answer

        async def many(context: RequestContext[Items[Any], Any]) -> Results[Any]:
            pairs = [(parse_id(each.id), each) for each in context.body.items]
            if is_audited:
                context.audit_target = _listed([job_id for job_id, _ in pairs])
            await context.check_jobs([job_id for job_id, _ in pairs])
            return to_results(await perform(context, pairs), lambda answer: answer)

        summary, _, description = (perform.__doc__ or "").partition("\n")
        one.__doc__ = perform.__doc__
        many.__doc__ = f"{summary.rstrip('.')}: up to 1,000 jobs, each answered by itself.\n{description}"
        shared: dict[str, Any] = {"roles": roles, "is_audited": is_audited}
        about_one: Any = {place: body, "response": response, "refuses": refuses}
        path = f"/jobs/{{id}}/{name}" if method == "POST" else "/jobs/{id}"
        routes(method, path, operation=name, **about_one, **shared)(one)
        about_many: Any = {"body": Items[item], "response": Results[response]}  # type: ignore[valid-type]
        routes.post(f"/jobs:{name}", operation=f"{name}_many", **about_many, **shared)(many)
        return perform

    return add


def _listed(ids: Sequence[bytes]) -> str:
    """For the audit log: the first of them, and how many more."""
    first = ", ".join(map(format_id, ids[:TOLD]))
    return f"{first} and {len(ids) - TOLD} more" if len(ids) > TOLD else first
