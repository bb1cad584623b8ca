"""Content of `job_failed`: the error, and whether the job is retried."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from windlass.core.errors import BadInput
from windlass.core.job import Blob
from windlass.core.operations import AfterFailure
from windlass.core.validation.bounds import ERROR_MAX


class Failure(NamedTuple):
    error: Blob | None = None
    then: AfterFailure = "auto"
    warning: str = ""


NO_FAILURE = Failure()


class _Fields(msgspec.Struct):
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def parse_failure(payload: msgspec.Raw, fields: dict[str, Any]) -> Failure:
    """Read a failure. `fields` is the decoded payload. The error is stored as the worker wrote it."""
    then = _parse_then(fields)
    error = _error(payload, fields)
    if error is not None and len(error.data) > ERROR_MAX:
        return Failure(None, then, f"The error of a failed job has more than {ERROR_MAX} bytes; it is not kept.")
    return Failure(error, then)


def _error(payload: msgspec.Raw, fields: dict[str, Any]) -> Blob | None:
    """Return `error` as it is, or with `message` in the form in which other dialects show both."""
    error = None if fields.get("error") is None else msgspec.json.decode(payload, type=_Fields).error
    message = fields.get("message")
    if message is None:
        return None if error is None else Blob(bytes(error))  # type: ignore[arg-type]
    if not isinstance(message, str):
        raise BadInput(f"message must be text, not {str(message)[:40]!r}; give any other value as error.")
    return Blob(msgspec.json.encode({"message": message} | ({} if error is None else {"error": error})))


def _parse_then(fields: dict[str, Any]) -> AfterFailure:
    retried, final = (_parse_claim(fields, name) for name in ("should_retry", "final"))
    if retried is not None and retried == final:
        raise BadInput("should_retry and final contradict each other; give one of them.")
    if retried is None and final is None:
        return "auto"
    return "retry" if retried or final is False else "final"


def _parse_claim(fields: dict[str, Any], name: str) -> bool | None:
    given = fields.get(name)
    if given is not None and not isinstance(given, bool):
        raise BadInput(f"{name} must be true or false, not {str(given)[:40]!r}.")
    return given
