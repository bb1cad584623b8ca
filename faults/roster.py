"""Which clients load which topology, and with what words. What they need in the engine is `load/scene.py`'s."""

from __future__ import annotations

from typing import NamedTuple

SHARED = "plain,limited"
# The queue `ordered` has one producer and one taker that gives nothing back; `ticking` is filled by a schedule.
ORDERED = ("--queues", "ordered", "--slots", "1", "--most", "1", "--steady")

SHORT = ("--lease-ms", "1000")  # what is abandoned comes back soon
PACE = ("--pause-s", "0.08")  # the faults are the point: whoever is killed must come back before long


class Client(NamedTuple):
    kind: str
    words: tuple[str, ...] = ()


def _producers(callback: str) -> dict[str, Client]:
    told = ("--callback", callback, *PACE)
    return {
        "producer-sdk": Client("producer-sdk", ("--queues", "plain", *told)),
        "producer-http": Client("producer-http", ("--queues", SHARED, *told)),
        "producer-bedrock": Client("producer-bedrock", PACE),
        "producer-ordered": Client("producer-sdk", ("--queues", "ordered", *PACE)),
        "canceller": Client("canceller", ("--queues", "plain")),
    }


def _others(callback_port: int) -> dict[str, Client]:
    return {
        "worker-sdk-1": Client("worker-sdk", ("--queues", f"{SHARED},ticking", "--slots", "4", *SHORT)),
        "worker-sdk-2": Client("worker-sdk", ("--queues", f"{SHARED},ticking", "--slots", "4", *SHORT)),
        "worker-http": Client("worker-http", ("--queues", SHARED, *SHORT)),
        "worker-bedrock": Client("worker-bedrock"),
        "worker-ordered": Client("worker-sdk", ORDERED),
        "receiver": Client("receiver", ("--port", str(callback_port))),
        "scheduler-watch": Client("scheduler-watch"),
    }


class Roster(NamedTuple):
    producers: dict[str, Client]
    others: dict[str, Client]

    @property
    def names(self) -> list[str]:
        return [*self.producers, *self.others]


def roster_of(topology: str, callback_port: int) -> Roster:
    callback = f"http://127.0.0.1:{callback_port}/done"
    return Roster(_producers(callback), _others(callback_port))
