"""Command line options of a load client."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .job_generator import JobMix
from .setup import PLAIN
from .worker import FINISH_ONLY, MIXED_ACTIONS, WorkerProfile


class Options(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    url: str = ""
    namespace: str = "wl"
    http: str = ""
    bedrock: str = ""
    history: Path
    client: str
    seed: int = 0
    seconds: float = 10.0
    mix: JobMix = JobMix()
    profile: WorkerProfile = WorkerProfile()
    durability: str = ""
    port: int = 0
    pause_s: float = 0.02
    patience_s: float = 5.0
    origin: str = ""  # URL of files to download
    type: str = "faults"  # of Jobber's jobs


def read_options(arguments: Sequence[str] | None, kinds: Sequence[str]) -> Options:
    given = _parser(kinds).parse_args(arguments)
    queues = tuple(given.queues.split(","))
    profile = WorkerProfile(
        queues=queues, slots=given.slots, most=given.most, lease_ms=given.lease_ms, work_ms=given.work_ms,
        actions=FINISH_ONLY if given.steady else MIXED_ACTIONS,
    )  # fmt: skip
    return Options(
        kind=given.kind, url=given.url, namespace=given.namespace, http=given.http, bedrock=given.bedrock,
        history=given.history, client=given.client or given.history.stem, seed=given.seed, seconds=given.seconds,
        mix=JobMix(queues=queues, callback=given.callback, most=given.most), profile=profile,
        durability=given.durability, port=given.port, pause_s=given.pause_s, patience_s=given.patience_s,
        origin=given.origin, type=given.type,
    )  # fmt: skip


def _parser(kinds: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m faults.load", description="Run one load client.")
    add = parser.add_argument
    add("kind", choices=sorted(kinds))
    add("--url", default="", help="URL of the engine")
    add("--namespace", default="wl")
    add("--http", default="", help="URL of a server")
    add("--bedrock", default="", help="host:port of a server")
    add("--history", type=Path, required=True, help="file to which the history is written")
    add("--client", default="", help="name of the client; default: the name of the file")
    add("--seed", type=int, default=0)
    add("--seconds", type=float, default=10.0)
    add("--queues", default=PLAIN, help="separated by commas")
    add("--callback", default="", help="URL of a receiver, for some of the jobs")
    add("--durability", default="", choices=("", "memory", "fsync", "replica"))
    add("--most", type=int, default=3, help="jobs at once")
    add("--slots", type=int, default=2)
    add("--lease-ms", type=int, default=2_000)
    add("--work-ms", type=int, default=20)
    add("--steady", action="store_true", help="only finish jobs")
    add("--port", type=int, default=0, help="to listen on, for clients that act as servers")
    add("--pause-s", type=float, default=0.02)
    add("--patience-s", type=float, default=5.0, help="with an engine that is away")
    add("--origin", default="", help="URL of a file to download")
    add("--type", default="faults", help="of Jobber's jobs")
    return parser
