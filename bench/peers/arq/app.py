"""arq. Its worker polls: 10 ms here, because with its default of 500 ms a job of an idle queue waits that long. A job
is kept in the queue until it has run; who dies with it leaves it to be tried again after its lock of 5 minutes."""

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
            [func(noop, name="noop", keep_result=0)],  # no results are asked for
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
