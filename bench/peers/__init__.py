"""Peers of the comparison: their names, the rows they support, and the fate of a job whose worker dies.

To add a peer: add a folder with `app.py`, which passes a peer to `speaking.main` (spoken/speaking.py describes the
protocol), and `requirements.txt` with every package pinned (`pip freeze` of a working environment, without addresses).
Add a line here, then run `make bench-setup` and `python -m bench --quick field`.
"""

from typing import NamedTuple

WINDLASS = "windlass"
BARE = "bare"  # the engine with raw commands: not a peer, but an upper bound


class Peer(NamedTuple):
    title: str
    kept: str  # fate of a job whose worker dies
    keeps_jobs: bool = True  # the engine has a job until its end is reported, so a killed worker loses none
    has_bulk: bool = False
    has_threads: bool = False  # runs several blocking functions at once in one process


PEERS = {
    WINDLASS: Peer("Windlass", "leased, runs again", has_bulk=True, has_threads=True),
    "celery": Peer("Celery", "lost: acknowledged before it runs (the default)", keeps_jobs=False, has_threads=True),
    "rq": Peer("RQ", "fails after its timeout; runs again if it has retries", has_bulk=True),
    "dramatiq": Peer("Dramatiq", "runs again after a minute, found by a random check", has_threads=True),
    "huey": Peer("Huey", "lost: removed from the queue before it runs", keeps_jobs=False, has_threads=True),
    "arq": Peer("arq", "runs again when its lock expires, after minutes"),
    "saq": Peer("SAQ", "aborted by a sweep; runs again if it has retries", has_threads=True),
    "taskiq_list": Peer(
        "taskiq, list", "lost: removed from the queue before it runs", keeps_jobs=False, has_threads=True
    ),
    "taskiq_stream": Peer("taskiq, stream", "runs again after 10 minutes", has_threads=True),
    "docket": Peer("Docket", "runs again after 5 minutes", has_bulk=True),
}
# Compared in durable steps only (bench/durable/).
STEP_PEERS = {"dbos": "DBOS"}
