"""SAQ. A taken job moves to a list of active jobs. A sweep aborts jobs that stay there, or runs them again if they have
retries (none by default)."""

from redis.asyncio import Redis
from saq import Worker
from saq.queue.redis import RedisQueue
from speaking import ROOMY_URL, TASKS, AsyncPeer, main, ran


async def noop(_context: object, *, number: int) -> None:
    ran(number)


def noop_in_thread(_context: object, *, number: int) -> None:
    ran(number)


class Saq(AsyncPeer):
    queue: RedisQueue
    worker: Worker

    async def open(self) -> None:
        # SAQ's own from_url does not support unix sockets. Its default of 20 concurrent operations slows producers.
        self.queue = RedisQueue(Redis.from_url(ROOMY_URL), max_concurrent_ops=TASKS)
        await self.queue.version()  # connects

    async def send(self, number: int) -> object:
        return await self.queue.enqueue("noop", number=number, ttl=-1)  # ended jobs are not kept

    async def prepare(self, slots: int, is_threaded: bool) -> None:
        await self.open()
        function = noop_in_thread if is_threaded else noop
        self.worker = Worker(self.queue, functions=[("noop", function)], concurrency=slots)

    async def work(self) -> None:
        await self.worker.start()


if __name__ == "__main__":
    main(Saq())
