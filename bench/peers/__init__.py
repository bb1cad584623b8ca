"""The peers of the comparison: how each is called, whether it can do a row, and what its figures mean.

To add one: a folder with `app.py`, which gives `speaking.main` a peer (spoken/speaking.py has the protocol), and
`requirements.txt` with every package pinned (`pip freeze` of an environment that works, without addresses), a line
here, then `make bench-setup` and `python -m bench --quick field`.
"""

from typing import NamedTuple

WINDLASS = "windlass"
BARE = "bare"  # the engine with raw commands: no peer, but a limit


class Peer(NamedTuple):
    title: str
    kept: str  # what becomes of a job whose worker dies
    has_bulk: bool = False
    has_threads: bool = False  # runs functions that block, several at once in one process


PEERS = {
    WINDLASS: Peer("Windlass", "leased, runs again", has_bulk=True, has_threads=True),
    "celery": Peer("Celery", "lost: acknowledged before it runs (the default)", has_threads=True),
    "rq": Peer("RQ", "fails when its time is over; runs again where it has retries", has_bulk=True),
    "dramatiq": Peer("Dramatiq", "runs again after a minute, found by chance", has_threads=True),
    "huey": Peer("Huey", "lost: taken off before it runs", has_threads=True),
    "arq": Peer("arq", "runs again when its lock of minutes ends"),
    "saq": Peer("SAQ", "aborted by a sweep; runs again where it has retries", has_threads=True),
    "taskiq_list": Peer("taskiq, list", "lost: taken off before it runs", has_threads=True),
    "taskiq_stream": Peer("taskiq, stream", "runs again after 10 minutes", has_threads=True),
    "docket": Peer("Docket", "runs again after 5 minutes", has_bulk=True),
}
