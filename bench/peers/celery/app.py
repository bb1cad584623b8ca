"""Celery. By default it acknowledges a job before it runs: who dies while it runs has lost it (acks_late is the other
way). Without results, events, gossip, mingle and heartbeats, which nobody asks for here."""

import logging

from celery import Celery
from speaking import SOCKET_PATH, ThreadedPeer, main, ran

app = Celery("bench", broker=f"redis+socket://{SOCKET_PATH}")
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=10,  # its default of 4 was no quicker in a single try
    broker_connection_retry_on_startup=True,
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,  # that is where the runner listens
)


@app.task(name="noop")
def noop(number: int) -> None:
    ran(number)


class CeleryPeer(ThreadedPeer):
    def send(self, number: int) -> object:
        return noop.delay(number)

    def prepare(self, slots: int, is_threaded: bool) -> None:
        logging.disable(logging.WARNING)
        # The default pool of processes would send each no-op through a pipe; 16 threads, as the others have.
        self._worker = app.Worker(
            pool="threads",
            concurrency=min(slots, 16),
            loglevel="ERROR",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            quiet=True,
        )

    def work(self) -> None:
        self._worker.start()


if __name__ == "__main__":
    main(CeleryPeer())
