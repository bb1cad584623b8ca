"""Which clients load a deployment, and with what words. What they need in the engine is `load/scene.py`'s."""

from __future__ import annotations

from typing import NamedTuple

SHARED = "plain,limited"
JOBBER = "job_queue_faults"
TAKEN = f"{SHARED},ticking,{JOBBER}"
# The queue `ordered` has one producer and one taker that gives nothing back; `ticking` is filled by a schedule.
ORDERED = ("--queues", "ordered", "--slots", "1", "--most", "1", "--steady")
SHORT = ("--lease-ms", "1000")  # what is abandoned comes back soon
PACE = ("--pause-s", "0.08")  # the faults are the point: whoever is killed must come back before long
SLOW_PACE = ("--pause-s", "0.3")
SPARED = ("ordered", "downloads", "downloads-files")  # by whoever works off what is left: others do it


class Ports(NamedTuple):
    """Of clients that others call."""

    callback: int
    origin: int


class Client(NamedTuple):
    kind: str
    words: tuple[str, ...] = ()


class Roster(NamedTuple):
    producers: dict[str, Client]
    others: dict[str, Client]

    @property
    def names(self) -> list[str]:
        return [*self.producers, *self.others]


def few(ports: Ports) -> Roster:
    """The engine itself, the HTTP API, Bedrock and LightJQ; for a short run."""
    told = ("--callback", f"http://127.0.0.1:{ports.callback}/done", *PACE)
    producers = {
        "producer-sdk": Client("producer-sdk", ("--queues", "plain", *told)),
        "producer-http": Client("producer-http", ("--queues", SHARED, *told)),
        "producer-bedrock": Client("producer-bedrock", PACE),
        "producer-lightjq": Client("producer-lightjq", PACE),
        "producer-ordered": Client("producer-sdk", ("--queues", "ordered", *PACE)),
        "canceller": Client("canceller", ("--queues", "plain")),
    }
    others = {
        "worker-sdk": Client("worker-sdk", ("--queues", TAKEN, "--slots", "4", *SHORT)),
        "worker-app": Client("worker-app", ("--queues", "plain", "--slots", "4")),
        "worker-http": Client("worker-http", ("--queues", SHARED, *SHORT)),
        "worker-bedrock": Client("worker-bedrock"),
        "worker-push": Client("worker-push"),
        "worker-ordered": Client("worker-sdk", ORDERED),
        "receiver": Client("receiver", ("--port", str(ports.callback))),
        "scheduler-watch": Client("scheduler-watch"),
    }
    return Roster(producers, others)


def everybody(ports: Ports) -> Roster:
    """Every front end there is."""
    producers, others = few(ports)
    origin = ("--origin", f"http://127.0.0.1:{ports.origin}/file.txt")
    told = ("--callback", f"http://127.0.0.1:{ports.callback}/done")
    return Roster(
        producers
        | {
            "producer-jobber": Client("producer-jobber", SLOW_PACE),
            "producer-downloader": Client("producer-downloader", (*origin, *told, *SLOW_PACE)),
            "producer-processor": Client("producer-processor", SLOW_PACE),
        },
        others | {"origin": Client("origin", ("--port", str(ports.origin)))},
    )
