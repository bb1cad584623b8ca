"""Parameter types: ids, durations, instants, payloads, rates, sizes and assignments."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from windlass.core.errors import BadInput
from windlass.core.ids import parse_id
from windlass.core.job import Blob
from windlass.core.queue import FOREVER_MS
from windlass.core.text.codecs import compact_json
from windlass.core.text.durations import INSTANT_MAX, parse_duration_ms
from windlass.core.validation.bounds import PAYLOAD_MAX

READ_MAX = 2 * PAYLOAD_MAX  # bytes; a larger file is refused anyway
BYTE_UNITS = {"kib": 1024, "mib": 1024**2, "gib": 1024**3, "": 1}

if TYPE_CHECKING:
    ParameterType = click.ParamType[Any]
else:
    ParameterType = click.ParamType  # older versions of click have no type parameter


class JobIdType(ParameterType):
    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        try:
            return value if isinstance(value, bytes) else parse_id(value)
        except BadInput as error:
            self.fail(str(error), param, ctx)


class DurationType(ParameterType):
    """Milliseconds."""

    name = "duration"

    def __init__(self, *, may_be_forever: bool = False) -> None:
        self._may_be_forever = may_be_forever

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if self._may_be_forever and value == "forever":
            return FOREVER_MS
        try:
            return parse_duration_ms(value)
        except BadInput as error:
            self.fail(str(error), param, ctx)


class InstantType(ParameterType):
    """Milliseconds since 1970. An offset is required, because a local time would be ambiguous."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not an instant; write 2027-01-31T10:30Z or 2027-01-31T10:30+01:00.", param, ctx)
        if at.tzinfo is None:
            self.fail(f"{value!r} has no offset; write {value}Z for UTC, or {value}+01:00.", param, ctx)
        at_ms = (at - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND
        if not 0 < at_ms <= INSTANT_MAX:
            self.fail(f"{value!r} is too long ago or too far ahead.", param, ctx)
        return at_ms


_MILLISECOND = datetime(1970, 1, 1, 0, 0, 0, 1000) - datetime(1970, 1, 1)


class DurationOrInstant(NamedTuple):
    """An instant, or a duration relative to now; the other is 0."""

    at_ms: int = 0
    span_ms: int = 0

    def before_ms(self, now_ms: int) -> int:
        """Return the instant in the past."""
        return self.at_ms or max(0, now_ms - self.span_ms)


class DurationOrInstantType(ParameterType):
    name = "duration|instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> DurationOrInstant:
        if isinstance(value, DurationOrInstant):
            return value
        if value[4:5] == "-":
            return DurationOrInstant(at_ms=INSTANT.convert(value, param, ctx))
        return DurationOrInstant(span_ms=DURATION.convert(value, param, ctx))


class PayloadType(ParameterType):
    """JSON text, stored as typed; `-` reads standard input, `@file` a file."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Blob:
        if isinstance(value, Blob):
            return value
        data = self._read(value, param, ctx)
        if len(data) > PAYLOAD_MAX:
            most = f"at most {PAYLOAD_MAX} bytes are allowed"
            self.fail(f"The payload is too large: {most}. Store it elsewhere and pass a reference.", param, ctx)
        try:
            compact_json(data)
        except ValueError as error:
            self.fail(f"The payload is not JSON: {error}. Strings need quotes: '\"text\"'.", param, ctx)
        return Blob(data)

    def _read(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if not value.startswith("@") and value != "-":
            return value.encode(errors="surrogateescape")
        try:
            if value == "-":
                return sys.stdin.buffer.read(READ_MAX).strip()
            with Path(value[1:]).open("rb") as file:
                return file.read(READ_MAX).strip()
        except OSError as error:
            self.fail(f"{value[1:] or 'standard input'} cannot be read: {error.strerror or error}.", param, ctx)


class RateType(ParameterType):
    """Starts per time: 100/s, 100/10m. Converts to the number and the milliseconds."""

    name = "n/duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        number, slash, per = value.partition("/")
        if not (slash and number.isascii() and number.isdigit() and per):
            self.fail(f"{value!r} is not a rate; write 100/s or 100/10m.", param, ctx)
        return int(number), DURATION.convert(per if per[0].isdigit() else f"1{per}", param, ctx)


class SizeType(ParameterType):
    """Bytes: 1048576, 512KiB, 16MiB, 1GiB."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        number = value.rstrip("KMGiBkmgb")
        unit = value[len(number) :].lower()
        if not (number.isascii() and number.isdigit() and unit in BYTE_UNITS):
            self.fail(f"{value!r} is not a size; write 1048576, 512KiB, 16MiB or 1GiB.", param, ctx)
        return int(number) * BYTE_UNITS[unit]


class AssignmentType(ParameterType):
    """KEY=VALUE."""

    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, equals, rest = value.partition("=")
        if not equals:
            self.fail(f"{value!r} has no =; write KEY=VALUE.", param, ctx)
        return key, rest


JOB_ID, DURATION, INSTANT, PAYLOAD = JobIdType(), DurationType(), InstantType(), PayloadType()
DURATION_OR_FOREVER, DURATION_OR_INSTANT = DurationType(may_be_forever=True), DurationOrInstantType()
RATE, SIZE, ASSIGNMENT = RateType(), SizeType(), AssignmentType()
