"""Parameters of CreateJob and CreateJobs, with the checks that need no other job."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import msgspec

from windlass.core.job import Blob, NewJob
from windlass.core.job_template import JobTemplate, PreparedJob
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import ENDLESS, Backoff
from windlass.core.scheduling.repeat import parse_modifiers
from windlass.core.validation.bounds import UNIQUE_MAX
from windlass.dialects.bedrock import data
from windlass.dialects.bedrock.parameters import Parameters
from windlass.dialects.bedrock.record import DEFAULT_PRIORITY
from windlass.dialects.bedrock.refusals import CommandRefused
from windlass.dialects.bedrock.verbs import QUEUE

JOBS_MAX = 1_000
TEMPLATES_CACHED = 1_024
DELIVERIES_MAX = 10  # of a job with retryAfter
FIRST_LEASE_MS = 60_000  # of a job whose lease depends on the calendar, until GetJob sets its deadline
_decode_jobs = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
# A job without these needs few checks.
_UNCOMMON_PARAMETERS = frozenset({"retryafter", "repeat", "unique", "firstrun", "parentjobid"})
_INVALID_JSON = (401, "Invalid JSON")


class CreateParameters(msgspec.Struct):
    """Parameters of a single job, which is created or found by its name."""

    given: Parameters
    name: str
    priority: int | None
    data: bytes  # without the keys that the server adds
    retry_after: str
    run_at_ms: int
    parent_number: int
    is_unique: bool
    is_mocked_in_data: bool  # its data has the key mockRequest
    parent: bytes = b""
    parent_has_parent: bool = False
    is_mocked: bool = False
    repeat: str = ""
    index: int = 0  # among the new jobs

    @property
    def key(self) -> str:
        return unique_key(self.name, self.is_mocked)

    @property
    def keeps_existing(self) -> bool:
        """Whether an existing job of the name stays unchanged."""
        return self.given.get("overwrite").lower() not in ("", "true")

    @property
    def has_repeat(self) -> bool:
        return self.given.get("repeat") != ""


@lru_cache(TEMPLATES_CACHED)
def unique_key(name: str, is_mocked: bool) -> str:
    """Return the unique key of a job.

    Every job declares it, so that `unique` finds any job of the name. Mocked jobs have keys of their own."""
    key = ("?" if is_mocked else "=") + name
    if len(key.encode()) <= UNIQUE_MAX and not key.endswith("\0"):
        return key
    return key[0] * 2 + hashlib.blake2b(name.encode(), digest_size=32).hexdigest()


def read_create_parameters(given: Parameters, data_max: int) -> CreateParameters:
    """Read the parameters and run the first checks, in Bedrock's order."""
    name, priority = given.name(), given.new_job_priority()
    content = given.data(data_max) or data.EMPTY
    if _UNCOMMON_PARAMETERS.isdisjoint(given.values):
        is_mocked_in_data = data.has_key(content, data.MOCKED)
        own = data.without_keys(content, data.MOCKED) if is_mocked_in_data else content
        return CreateParameters(given, name, priority, own, "", 0, 0, False, is_mocked_in_data)
    retry_after, is_unique = given.retry_after(), given.is_true("unique")
    if retry_after and given.get("repeat"):
        raise CommandRefused(402, "Recurring auto-retrying jobs are not supported")
    if retry_after and is_unique:
        raise CommandRefused(405, "Unique jobs can't be retried")
    return CreateParameters(
        given=given,
        name=name,
        priority=priority,
        data=data.without_keys(content, data.MOCKED),
        retry_after=retry_after,
        run_at_ms=given.instant("firstRun") or 0,
        parent_number=given.number("parentJobID") if given.get("parentJobID") else 0,
        is_unique=is_unique,
        is_mocked_in_data=data.has_key(content, data.MOCKED),
    )


def read_jobs(given: Parameters) -> list[Parameters]:
    """Parse the objects in the header `jobs` of CreateJobs."""
    for text in dict.fromkeys((given.get("jobs"), given.raw.get("jobs", ""))):
        try:
            encoded = text.encode()
            msgspec.json.decode(encoded)
            objects = _decode_jobs(encoded)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            continue
        if not objects or not all(objects):
            break
        if len(objects) > JOBS_MAX:
            raise CommandRefused(402, "Too many jobs")
        return [Parameters({key.lower(): _text(value) for key, value in fields.items()}) for fields in objects]
    raise CommandRefused(*_INVALID_JSON)


def _text(value: msgspec.Raw) -> str:
    """Return a string as it is, null as an empty string, and any other value as JSON."""
    encoded = bytes(value).decode()
    if encoded[:1] == '"':
        return str(msgspec.json.decode(encoded))
    return "" if encoded == "null" else encoded


def prepare_job(item: CreateParameters, job_id: bytes = b"") -> PreparedJob:
    template = _job_template(
        item.name,
        item.priority,
        item.run_at_ms,
        item.is_unique,
        item.retry_after,
        item.is_mocked,
        item.repeat,
        item.parent,
    )
    return PreparedJob(template, Blob(item.data), job_id)


@lru_cache(TEMPLATES_CACHED)
def _job_template(
    name: str,
    priority: int | None,
    run_at_ms: int,
    is_unique: bool,
    retry_after: str,
    is_mocked: bool,
    repeat: str,
    parent: bytes,
) -> JobTemplate:
    lease_ms, retry = FOREVER_MS, ENDLESS
    if retry_after:
        fixed_ms = parse_modifiers(retry_after).fixed_ms
        lease_ms = FIRST_LEASE_MS if fixed_ms is None else max(1, fixed_ms)
        if not name.startswith(data.UNCOUNTED_PREFIX):
            retry = Backoff(tries=DELIVERIES_MAX)
    return JobTemplate(
        NewJob(
            queue=QUEUE,
            name=name,
            priority=DEFAULT_PRIORITY - (DEFAULT_PRIORITY if priority is None else priority),
            run_at_ms=run_at_ms,
            unique=unique_key(name, is_mocked),
            unique_check="refuse" if is_unique else "none",
            unique_while_kept=True,
            retry=retry,
            lease_ms=lease_ms,
            lease_rule=retry_after,
            retake=bool(retry_after),
            hidden=is_mocked,
            repeat=repeat,
            parent=parent,
            held=parent != b"",
        )
    )
