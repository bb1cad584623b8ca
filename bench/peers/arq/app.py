"""arq. Its worker polls, every 10 ms here: with the default of 500 ms a job in an idle queue waits that long. A job
stays in the queue until it has run. If its worker dies, it is tried again after its lock of 5 minutes."""

from arq import Worker, create_pool, func
from arq.connections import ArqRedis, RedisSettings
from speaking import URL, AsyncPeer, main, ran

SETTINGS = RedisSettings.from_dsn(URL)
POLL_S = 0.01


async def noop(_context: dict[str, object], number: int) -> None:
    ran(number)


class Arq(AsyncPeer):
    pool: ArqRedis
    worker: Worker

    async def open(self) -> None:
        self.pool = await create_pool(SETTINGS)

    async def send(self, number: int) -> object:
        return await self.pool.enqueue_job("noop", number)

    async def prepare(self, slots: int, is_threaded: bool) -> None:
        await self.open()
        self.worker = Worker(
            [func(noop, name="noop", keep_result=0)],  # results are not used
            redis_pool=self.pool,
            max_jobs=slots,
            poll_delay=POLL_S,
            keep_result=0,
            handle_signals=False,
            log_results=False,
        )

    async def work(self) -> None:
        await self.worker.async_run()


if __name__ == "__main__":
    main(Arq())
