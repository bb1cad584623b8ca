"""Job ids: UUIDv7 with a partition, and their text forms."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import BadInput
from windlass.core.ids import (
    NUMBER_MAX,
    PARTITIONS_MAX,
    format_id,
    make_id,
    make_ids,
    numbered_id,
    parse_id,
    partition_of_id,
    short_id,
    time_of_id,
)
from windlass.core.text.durations import INSTANT_MAX

instants = st.integers(0, 2**48 - 1)
partitions = st.integers(0, PARTITIONS_MAX - 1)
randoms = st.integers(0, 2**64 - 1)


@given(instants, partitions, randoms)
def test_it_is_a_version_7_uuid_with_time_and_partition(at_ms: int, partition: int, random_64: int) -> None:
    job_id = make_id(at_ms, partition, random_64)
    read = uuid.UUID(bytes=job_id)
    assert (read.version, read.variant) == (7, uuid.RFC_4122)
    assert int.from_bytes(job_id[:6], "big") == at_ms
    assert partition_of_id(job_id) == partition
    assert int.from_bytes(job_id[8:], "big") & 0x3FFFFFFFFFFFFFFF == random_64 & 0x3FFFFFFFFFFFFFFF


@given(instants, partitions, randoms)
def test_what_is_written_can_be_read(at_ms: int, partition: int, random_64: int) -> None:
    job_id = make_id(at_ms, partition, random_64)
    assert parse_id(format_id(job_id)) == job_id
    assert format_id(job_id) == str(uuid.UUID(bytes=job_id))


@given(instants, partitions, randoms)
def test_the_time_of_an_id(at_ms: int, partition: int, random_64: int) -> None:
    expected = at_ms if at_ms <= INSTANT_MAX else None
    assert time_of_id(make_id(at_ms, partition, random_64)) == expected
    assert time_of_id(numbered_id(random_64 & NUMBER_MAX, partition)) is None


def test_later_ids_sort_behind_earlier_ones() -> None:
    assert make_id(1, 4095, 2**64 - 1) < make_id(2, 0, 0)


@pytest.mark.parametrize("write", [str.upper, lambda text: text.replace("-", ""), lambda text: f"{{{text}}}"])
def test_other_ways_to_write_it(write: object) -> None:
    job_id = make_id(1_700_000_000_000, 5, 77)
    assert parse_id(write(format_id(job_id))) == job_id  # type: ignore[operator]


@pytest.mark.parametrize(
    "text", ["", "x", "01890a5d", "01890a5d-ac96-7000-8000-b5c1d0b7a3fg", None, 7, b"x" * 16, "\ud800"]
)
def test_what_is_no_id_is_refused_with_an_example(text: object) -> None:
    with pytest.raises(BadInput, match="ids look like"):
        parse_id(text)  # type: ignore[arg-type]


@given(instants, partitions, st.lists(randoms, max_size=5))
def test_many_are_made_as_one_is(at_ms: int, partition: int, drawn: list[int]) -> None:
    random = b"".join(number.to_bytes(8, "big") for number in drawn)
    asked: list[int] = []
    found = make_ids(at_ms, partition, len(drawn), lambda size: asked.append(size) or random)  # type: ignore[func-returns-value]
    assert found == [make_id(at_ms, partition, number) for number in drawn]
    assert asked == [len(random)]


@given(instants, partitions, st.lists(randoms, min_size=1, max_size=1))
def test_a_short_id_is_the_end_of_the_text(at_ms: int, partition: int, drawn: list[int]) -> None:
    job_id = make_id(at_ms, partition, drawn[0])
    assert format_id(job_id).endswith(short_id(job_id))
    assert len(short_id(job_id)) == 6
