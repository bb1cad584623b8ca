"""RQ with its SimpleWorker, which runs jobs in its own process, one at a time: a fork per job (the default) costs more.
A taken job is in a registry until it has ended."""

import logging

from redis import Redis
from rq import Queue, SimpleWorker
from speaking import URL, ThreadedPeer, main, ran

NOOP = "app.noop"
CHUNK = 1_000


def noop(number: int) -> None:
    ran(number)


class Rq(ThreadedPeer):
    def __init__(self) -> None:
        self._redis = Redis.from_url(URL)
        self._queue = Queue("bench", connection=self._redis)

    def send(self, number: int) -> object:
        return self._queue.enqueue(NOOP, number, result_ttl=0)  # results are not used

    def send_many(self, numbers: range) -> None:
        for start in range(0, len(numbers), CHUNK):
            part = numbers[start : start + CHUNK]
            self._queue.enqueue_many([Queue.prepare_data(NOOP, (number,), result_ttl=0) for number in part])

    def prepare(self, slots: int, is_threaded: bool) -> None:
        logging.disable(logging.WARNING)
        self._worker = SimpleWorker([self._queue], connection=self._redis)

    def work(self) -> None:
        self._worker.work(logging_level="ERROR")


if __name__ == "__main__":
    main(Rq())
