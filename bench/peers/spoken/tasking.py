"""Common code of both taskiq brokers."""

from speaking import AsyncPeer, ran
from taskiq import AsyncBroker
from taskiq.api import run_receiver_task

THREADS = 16  # as for the threaded peers; other numbers were not tried


class Taskiq(AsyncPeer):
    def __init__(self, broker: AsyncBroker) -> None:
        self._broker = broker

        async def noop(number: int) -> None:
            ran(number)

        self._noop = broker.register_task(noop, task_name="noop")

    async def open(self) -> None:
        await self._broker.startup()

    async def send(self, number: int) -> object:
        return await self._noop.kiq(number)

    async def prepare(self, slots: int, is_threaded: bool) -> None:
        self._slots = slots
        if is_threaded:
            self._broker.local_task_registry.pop("noop", None)
            self._broker.register_task(ran, task_name="noop")
        await self._broker.startup()

    async def work(self) -> None:
        await run_receiver_task(
            self._broker,
            max_async_tasks=self._slots,
            max_prefetch=self._slots,  # fetch the next jobs while these run
            sync_workers=min(self._slots, THREADS),
            validate_params=False,
        )
