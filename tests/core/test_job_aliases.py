"""The uuid under which a processor added a job, from the whole payload and from its beginning."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.job import Blob, Codec, Job
from windlass.core.job_aliases import processor_uuid
from windlass.core.retry import ENDLESS
from windlass.core.states import State


def job(payload: bytes, unique: str | None = "u", *, is_whole: bool = True, codec: Codec = Codec.JSON) -> Job:
    return Job(
        id=b"i" * 16, state=State.QUEUED, queue="q", name="n", payload=Blob(payload, codec), payload_is_whole=is_whole,
        priority=0, sequence=1, created_at_ms=1, run_at_ms=1, started_at_ms=None, ended_at_ms=None, expires_at_ms=None,
        lane="", unique=unique, retry=ENDLESS, lease_ms=0, timeout_ms=0, result_ttl_ms=0, tags=(), trace="", repeat="",
        schedule="", planned_at_ms=None, parent=None, is_held=False, joins=False, has_members=False,
        on_failure="collect", callback=None, limits=(), attempt=0, revision=1, progress=0.0, is_cancel_requested=False,
        is_overdue=False, is_history=False, worker=None, lease_token=0, lease_deadline_at_ms=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("payload", "unique", "uuid"),
    [
        (b'{"uuid": "u", "queue_name": "q"}', "u", "u"),
        (b'{"uuid": "other"}', "u", ""),
        (b'{"uuid": 5}', "u", ""),
        (b"[]", "u", ""),
        (b"nonsense", "u", ""),
        (b'{"data": {"uuid": "u"}}', "u", ""),
        (b'{"uuid": "u"}', None, ""),
    ],
)
def test_the_uuid_of_a_whole_payload(payload: bytes, unique: str | None, uuid: str) -> None:
    assert processor_uuid(job(payload, unique)) == uuid


def test_other_codecs_are_of_other_dialects() -> None:
    assert processor_uuid(job(b"\x81\xa4uuid\xa1u", codec=Codec.MSGPACK)) == ""
    assert processor_uuid(job(b"\x81\xa4uuid\xa1u", codec=Codec.MSGPACK, is_whole=False)) == ""


@pytest.mark.parametrize(
    ("beginning", "uuid"),
    [
        (b' {"uuid" : "u", "data": "xxxxx', "u"),
        (b'{"data": {"uuid": "x"}, "n": -1.5e3, "l": [1, {}], "uuid": "u", "d', "u"),
        (b'{"uuid": "other", "data', None),
        (b'{"uuid": "u', None),
        (b'{"data": {"uuid": "u"}, "e": "x', None),
        (b'{"data": "\xc3', None),
        (b'{"n": 12', None),
        (b"[[[[", None),
        (b"[" * 1000, None),
        (b'{"a":' + b"[" * 1000, None),
        (b"", None),
    ],
)
def test_the_uuid_in_the_beginning_of_a_payload(beginning: bytes, uuid: str | None) -> None:
    assert processor_uuid(job(beginning, is_whole=False)) == uuid


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9), max_size=5), st.data())
def test_a_beginning_never_contradicts_the_whole(fields: dict[str, Any], data: st.DataObject) -> None:
    fields.pop("uuid", None)
    given_uuid = data.draw(st.sampled_from(["u", "v"]))
    items = [*fields.items(), ("uuid", given_uuid)]
    payload = json.dumps(dict(data.draw(st.permutations(items)))).encode()
    whole = processor_uuid(job(payload))
    cut = processor_uuid(job(payload[: data.draw(st.integers(0, len(payload)))], is_whole=False))
    assert whole == ("u" if given_uuid == "u" else "")
    assert cut in (whole, None)
