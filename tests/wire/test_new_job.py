"""Conversion of NewJobShape to a job of the core, field by field. Jobs that differ only in their payloads share a
template."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from windlass.core.ids import parse_id
from windlass.core.job import Blob, Callback, Cap, Codec, FlowRef, NewJob
from windlass.core.retry import Backoff
from windlass.wire.encoding import decode
from windlass.wire.new_job import NewJobShape

ID, OTHER = "01890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b302099a8058"
# A value other than the default, for every field.
GIVEN: dict[str, Any] = {
    "queue": "mail", "name": "send", "id": ID, "priority": 3, "run_at_ms": 4, "delay_ms": 5, "expires_at_ms": 6,
    "expires_in_ms": 7, "lane": "l", "unique": "u", "unique_check": "refuse", "unique_while_kept": True,
    "debounce_ms": 8, "debounce_max_ms": 9, "throttle_ms": 10, "if_revision": 11, "retry": {"tries": 12},
    "lease_ms": 13, "lease_rule": "r", "retake": True, "hidden": True, "timeout_ms": 14, "result_ttl_ms": 15,
    "tags": ["t"], "index": ["f"], "trace": "tr", "repeat": "rp", "parent": OTHER, "held": True, "after": [OTHER],
    "joins": True, "on_failure": "fail", "callback": {"url": "http://here/"},
    "cap": {"limit": "per shop", "running": 2, "note": "proxy"},
    "flow": {"id": OTHER, "name": "checkout", "step": "pay"},
}  # fmt: skip


def shape(**fields: Any) -> NewJobShape:
    found = decode(msgspec.json.encode({"queue": "mail", "name": "send"} | fields), NewJobShape, Codec.JSON)
    assert isinstance(found, NewJobShape)
    return found


@pytest.mark.parametrize(
    "field", [name for name in NewJob.__struct_fields__ if name not in ("payload", "tombstone_ms")]
)
def test_each_field_arrives_under_its_name(field: str) -> None:
    expected = {
        "id": parse_id(ID), "retry": Backoff(tries=12, base_ms=1_000), "tags": ("t",), "index": ("f",),
        "parent": parse_id(OTHER), "after": (parse_id(OTHER),), "callback": Callback(url="http://here/"),
        "cap": Cap(limit="per shop", running=2, note="proxy"), "flow": FlowRef(parse_id(OTHER), "checkout", "pay"),
    }.get(field, GIVEN[field])  # fmt: skip
    whole, alone = shape(**GIVEN), shape(**{field: GIVEN[field]})
    for item in (whole, alone):
        assert getattr(item.new_job(Codec.JSON), field) == expected
        assert getattr(item.prepare(Codec.JSON).new_job(), field) == expected
    others = [name for name in NewJob.__struct_fields__ if name not in (field, "queue", "name")]
    plain = NewJob(queue="mail", name="send")
    assert all(getattr(alone.new_job(Codec.JSON), name) == getattr(plain, name) for name in others)


def test_jobs_with_other_payloads_share_their_form() -> None:
    first, second = (shape(payload=n, tags=["t"]).prepare(Codec.JSON) for n in (1, 2))
    assert first.template is second.template
    assert [first.payload, second.payload] == [Blob(b"1"), Blob(b"2")]
    assert shape(payload=1, tags=["other"]).prepare(Codec.JSON).template is not first.template


@pytest.mark.parametrize("field", ["id", "unique", "after", "callback", "flow"])
def test_what_there_is_only_once_is_not_remembered(field: str) -> None:
    first, second = (shape(**{field: GIVEN[field]}).prepare(Codec.JSON) for _ in range(2))
    assert first.template is not second.template
