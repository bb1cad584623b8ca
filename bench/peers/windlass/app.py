"""Windlass through its SDK, as users run it: single calls block, concurrent calls are asyncio tasks. A job is leased
while it runs and reported afterwards. If its worker dies, it runs again."""

import sys

from speaking import URL, AsyncPeer, ThreadedPeer, main, ran

from windlass import Windlass, Worker

app = Windlass(url=URL)


async def in_loop(number: int) -> None:
    ran(number)


def in_thread(number: int) -> None:
    ran(number)


noop = app.task(queue="bench", name="noop")(in_thread if "threads" in sys.argv else in_loop)


class Blocking(ThreadedPeer):
    def send(self, number: int) -> object:
        return noop.enqueue(number)

    def send_many(self, numbers: range) -> object:
        return app.enqueue_many(noop.call(number) for number in numbers)


class Concurrent(AsyncPeer):
    async def send(self, number: int) -> object:
        return await noop.aenqueue(number)

    async def prepare(self, slots: int, is_threaded: bool) -> None:
        service = await app.aservice()
        await service.stats(["bench"])
        self._worker = Worker(app, queues=["bench"], concurrency=slots)

    async def work(self) -> None:
        await self._worker.run()


if __name__ == "__main__":
    main(Concurrent(), one=Blocking())
