"""Many connections to Bedrock's port: first idle ones, then, on a signal, more that wait for a job."""

import asyncio
import resource
import sys

import uvloop

AT_A_TIME = 200
WAIT = b"GetJob\nname: nothing\nConnection: wait\ntimeout: 600000\n\n"
SETTLE_S = 1.0


async def main(port: int, idle: int, waiting: int) -> None:
    loop, room = asyncio.get_running_loop(), asyncio.Semaphore(AT_A_TIME)
    kept: list[asyncio.StreamWriter] = []

    async def connect(request: bytes) -> None:
        async with room:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"Ping\n\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"200 ")
            writer.write(request)
            kept.append(writer)

    for count, request in ((idle, b""), (waiting, WAIT)):
        await asyncio.gather(*(connect(request) for _ in range(count)))
        await asyncio.sleep(SETTLE_S)
        print("ready", flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(main(*map(int, sys.argv[1:])))
