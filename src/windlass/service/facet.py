"""Base class of the service's facets, and helpers for operations on many jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self, TypeAlias, TypeVar

from windlass.core.durable import ReceiveSignal, Rewind, Signal, StoreStep, StreamWrite, Suspend
from windlass.core.errors import Refusal
from windlass.core.event import Emit
from windlass.core.log import Log
from windlass.core.operations import Edit, Fail, Finish, LeaseRef, Update
from windlass.core.validation.bounds import PAYLOAD_MAX
from windlass.core.validation.values import check_id, check_list, check_partition
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands.command import BatchCommand, Command, Flow
from windlass.store.operation import BatchOperation
from windlass.store.store import Store

T = TypeVar("T")
R = TypeVar(
    "R",
    LeaseRef,
    Finish,
    Fail,
    Update,
    Emit,
    Log,
    Edit,
    StoreStep,
    Suspend,
    ReceiveSignal,
    Signal,
    Rewind,
    StreamWrite,
)
S = TypeVar("S")
Builder: TypeAlias = Callable[[Sequence[S], int], BatchCommand[T | Refusal]]


class Facet:
    def __init__(
        self, store: Store, *, payload_max: int = PAYLOAD_MAX, partitions: Sequence[int] | None = None
    ) -> None:
        self.store = store
        self._payload_max = payload_max
        self._partitions = partitions

    def within(self, partition: int) -> Self:
        """Return this service with maintenance limited to one partition, so that errors in one partition do not stop
        the maintenance of others."""
        check_partition(partition)
        return type(self)(self.store, payload_max=self._payload_max, partitions=(partition,))

    @property
    def partition_scope(self) -> Sequence[int]:
        """Return the partitions that maintenance covers. They are known once the store is open."""
        return range(self.store.partitions) if self._partitions is None else self._partitions

    def _send_to_each(self, build: Callable[[int], Command[T]]) -> Flow[list[T]]:
        """Send one command to each partition, in parallel."""
        return (yield [build(partition) for partition in self.partition_scope])  # type: ignore[no-any-return]

    def _batch_of_jobs(
        self, requests: Sequence[R], validate: Callable[[R], None], build: Builder[R, T]
    ) -> BatchOperation[T]:
        check_list("requests", requests)
        for request in requests:
            validate(request)
        return BatchOperation(
            self.store,
            lambda: split_by_partition(requests, lambda request: self.store.partition_of_job(request.id), build),
        )

    def _batch_of_ids(self, ids: Sequence[bytes], build: Builder[bytes, T]) -> BatchOperation[T]:
        check_list("ids", ids)
        for job_id in ids:
            check_id("id", job_id)
        return BatchOperation(self.store, lambda: split_by_partition(ids, self.store.partition_of_job, build))


def send(command: Command[T]) -> Flow[T]:
    return (yield command)  # type: ignore[no-any-return]


def send_or_raise(command: Command[T | Refusal]) -> Flow[T]:
    """Send one command and raise its refusal."""
    answer = yield command
    if isinstance(answer, Refusal):
        raise answer
    return answer  # type: ignore[no-any-return]
