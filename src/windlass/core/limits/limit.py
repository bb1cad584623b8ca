"""Limits: how many matching jobs may run at once, or start per time, in all or per key. Matching happens here; the
engine only knows which limits a job counts against."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from windlass.core.job import Blob, Codec

Scalar = str | int | float | bool | None
KEY_MAX = 64  # bytes of a key that are kept readable
_DECODERS: dict[Codec, Callable[[bytes], Any]] = {
    Codec.JSON: msgspec.json.decode,
    Codec.MSGPACK: msgspec.msgpack.decode,
}
_MISSING = object()


class Matcher(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which jobs are meant: all conditions that are given must hold."""

    queue: str = ""
    name: str = ""
    lane: str = ""
    payload: dict[str, Scalar] = {}


class Limit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Either `running` (jobs at once) or `rate` (starts per `per_ms`, `burst` of them in a row)."""

    name: str
    matches: Matcher
    running: int | None = None
    rate: int | None = None
    per_ms: int = 1_000
    burst: int = 0  # 0: as many as `rate`
    key: str = ""  # path of a payload field: each of its values has the limit for itself
    own_caps: bool = False  # with `key` and `running`: a key's first job may give it a cap of its own (core/job.py)


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """How full a limit is, for one key or as a whole."""

    key: str | None
    running: int
    blocked_lanes: int
    room: int | None  # jobs that may start now; None: no bound
    next_token_at_ms: int | None  # of a rate


class Aggregation(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a limit with `own_caps`: its jobs that have not ended, and its cap."""

    key: str  # a text as it is, any other value as JSON; a long one that has no cap as its digest
    queued: int
    scheduled: int  # and waiting for others
    running: int  # and dispatched
    cap: int | None  # None: it has none of its own, so the limit's counts
    note: str = ""


class AggregationPage(msgspec.Struct, frozen=True, kw_only=True):
    """`cursor` is empty at the end; a page may be short, even empty, and still go on."""

    aggregations: list[Aggregation]
    cursor: str


class LimitState(msgspec.Struct, frozen=True, kw_only=True):
    limit: Limit
    levels: list[Level]


class LimitHolder(msgspec.Struct, frozen=True):
    """A job that runs under a limit."""

    id: bytes
    since_ms: int


class LimitHolders(msgspec.Struct, frozen=True, kw_only=True):
    """Those first that have run longest."""

    count: int
    holders: list[LimitHolder]


def get_field(content: Any, path: str) -> Any:
    """The value at a dotted path, or `_MISSING`."""
    for part in path.split("."):
        if isinstance(content, Mapping) and part in content:
            content = content[part]
        elif isinstance(content, Sequence) and not isinstance(content, str | bytes) and part.isdecimal():
            if int(part) >= len(content):
                return _MISSING
            content = content[int(part)]
        else:
            return _MISSING
    return content


def _same(value: Any, wanted: Scalar) -> bool:
    """Equal, with true and 1 kept apart."""
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def _decoded(payload: Blob) -> Any:
    decode = _DECODERS.get(payload.codec)
    try:
        return decode(payload.data) if decode else _MISSING
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _MISSING


def parse_key(holdup: str) -> str | None:
    """The key in what the engine calls a limit that holds something back: number, number:key or number=key."""
    rest = holdup.lstrip("0123456789")
    return rest[1:] if rest else None


def display_key(text: str) -> str:
    """A key as people know it: of a text without the quotes."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, str) else text


def encode_key(value: Any) -> str:
    """A key as part of a name: readable when it is short and plain, else its digest. No value is null."""
    text = "null" if value is _MISSING else _as_json(value)
    if text is None:  # only MessagePack has a form for it
        return _digest(msgspec.msgpack.encode(value))
    if len(text.encode()) > KEY_MAX or any(char < " " for char in text):
        return _digest(text.encode())
    return text


def _as_json(value: Any) -> str | None:
    """None: only MessagePack has a form for it. Bytes would look like their base64, an infinity like null."""
    is_without_form = isinstance(value, bytes) or (isinstance(value, float) and not math.isfinite(value))
    try:
        return None if is_without_form else msgspec.json.encode(value).decode()
    except TypeError:
        return None


def _digest(data: bytes) -> str:
    return "#" + hashlib.blake2b(data, digest_size=12).hexdigest()


def _holdup(number: int, limit: Limit, content: Any) -> str:
    if not limit.key:
        return str(number)
    return f"{number}{'=' if limit.own_caps else ':'}{encode_key(get_field(content, limit.key))}"


def _shown_in(payload: Blob, path: str) -> str:
    value = get_field(_decoded(payload), path)
    return value if isinstance(value, str) else encode_key(value)


class LimitTable:
    """The limits of one partition at one version, arranged for matching many jobs."""

    def __init__(self, version: int = 0, limits: Mapping[int, Limit] | None = None) -> None:
        self.version = version
        self.limits = dict(sorted((limits or {}).items()))
        self._by_place: dict[tuple[str, str, str], list[tuple[int, Limit]]] = {}
        for number, limit in self.limits.items():
            matches = limit.matches
            self._by_place.setdefault((matches.queue, matches.name, matches.lane), []).append((number, limit))

    def match(self, queue: str, name: str, lane: str, payload: Blob) -> tuple[str, ...]:
        """What the job counts against, as the engine names it: number, or number:key."""
        if not self.limits:
            return ()
        candidates = list(self._candidates(queue, name, lane))
        if not candidates:
            return ()
        looks_inside = any(limit.key or limit.matches.payload for _, limit in candidates)
        content = _decoded(payload) if looks_inside else _MISSING
        found = [
            (number, _holdup(number, limit, content))
            for number, limit in candidates
            if all(_same(get_field(content, path), value) for path, value in limit.matches.payload.items())
        ]
        return tuple(text for _, text in sorted(found))

    def find_own_cap(self, name: str, holdups: Sequence[str], payload: Blob) -> tuple[str, str] | None:
        """Which of these is of the limit of this name, whose keys may have caps; and its key, as people know it."""
        for number, limit in self.limits.items():
            if limit.name == name and limit.own_caps:
                for holdup in holdups:
                    if holdup.startswith(f"{number}="):
                        return holdup, _shown_in(payload, limit.key)
        return None

    def _candidates(self, queue: str, name: str, lane: str) -> Iterator[tuple[int, Limit]]:
        for of_queue in dict.fromkeys(("", queue)):
            for of_name in dict.fromkeys(("", name)):
                for of_lane in dict.fromkeys(("", lane)):
                    yield from self._by_place.get((of_queue, of_name, of_lane), ())
