"""What every facet of the service shares: the store, and the shapes of requests about many jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self, TypeAlias, TypeVar

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
R = TypeVar("R", LeaseRef, Finish, Fail, Update, Emit, Log, Edit)
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
        """The same, with upkeep of one partition only: what goes wrong in one stops nothing in another."""
        check_partition(partition)
        return type(self)(self.store, payload_max=self._payload_max, partitions=(partition,))

    @property
    def homes(self) -> Sequence[int]:
        """The partitions that upkeep is about. Known when the store is open."""
        return range(self.store.partitions) if self._partitions is None else self._partitions

    def _in_each(self, build: Callable[[int], Command[T]]) -> Flow[list[T]]:
        """Asks the partitions side by side."""
        return (yield [build(home) for home in self.homes])  # type: ignore[no-any-return]

    def _about_jobs(
        self, requests: Sequence[R], validate: Callable[[R], None], build: Builder[R, T]
    ) -> BatchOperation[T]:
        check_list("requests", requests)
        for request in requests:
            validate(request)
        return BatchOperation(
            self.store, lambda: split_by_partition(requests, lambda one: self.store.partition_of_job(one.id), build)
        )

    def _about_ids(self, ids: Sequence[bytes], build: Builder[bytes, T]) -> BatchOperation[T]:
        check_list("ids", ids)
        for job_id in ids:
            check_id("id", job_id)
        return BatchOperation(self.store, lambda: split_by_partition(ids, self.store.partition_of_job, build))


def send(call: Command[T]) -> Flow[T]:
    return (yield call)  # type: ignore[no-any-return]


def send_or_raise(call: Command[T | Refusal]) -> Flow[T]:
    """One call whose refusal is raised."""
    answer = yield call
    if isinstance(answer, Refusal):
        raise answer
    return answer  # type: ignore[no-any-return]
