"""Tests of problem details: every error has an explicit status."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from windlass.core import errors
from windlass.core.errors import WindlassError
from windlass.web.app import problems
from windlass.web.app.problems import protocol_refusal
from windlass.wire.problems import HttpRefusal, headers_of, problem_of, status_of

STATUSES: dict[type[WindlassError], int] = {
    # The request is wrong.
    errors.BadInput: 400,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.UnknownJob: 404,
    errors.UnknownLimit: 404,
    errors.UnknownAlert: 404,
    errors.UnknownLimitKey: 404,
    errors.UnknownWorker: 404,
    errors.UnknownSchedule: 404,
    errors.UnknownCallback: 404,
    errors.UnknownFlow: 404,
    errors.UnknownToken: 404,
    errors.UnknownFilter: 404,
    errors.TooLarge: 413,
    errors.TooManyRequests: 429,
    # The request conflicts with the current state.
    errors.Refusal: 409,
    errors.AlreadyEnded: 409,
    errors.StaleLease: 409,
    errors.WrongState: 409,
    errors.IdConflict: 409,
    errors.QueueInUse: 409,
    errors.RevisionConflict: 409,
    errors.UniqueConflict: 409,
    errors.NamesNeedLanes: 409,
    errors.NoExactPriority: 409,
    errors.UnknownParent: 409,
    errors.ParentState: 409,
    errors.UnknownMember: 409,
    errors.MemberFailed: 409,
    errors.FlowExists: 409,
    errors.FlowIncomplete: 409,
    errors.CrossPartition: 409,
    errors.TokenExists: 409,
    errors.LastAdminToken: 409,
    errors.StepsFull: 409,
    errors.MailboxFull: 409,
    errors.StreamFull: 409,
    errors.TooManySuspensions: 409,
    errors.UnknownStep: 404,
    # Temporary: the same request may succeed later.
    errors.QueueFull: 503,
    errors.EngineFull: 503,
    errors.LimitsChanged: 503,
    errors.Unsettled: 503,
    errors.PartitionStopped: 503,
    errors.EngineUnavailable: 503,
    errors.DiskFull: 503,
    errors.DataDirectoryLost: 503,
    errors.EngineUnsuitable: 503,
    errors.EngineNotPermitted: 503,
    # Server errors.
    errors.EngineError: 500,
    errors.BadSetting: 400,
    errors.WindlassError: 500,
}


def _all(error: type[WindlassError]) -> Iterator[type[WindlassError]]:
    yield error
    for narrower in error.__subclasses__():
        yield from _all(narrower)


CORE = [error for error in _all(WindlassError) if error.__module__ == errors.__name__]
HTTP = [error for error in _all(HttpRefusal) if error.__module__ == problems.__name__ and error is not HttpRefusal]


def test_every_error_of_the_core_has_its_status() -> None:
    assert {error: status_of(error) for error in CORE} == STATUSES


def test_every_refusal_of_http_has_a_code_and_a_sentence_of_its_own() -> None:
    assert {error.code for error in HTTP}.isdisjoint({error.code for error in CORE})
    assert len({error.code for error in HTTP}) == len(HTTP)
    assert len({error.sentence for error in HTTP}) == len(HTTP)


@pytest.mark.parametrize("error", [*CORE, *HTTP])
def test_a_problem_has_type_title_status_detail_and_code(error: type[WindlassError]) -> None:
    made = problems.MethodNotAllowed("GET") if error is problems.MethodNotAllowed else error("Because.")
    problem = problem_of(made)
    assert problem.status == status_of(error)
    assert problem.code == error.code
    assert problem.type == f"urn:windlass:{error.code}"
    assert problem.detail == str(made)
    headers = dict(headers_of(made))
    assert ("Retry-After" in headers) == (problem.status in (429, 503))
    assert ("WWW-Authenticate" in headers) == (problem.status == 401)
    assert ("Allow" in headers) == (problem.status == 405)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "malformed_request"),
        (408, "request_timeout"),
        (413, "too_large"),
        (414, "uri_too_long"),
        (431, "headers_too_large"),
        (500, "internal_error"),
        (501, "not_implemented"),
        (503, "unavailable"),
        (505, "http_version_not_supported"),
    ],
)
def test_refusals_of_the_listener_have_their_status_and_a_code(status: int, code: str) -> None:
    problem = problem_of(protocol_refusal(status, "So it is."))
    assert (problem.status, problem.code, problem.detail) == (status, code, "So it is.")
