"""Limits on the number of matching jobs that run at once or start per period, in total or per key.

Jobs are matched against limits here. The engine stores only the limit keys that a job counts against. A limit key is
the number of a limit, or `number:key`, or `number=key` for a limit with `own_caps`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from windlass.core.job import Blob

from .condition import MISSING, Condition, Scalar, compile_condition, follow_path, get_field
from .payload_index import decode_payload, read_entries

KEY_MAX = 64  # bytes of a key that are kept readable
_Subject: TypeAlias = tuple[str, str, str, Any]  # queue, name, lane and decoded payload of a job


class Matcher(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"not_": "not"}):
    """Conditions on jobs. All given conditions must hold, and `not_` must not match."""

    queue: str | Condition = ""
    name: str | Condition = ""
    lane: str | Condition = ""
    payload: Mapping[str, Scalar | Condition] = {}
    not_: Matcher | None = None

    def named_queues(self) -> tuple[str, ...]:
        """Return the queues that the matcher is confined to. Empty: it may match jobs of any queue."""
        if isinstance(self.queue, Condition):
            return tuple(str(queue) for queue in self.queue.in_)
        return (self.queue,) if self.queue else ()

    def may_match_queue(self, queue: str) -> bool:
        """Return whether jobs of a queue may match."""
        return self.queue == "" or compile_condition(self.queue)(queue)

    def looks_inside(self) -> bool:
        """Return whether the payload decides."""
        return bool(self.payload) or (self.not_ is not None and self.not_.looks_inside())


class Limit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A limit: either `running` (jobs at once) or `rate` (starts per `per_ms`, at most `burst` in a row)."""

    name: str
    matches: Matcher
    running: int | None = None
    rate: int | None = None
    per_ms: int = 1_000
    burst: int = 0  # 0: equal to `rate`
    key: str = ""  # path of a payload field: the limit applies to each of its values separately
    own_caps: bool = False  # with `key` and `running`: the first job of a key may set the key's own cap (core/job.py)


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of a limit, for one key or in total."""

    key: str | None
    running: int
    blocked_lanes: int
    room: int | None  # jobs that may start now; None: unlimited
    next_token_at_ms: int | None  # only for a rate


class Aggregation(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a limit with `own_caps`: its jobs that have not ended, and its cap."""

    key: str  # text as it is, any other value as JSON; a long key without a cap as its digest
    queued: int
    scheduled: int  # includes waiting jobs
    running: int  # includes dispatched jobs
    cap: int | None  # None: the cap of the limit applies
    note: str = ""


class AggregationPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of keys. `cursor` is empty on the last page; other pages may be short or even empty."""

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
    """Jobs that run under a limit, longest running first."""

    count: int
    holders: list[LimitHolder]


def split_limit_key(limit_key: str) -> tuple[int, str | None]:
    """Return the number of the limit and the key in a limit key: number, number:key or number=key."""
    rest = limit_key.lstrip("0123456789")
    return int(limit_key.removesuffix(rest)), rest[1:] if rest else None


def parse_key(limit_key: str) -> str | None:
    """Return the key in a limit key, or None if it has none."""
    return split_limit_key(limit_key)[1]


def display_key(text: str) -> str:
    """Return a key for display: JSON text without its quotes."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, str) else text


def encode_key(value: Any) -> str:
    """Encode a payload value as a key: its JSON if short and printable, else a digest. A missing value is null."""
    text = "null" if value is MISSING else _as_json(value)
    if text is None:
        return _digest(msgspec.msgpack.encode(value))
    if len(text.encode()) > KEY_MAX or any(char < " " for char in text):
        return _digest(text.encode())
    return text


def _as_json(value: Any) -> str | None:
    """Encode a value as JSON, or return None for values that only MessagePack can represent.

    JSON would turn bytes into base64 and infinities into null.
    """
    is_msgpack_only = isinstance(value, bytes) or (isinstance(value, float) and not math.isfinite(value))
    try:
        return None if is_msgpack_only else msgspec.json.encode(value).decode()
    except TypeError:
        return None


def _digest(data: bytes) -> str:
    return "#" + hashlib.blake2b(data, digest_size=12).hexdigest()


def join_limit_key(number: int, limit: Limit, key: str) -> str:
    """Return the limit key of an encoded key; of the limit as a whole if it has no keys."""
    return f"{number}{'=' if limit.own_caps else ':'}{key}" if limit.key else str(number)


def _limit_key(number: int, limit: Limit, content: Any) -> str:
    return join_limit_key(number, limit, encode_key(get_field(content, limit.key)) if limit.key else "")


def _display_key_in(payload: Blob, path: str) -> str:
    value = get_field(decode_payload(payload), path)
    return value if isinstance(value, str) else encode_key(value)


def _matcher_tests(matches: Matcher, *, is_found_by_place: bool) -> Iterator[Callable[[_Subject], bool]]:
    """Make the tests of a matcher. The place has decided on plain names already if the limit was found by it."""
    for at, wanted in enumerate((matches.queue, matches.name, matches.lane)):
        if isinstance(wanted, Condition) or (wanted and not is_found_by_place):
            yield _place_test(at, wanted)
    for path, value in matches.payload.items():
        yield _field_test(path.split("."), value)
    if matches.not_ is not None:
        inner = tuple(_matcher_tests(matches.not_, is_found_by_place=False))
        yield lambda subject: not all(test(subject) for test in inner)


def _place_test(at: int, wanted: str | Condition) -> Callable[[_Subject], bool]:
    fits = compile_condition(wanted)
    return lambda subject: fits(subject[at])


def _field_test(parts: Sequence[str], wanted: Scalar | Condition) -> Callable[[_Subject], bool]:
    fits = compile_condition(wanted)
    return lambda subject: fits(follow_path(subject[3], parts))


class _Candidate(NamedTuple):
    """A limit that applies to the jobs of a place that pass its tests."""

    number: int
    limit: Limit
    looks_inside: bool
    tests: tuple[Callable[[_Subject], bool], ...]


def _limit_keys(candidates: Sequence[_Candidate], queue: str, name: str, lane: str, payload: Blob) -> tuple[str, ...]:
    looks_inside = any(candidate.looks_inside for candidate in candidates)
    content = decode_payload(payload) if looks_inside else MISSING
    subject = (queue, name, lane, content)
    found = [
        (candidate.number, _limit_key(candidate.number, candidate.limit, content))
        for candidate in candidates
        if not candidate.tests or all(test(subject) for test in candidate.tests)
    ]
    return tuple(text for _, text in sorted(found))


class LimitTable:
    """Table against which new jobs of one partition are matched, at one version: limits, and indexed payload fields."""

    def __init__(
        self,
        version: int = 0,
        limits: Mapping[int, Limit] | None = None,
        indexes: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.version = version
        self.indexes = dict(indexes or {})  # queue -> paths of payload fields (core/limits/payload_index.py)
        self.limits = dict(sorted((limits or {}).items()))
        self._by_place: dict[tuple[str, str, str], list[_Candidate]] = {}
        for number, limit in self.limits.items():
            matches = limit.matches
            tests = tuple(_matcher_tests(matches, is_found_by_place=True))
            candidate = _Candidate(number, limit, bool(limit.key) or matches.looks_inside(), tests)
            name, lane = ("" if isinstance(part, Condition) else part for part in (matches.name, matches.lane))
            for queue in dict.fromkeys(matches.named_queues() or ("",)):
                self._by_place.setdefault((queue, name, lane), []).append(candidate)

    def match(self, queue: str, name: str, lane: str, payload: Blob) -> tuple[str, ...]:
        """Return the limit keys that a job counts against."""
        if not self.limits:
            return ()
        candidates = list(self._candidates(queue, name, lane))
        return _limit_keys(candidates, queue, name, lane, payload) if candidates else ()

    def index_entries(self, queue: str, own: tuple[str, ...], payload: Blob) -> tuple[str, ...]:
        """Return the entries of a payload in the index: of the fields of its queue, and of the job's own."""
        paths = (*own, *self.indexes.get(queue, ()))
        return read_entries(paths, payload) if paths else ()

    def find_own_cap(self, name: str, limit_keys: Sequence[str], payload: Blob) -> tuple[str, str] | None:
        """Return the limit key that belongs to the named limit with `own_caps`, and its key for display."""
        for number, limit in self.limits.items():
            if limit.name == name and limit.own_caps:
                for limit_key in limit_keys:
                    if limit_key.startswith(f"{number}="):
                        return limit_key, _display_key_in(payload, limit.key)
        return None

    def _candidates(self, queue: str, name: str, lane: str) -> Iterator[_Candidate]:
        for of_queue in dict.fromkeys(("", queue)):
            for of_name in dict.fromkeys(("", name)):
                for of_lane in dict.fromkeys(("", lane)):
                    yield from self._by_place.get((of_queue, of_name, of_lane), ())
