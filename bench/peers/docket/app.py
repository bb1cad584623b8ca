"""Docket, tuned: enough slots, a short check interval (the default of 250 ms makes it wait between batches), and
nothing kept of ended tasks. A task is a message in a stream, acknowledged when it has run."""

from contextlib import AsyncExitStack
from datetime import timedelta

from docket import Docket, Worker
from speaking import ROOMY_URL, AsyncPeer, main, ran

CHECK_EVERY = timedelta(milliseconds=5)


async def noop(number: int) -> None:
    ran(number)


class DocketPeer(AsyncPeer):
    docket: Docket
    worker: Worker

    async def open(self) -> None:
        docket = Docket(name="bench", url=ROOMY_URL, execution_ttl=timedelta(0))
        docket.register(noop)
        self.docket = await AsyncExitStack().enter_async_context(docket)

    async def send(self, number: int) -> object:
        return await self.docket.add(noop)(number)

    async def send_many(self, numbers: range) -> object:
        # A separate call per job, because the call creates the key of the job.
        return await self.docket.add_many(self.docket.call(noop)(number) for number in numbers)

    async def prepare(self, slots: int, is_threaded: bool) -> None:
        await self.open()
        self.worker = Worker(
            self.docket,
            concurrency=slots,
            minimum_check_interval=CHECK_EVERY,
            scheduling_resolution=CHECK_EVERY,
            schedule_automatic_tasks=False,
        )

    async def work(self) -> None:
        async with self.worker:
            await self.worker.run_forever()


if __name__ == "__main__":
    main(DocketPeer())
