"""Shapes of signals to jobs, of signed signal URLs, and of rewinds."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from windlass.core.access.signal_links import EXPIRES_IN_MS
from windlass.core.durable import STEP_NAME_MAX, Rewind, Signal, SignalOutcome
from windlass.core.errors import BadInput
from windlass.core.ids import parse_id
from windlass.core.validation.bounds import DURATION_MAX
from windlass.wire.encoding import Encoding
from windlass.wire.fields import Id
from windlass.wire.shape import RequestShape, ResponseShape
from windlass.wire.values import CodecName, Value, decode_value

from .steps import SignalName


class SignalShape(RequestShape, frozen=True, kw_only=True):
    """A value for a job that waits for it, or will."""

    name: SignalName
    value: Value | UnsetType = UNSET
    value_base64: str | UnsetType = UNSET
    value_codec: CodecName | UnsetType = UNSET
    request_id: Annotated[
        str | None,
        Meta(
            description="A UUID of your choice. A repeated request with the same UUID has no effect.",
            examples=["8d6e1c0e-6f0c-4a53-9a43-0b8d8a0f4c11"],
        ),
    ] = None

    def signal(self, job_id: bytes, encoding: Encoding) -> Signal:
        value = decode_value("value", self.value, self.value_base64, self.value_codec, encoding)
        if value is None:
            raise BadInput("Give a value; null is a value, too.")
        request_id = b"" if self.request_id is None else parse_id(self.request_id)
        return Signal(id=job_id, name=self.name, value=value, request_id=request_id)


class SignalItem(SignalShape, frozen=True, kw_only=True):
    id: Id


class SignalledShape(ResponseShape, frozen=True, kw_only=True):
    """`received`: the job waits for the signal and continues. `kept`: until the job asks for it. `repeated`: this
    `request_id` was used before, and nothing changed."""

    outcome: SignalOutcome


class RewindShape(RequestShape, frozen=True, kw_only=True):
    step: Annotated[
        str, Meta(max_length=STEP_NAME_MAX, description="The first step to drop; empty: drop all steps.")
    ] = ""

    def rewind(self, job_id: bytes) -> Rewind:
        return Rewind(id=job_id, step=self.step)


class RewindItem(RewindShape, frozen=True, kw_only=True):
    id: Id


class RewoundShape(ResponseShape, frozen=True, kw_only=True):
    dropped: Annotated[int, Meta(description="How many steps were dropped.")]


class SignalUrlShape(RequestShape, frozen=True, kw_only=True):
    signal: SignalName
    expires_in_ms: Annotated[
        int, Meta(ge=1, le=DURATION_MAX, description="How long the URL is valid, in milliseconds.")
    ] = EXPIRES_IN_MS


class SignedUrlShape(ResponseShape, frozen=True, kw_only=True):
    """A URL for one signal. `token` is its last segment."""

    url: str
    token: str
    expires_at_ms: int
