"""Pairs of routes for one verb: on one job, with its id in the path, and on a batch, with an id in each item."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from windlass.core.access.audit import summarize_ids
from windlass.core.access.tokens import Role
from windlass.core.errors import Refusal, WindlassError
from windlass.core.ids import format_id, parse_id
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import Routes
from windlass.wire.shape import Items, RequestShape, Results, to_results

S = TypeVar("S", bound=RequestShape)
# Takes pairs of a job id and a shape; returns answers in the same order, refusals among them.
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
    operation: str = "",
    batch: str = "",
) -> Callable[[Perform], Perform]:
    """Add both routes of a verb. `item` is `body` with an id. PATCH and DELETE use the path of the job itself. DELETE
    takes `body` from the query. `operation`: name of the operation, if it is not `name`. `batch`: the word
    in the path of the batch, if it is not `name`."""
    operation = operation or name
    place = "query" if method == "DELETE" else "body"

    def add(perform: Perform) -> Perform:
        async def run_single(context: RequestContext[Any, Any]) -> Any:
            job_id = context.job_id
            if is_audited:
                context.audit_target = format_id(job_id)
            await context.check_jobs([job_id])
            [answer] = await perform(context, [(job_id, context.query if place == "query" else context.body)])
            if isinstance(answer, Refusal):
                raise answer
            return answer

        async def run_batch(context: RequestContext[Items[Any], Any]) -> Results[Any]:
            pairs = [(parse_id(item.id), item) for item in context.body.items]
            if is_audited:
                context.audit_target = summarize_ids([job_id for job_id, _ in pairs])
            await context.check_jobs([job_id for job_id, _ in pairs])
            return to_results(await perform(context, pairs), lambda answer: answer)

        summary, _, description = (perform.__doc__ or "").partition("\n")
        run_single.__doc__ = perform.__doc__
        run_batch.__doc__ = f"{summary.rstrip('.')}, for up to 1,000 jobs, each with its own result.\n{description}"
        shared: dict[str, Any] = {"roles": roles, "is_audited": is_audited}
        single: Any = {place: body, "response": response, "refuses": refuses}
        path = f"/jobs/{{id}}/{name}" if method == "POST" else "/jobs/{id}"
        routes(method, path, operation=operation, **single, **shared)(run_single)
        many: Any = {"body": Items[item], "response": Results[response]}  # type: ignore[valid-type]
        routes.post(f"/jobs:{batch or name}", operation=f"{operation}_many", **many, **shared)(run_batch)
        return perform

    return add
