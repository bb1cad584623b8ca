"""Commands as data: the arguments of an engine operation and the parser of its reply. Batch commands can be joined."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Generic, TypeAlias, TypeVar

from windlass.core.errors import REFUSALS, AlreadyEnded, Refusal, refusal
from windlass.core.job import Durability
from windlass.store.connection.connection import pack

T = TypeVar("T")
Argument: TypeAlias = bytes | str | int
ITEMS_MAX = 1000  # per command: beyond a few thousand Lua's stack overflows, and other callers wait too long
BYTES_MAX = 4 * 1024 * 1024
_CODES = {code.encode(): code for code in REFUSALS}


class Command(Generic[T]):
    """One command for one partition."""

    __slots__ = ("_args", "durability", "operation", "partition", "read")
    reserves_numbers = False

    def __init__(
        self,
        operation: str,
        args: Sequence[Argument],
        read: Callable[[Any], T],
        *,
        partition: int = 0,
        durability: Durability | None = None,
    ) -> None:
        self.operation = operation
        self._args = args
        self.read = read
        self.partition = partition
        self.durability = durability

    @property
    def args(self) -> Sequence[Argument]:
        return self._args

    def parse(self, reply: Any) -> T:
        return self.read(reply)

    def encode(self, prefix: tuple[Argument, ...]) -> bytes:
        """Return the bytes to send. `prefix` holds the words before the arguments."""
        return pack((*prefix, *self.args))


class BatchCommand(Generic[T]):
    """Command about many items, with one answer per item. Concurrent commands with the same head share a call."""

    __slots__ = (
        "_size",
        "durability",
        "head",
        "is_whole",
        "items",
        "operation",
        "partition",
        "read",
        "reserves_numbers",
    )

    def __init__(
        self,
        operation: str,
        head: tuple[Argument, ...],
        items: Sequence[tuple[Argument, ...]],
        read: Callable[[Any], T],
        *,
        partition: int = 0,
        durability: Durability | None = None,
        is_whole: bool = False,  # its items must not be divided
        reserves_numbers: bool = False,  # for its jobs: it is sent with a request id
        size: int = -1,  # bytes of all items, if they were counted already
    ) -> None:
        self.operation = operation
        self.head = head
        self.is_whole = is_whole
        self.reserves_numbers = reserves_numbers
        self.items = items
        self.read = read
        self.partition = partition
        self.durability = durability
        self._size = size

    @property
    def size(self) -> int:
        """Bytes of all items."""
        if self._size < 0:
            self._size = sum([size_of(item) for item in self.items])
        return self._size

    @property
    def args(self) -> Sequence[Argument]:
        return [*self.head, *chain.from_iterable(self.items)]

    def encode(self, prefix: tuple[Argument, ...]) -> bytes:
        return pack((*prefix, *self.args))

    def parse(self, reply: Any) -> list[T]:
        read = self.read
        return [read(answer) for answer in reply]


@lru_cache(1024)
def encode_words(words: tuple[Argument, ...]) -> bytes:
    """Return the bytes of words without their count. Cached, for words that repeat."""
    return pack(words).partition(b"\r\n")[2]


class DependencyIds(bytes):
    """Ids of other jobs that the engine must look up. They count for more than their bytes."""

    __slots__ = ()


_WEIGHT = 64  # four jobs that wait for a thousand others fill a command


def size_of(item: tuple[Argument, ...]) -> int:
    size = 0
    for part in item:
        if type(part) is bytes:
            size += len(part)
        elif type(part) is DependencyIds:
            size += len(part) * _WEIGHT
    return size


def split_batch(call: BatchCommand[T]) -> list[BatchCommand[T]]:
    """Return the same items in as many commands as their number and bytes require."""
    if call.is_whole or (len(call.items) <= ITEMS_MAX and call.size <= BYTES_MAX):
        return [call]
    parts: list[list[tuple[Argument, ...]]] = [[]]
    bytes_so_far = 0
    for item in call.items:
        size = size_of(item)
        if parts[-1] and (len(parts[-1]) == ITEMS_MAX or bytes_so_far + size > BYTES_MAX):
            parts.append([])
            bytes_so_far = 0
        parts[-1].append(item)
        bytes_so_far += size
    return [
        BatchCommand(
            call.operation,
            call.head,
            items,
            call.read,
            partition=call.partition,
            durability=call.durability,
            reserves_numbers=call.reserves_numbers,
        )
        for items in parts
    ]


class NotConfirmed:
    """Reply about an item whose durability was not reached in time."""

    __slots__ = ("answer",)

    def __init__(self, answer: Any) -> None:
        self.answer = answer


class EngineTime:
    """Effect that reads the engine's time in milliseconds."""


class MigratingPartitions:
    """Effect that lists the partitions whose slots are migrating key by key."""


class NodeCommand:
    """Effect that sends a plain command such as INFO to a node. A refusal (a provider may forbid CONFIG) is a value."""

    __slots__ = ("command", "partition")

    def __init__(self, command: tuple[str, ...], partition: int) -> None:
        self.command = command
        self.partition = partition  # whose node receives it


Effect: TypeAlias = (
    Command[Any] | BatchCommand[Any] | EngineTime | MigratingPartitions | NodeCommand | list[Any]
)  # a list: concurrent effects
Flow: TypeAlias = Generator[Effect, Any, T]


def parse_reply(reply: Any, read: Callable[[Any], T]) -> T | Refusal:
    """Return the value of a reply, or the refusal whose code it is."""
    if isinstance(reply, bytes) and reply in _CODES:
        return refusal(_CODES[reply])
    return read(reply)


def parse_read_reply(reply: Any, read: Callable[[Any], T]) -> T | Refusal:
    """Parse the reply of a read: the refusal for an ended job says that nothing of it is kept."""
    answered = parse_reply(reply, read)
    return AlreadyEnded(AlreadyEnded.unkept) if isinstance(answered, AlreadyEnded) else answered


def reply_parser(read: Callable[[Any], T]) -> Callable[[Any], T | Refusal]:
    return lambda reply: parse_reply(reply, read)


def ignore_reply(_reply: Any) -> None:
    return None


def decode_text(reply: Any) -> str:
    return str(reply, "ascii")
