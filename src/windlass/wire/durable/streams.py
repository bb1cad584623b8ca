"""Shapes of the streams of jobs, and their entries as server-sent events."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.core.durable import STREAM_VALUES_MAX, StreamItem, StreamPage, StreamWrite
from windlass.core.errors import BadInput
from windlass.core.job import Blob, Codec
from windlass.core.validation.bounds import UINT32_MAX
from windlass.wire import sse
from windlass.wire.encoding import Encoding
from windlass.wire.fields import Id, StateName
from windlass.wire.leases import LeaseRefShape
from windlass.wire.shape import RequestShape, ResponseShape
from windlass.wire.values import CodecName, Value, decode_value, encode_bytes, encode_value

PAGE_MAX = 1_000
WRITE_MAX = 1_000  # values of one request
POSITION_MAX = 2 * STREAM_VALUES_MAX
KEEP_ALIVE = b":\n\n"
DataForm: TypeAlias = Literal["value", "entry"]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=UINT32_MAX)]


class StreamQuery(RequestShape, frozen=True, kw_only=True):
    after: Annotated[
        int,
        Meta(
            ge=0,
            le=POSITION_MAX,
            description="Return the entries after this position. In a stream of events, the header Last-Event-ID has "
            "precedence.",
        ),
    ] = 0
    most: Annotated[int, Meta(ge=1, le=PAGE_MAX, description="The largest number of entries on a page.")] = 500
    data: Annotated[
        DataForm,
        Meta(
            description="The data of an event. `value`: the value as JSON. `entry`: the whole entry, with the exact "
            "bytes of the value as base64."
        ),
    ] = "value"


class StreamItemShape(ResponseShape, frozen=True, kw_only=True):
    """An entry of a stream: a value, or the mark of a new attempt."""

    position: Annotated[int, Meta(description="From 1.")]
    at_ms: int
    attempt: int
    is_new_attempt: Annotated[bool, Meta(description="A new attempt begins here; there is no value.")]
    value: Value | UnsetType = UNSET
    value_base64: str | UnsetType = UNSET
    value_codec: CodecName | UnsetType = UNSET


class StreamPageShape(ResponseShape, frozen=True, kw_only=True):
    items: list[StreamItemShape]
    is_ended: Annotated[bool, Meta(description="The job has ended, and there are no entries after these.")]
    last: Annotated[int, Meta(description="The position of the last entry of the stream; 0: it is empty.")]
    state: Annotated[StateName, Meta(description="The state of the job.")]


def stream_item_shape(item: StreamItem, encoding: Encoding, *, as_bytes: bool = False) -> StreamItemShape:
    value = encode_bytes(item.value) if as_bytes and item.value is not None else encode_value(item.value, encoding)
    return StreamItemShape(
        position=item.position,
        at_ms=item.at_ms,
        attempt=item.attempt,
        is_new_attempt=item.is_new_attempt,
        value=value.value,
        value_base64=value.base64,
        value_codec=value.codec,
    )


def stream_page_shape(page: StreamPage, encoding: Encoding) -> StreamPageShape:
    return StreamPageShape(
        items=[stream_item_shape(item, encoding) for item in page.items],
        is_ended=page.is_ended,
        last=page.last,
        state=page.state.label,  # type: ignore[arg-type]
    )


# Writes


class EncodedValueShape(RequestShape, frozen=True, kw_only=True):
    """The exact bytes of a value."""

    base64: str
    codec: CodecName = "raw"


class StreamWriteShape(LeaseRefShape, frozen=True, kw_only=True):
    """Values for the stream of a job, from the holder of its lease. Give `values` or `encoded`."""

    values: Annotated[tuple[Value, ...], Meta(max_length=WRITE_MAX)] = ()
    encoded: Annotated[
        tuple[EncodedValueShape, ...], Meta(max_length=WRITE_MAX, description="Values as base64, in place of `values`.")
    ] = ()
    sequence: Annotated[
        Count,
        Meta(
            description="How many values this run has written before these. A repeated request writes no value a "
            "second time."
        ),
    ]
    outside: Annotated[
        Count | None,
        Meta(
            description="How many values this run has written outside of steps before these. A later run that writes "
            "them again writes nothing. null: these are written inside a step."
        ),
    ] = None

    def stream_write(self, job_id: bytes, encoding: Encoding) -> StreamWrite:
        if bool(self.values) == bool(self.encoded):
            raise BadInput("Give `values` or `encoded`: one of them, and not empty.")
        return StreamWrite(
            id=job_id,
            token=self.token,
            values=tuple(Blob(bytes(value), encoding) for value in self.values)
            or tuple(_decode(value, encoding) for value in self.encoded),
            sequence=self.sequence,
            outside=self.outside,
        )


def _decode(shape: EncodedValueShape, encoding: Encoding) -> Blob:
    blob = decode_value("encoded", UNSET, shape.base64, shape.codec, encoding)
    assert blob is not None  # noqa: S101
    return blob


class StreamWriteItem(StreamWriteShape, frozen=True, kw_only=True):
    id: Id


class StreamWrittenShape(ResponseShape, frozen=True, kw_only=True):
    position: Annotated[int, Meta(description="The position of the last entry of the stream.")]


# Server-sent events


class StreamEndShape(ResponseShape, frozen=True, kw_only=True):
    """Data of the event `end`. `deleted`: the job was deleted while its stream was read."""

    state: StateName | Literal["deleted"]


class NewAttemptShape(ResponseShape, frozen=True, kw_only=True):
    """Data of the event `attempt`."""

    attempt: int


def encode_item(item: StreamItem, form: DataForm = "value") -> bytes:
    """Encode an entry as an event: `message` with a value, or `attempt`. Its id is the position."""
    kind = "attempt" if item.is_new_attempt else "message"
    return sse.encode_frame(kind, _encode_data(item, form), str(item.position))


def _encode_data(item: StreamItem, form: DataForm) -> bytes:
    if form == "entry":
        return msgspec.json.encode(stream_item_shape(item, Codec.JSON, as_bytes=True))
    if item.value is None:
        return msgspec.json.encode(NewAttemptShape(attempt=item.attempt))
    encoded = encode_value(item.value, Codec.JSON)
    if encoded.value is not UNSET:
        return bytes(encoded.value)
    return msgspec.json.encode({"base64": encoded.base64, "codec": encoded.codec})


def encode_end(state: str) -> bytes:
    """Encode the event `end`. It has no id: a client that reconnects names the last entry, and gets 204."""
    return sse.encode_frame("end", msgspec.json.encode(StreamEndShape(state=state)))  # type: ignore[arg-type]


def parse_position(text: str) -> int:
    """Parse the id of an event, as a client sends it in Last-Event-ID."""
    if not (text.isascii() and text.isdigit() and int(text[:10]) <= POSITION_MAX and len(text) <= 10):
        raise BadInput(f"Last-Event-ID must be the position of an entry, from 0 to {POSITION_MAX}; not {text[:40]!r}.")
    return int(text)
