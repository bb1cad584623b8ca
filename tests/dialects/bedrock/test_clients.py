"""Clients of the Bedrock port that disconnect, and many that wait, on a real engine."""

from __future__ import annotations

import asyncio
import contextlib
import sys

import pytest

from tests.dialects.bedrock.client import SocketClient, command, connect
from tests.support.namespace import send_command
from windlass.dialects.bedrock.verbs import QUEUE
from windlass.server import Server
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


async def state_of(client: SocketClient, number: int) -> str:
    return str((await client.call("QueryJob", jobID=number)).json["state"])


async def until_state(client: SocketClient, number: int, state: str) -> None:
    async with asyncio.timeout(20):
        while await state_of(client, number) != state:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def until_waits(store: Store, is_so: bool = True) -> None:
    """Wait until the engine has a taker that waits for a job."""
    async with asyncio.timeout(20):
        while bool(send_command(store, "EXISTS", f"{store.root(0)}:waiters:{QUEUE}")) is not is_so:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_waiting_client_that_is_gone_gets_no_job(running: Server, store: Store) -> None:
    async with connect(running.bedrock) as client:
        async with connect(running.bedrock) as waiting:
            await waiting.send(command("GetJob", name="foo", Connection="wait"))
            await until_waits(store)
            waiting.reset()
        await until_waits(store, is_so=False)
        await client.call("CreateJob", name="foo")
        assert await state_of(client, 1) == "QUEUED"
        assert (await client.call("GetJob", name="foo")).json["jobID"] == 1


@pytest.mark.parametrize("connection", ["forget", "keep"])
async def test_an_undelivered_job_does_not_count_as_delivered(running: Server, connection: str) -> None:
    """A job with retryAfter has ten deliveries."""
    async with connect(running.bedrock) as client:
        await client.call("CreateJob", name="foo", retryAfter="+1 HOUR")
        for _ in range(15):
            async with connect(running.bedrock) as gone:
                await gone.send(command("GetJob", name="foo", Connection=connection))
            await until_state(client, 1, "QUEUED")
        job = (await client.call("GetJob", name="foo", Connection="wait", timeout=20000)).json
        assert (job["jobID"], job["data"]) == (1, {})


async def test_a_half_closed_client_gets_its_answers(running: Server) -> None:
    """As `nc -N`: it shuts down its sending side after the last request."""
    for request, line in (
        (command("CreateJob", name="foo"), "200 OK"),
        (command("CreateJob", name="foo", unique="true"), "200 OK"),
        (command("QueryJob", jobID=1), "200 OK"),
        (command("Query", query="select * from jobs;"), "200 OK"),
        (command("GetJob", name="foo", Connection="wait"), "200 OK"),
        (command("GetJob", name="foo"), "404 No job found"),
        (command("GetJob", name="foo", Connection="wait", timeout=50), "303 Timeout"),
        (command("FinishJob", jobID=1), "200 OK"),
    ):
        async with connect(running.bedrock) as client:
            await client.send(request)
            client.writer.write_eof()
            assert (await client.answer()).line == line
            assert await client.read_to_end() == b""


async def test_a_half_closed_client_waits_for_its_job(running: Server, store: Store) -> None:
    async with connect(running.bedrock) as client, connect(running.bedrock) as waiting:
        await waiting.send(command("GetJob", name="foo", Connection="wait"))
        waiting.writer.write_eof()
        await until_waits(store)
        await client.call("CreateJob", name="foo")
        assert (await waiting.answer()).json["jobID"] == 1
        assert await waiting.read_to_end() == b""
        assert await state_of(client, 1) == "RUNNING"


async def test_a_job_for_a_vanished_client_goes_to_the_next(running: Server, store: Store) -> None:
    """The end of input of a closed connection looks like a half-close until the job is sent."""
    async with connect(running.bedrock) as client, connect(running.bedrock) as second:
        async with connect(running.bedrock) as vanished:
            await vanished.send(command("GetJob", name="foo", Connection="wait"))
        await until_waits(store)
        await client.call("CreateJob", name="foo", retryAfter="+1 HOUR")
        job = (await second.call("GetJob", name="foo", Connection="wait", timeout=20_000)).json
        assert (job["jobID"], job["data"]) == (1, {}), "no delivery is spent"


async def test_leases_end_with_their_connection_only_on_request(running: Server) -> None:
    async with connect(running.bedrock) as client:
        await client.call("CreateJobs", jobs='[{"name":"kept"},{"name":"bound"},{"name":"finished","repeat":"hourly"}]')
        async with connect(running.bedrock) as worker:
            assert (await worker.call("GetJob", name="kept")).json["jobID"] == 1
            assert (await worker.call("GetJob", name="bound", Lease="connection")).json["jobID"] == 2
            assert (await worker.call("GetJobs", name="fin*", numResults=5, Lease="connection")).status == 200
            assert (await worker.call("FinishJob", jobID=3, data='{"done":1}')).status == 200
            assert await state_of(client, 2) == "RUNNING"
        await until_state(client, 2, "QUEUED")
        assert await state_of(client, 1) == "RUNNING"
        assert (await client.call("QueryJob", jobID=3)).json["data"] == {"done": 1}


_TAKER = """
import socket, sys, time
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
client.sendall(b"GetJob\\nname: foo\\nLease: connection\\n\\n")
sys.stdout.buffer.write(client.recv(65536))
sys.stdout.flush()
time.sleep(600)
"""


async def test_the_job_of_a_killed_process_goes_to_the_next(running: Server) -> None:
    async with connect(running.bedrock) as client:
        await client.call("CreateJob", name="foo")
        port = running.bedrock.rpartition(":")[2]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-S", "-c", _TAKER, port, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        assert (await process.stdout.readline()).startswith(b"200 OK")
        assert await state_of(client, 1) == "RUNNING"
        process.kill()
        await process.wait()
        assert (await client.call("GetJob", name="foo", Connection="wait", timeout=20_000)).json["jobID"] == 1


async def test_each_of_many_waiting_clients_gets_one_job(running: Server) -> None:
    count = 100
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(running.bedrock)) for _ in range(count)]
        for client in clients:
            await client.send(command("GetJob", name="foo*", Connection="wait", timeout=20000))
        producer = await stack.enter_async_context(connect(running.bedrock))
        for number in range(count):
            await producer.call("CreateJob", name=f"foo{number}")
        answers = await asyncio.gather(*(client.answer() for client in clients))
    assert sorted(answer.json["jobID"] for answer in answers) == list(range(1, count + 1))
