"""Exceptions of durable calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from windlass.core.durable import Wait
from windlass.core.errors import BadInput, WindlassError

Waits: TypeAlias = tuple[Wait, ...]


class Suspended(BaseException):
    """Unwinds the code of a job that waits. The job runs again when a condition of `waits` is met.

    It is no Exception, so that `except Exception` does not catch it. Code that catches it must raise it again.
    """

    def __init__(self, collect: Callable[[], Waits]) -> None:
        self._collect = collect
        super().__init__("The job is suspended. Let this exception pass.")

    @property
    def waits(self) -> Waits:
        """Conditions of the whole run. Other branches of the code may have added theirs since this was raised."""
        return self._collect()


class DurableFailure(WindlassError):
    """Stored outcome of a durable call that failed for good. It is raised in each later attempt, too, so an uncaught
    one fails the job without a retry."""


class StepFailed(DurableFailure):
    """A step has used up its tries. `type`, `message` and `traceback` describe the last exception."""

    code = "step_failed"

    def __init__(self, step: str, error: dict[str, Any], tries: int) -> None:
        self.step = step
        self.type = str(error.get("type", ""))
        self.message = str(error.get("message", ""))
        self.traceback = str(error.get("traceback", ""))
        self.tries = tries
        details = ": ".join(part for part in (self.type, self.message) if part)
        super().__init__(f"Step {step!r} failed{f' ({details})' if details else ''}.")


class SignalTimeout(DurableFailure):
    """No signal came in time."""

    code = "signal_timeout"

    def __init__(self, signal: str) -> None:
        self.signal = signal
        super().__init__(f"The job has waited for the signal {signal!r}, and none came in time.")


class ChildFailed(DurableFailure):
    """A child job failed or was cancelled. `type`, `message` and `traceback` describe the exception of its code."""

    code = "child_failed"

    def __init__(self, child_id: str, name: str, state: str, error: dict[str, Any]) -> None:
        self.child_id = child_id
        self.name = name
        self.state = state  # failed or cancelled
        self.error = error
        self.type = str(error.get("type", ""))
        self.message = str(error.get("message", ""))
        self.traceback = str(error.get("traceback", ""))
        details = ": ".join(part for part in (self.type, self.message) if part)
        super().__init__(f"Child {child_id} ({name}) {_STATES.get(state, state)}{f' ({details})' if details else ''}.")


_STATES = {"failed": "failed", "cancelled": "was cancelled", "gone": "was deleted"}


class DuplicateStep(BadInput):
    """Two durable calls of the same name are open at the same time. Give them different keys (`key=`)."""

    code = "duplicate_step"


def is_suspension(error: BaseException) -> bool:
    """Report whether an exception only suspends the job: all exceptions of a group do."""
    return all(isinstance(leaf, Suspended) for leaf in leaves(error))


def leaves(error: BaseException) -> list[BaseException]:
    """Return the exceptions of a group, or the exception itself."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]
