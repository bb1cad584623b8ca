"""Process that takes and finishes all queued jobs: `python -m bench.programs.drainer URL windlass|raw BATCH`."""

import json
import sys
from time import monotonic_ns
from typing import TypeAlias

import uvloop

from bench.engine import NAMESPACE, QUEUE
from windlass.core.operations import Finish, Take
from windlass.service import Service
from windlass.store.connection.connection import Connection
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

Drained: TypeAlias = tuple[int, int, list[bytes]]  # began_at_ns, ended_at_ns, delivered ids


async def drain(url: str, batch: int) -> Drained:
    async with Store(parse_url(url), namespace=NAMESPACE) as store:
        service = Service(store)
        request = Take(queues=(QUEUE,), most=batch)
        delivered: list[bytes] = []
        finishes: list[Finish] = []
        began_at_ns = monotonic_ns()
        while True:
            reply = await service.finish_and_take(finishes, [], request)
            assert not any(reply.finished), "a finish was refused"
            if not reply.taken.jobs:
                return began_at_ns, monotonic_ns(), delivered
            finishes = [Finish(job.id, job.lease_token) for job in reply.taken.jobs]
            delivered += [finish.id for finish in finishes]


async def drain_raw(url: str, batch: int) -> Drained:
    connection = await Connection.open(parse_url(url))
    delivered: list[bytes] = []
    began_at_ns = monotonic_ns()
    while found := await connection.call("ZPOPMIN", "q", batch):
        keys = found[::2]
        for key in keys:
            connection.call("GET", key)
        await [connection.call("DEL", key) for key in keys][-1]
        delivered += keys
    ended_at_ns = monotonic_ns()
    connection.close()
    await connection.wait_closed()
    return began_at_ns, ended_at_ns, delivered


def main() -> None:
    url, kind, batch = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.readline()
    began_at_ns, ended_at_ns, delivered = uvloop.run((drain if kind == "windlass" else drain_raw)(url, int(batch)))
    texts = [job_id.hex() for job_id in delivered]
    print(json.dumps({"began_at_ns": began_at_ns, "ended_at_ns": ended_at_ns, "delivered": texts}))


if __name__ == "__main__":
    main()
