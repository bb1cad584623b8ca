"""Job ids: UUIDv7 whose `rand_a` bits carry the partition, so that no lookup is needed to find a job's keys.

Jobs that are known by a number have a UUIDv8 made from the number, with the partition in the same bits.
"""

from __future__ import annotations

import hashlib
import re
import struct
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

from .errors import BadInput
from .text.durations import INSTANT_MAX

PARTITIONS_MAX = 4096  # rand_a has 12 bits
_pack = struct.Struct(">QQ").pack
_pack_head = struct.Struct(">Q").pack
_RANDOM_BYTES = 8  # random part of an id; its first byte also holds the variant
_WITH_VARIANT = bytes(0x80 | byte & 0x3F for byte in range(256))
_split_tails = struct.Struct(f"{_RANDOM_BYTES}s").iter_unpack


def make_id(at_ms: int, partition: int, random_64: int) -> bytes:
    """Return the 16 bytes of an id. The caller provides time and randomness, so the function stays pure."""
    return _pack((at_ms & 0xFFFFFFFFFFFF) << 16 | 0x7000 | partition, 1 << 63 | random_64 & 0x3FFFFFFFFFFFFFFF)


def make_head(at_ms: int, partition: int) -> bytes:
    """Return the first half of an id, as `make_id` makes it."""
    return _pack_head(at_ms << 16 | 0x7000 | partition)


def make_tails(count: int, random: Callable[[int], bytes]) -> list[bytes]:
    """Return the second halves of `count` ids, as `make_id` makes them. `random(n)` returns n random bytes."""
    drawn = bytearray(random(_RANDOM_BYTES * count))
    drawn[::_RANDOM_BYTES] = drawn[::_RANDOM_BYTES].translate(_WITH_VARIANT)
    return list(chain.from_iterable(_split_tails(drawn)))


def make_ids(at_ms: int, partition: int, count: int, random: Callable[[int], bytes]) -> list[bytes]:
    """Return `count` ids, each as `make_id` makes it."""
    head = make_head(at_ms, partition)
    return [head + tail for tail in make_tails(count, random)]


NUMBER_MAX = 2**62 - 1  # two of the last 64 bits are the variant
_NUMBERED = b"number"  # the first six bytes


def numbered_id(number: int, partition: int) -> bytes:
    """Return the id of the job with a number."""
    return _NUMBERED + (0x8000 | partition).to_bytes(2, "big") + (1 << 63 | number).to_bytes(8, "big")


def number_of_id(job_id: bytes) -> int | None:
    """Return the number that an id was made from, or None."""
    if job_id[:6] != _NUMBERED or job_id[6] >> 4 != 8:
        return None
    return int.from_bytes(job_id[8:], "big") & NUMBER_MAX


NUMBERS_QUEUE = "bedrock"  # numbers of jobs in the partition of this queue are public as they are
_LOCAL_NUMBER_BITS = 40  # with 12 bits of a partition a public number stays below 2**53, which JavaScript can hold


def public_number(number: int, partition: int, home: int) -> int:
    """Return a number that is unique in the deployment. `home` is the partition of NUMBERS_QUEUE."""
    return number if partition == home else (partition + 1) << _LOCAL_NUMBER_BITS | number


def split_public_number(number: int, home: int, partitions: int) -> tuple[int, int]:
    """Return the partition of a public number, and the job's number in that partition."""
    partition = (number >> _LOCAL_NUMBER_BITS) - 1
    if 0 <= partition < partitions and partition != home:
        return partition, number & (1 << _LOCAL_NUMBER_BITS) - 1
    return home, number


DOWNLOADS_QUEUE = "downloads"
DOWNLOAD_ID_LENGTH = 14
_DOWNLOAD_ID = struct.Struct("<Q2s")  # the number first, so that the first characters differ: they name a folder
_DOWNLOAD_MARK = b"wn"


def download_id_of_number(number: int) -> str:
    """Return the download id, 14 characters, of a job that has a public number."""
    return urlsafe_b64encode(_DOWNLOAD_ID.pack(number, _DOWNLOAD_MARK)).decode().rstrip("=")


def number_of_download_id(text: str) -> int | None:
    """Return the public number in a download id, or None if the id was made in another way."""
    try:
        number, mark = _DOWNLOAD_ID.unpack(urlsafe_b64decode(text + "=="))
    except (ValueError, struct.error):
        return None
    is_ours = mark == _DOWNLOAD_MARK and number <= NUMBER_MAX and download_id_of_number(number) == text
    return number if is_ours else None


def derived_id(*parts: str) -> bytes:
    """Return the id of a job that another system identifies by these texts: always the same UUIDv8."""
    digest = bytearray(hashlib.sha256("\0".join(parts).encode()).digest()[:16])
    digest[6] = 0x80 | digest[6] & 0x0F
    digest[8] = 0x80 | digest[8] & 0x3F
    return bytes(digest)


def partition_of_id(job_id: bytes) -> int:
    return int.from_bytes(job_id[6:8], "big") & 0xFFF


def time_of_id(job_id: bytes) -> int | None:
    """Return the creation time of an id in milliseconds since 1970.

    None if the id carries no time, or a time beyond the supported calendar (48 bits reach further).
    """
    at_ms = int.from_bytes(job_id[:6], "big")
    return at_ms if job_id[6] >> 4 == 7 and at_ms <= INSTANT_MAX else None


def with_partition(job_id: bytes, partition: int, partitions: int) -> bytes:
    """Return the id for the same job in a partition of a deployment with `partitions` partitions.

    The id stays the same if it already maps to that partition.
    """
    if partition_of_id(job_id) % partitions == partition:
        return job_id
    high = int.from_bytes(job_id[6:8], "big") & 0xF000 | partition
    return job_id[:6] + high.to_bytes(2, "big") + job_id[8:]


def parse_id(text: str) -> bytes:
    """Return the bytes of an id, written in any form that `uuid` reads."""
    try:
        return uuid.UUID(text).bytes
    except (ValueError, AttributeError, TypeError) as error:
        raise BadInput(f"{text!r} is not a job id; ids look like 01890a5d-ac96-7000-8000-b5c1d0b7a3f2.") from error


def format_id(job_id: bytes) -> str:
    text = job_id.hex("-", 2)  # has more hyphens than a UUID; the next line drops them
    return f"{text[:4]}{text[5:29]}{text[30:34]}{text[35:]}"


SHORT_ID_LENGTH = 6


def short_id(job_id: bytes) -> str:
    """Return the end of an id, for people: ids of one moment begin alike, and look-ups accept the end of an id."""
    return job_id.hex()[-SHORT_ID_LENGTH:]


PART_DIGITS_MIN = 4
ID_DIGITS = 32
_PART = re.compile(r"[0-9a-f]+", re.ASCII | re.IGNORECASE)
_CUT = re.compile(r"^(?:…|\.{3})|(?:…|\.{3})$")


class IdPart(NamedTuple):
    """Beginning or end of an id, or all of it, as hex digits."""

    digits: str
    is_prefix: bool
    is_suffix: bool

    def is_in(self, some_id: bytes) -> bool:
        text = some_id.hex()
        return (self.is_prefix and text.startswith(self.digits)) or (self.is_suffix and text.endswith(self.digits))


def without_cut_marks(text: str) -> str:
    """Return a shortened text as it was copied, without "…" at its beginning and end."""
    return _CUT.sub("", text)


def id_part(text: str) -> IdPart | None:
    """Return the part of an id that a text may be, or None. "…" says on which side the id goes on."""
    rest = without_cut_marks(text)
    digits = rest.replace("-", "").lower()
    if not PART_DIGITS_MIN <= len(digits) <= ID_DIGITS or not _PART.fullmatch(digits):
        return None
    is_cut_before, is_cut_behind = not text.startswith(rest), not text.endswith(rest)
    if is_cut_before and is_cut_behind:
        return None  # the middle of an id
    return IdPart(digits, is_prefix=not is_cut_before, is_suffix=not is_cut_behind)
