"""Parameters of CreateJob and CreateJobs, with the checks that need no other job."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import msgspec

from windlass.core.job import Blob, Job, NewJob
from windlass.core.job_template import JobTemplate, PreparedJob
from windlass.core.retry import ENDLESS, Backoff
from windlass.core.validation.bounds import UNIQUE_MAX
from windlass.dialects.bedrock import data, timeouts
from windlass.dialects.bedrock.parameters import MALFORMED_REPEAT, Parameters, is_rule
from windlass.dialects.bedrock.queues import read_new_queue
from windlass.dialects.bedrock.record import DEFAULT_PRIORITY
from windlass.dialects.bedrock.refusals import CommandRefused
from windlass.dialects.bedrock.rules import DOCUMENT, Rules
from windlass.dialects.bedrock.verbs import QUEUE

from .job_object import read_object

JOBS_MAX = 1_000
TEMPLATES_CACHED = 1_024
DELIVERIES_MAX = 10  # of a job with retryAfter
_decode_jobs = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
# A job without these needs no checks of them.
_UNCOMMON_PARAMETERS = frozenset(
    {"retryafter", "jobtimeout", "repeat", "unique", "firstrun", "parentjobid", "queue", "rerunifdatachanged"}
)
_INVALID_JSON = (401, "Invalid JSON")


class CreateParameters(msgspec.Struct):
    """Parameters of a single job, which is created or found by its name.

    They are read once. The decisions on the job are stored beside them, in a copy for each attempt."""

    given: Parameters
    name: str
    priority: int | None
    data: bytes  # without the keys that the server adds
    is_mocked_in_data: bool  # its data has the key mockRequest
    queue: str = QUEUE
    retry_after: str = ""
    job_timeout: str = ""
    run_at_ms: int = 0
    parent_number: int = 0
    is_unique: bool = False
    repeat: str = ""
    is_repeat_malformed: bool = False  # refused later: Bedrock first checks the parent and the unique name
    # Decisions.
    parent: bytes = b""
    parent_has_parent: bool = False
    is_mocked: bool = False
    index: int = 0  # among the new jobs

    @property
    def key(self) -> str:
        return unique_key(self.name, self.is_mocked)

    @property
    def place(self) -> tuple[str, str]:
        """Queue and unique key. At most one job with `unique` has them."""
        return self.queue, self.key

    @property
    def keeps_existing(self) -> bool:
        """Whether an existing job of the name stays unchanged."""
        return self.given.get("overwrite").lower() not in ("", "true")

    @property
    def has_data(self) -> bool:
        return self.given.get("data") != ""

    @property
    def has_repeat(self) -> bool:
        return self.given.get("repeat") != ""

    def decide_repeat(self) -> None:
        """Refuse a malformed rule. A mocked job does not repeat."""
        if self.is_mocked:
            self.repeat = ""
        elif self.is_repeat_malformed:
            raise CommandRefused(*MALFORMED_REPEAT)


@lru_cache(TEMPLATES_CACHED)
def unique_key(name: str, is_mocked: bool) -> str:
    """Return the unique key of a job.

    Every job declares it, so that `unique` finds any job of the name. Mocked jobs have keys of their own."""
    key = ("?" if is_mocked else "=") + name
    if len(key.encode()) <= UNIQUE_MAX and not key.endswith("\0"):
        return key
    return key[0] * 2 + hashlib.blake2b(name.encode(), digest_size=32).hexdigest()


def is_made_here(job: Job) -> bool:
    """Whether the job has the unique key of this dialect. Jobs of other dialects have another key, or none."""
    return job.unique == unique_key(job.name, job.is_hidden)


def key_after_rename(job: Job, name: str) -> str:
    """Return the unique key that a job gets with a new name. Empty: it stays, as the key of another dialect does."""
    return unique_key(name, job.is_hidden) if name and is_made_here(job) else ""


def read_create_parameters(given: Parameters, data_max: int, rules: Rules = DOCUMENT) -> CreateParameters:
    """Read the parameters and run the first checks, in Bedrock's order."""
    name, priority = given.name(), given.new_job_priority(rules.priorities)
    content = given.data(data_max) or data.EMPTY
    is_mocked_in_data = data.has_key(content, data.MOCKED)
    own = data.without_keys(content, data.MOCKED) if is_mocked_in_data else content
    item = CreateParameters(given, name, priority, own, is_mocked_in_data)
    if not _UNCOMMON_PARAMETERS.isdisjoint(given.values):
        _read_uncommon_parameters(item, given, rules)
    return item


def _read_uncommon_parameters(item: CreateParameters, given: Parameters, rules: Rules) -> None:
    item.queue = read_new_queue(given)
    item.retry_after, item.is_unique = given.retry_after(), given.is_on("unique")
    if rules.refuses_unknown_reruns and given.is_true("rerunIfDataChanged"):
        raise CommandRefused(402, "rerunIfDataChanged is not supported")
    if item.retry_after and not rules.combines_retry_after:
        _check_alone(item, given)
    item.job_timeout = given.job_timeout()
    if item.retry_after and item.job_timeout:
        raise CommandRefused(402, "Cannot use jobTimeout with retryAfter; both end the time of a worker")
    item.run_at_ms = given.instant("firstRun") or 0
    item.parent_number = given.number("parentJobID") if given.get("parentJobID") else 0
    item.repeat = given.get("repeat")
    item.is_repeat_malformed = not is_rule(item.repeat)


def _check_alone(item: CreateParameters, given: Parameters) -> None:
    """Refuse `retryAfter` with `repeat` or `unique`, as the document does."""
    if given.get("repeat"):
        raise CommandRefused(402, "Recurring auto-retrying jobs are not supported")
    if item.is_unique:
        raise CommandRefused(405, "Unique jobs can't be retried")


def read_jobs(given: Parameters) -> list[Parameters]:
    """Parse the objects in the header `jobs` of CreateJobs."""
    for text in dict.fromkeys((given.get("jobs"), given.raw.get("jobs", ""))):
        try:
            encoded = text.encode()
            msgspec.json.decode(encoded)  # also the values, which are not decoded below: numbers may be too large
            objects = _decode_jobs(encoded)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            continue
        if not objects or not all(objects):
            break
        if len(objects) > JOBS_MAX:
            raise CommandRefused(402, "Too many jobs")
        return [read_object(fields) for fields in objects]
    raise CommandRefused(*_INVALID_JSON)


def prepare_job(item: CreateParameters, job_id: bytes = b"") -> PreparedJob:
    template = _job_template(
        item.queue,
        item.name,
        item.priority,
        item.run_at_ms,
        item.is_unique,
        item.retry_after,
        item.job_timeout,
        item.is_mocked,
        item.repeat,
        item.parent,
    )
    return PreparedJob(template, Blob(item.data), job_id)


@lru_cache(TEMPLATES_CACHED)
def _job_template(
    queue: str,
    name: str,
    priority: int | None,
    run_at_ms: int,
    is_unique: bool,
    retry_after: str,
    job_timeout: str,
    is_mocked: bool,
    repeat: str,
    parent: bytes,
) -> JobTemplate:
    is_counted = retry_after and not name.startswith(data.UNCOUNTED_PREFIX)
    lease_rule = retry_after or job_timeout
    return JobTemplate(
        NewJob(
            queue=queue,
            name=name,
            priority=DEFAULT_PRIORITY - (DEFAULT_PRIORITY if priority is None else priority),
            run_at_ms=run_at_ms,
            unique=unique_key(name, is_mocked),
            unique_check="refuse" if is_unique else "none",
            unique_while_kept=True,
            retry=Backoff(tries=DELIVERIES_MAX) if is_counted else ENDLESS,
            lease_ms=timeouts.stored_lease_ms(lease_rule),
            lease_rule=lease_rule,
            retake=bool(retry_after),
            hidden=is_mocked,
            repeat=repeat,
            parent=parent,
            held=parent != b"",
        )
    )
