"""Dramatiq. A taken job is in a separate list until it is acknowledged, after it ran. Jobs of dead workers are found by
random maintenance, in one of a thousand calls."""

import logging
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from speaking import URL, ThreadedPeer, main, ran

THREADS = 16  # more threads make no-ops slower, because they share one interpreter

broker = RedisBroker(url=URL)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="bench", max_retries=0)
def noop(number: int) -> None:
    ran(number)


class Dramatiq(ThreadedPeer):
    def send(self, number: int) -> object:
        return noop.send(number)

    def prepare(self, slots: int, is_threaded: bool) -> None:
        logging.disable(logging.WARNING)
        broker.client.ping()
        self._worker = dramatiq.Worker(broker, worker_threads=min(slots, THREADS))

    def work(self) -> None:
        self._worker.start()
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main(Dramatiq())
