"""Huey. BRPOP removes a job from the engine before it runs, so a worker that dies loses the job."""

import logging

from huey import RedisHuey
from speaking import URL, ThreadedPeer, main, ran

THREADS = 16  # more threads make no-ops slower, because they share one interpreter

queue = RedisHuey("bench", url=URL, immediate=False, results=False)  # results are not used


@queue.task(name="noop")
def noop(number: int) -> None:
    ran(number)


class Huey(ThreadedPeer):
    def send(self, number: int) -> object:
        return noop(number)

    def prepare(self, slots: int, is_threaded: bool) -> None:
        logging.disable(logging.WARNING)
        queue.storage.conn.ping()
        workers = min(slots, THREADS)
        self._consumer = queue.create_consumer(workers=workers, periodic=False, check_worker_health=False)

    def work(self) -> None:
        self._consumer.run()


if __name__ == "__main__":
    main(Huey())
