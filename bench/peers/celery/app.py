"""Celery. By default it acknowledges a job before it runs, so a worker that dies loses the job (acks_late changes
this). Results, events, gossip, mingle and heartbeats are off, because the benchmark does not use them."""

import logging

from celery import Celery
from speaking import SOCKET_PATH, ThreadedPeer, main, ran

app = Celery("bench", broker=f"redis+socket://{SOCKET_PATH}")
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=10,  # the default of 4 was not faster in a single trial
    broker_connection_retry_on_startup=True,
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,  # the runner reads stdout
)


@app.task(name="noop")
def noop(number: int) -> None:
    ran(number)


class CeleryPeer(ThreadedPeer):
    def send(self, number: int) -> object:
        return noop.delay(number)

    def prepare(self, slots: int, is_threaded: bool) -> None:
        logging.disable(logging.WARNING)
        # The default pool of processes sends each no-op through a pipe. 16 threads, as for the other peers.
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
