"""Job source: the Redis of another job queue, from which jobs are moved in.

Reads are bounded pages. The only writes set entries aside: an entry leaves its list or sorted set, and is noted in a
hash of the source, first `windlass:moving:<dialect>`, later `windlass:moved:<dialect>`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, Self, TypeAlias, TypeVar

from windlass.core.errors import BadInput, BadSetting, EngineUnavailable, EngineUnsuitable

from .connection.connection import CommandArgs, EngineReplyError
from .connection.endpoint import Endpoint, parse_url
from .connection.sync_connection import SyncConnection

PAGE = 100  # entries that are read and moved together
SCAN_COUNT = 500
OWN_PREFIX = "windlass:"

# Where an entry is listed: in a list whose oldest entry is at this end, in a sorted set, or nowhere.
Place: TypeAlias = Literal["left", "right", "zset", "none"]
Claim: TypeAlias = Literal["claimed", "known", "gone"]

# KEYS: moving, moved, then the key of each entry. ARGV, per entry: place, member, identity, note.
# An identity is noted once. A repeated entry of a noted identity only leaves its list.
_CLAIM = """
local answers = {}
for i = 3, #KEYS do
  local place, member, identity, note = unpack(ARGV, (i - 3) * 4 + 1, (i - 3) * 4 + 4)
  local removed = 1
  if place == 'zset' then removed = redis.call('ZREM', KEYS[i], member)
  elseif place ~= 'none' then removed = redis.call('LREM', KEYS[i], place == 'left' and 1 or -1, member) end
  if redis.call('HEXISTS', KEYS[1], identity) == 1 or redis.call('HEXISTS', KEYS[2], identity) == 1 then
    answers[#answers + 1] = 'known'
  elseif removed == 1 then
    redis.call('HSET', KEYS[1], identity, note)
    answers[#answers + 1] = 'claimed'
  else
    answers[#answers + 1] = 'gone'
  end
end
return answers
"""
# KEYS: moving, moved. ARGV: identities.
_SETTLE = """
for _, identity in ipairs(ARGV) do
  local note = redis.call('HGET', KEYS[1], identity)
  if note then
    redis.call('HSET', KEYS[2], identity, note)
    redis.call('HDEL', KEYS[1], identity)
  end
end
return redis.status_reply('OK')
"""


class SourceEntry(NamedTuple):
    """An entry of a list or a sorted set of the source."""

    key: str
    place: Place
    member: bytes
    score: float = 0.0


P = ParamSpec("P")
T = TypeVar("T")


def _reading(
    method: Callable[Concatenate[JobSource, P], T],
) -> Callable[Concatenate[JobSource, P], T]:
    """Refuse a source whose replies have other types than those of Redis: a proxy, or another program."""

    @functools.wraps(method)
    def read(self: JobSource, /, *args: P.args, **more: P.kwargs) -> T:
        try:
            return method(self, *args, **more)
        except (TypeError, ValueError, AttributeError, IndexError) as error:
            raise EngineUnsuitable(f"{self} does not answer as Redis does: {error}.") from error

    return read


class JobSource:
    """Connection to one Redis node, for one thread."""

    def __init__(self, url: str, dialect: str) -> None:
        endpoint = parse_url(url)
        if not isinstance(endpoint, Endpoint):
            raise BadSetting("Jobs are moved in from a single Redis node: give its own URL, e.g. redis://host:6379/0.")
        self.endpoint = endpoint
        self._moving, self._moved = (f"{OWN_PREFIX}{state}:{dialect}" for state in ("moving", "moved"))
        self._connection: SyncConnection | None = None

    def __enter__(self) -> Self:
        self._connection = SyncConnection.open(self.endpoint)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()

    def __str__(self) -> str:
        return str(self.endpoint)  # without the password

    # Reads

    def scan(self, pattern: str) -> Iterator[list[str]]:
        """Yield the keys that match a pattern, in pages. A key may come twice."""
        cursor: Any = b"0"
        while True:
            cursor, found = self._scan_page(cursor, pattern)
            yield [key for key in found if not key.startswith(OWN_PREFIX)]
            if cursor == b"0":
                return

    @_reading
    def _scan_page(self, cursor: Any, pattern: str) -> tuple[Any, list[str]]:
        cursor, keys = self._call("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT)
        return cursor, [_decode(key) for key in keys]

    def keys(self, pattern: str) -> list[str]:
        """Return the sorted keys that match a pattern. For keys that are as few as queues."""
        return sorted({key for page in self.scan(pattern) for key in page})

    @_reading
    def kinds(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the type of each key that exists."""
        kinds = self._pipeline([("TYPE", key) for key in keys])
        return {key: kind.decode() for key, kind in zip(keys, kinds, strict=True) if kind != b"none"}

    @_reading
    def length(self, key: str, place: Place) -> int:
        return int(self._call("ZCARD" if place == "zset" else "LLEN", key))

    @_reading
    def page(self, key: str, place: Place, offset: int) -> list[SourceEntry]:
        """Return a page of entries, the oldest first, behind the first `offset` entries."""
        if place == "zset":
            flat = self._call("ZRANGE", key, offset, offset + PAGE - 1, "WITHSCORES")
            pairs = zip(flat[::2], flat[1::2], strict=True)
            return [SourceEntry(key, place, _bytes(member), float(score)) for member, score in pairs]
        from_left = self._call("LRANGE", key, offset, offset + PAGE - 1) if place == "left" else None
        members = (
            reversed(self._call("LRANGE", key, -(offset + PAGE), -(offset + 1))) if from_left is None else from_left
        )
        return [SourceEntry(key, place, _bytes(member)) for member in members]

    @_reading
    def members(self, key: str) -> int:
        """Return the number of members of a set or a sorted set."""
        kind = self.kinds([key]).get(key, "")
        return int(self._call({"set": "SCARD", "zset": "ZCARD", "list": "LLEN"}[kind], key)) if kind in _COUNTED else 0

    @_reading
    def hashes(self, keys: Sequence[str]) -> list[dict[bytes, bytes] | None]:
        """Return the fields of each hash: empty if there is no such key, None if the key is no hash."""
        replies = self._pipeline([("HGETALL", key) for key in keys], may_be_wrong_type=True)
        return [None if reply is None else _fields(reply) for reply in replies]

    @_reading
    def exist(self, keys: Sequence[str]) -> list[bool]:
        return [reply == 1 for reply in self._pipeline([("EXISTS", key) for key in keys])]

    # Entries that were set aside

    @_reading
    def known(self, identities: Sequence[str]) -> list[bool]:
        """Return which identities were set aside before."""
        if not identities:
            return []
        moving, moved = self._pipeline([("HMGET", key, *identities) for key in (self._moving, self._moved)])
        triples = zip(identities, moving, moved, strict=True)
        return [first is not None or second is not None for _, first, second in triples]

    @_reading
    def unsettled(self) -> list[tuple[str, bytes]]:
        """Return identities that were claimed and not settled, with their notes: those of a page or two."""
        found: dict[bytes, bytes] = {}
        cursor: Any = b"0"
        while True:
            cursor, flat = self._call("HSCAN", self._moving, cursor, "COUNT", PAGE)
            found |= zip(flat[::2], flat[1::2], strict=True)
            if cursor == b"0":
                return [(identity.decode(), note) for identity, note in found.items()]

    @_reading
    def claim(self, entries: Sequence[SourceEntry], identities: Sequence[str], notes: Sequence[bytes]) -> list[Claim]:
        """Remove entries from their lists and note them as moving, each in one step."""
        if not entries:
            return []
        arguments: list[bytes | str] = []
        for entry, identity, note in zip(entries, identities, notes, strict=True):
            arguments += [entry.place, entry.member, identity, note]
        keys = [self._moving, self._moved, *(entry.key for entry in entries)]
        return [answer.decode() for answer in self._call("EVAL", _CLAIM, len(keys), *keys, *arguments)]

    def settle(self, identities: Sequence[str]) -> None:
        """Note claimed identities as moved."""
        if identities:
            self._call("EVAL", _SETTLE, 2, self._moving, self._moved, *identities)

    # Calls

    def _call(self, *command: Any) -> Any:
        [reply] = self._pipeline([command])
        return reply

    def _pipeline(self, commands: Sequence[CommandArgs], *, may_be_wrong_type: bool = False) -> list[Any]:
        if not commands:
            return []
        if self._connection is None:
            raise EngineUnavailable(f"There is no connection to {self}.")
        replies = self._connection.pipeline(commands)
        for at, reply in enumerate(replies):
            if isinstance(reply, EngineReplyError):
                if not (may_be_wrong_type and reply.kind == "WRONGTYPE"):
                    raise EngineReplyError(str(reply), f"{self} refused {commands[at][0]!s}: ")
                replies[at] = None
        return replies


_COUNTED = ("set", "zset", "list")


def _bytes(reply: Any) -> bytes:
    if not isinstance(reply, bytes):
        raise TypeError(f"a member is {type(reply).__name__}, not a string")
    return reply


def _fields(flat: Any) -> dict[bytes, bytes]:
    return {_bytes(name): _bytes(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _decode(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"The source has a key that is not UTF-8: {key!r:.80}. Rename it, or move it away.") from error
