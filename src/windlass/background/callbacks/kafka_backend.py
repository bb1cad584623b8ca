"""Kafka backend of callbacks, with the extra `windlass-queue[kafka]`. It imports the client at the first delivery."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from windlass.core.callbacks.callback import PendingCallback
from windlass.core.callbacks.signing import ID_HEADER

from .backend import Undeliverable, UnknownDestination

FLUSH_S = 5.0  # at shutdown
POLL_S = 0.1
REPORT_MS = 30_000  # the client's own retries end before the lease of the callback
_UNKNOWN = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")


class KafkaBackend:
    """Kafka backend. It writes to the callback's topic, to any partition, and waits for the delivery report. The client
    retries by itself as configured, so a failed report is final."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = {"message.timeout.ms": REPORT_MS} | dict(config)
        self._producer: Any = None
        self._polling: threading.Thread | None = None
        self._ends = threading.Event()

    async def deliver(self, pending: PendingCallback, body: bytes) -> None:
        producer = self._open_producer()
        loop = asyncio.get_running_loop()
        reported: asyncio.Future[Any] = loop.create_future()

        def report(error: Any, _message: Any) -> None:
            """Run in the polling thread."""
            loop.call_soon_threadsafe(_settle, reported, error)

        headers = [(ID_HEADER, pending.key.encode())]
        try:
            producer.produce(pending.callback.destination, value=body, headers=headers, on_delivery=report)
        except BufferError as error:
            raise Undeliverable("The Kafka client's queue is full.", is_silent=True) from error
        except Exception as error:  # KafkaException, which is not imported here; or an invalid topic name
            raise Undeliverable(f"The Kafka client refused the message: {error}", is_final=True) from error
        await _wait_for_report(reported, pending.callback.destination)

    def _open_producer(self) -> Any:
        if self._producer is None:
            try:
                from confluent_kafka import Producer
            except ImportError as error:
                raise Undeliverable(
                    "Callbacks to Kafka need `pip install 'windlass-queue[kafka]'` on the server."
                ) from error
            try:
                self._producer = Producer(self._config)
            except Exception as error:
                raise Undeliverable(f"The Kafka settings are invalid: {error}") from error
            self._polling = threading.Thread(target=self._poll, name="windlass-kafka", daemon=True)
            self._polling.start()
        return self._producer

    def _poll(self) -> None:
        while not self._ends.is_set():
            self._producer.poll(POLL_S)

    async def close(self) -> None:
        if self._polling is not None:
            await asyncio.to_thread(self._producer.flush, FLUSH_S)
            self._ends.set()
            await asyncio.to_thread(self._polling.join)


def _settle(reported: asyncio.Future[Any], error: Any) -> None:
    if not reported.done():
        reported.set_result(error)


async def _wait_for_report(reported: asyncio.Future[Any], topic: str) -> None:
    error = await reported
    if error is None:
        return
    message = f"Kafka could not deliver the message to topic {topic!r}: {error}"
    if error.name() in _UNKNOWN:
        raise UnknownDestination(message, is_final=True)
    raise Undeliverable(message, is_final=True)
