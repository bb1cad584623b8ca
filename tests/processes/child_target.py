"""Handlers for the tests of child processes. A request is Python code; the answer is its variable `answer`."""

from __future__ import annotations

import itertools
from typing import Any

_numbers = itertools.count(1)


def _perform(request: bytes) -> bytes:
    names: dict[str, Any] = {"answer": b"", "jobs": next(_numbers)}
    exec(request.decode(), names)  # noqa: S102
    answer = names["answer"]
    return answer if isinstance(answer, bytes) else str(answer).encode()


def code() -> object:
    return _perform


def echo() -> object:
    return bytes


class Application:
    def child_handler(self) -> object:
        return lambda request: b"application: " + request


application = Application()


def no_handler() -> object:
    return 7


def broken() -> object:
    raise LookupError("the settings are missing")
