"""Errors as problem details (RFC 9457): the status, title and code of each error class."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from windlass.core import errors
from windlass.core.errors import WindlassError

Headers: TypeAlias = tuple[tuple[str, str], ...]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """The reason for a refusal. `code` is stable; `detail` is for people and says what to do."""

    type: str
    title: str
    status: int
    detail: str
    code: str


class HttpRefusal(errors.Refusal):
    """Refusal that only exists in HTTP. It has its own status and headers."""

    status = 400
    headers: Headers = ()


_HEADERS = {
    401: (("WWW-Authenticate", "Bearer"),),
    429: (("Retry-After", "1"),),
    503: (("Retry-After", "1"),),
}
_STATUSES: dict[type[WindlassError], int] = {
    errors.BadSetting: 400,  # the request needs a setting that this deployment does not have
    errors.BadInput: 400,
    errors.TooLarge: 413,
    errors.UnknownJob: 404,
    errors.UnknownLimit: 404,
    errors.UnknownAlert: 404,
    errors.UnknownLimitKey: 404,
    errors.UnknownWorker: 404,
    errors.UnknownSchedule: 404,
    errors.UnknownCallback: 404,
    errors.UnknownFlow: 404,
    errors.UnknownToken: 404,
    errors.UnknownStep: 404,
    errors.UnknownFilter: 404,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.TooManyRequests: 429,
    errors.UnknownParent: 409,
    errors.UnknownMember: 409,
    errors.CrossPartition: 409,
    errors.NamesNeedLanes: 409,
    errors.NoExactPriority: 409,
    errors.QueueFull: 503,
    errors.EngineFull: 503,
    errors.LimitsChanged: 503,
    errors.Unsettled: 503,
    errors.PartitionStopped: 503,
    errors.EngineUnavailable: 503,
    errors.DiskFull: 503,
    errors.DataDirectoryLost: 503,
    errors.EngineError: 500,
    errors.EngineNotPermitted: 503,
    errors.EngineUnsuitable: 503,
}
_CONFLICT = 409


def status_of(error: type[WindlassError]) -> int:
    """Return the status of an error class. A refusal that is not in the table is a conflict."""
    if issubclass(error, HttpRefusal):
        return error.status
    return _STATUSES.get(error, _CONFLICT if issubclass(error, errors.Refusal) else 500)


def headers_of(error: WindlassError) -> Headers:
    if isinstance(error, HttpRefusal):
        return error.headers
    return _HEADERS.get(status_of(type(error)), ())


def status_for(error: WindlassError) -> int:
    """Return the status of an error. An HttpRefusal may set its status per instance."""
    return error.status if isinstance(error, HttpRefusal) else status_of(type(error))


def problem_of(error: WindlassError) -> Problem:
    return Problem(
        type=f"urn:windlass:{error.code}",
        title=error.code.replace("_", " ").capitalize(),
        status=status_for(error),
        detail=str(error),
        code=error.code,
    )
