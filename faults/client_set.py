"""The clients that load a deployment, with their arguments. load/setup.py prepares the engine for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

SHARED = "plain,limited"
FLOWS = "flows"
JOBBER = "job_queue_faults"
SUPERVISED = "supervised"
# Jobs of other front ends are among these: workers of the engine and of the HTTP API run them, too.
CROSSING = "bedrock,lightjq"
TAKEN = f"{SHARED},{FLOWS},ticking,{JOBBER},{CROSSING}"
# The queue `ordered` has one producer and one taker that releases nothing; a schedule fills `ticking`.
ORDERED = ("--queues", "ordered", "--slots", "1", "--most", "1", "--steady")
SHORT_LEASE = ("--lease-ms", "1000")  # abandoned jobs return soon
PACE = ("--pause-s", "0.08")  # slow enough that a killed client returns in time
FLOW_PACE = ("--pause-s", "0.2")  # of flows with about 4 jobs each
SLOW_PACE = ("--pause-s", "0.3")
EXCLUDED_FROM_DRAIN = (
    "ordered",
    "downloads",
    "downloads-files",
    "durable",
    "durable-engine",
)  # their own clients drain these queues


# Clients that the previous version has, too, and that use only what both versions know.
CHANGEABLE = (
    "producer-sdk", "producer-http", "producer-ordered", "canceller", "worker-sdk", "worker-http", "worker-app",
    "worker-ordered",
)  # fmt: skip


WORKER_COMMAND = "worker-command"  # `windlass worker`
NEW_CLIENTS = ("producer-flows", "producer-durable", "worker-durable-1", "worker-durable-2", "worker-durable-3")


class Ports(NamedTuple):
    """Ports of clients that act as servers."""

    callback: int
    origin: int


class ClientSpec(NamedTuple):
    kind: str
    arguments: tuple[str, ...] = ()


class ClientSet(NamedTuple):
    producers: dict[str, ClientSpec]
    others: dict[str, ClientSpec]

    @property
    def names(self) -> list[str]:
        return [*self.producers, *self.others]


def quick_clients(ports: Ports) -> ClientSet:
    """Return clients of the engine itself, the HTTP API, Bedrock and LightJQ, for a short run."""
    with_callback = ("--callback", f"http://127.0.0.1:{ports.callback}/done", *PACE)
    producers = {
        "producer-sdk": ClientSpec("producer-sdk", ("--queues", "plain", *with_callback)),
        "producer-http": ClientSpec("producer-http", ("--queues", SHARED, *with_callback)),
        "producer-bedrock": ClientSpec("producer-bedrock", PACE),
        "producer-lightjq": ClientSpec("producer-lightjq", PACE),
        "producer-ordered": ClientSpec("producer-sdk", ("--queues", "ordered", *PACE)),
        "producer-flows": ClientSpec("producer-flows", ("--queues", FLOWS, *FLOW_PACE)),
        "producer-durable": ClientSpec("producer-durable", FLOW_PACE),
        "canceller": ClientSpec("canceller", ("--queues", "plain")),
    }
    others = {
        "worker-sdk": ClientSpec("worker-sdk", ("--queues", TAKEN, "--slots", "4", *SHORT_LEASE)),
        "worker-app": ClientSpec("worker-app", ("--queues", f"{SUPERVISED},plain,{FLOWS}", "--slots", "4")),
        "worker-durable-1": ClientSpec("worker-durable", ("--slots", "6")),
        "worker-durable-2": ClientSpec("worker-durable", ("--slots", "6")),
        "worker-durable-3": ClientSpec("worker-durable-engine", ("--slots", "4")),
        "worker-http": ClientSpec("worker-http", ("--queues", f"{SHARED},{FLOWS},bedrock", *SHORT_LEASE)),
        "worker-bedrock": ClientSpec("worker-bedrock"),
        "worker-push": ClientSpec("worker-push"),
        "worker-ordered": ClientSpec("worker-sdk", ORDERED),
        "receiver": ClientSpec("receiver", ("--port", str(ports.callback))),
        "scheduler-watch": ClientSpec("scheduler-watch"),
        "state-watch": ClientSpec("state-watch"),
    }
    return ClientSet(producers, others)


def all_clients(ports: Ports) -> ClientSet:
    """Return clients of every front end."""
    producers, others = quick_clients(ports)
    origin = ("--origin", f"http://127.0.0.1:{ports.origin}/file.txt")
    callback = ("--callback", f"http://127.0.0.1:{ports.callback}/done")
    return ClientSet(
        producers
        | {
            "producer-jobber": ClientSpec("producer-jobber", SLOW_PACE),
            "producer-downloader": ClientSpec("producer-downloader", (*origin, *callback, *SLOW_PACE)),
            "producer-processor": ClientSpec("producer-processor", SLOW_PACE),
        },
        others | {"origin": ClientSpec("origin", ("--port", str(ports.origin)))},
    )


def slow_down(clients: ClientSet, factor: float) -> ClientSet:
    """Return the clients with longer pauses of the producers."""
    return clients._replace(producers={name: _slow_down(client, factor) for name, client in clients.producers.items()})


def _slow_down(client: ClientSpec, factor: float) -> ClientSpec:
    words = list(client.arguments)
    if "--pause-s" in words:
        at = words.index("--pause-s") + 1
        words[at] = f"{float(words[at]) * factor:g}"
    return client._replace(arguments=tuple(words))


def fault_clients(ports: Ports) -> ClientSet:
    """Return clients of every front end, and a worker under its parent, whose process can be killed alone."""
    producers, others = all_clients(ports)
    return ClientSet(
        producers | {"producer-supervised": ClientSpec("producer-sdk", ("--queues", SUPERVISED, "--pause-s", "0.15"))},
        others | {"worker-process": ClientSpec(WORKER_COMMAND, ("-q", SUPERVISED, "-c", "6"))},
    )


def clients_of_two_versions(ports: Ports) -> ClientSet:
    """Return clients of what both versions know: without flows and durable jobs."""
    producers, others = all_clients(ports)
    return ClientSet(
        {name: client for name, client in producers.items() if name not in NEW_CLIENTS},
        {name: client for name, client in others.items() if name not in NEW_CLIENTS},
    )


def clients_for(topology: str) -> Callable[[Ports], ClientSet]:
    return clients_of_two_versions if topology == "versions" else fault_clients
