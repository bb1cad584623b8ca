"""Names of the commands, and the roles that may use them."""

from __future__ import annotations

from typing import NamedTuple

from windlass.core.access.tokens import Role
from windlass.web.app.router import ADMIN, KNOWS, PRODUCES, READS, STEERS, WORKS

QUEUE = "bedrock"  # holds all jobs of this dialect


class Verb(NamedTuple):
    name: str
    roles: frozenset[Role] | None  # None: no token needed
    gives_jobs: bool = False  # its reply hands out jobs
    is_dropped_on_disconnect: bool = False  # it only reads, and may take long


_VERBS = (
    Verb("Ping", None),
    Verb("Status", READS),
    Verb("CreateJob", PRODUCES),
    Verb("CreateJobs", PRODUCES),
    Verb("GetJob", WORKS, gives_jobs=True),
    Verb("GetJobs", WORKS, gives_jobs=True),
    Verb("UpdateJob", WORKS),
    Verb("FinishJob", WORKS),
    Verb("RetryJob", WORKS),
    Verb("FailJob", WORKS),
    Verb("RequeueJobs", WORKS),
    Verb("CancelJob", STEERS),
    Verb("DeleteJob", ADMIN),
    Verb("QueryJob", KNOWS),
    Verb("Query", READS, is_dropped_on_disconnect=True),
)
VERBS = {verb.name.lower(): verb for verb in _VERBS}
