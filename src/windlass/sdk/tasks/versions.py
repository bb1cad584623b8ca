"""Payload versions: migration steps between versions of a task's arguments, and the version of a payload.

`worker/version_snooze.py` snoozes jobs of a newer version than the worker's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from windlass.core.errors import BadInput
from windlass.core.job import Blob, Codec

if TYPE_CHECKING:
    from .task import Task

Arguments: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[[Arguments], Arguments]
S = TypeVar("S", bound=Step)
META_KEY = b"$windlass"  # arguments.META in bytes; a payload without it has version 1


class _Meta(msgspec.Struct):
    v: int = 1


class _Versioned(msgspec.Struct, rename={"meta": META_KEY.decode()}):
    meta: _Meta = msgspec.field(default_factory=_Meta)


_readers = {
    Codec.MSGPACK: msgspec.msgpack.Decoder(_Versioned).decode,
    Codec.JSON: msgspec.json.Decoder(_Versioned).decode,
}


def read_version(payload: Blob) -> int:
    """Return the version of a payload, or 1 for a payload that is not a call: decoding will report the error."""
    if META_KEY not in payload.data or payload.codec not in _readers:
        return 1
    try:
        return _readers[payload.codec](payload.data).meta.v
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return 1


class Migrations:
    """Migration steps of one task, each from a version to the next."""

    def __init__(self, task: str, version: int) -> None:
        if type(version) is not int or version < 1:
            raise BadInput(f"{task}: version must be a whole number from 1, not {version!r}.")
        self._task = task
        self.version = version
        self._steps: dict[int, Step] = {}

    def add(self, version: int, step: Step) -> None:
        if type(version) is not int or not 1 <= version < self.version:
            raise BadInput(
                f"{self._task} is at version {self.version}, so it cannot have a step from version {version!r}; "
                "raise version= together with a new step."
            )
        if version in self._steps:
            raise BadInput(f"{self._task} has a step from version {version} already.")
        self._steps[version] = step

    def refuse_gaps(self) -> None:
        missing = [str(version) for version in range(1, self.version) if version not in self._steps]
        if missing:
            raise BadInput(
                f"{self._task} is at version {self.version} and has no step from version {' and '.join(missing)}: "
                f"declare @{self._task}.migrate({missing[0]})."
            )

    def needed_for(self, payload: Blob) -> Migrations | None:
        """Return itself if the payload is older. Current payloads take the direct path."""
        return self if self.version > 1 and read_version(payload) < self.version else None

    def __call__(self, arguments: Arguments, version: int) -> Arguments:
        for step in range(max(version, 1), self.version):
            arguments = self._steps[step](arguments)
            if not isinstance(arguments, dict):
                raise TypeError(f"the step from version {step} returned {type(arguments).__name__}, not a dict")
        return arguments


def refuse_gaps(tasks: Iterable[Task[..., Any]]) -> None:
    """Check all tasks for missing steps when a worker starts, not when it takes an old job."""
    for task in tasks:
        task.migrations.refuse_gaps()
