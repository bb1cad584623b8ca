"""Callbacks to Kafka, against the test broker of librdkafka: real messages over local sockets, but not Kafka's own
broker."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from windlass.background.callbacks.kafka_backend import KafkaBackend
from windlass.background.callbacks.notifier import Notifier
from windlass.core.callbacks.callback import PendingCallback
from windlass.core.callbacks.kafka_config import parse_kafka_config
from windlass.core.errors import BadInput
from windlass.core.job import Callback, NewJob
from windlass.core.operations import Finish, Take
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
BROKER = {"test.mock.num.brokers": 1, "bootstrap.servers": "127.0.0.1:1", "linger.ms": 0}


@pytest.fixture
async def opened(service: Service, store: Store) -> AsyncIterator[Service]:
    async with store, asyncio.timeout(60):
        yield service


@pytest.fixture
async def kafka() -> AsyncIterator[KafkaBackend]:
    backend = KafkaBackend(BROKER)
    yield backend
    await backend.close()


async def ended(service: Service, topic: str, *names: str) -> None:
    callback = Callback(type="kafka", destination=topic)
    await service.enqueue([NewJob(queue="q", name=name, callback=callback) for name in names])
    jobs = (await service.take(Take(queues=("q",), most=len(names)))).jobs
    await service.finish([Finish(job.id, job.lease_token) for job in jobs])


def _read(metadata: Any, topic: str, count: int) -> list[Any]:
    (broker,) = metadata.brokers.values()
    consumer = Consumer({"bootstrap.servers": f"{broker.host}:{broker.port}", "group.id": "g"})
    try:
        partitions = metadata.topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        found: list[Any] = []
        while len(found) < count:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                found.append(message)
        return found
    finally:
        consumer.close()


async def test_messages_arrive_with_the_body_of_the_queue(opened: Service, kafka: KafkaBackend) -> None:
    one = Notifier({"kafka": kafka}, bodies={"q": lambda pending: pending.job.name.encode()})
    await ended(opened, "ends", "a", "b", "c")
    assert await one.deliver_once(opened) == 3
    assert (await opened.callbacks()).callbacks == []
    assert one.counters()["successfulCallbacks"] == 3
    metadata = await asyncio.to_thread(kafka._producer.list_topics, timeout=10)
    messages = await asyncio.to_thread(_read, metadata, "ends", 3)
    assert sorted(message.value() for message in messages) == [b"a", b"b", b"c"]
    assert all(dict(message.headers())["Windlass-Callback-Id"] for message in messages)


async def _given_up(service: Service, one: Notifier) -> PendingCallback:
    await one.deliver_once(service)
    (pending,) = (await service.callbacks(given_up=True)).callbacks
    return pending


async def test_a_failed_report_is_final(opened: Service) -> None:
    """No broker answers at this address: the client gives up after its own time, and so do we."""
    backend = KafkaBackend({"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 100, "log_level": 0})
    try:
        one = Notifier({"kafka": backend})
        await ended(opened, "ends", "a")
        pending = await _given_up(opened, one)
        assert pending.attempt == 1
        assert "could not deliver the message to topic 'ends'" in pending.error
        assert one.counters()["failedCallbacks"] == 1
    finally:
        await backend.close()


async def test_an_unknown_topic_is_counted(opened: Service) -> None:
    backend = KafkaBackend(BROKER | {"allow.auto.create.topics": False, "topic.metadata.propagation.max.ms": 0})
    try:
        one = Notifier({"kafka": backend})
        await ended(opened, "no such topic", "a")
        pending = await _given_up(opened, one)
        assert "no such topic" in pending.error
        assert one.counters()["unknownTopicOrPartition"] == 1
    finally:
        await backend.close()


async def test_without_the_extra_it_is_a_failed_attempt(opened: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def importing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "confluent_kafka":
            raise ImportError(name)
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", importing)
    await ended(opened, "ends", "a")
    await Notifier({"kafka": KafkaBackend({})}).deliver_once(opened)
    (pending,) = (await opened.callbacks()).callbacks
    assert "pip install 'windlass-queue[kafka]'" in pending.error


async def test_settings_that_the_client_refuses(opened: Service) -> None:
    await ended(opened, "ends", "a")
    await Notifier({"kafka": KafkaBackend({"no.such.setting": "1"})}).deliver_once(opened)
    (pending,) = (await opened.callbacks()).callbacks
    assert "no.such.setting" in pending.error


async def test_settings_as_they_are_written(opened: Service) -> None:
    assert parse_kafka_config("") == {}
    assert parse_kafka_config("bootstrap.servers=a:1,b:2; sasl.password=x=y;") == {
        "bootstrap.servers": "a:1,b:2",
        "sasl.password": "x=y",
    }
    for text in ("bootstrap.servers", "=x", "a=b;c"):
        with pytest.raises(BadInput):
            parse_kafka_config(text)
