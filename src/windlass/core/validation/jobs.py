"""What callers may give. Each check raises a refusal whose sentence says what is wrong and what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.callbacks.urls import URL_MAX, is_base_url
from windlass.core.errors import BadInput, TooLarge
from windlass.core.ids import PARTITIONS_MAX
from windlass.core.job import Blob, Codec, NewJob
from windlass.core.operations import Edit, Filter, Listing, Take, WorkerInfo
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import ENDLESS, Backoff
from windlass.core.scheduling.repeat import RULE_MAX, parse_modifiers
from windlass.core.scheduling.repeat import parse as parse_rule
from windlass.core.states import State
from windlass.core.text.control_characters import has_control
from windlass.core.text.durations import INSTANT_MAX
from windlass.core.text.error_text import SHAPE_MAX
from windlass.core.text.transcoding import has_unreadable_number

MIB = 1024 * 1024
PAYLOAD_MAX = MIB
PAYLOAD_STORED_MAX = 4 * MIB  # the most that a setting may allow instead: what a deployment may hold
RESULT_MAX = MIB
ERROR_MAX = 16 * 1024  # kept for each of the last attempts
EMITTED_MAX = 16 * 1024  # thousands of them are kept for those who follow
QUEUE_MAX = 255
NAME_MAX = 1020
LANE_MAX = 255
UNIQUE_MAX = 512
TAG_MAX = 128
TAGS_MAX = 20
TRACE_MAX = 1024
REASON_MAX = 64
NOTE_MAX = 256
LOG_LEVEL_MAX = 16
LOG_LINE_MAX = 4 * 1024
LOG_LINES_MAX = 200  # of one request
TAKE_MAX = 1000
HELD_MAX = 10_000  # jobs that a worker names in one heartbeat
AFTER_MAX = 1000
WHOLE_MAX = 2000  # jobs that are accepted as a whole
QUEUES_PER_TAKE = 100
NAMES_PER_FILTER = 100
WILDCARDS_MAX = 16
PAGE_MAX = 500
SOUGHT_MAX = 255  # text sought in errors
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
DURATION_MAX = 2**43  # 278 years
PAUSE_MAX = DURATION_MAX // 2  # its jitter may double it
UINT32_MAX = 2**32 - 1
CURSOR_MAX = 1024
POSITION_MAX = 256 * 1024  # some 40 bytes for each of up to 4096 partitions


def whole(what: str, value: Any, low: int, high: int) -> None:
    if type(value) is not int:
        raise BadInput(f"{what} must be a whole number, not {type(value).__name__}.")
    if not low <= value <= high:
        raise BadInput(f"{what} must lie between {low} and {high}, not be {value}.")


def number(what: str, value: Any, low: float, high: float) -> None:
    if type(value) not in (int, float) or not low <= value <= high:
        raise BadInput(f"{what} must be a number from {low:g} to {high:g}, not {value!r}.")


def claim(what: str, value: Any) -> None:
    if type(value) is not bool:
        raise BadInput(f"{what} must be True or False, not {value!r}.")


def instance(what: str, value: Any, wanted: type) -> None:
    if not isinstance(value, wanted):
        raise BadInput(f"{what} must be a {wanted.__name__}, not {type(value).__name__}.")


def text(what: str, value: Any, most_bytes: int, *, may_be_empty: bool = False) -> None:
    if type(value) is not str:
        raise BadInput(f"{what} must be text, not {type(value).__name__}.")
    if not value and not may_be_empty:
        raise BadInput(f"{what} must not be empty.")
    if len(value) > most_bytes or not value.isascii():
        _check_encoded(what, value, most_bytes)
    if not value.isprintable() and any(char < " " for char in value):
        raise BadInput(f"{what} must not contain control characters.")


def new_name(what: str, value: Any, most_bytes: int, *, may_be_empty: bool = False) -> None:
    """Check a name under which something is to be stored. Names that are only looked up are checked as `text`: what was
    stored before this rule stays in reach."""
    text(what, value, most_bytes, may_be_empty=may_be_empty)
    if has_control(value):
        raise BadInput(
            f"{what} must not contain control characters, also not those that turn the direction of writing."
        )


def opaque(what: str, value: Any, most_bytes: int) -> None:
    """A text that only people read: it may be empty, and have line breaks."""
    if type(value) is not str:
        raise BadInput(f"{what} must be text, not {type(value).__name__}.")
    _check_encoded(what, value, most_bytes)


def _check_encoded(what: str, value: str, most_bytes: int) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise BadInput(f"{what} is not valid Unicode: it holds half a surrogate pair.") from error
    if size > most_bytes:
        raise TooLarge(f"{what} has {size} bytes; at most {most_bytes} are allowed.")


def id_bytes(what: str, value: Any) -> None:
    if type(value) is not bytes or len(value) != 16:
        raise BadInput(f"{what} must be 16 bytes; windlass.core.ids.parse_id reads the written form.")


def blob(what: str, value: Any, most_bytes: int) -> None:
    if not isinstance(value, Blob) or type(value.data) is not bytes or not isinstance(value.codec, Codec):
        raise BadInput(f"{what} must be a Blob of bytes with its codec.")
    if len(value.data) > most_bytes:
        raise TooLarge(
            f"{what} has {len(value.data)} bytes; at most {most_bytes} are allowed. "
            "Store it elsewhere and pass a reference."
        )


def new_blob(what: str, value: Any, most_bytes: int) -> None:
    """Check a value that is to be stored: readers of JSON must be able to read its numbers."""
    blob(what, value, most_bytes)
    if value.codec is Codec.JSON and has_unreadable_number(value.data):
        raise BadInput(f"{what} holds a number that is too large, as 1e999 is; send it as text.")


def items(what: str, values: Any) -> None:
    if type(values) is list or type(values) is tuple:  # as nearly always
        return
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise BadInput(f"{what} must be a list.")


def new_job(job: Any, payload_max: int = PAYLOAD_MAX) -> None:
    if type(job) is not NewJob:
        raise BadInput(f"A job to enqueue must be a NewJob, not {type(job).__name__}.")
    new_name("queue", job.queue, QUEUE_MAX)
    new_name("name", job.name, NAME_MAX)
    new_blob("payload", job.payload, payload_max)
    whole("priority", job.priority, INT32_MIN, INT32_MAX)
    if job.id != b"":
        id_bytes("id", job.id)
    if job.lane != "" or job.unique != "" or job.tags != () or job.trace != "":
        _labels(job)
    _times(job)
    claim("retake", job.retake)
    claim("hidden", job.hidden)
    if job.lease_rule != "":
        text("lease_rule", job.lease_rule, RULE_MAX)
        parse_modifiers(job.lease_rule)
    claim("unique_while_kept", job.unique_while_kept)
    whole("if_revision", job.if_revision, 0, UINT32_MAX)
    if job.unique_check not in ("none", "keep", "replace", "refuse"):
        raise BadInput(f"unique_check must be none, keep, replace or refuse, not {job.unique_check!r}.")
    if job.if_revision and (not job.unique or job.unique_check != "replace"):
        raise BadInput("if_revision goes with a unique key and unique_check='replace'.")
    if job.debounce_ms != 0 or job.debounce_max_ms != 0 or job.throttle_ms != 0:
        _pacing(job)
    if job.repeat != "":
        repeat(job.repeat)
    if job.retry is not ENDLESS:
        _backoff(job.retry)
    claim("held", job.held)
    claim("joins", job.joins)
    if job.parent != b"":
        id_bytes("parent", job.parent)
    elif job.held:
        raise BadInput("held goes with a parent: it is the parent that lets the job start.")
    if job.after != ():
        _after(job)
    if job.on_failure not in ("", "collect", "fail", "ignore"):
        raise BadInput(f"on_failure must be collect, fail or ignore, not {job.on_failure!r}.")


def _pacing(job: NewJob) -> None:
    whole("debounce_ms", job.debounce_ms, 0, DURATION_MAX)
    whole("debounce_max_ms", job.debounce_max_ms, 0, DURATION_MAX)
    whole("throttle_ms", job.throttle_ms, 0, DURATION_MAX)
    if not job.unique or job.unique_check != "keep":
        raise BadInput("debounce_ms and throttle_ms need a unique key, and decide themselves what a held key means.")
    if job.debounce_ms and job.throttle_ms:
        raise BadInput("Give debounce_ms or throttle_ms, not both.")
    if job.debounce_ms and (job.run_at_ms or job.delay_ms):
        raise BadInput("debounce_ms decides when the job runs; give no run_at_ms or delay_ms.")
    if 0 < job.debounce_max_ms < job.debounce_ms or (job.debounce_max_ms and not job.debounce_ms):
        raise BadInput("debounce_max_ms goes with debounce_ms and is at least as long.")


def repeat(rule: Any) -> None:
    text("repeat", rule, RULE_MAX)
    parse_rule(rule)


def _after(job: NewJob) -> None:
    if type(job.after) is not tuple:
        raise BadInput("after must be a tuple of job ids.")
    if len(job.after) > AFTER_MAX:
        raise TooLarge(f"A job may wait for {AFTER_MAX} jobs, not {len(job.after)}; let groups (joins) wait for parts.")
    for job_id in job.after:
        id_bytes("an id in after", job_id)
    if job.parent in job.after:
        raise BadInput("A child cannot wait for its parent: the parent waits for it.")
    if job.id in job.after:
        raise BadInput("A job cannot wait for itself.")


def _backoff(retry: Any) -> None:
    instance("retry", retry, Backoff)
    whole("retry.tries", retry.tries, 0, UINT32_MAX)
    whole("retry.base_ms", retry.base_ms, 0, PAUSE_MAX)
    whole("retry.cap_ms", retry.cap_ms, 0, PAUSE_MAX)
    number("retry.factor", retry.factor, 1, 1000)
    number("retry.jitter", retry.jitter, 0, 1)


def _labels(job: NewJob) -> None:
    new_name("lane", job.lane, LANE_MAX, may_be_empty=True)
    new_name("unique", job.unique, UNIQUE_MAX, may_be_empty=True)
    new_name("trace", job.trace, TRACE_MAX, may_be_empty=True)
    if type(job.tags) is not tuple:
        raise BadInput("tags must be a tuple of texts.")
    if len(job.tags) > TAGS_MAX:
        raise TooLarge(f"A job may have {TAGS_MAX} tags, not {len(job.tags)}.")
    for tag in job.tags:
        new_name("a tag", tag, TAG_MAX)


def _times(job: NewJob) -> None:
    whole("run_at_ms", job.run_at_ms, 0, INSTANT_MAX)
    whole("delay_ms", job.delay_ms, 0, DURATION_MAX)
    whole("expires_at_ms", job.expires_at_ms, 0, INSTANT_MAX)
    whole("expires_in_ms", job.expires_in_ms, 0, DURATION_MAX)
    if job.run_at_ms and job.delay_ms:
        raise BadInput("Give run_at_ms or delay_ms, not both.")
    if job.expires_at_ms and job.expires_in_ms:
        raise BadInput("Give expires_at_ms or expires_in_ms, not both.")
    lease("lease_ms", job.lease_ms)
    whole("timeout_ms", job.timeout_ms, 0, DURATION_MAX)
    kept("result_ttl_ms", job.result_ttl_ms)


def lease(what: str, value: Any) -> None:
    if type(value) is not int or value != FOREVER_MS:
        whole(what, value, 0, DURATION_MAX)


kept = lease  # a retention may be FOREVER_MS too


def edit(request: Edit, payload_max: int = PAYLOAD_MAX) -> None:
    instance("A request", request, Edit)
    claim("in_any_state", request.in_any_state)
    id_bytes("id", request.id)
    whole("if_revision", request.if_revision, 0, UINT32_MAX)
    new_name("name", request.name, NAME_MAX, may_be_empty=True)
    if request.priority is not None:
        whole("priority", request.priority, INT32_MIN, INT32_MAX)
    if request.run_at_ms is not None:
        whole("run_at_ms", request.run_at_ms, 0, INSTANT_MAX)
    if request.payload is not None:
        new_blob("payload", request.payload, payload_max)
    if request.repeat not in (None, ""):
        repeat(request.repeat)
    if request.attempt is not None:
        whole("attempt", request.attempt, 0, UINT32_MAX)


def take(request: Take) -> None:
    instance("A request", request, Take)
    if type(request.queues) is not tuple or not request.queues:
        raise BadInput("queues must be a tuple with at least one queue.")
    if len(request.queues) > QUEUES_PER_TAKE:
        raise TooLarge(f"A take may name {QUEUES_PER_TAKE} queues, not {len(request.queues)}.")
    for queue in request.queues:
        text("queue", queue, QUEUE_MAX)
    if len(set(request.queues)) != len(request.queues):
        raise BadInput("A queue is named twice.")
    whole("most", request.most, 1, TAKE_MAX)
    if request.weights != ():
        _weights(request)
    filters(request.wants)
    if request.worker != b"":
        worker_id(request.worker)
    lease("lease_ms", request.lease_ms)
    whole("accept_ms", request.accept_ms, 0, DURATION_MAX)
    whole("wait_ms", request.wait_ms, 0, DURATION_MAX)
    claim("by_hand", request.by_hand)


def _weights(request: Take) -> None:
    if type(request.weights) is not tuple:
        raise BadInput("weights must be a tuple of whole numbers.")
    if len(request.weights) != len(request.queues):
        raise BadInput("Give as many weights as queues, or none.")
    for weight in request.weights:
        whole("a weight", weight, 1, 1_000_000)


def filters(wants: Filter) -> None:
    instance("wants", wants, Filter)
    if bool(wants.only) + bool(wants.all_but) + bool(wants.glob) > 1:
        raise BadInput("Give only one of only, all_but and glob.")
    names = wants.only or wants.all_but
    if type(wants.only) is not tuple or type(wants.all_but) is not tuple:
        raise BadInput("only and all_but must be tuples of names.")
    if len(names) > NAMES_PER_FILTER:
        raise TooLarge(f"A filter may have {NAMES_PER_FILTER} names, not {len(names)}.")
    for name in names:
        text("name", name, NAME_MAX)
    if wants.priority is not None:
        whole("priority", wants.priority, INT32_MIN, INT32_MAX)
    claim("hidden", wants.hidden)
    glob(wants.glob)


def glob(pattern: Any) -> None:
    text("glob", pattern, NAME_MAX, may_be_empty=True)
    if pattern.count("*") > WILDCARDS_MAX:
        raise TooLarge(f"A GLOB may have {WILDCARDS_MAX} stars, not {pattern.count('*')}.")


LISTS = ("queued", "scheduled", "waiting", "running", "finished", "failed", "cancelled", "history")


def listing(request: Listing) -> None:
    instance("A request", request, Listing)
    text("queue", request.queue, QUEUE_MAX, may_be_empty=True)
    text("tag", request.tag, TAG_MAX, may_be_empty=True)
    if not request.tag and not request.state:
        raise BadInput("A list needs a state, or a tag.")
    allowed = tuple(state.label for state in State) if request.tag else LISTS
    if request.state != "" and request.state not in allowed:
        raise BadInput(f"state must be one of {', '.join(allowed)}, not {request.state!r}.")
    glob(request.name)
    text("cursor", request.cursor, CURSOR_MAX, may_be_empty=True)
    claim("newest_first", request.newest_first)
    whole("most", request.most, 1, PAGE_MAX)
    whole("created_from_ms", request.created_from_ms, 0, INSTANT_MAX)
    whole("created_before_ms", request.created_before_ms, 0, INSTANT_MAX)
    whole("ended_from_ms", request.ended_from_ms, 0, INSTANT_MAX)
    whole("ended_before_ms", request.ended_before_ms, 0, INSTANT_MAX)
    text("error", request.error, SOUGHT_MAX, may_be_empty=True)
    if type(request.error_shape) is not str or len(request.error_shape) > SHAPE_MAX:
        raise BadInput(f"error_shape must be text of at most {SHAPE_MAX} characters, as failures are told with.")
    claim("with_errors", request.with_errors)


def members(states: Any, most: Any, cursor: Any) -> None:
    if type(states) is not tuple or any(not isinstance(state, State) for state in states):
        raise BadInput("states must be a tuple of State.")
    whole("most", most, 1, PAGE_MAX)
    text("cursor", cursor, CURSOR_MAX, may_be_empty=True)


def scan_cursor(cursor: Any) -> None:
    text("cursor", cursor, 20)
    if not (cursor.isascii() and cursor.isdigit()) or int(cursor) >= 2**64:
        raise BadInput("The cursor is not one that a step gave out; start again without it.")


def partition(value: Any) -> None:
    whole("partition", value, 0, PARTITIONS_MAX - 1)


def worker_id(value: Any) -> None:
    id_bytes("worker", value)
    if value == bytes(16):
        raise BadInput("A worker id of sixteen zero bytes stands for nobody; choose another.")


def held_ids(values: Any) -> None:
    items("held", values)
    if len(values) > HELD_MAX:
        raise BadInput(f"A worker names at most {HELD_MAX} jobs in one heartbeat; beat without them.")
    for value in values:
        id_bytes("held", value)


def worker_info(info: WorkerInfo) -> None:
    if type(info) is not WorkerInfo:
        raise BadInput("A worker describes itself by a WorkerInfo.")
    new_name("host", info.host, 255, may_be_empty=True)
    new_name("name", info.name, 255, may_be_empty=True)
    text("url", info.url, URL_MAX, may_be_empty=True)
    if info.url and not is_base_url(info.url):
        raise BadInput("url must be an http or https URL with a host, without user, query and fragment.")
    whole("pid", info.pid, 0, 2**31)
    whole("slots", info.slots, 0, 1_000_000)
    if type(info.queues) is not tuple or len(info.queues) > QUEUES_PER_TAKE:
        raise BadInput(f"queues must be a tuple of at most {QUEUES_PER_TAKE} names.")
    for queue in info.queues:
        text("queue", queue, QUEUE_MAX)
