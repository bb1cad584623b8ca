"""The fast path for long lists of jobs reads and writes the same as the shapes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from windlass.core.errors import BadInput, QueueFull, Refusal
from windlass.core.job import Blob, Codec
from windlass.core.operations import Enqueued
from windlass.wire.encoding import decode, encode
from windlass.wire.enqueue import are_all_accepted, decode_jobs, encode_accepted, enqueued_shape
from windlass.wire.new_job import NewJobShape
from windlass.wire.shape import Items, to_results

ID = bytes(range(16))
PLAIN = {"queue": "q", "name": "n"}


def encode_list(*items: Any) -> bytes:
    return msgspec.json.encode({"items": items})


def nested_value(levels: int) -> msgspec.Raw:
    return msgspec.Raw(b"[" * levels + b"]" * levels)


@pytest.mark.parametrize(
    "items",
    [
        [PLAIN],
        [PLAIN | {"payload": {"order": 7}}, PLAIN | {"payload": None}, PLAIN, {"queue": "other", "name": "n"}],
        [PLAIN | {"payload": "größer"}],
        [PLAIN, PLAIN | {"priority": 3, "payload": 1}],
        [PLAIN | {"payload_base64": "AAE="}],
        [],
    ],
)
def test_a_list_is_read_as_its_shapes_are(items: list[Any]) -> None:
    body = encode_list(*items)
    expected = [item.prepare(Codec.JSON) for item in decode(body, Items[NewJobShape], Codec.JSON).items]
    found = decode_jobs(body, Codec.JSON)
    assert [job.new_job() for job in found] == [job.new_job() for job in expected]
    assert [job.template for job in found] == [job.template for job in expected]  # both paths share the template


def test_a_list_in_message_pack() -> None:
    body = msgspec.msgpack.encode({"items": [PLAIN | {"payload": [1]}]})
    assert [job.payload for job in decode_jobs(body, Codec.MSGPACK)] == [
        Blob(msgspec.msgpack.encode([1]), Codec.MSGPACK)
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        encode_list(PLAIN, {"queue": "q"}),
        encode_list(PLAIN, PLAIN | {"queue": ""}),
        encode_list(PLAIN, PLAIN | {"nonsense": 1}),
        encode_list(PLAIN, PLAIN | {"name": 7}),
        encode_list(*[PLAIN] * 1001),
        encode_list(PLAIN | {"payload": nested_value(98)}),
        encode_list(*[PLAIN] * 200, PLAIN | {"payload": nested_value(98)}),
        b'{"items":[{"queue":"q","name":"n","payload":"\xff"}]}',
    ],
)
def test_what_is_wrong_with_it_is_told_in_the_same_words(body: bytes) -> None:
    with pytest.raises(BadInput) as expected:
        decode(body, Items[NewJobShape], Codec.JSON)
    with pytest.raises(BadInput) as found:
        decode_jobs(body, Codec.JSON)
    assert str(found.value) == str(expected.value)


def test_as_deep_as_it_may_be() -> None:
    [job] = decode_jobs(encode_list(PLAIN | {"payload": nested_value(97)}), Codec.JSON)
    assert job.payload == Blob(bytes(nested_value(97)))


def test_it_is_written_as_its_shapes_are() -> None:
    answers: list[Enqueued | Refusal] = [
        Enqueued(ID, "queued", 1),
        Enqueued(ID[::-1], "existing", 2**32 - 1, is_durable=False),
        Enqueued(bytes(16), "scheduled", 7),
    ]
    assert are_all_accepted(answers)
    assert encode_accepted(answers) == encode(to_results(answers, enqueued_shape), Codec.JSON)
    assert not are_all_accepted([*answers, QueueFull()])
    assert not are_all_accepted([])
