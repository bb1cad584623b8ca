"""Names of the commands, and the roles that may use them."""

from __future__ import annotations

from typing import NamedTuple

from windlass.core.access.tokens import Role
from windlass.web.app.router import ADMINS, JOB_CONTROLLERS, JOB_READERS, PRODUCERS, READERS, WORKERS

QUEUE = "bedrock"  # of the commands that name no queue


class Verb(NamedTuple):
    name: str
    roles: frozenset[Role] | None  # None: no token needed
    gives_jobs: bool = False  # its reply hands out jobs
    is_dropped_on_disconnect: bool = False  # it only reads, and may take long


_VERBS = (
    Verb("Ping", None),
    Verb("Status", READERS),
    Verb("CreateJob", PRODUCERS),
    Verb("CreateJobs", PRODUCERS),
    Verb("GetJob", WORKERS, gives_jobs=True),
    Verb("GetJobs", WORKERS, gives_jobs=True),
    Verb("UpdateJob", WORKERS),
    Verb("FinishJob", WORKERS),
    Verb("RetryJob", WORKERS),
    Verb("FailJob", WORKERS),
    Verb("RequeueJobs", WORKERS),
    Verb("CancelJob", JOB_CONTROLLERS),
    Verb("DeleteJob", ADMINS),
    Verb("QueryJob", JOB_READERS),
    Verb("Query", READERS, is_dropped_on_disconnect=True),
)
VERBS = {verb.name.lower(): verb for verb in _VERBS}
# Commands of the current server that its document does not have.
UPSTREAM_VERBS = {
    verb.name.lower(): verb for verb in (Verb("CrashBedrockJob", ADMINS), Verb("ClearCrashedBedrockJobs", ADMINS))
}
