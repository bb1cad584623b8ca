"""Checks of new jobs and of edits."""

from __future__ import annotations

from typing import Any

from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import FlowRef, NewJob
from windlass.core.operations import Edit
from windlass.core.retry import ENDLESS, Backoff
from windlass.core.scheduling.repeat import RULE_MAX, parse_modifiers
from windlass.core.scheduling.repeat import parse as parse_rule
from windlass.core.text.durations import INSTANT_MAX

from .bounds import (
    AFTER_MAX,
    DURATION_MAX,
    FLOW_NAME_MAX,
    INT32_MAX,
    INT32_MIN,
    LANE_MAX,
    NAME_MAX,
    PAUSE_MAX,
    PAYLOAD_MAX,
    QUEUE_MAX,
    TAG_MAX,
    TAGS_MAX,
    TOKEN_MAX,
    TRACE_MAX,
    UINT32_MAX,
    UNIQUE_MAX,
)
from .queues import check_index
from .values import (
    check_boolean,
    check_duration_or_forever,
    check_id,
    check_instance,
    check_integer,
    check_new_blob,
    check_new_name,
    check_number,
    check_text,
)


def check_new_job(job: Any, payload_max: int = PAYLOAD_MAX) -> None:
    if type(job) is not NewJob:
        raise BadInput(f"A job to enqueue must be a NewJob, not {type(job).__name__}.")
    check_new_name("queue", job.queue, QUEUE_MAX)
    check_new_name("name", job.name, NAME_MAX)
    check_new_blob("payload", job.payload, payload_max)
    check_integer("priority", job.priority, INT32_MIN, INT32_MAX)
    if job.id != b"":
        check_id("id", job.id)
    if job.lane != "" or job.unique != "" or job.tags != () or job.trace != "":
        _check_labels(job)
    if job.index != ():
        check_index(job.index)
    _check_times(job)
    check_boolean("retake", job.retake)
    check_boolean("hidden", job.hidden)
    if job.lease_rule != "":
        check_text("lease_rule", job.lease_rule, RULE_MAX)
        parse_modifiers(job.lease_rule)
    check_boolean("unique_while_kept", job.unique_while_kept)
    check_integer("if_revision", job.if_revision, 0, UINT32_MAX)
    if job.unique_check not in ("none", "keep", "replace", "refuse"):
        raise BadInput(f"unique_check must be none, keep, replace or refuse, not {job.unique_check!r}.")
    if job.if_revision and (not job.unique or job.unique_check != "replace"):
        raise BadInput("if_revision needs a unique key and unique_check='replace'.")
    if job.debounce_ms != 0 or job.debounce_max_ms != 0 or job.throttle_ms != 0:
        _check_pacing(job)
    if job.repeat != "":
        check_repeat(job.repeat)
    if job.retry is not ENDLESS:
        _check_backoff(job.retry)
    check_boolean("held", job.held)
    check_boolean("joins", job.joins)
    if job.parent != b"":
        check_id("parent", job.parent)
    elif job.held:
        raise BadInput("held needs a parent: the parent decides when the job starts.")
    if job.after != ():
        _check_after(job)
    if job.on_failure not in ("", "collect", "fail", "ignore"):
        raise BadInput(f"on_failure must be collect, fail or ignore, not {job.on_failure!r}.")
    if job.flow is not None:
        _check_flow(job)


def _check_flow(job: NewJob) -> None:
    check_instance("flow", job.flow, FlowRef)
    assert job.flow is not None  # noqa: S101 (its type was checked)
    check_id("the id of a flow", job.flow.id)
    check_new_name("the name of a flow", job.flow.name, FLOW_NAME_MAX, may_be_empty=True)
    check_new_name("the name of a step", job.flow.step, FLOW_NAME_MAX, may_be_empty=True)


def _check_pacing(job: NewJob) -> None:
    check_integer("debounce_ms", job.debounce_ms, 0, DURATION_MAX)
    check_integer("debounce_max_ms", job.debounce_max_ms, 0, DURATION_MAX)
    check_integer("throttle_ms", job.throttle_ms, 0, DURATION_MAX)
    if not job.unique or job.unique_check != "keep":
        raise BadInput("debounce_ms and throttle_ms need a unique key; leave unique_check out with them.")
    if job.debounce_ms and job.throttle_ms:
        raise BadInput("Give debounce_ms or throttle_ms, not both.")
    if job.debounce_ms and (job.run_at_ms or job.delay_ms):
        raise BadInput("debounce_ms determines when the job runs; leave run_at_ms and delay_ms out.")
    if 0 < job.debounce_max_ms < job.debounce_ms or (job.debounce_max_ms and not job.debounce_ms):
        raise BadInput("debounce_max_ms needs debounce_ms and must be at least as long.")


def check_repeat(rule: Any) -> None:
    check_text("repeat", rule, RULE_MAX)
    parse_rule(rule)


def _check_after(job: NewJob) -> None:
    if type(job.after) is not tuple:
        raise BadInput("after must be a tuple of job ids.")
    if len(job.after) > AFTER_MAX:
        raise TooLarge(f"A job may wait for {AFTER_MAX} jobs, not {len(job.after)}; split them into groups (joins).")
    for job_id in job.after:
        check_id("an id in after", job_id)
    if job.parent in job.after:
        raise BadInput("A child cannot wait for its parent, because the parent waits for the child.")
    if job.id in job.after:
        raise BadInput("A job cannot wait for itself.")


def _check_backoff(retry: Any) -> None:
    check_instance("retry", retry, Backoff)
    check_integer("retry.tries", retry.tries, 0, UINT32_MAX)
    check_integer("retry.base_ms", retry.base_ms, 0, PAUSE_MAX)
    check_integer("retry.cap_ms", retry.cap_ms, 0, PAUSE_MAX)
    check_number("retry.factor", retry.factor, 1, 1000)
    check_number("retry.jitter", retry.jitter, 0, 1)


def _check_labels(job: NewJob) -> None:
    check_new_name("lane", job.lane, LANE_MAX, may_be_empty=True)
    check_new_name("unique", job.unique, UNIQUE_MAX, may_be_empty=True)
    check_new_name("trace", job.trace, TRACE_MAX, may_be_empty=True)
    if type(job.tags) is not tuple:
        raise BadInput("tags must be a tuple of texts.")
    if len(job.tags) > TAGS_MAX:
        raise TooLarge(f"A job may have {TAGS_MAX} tags, not {len(job.tags)}.")
    for tag in job.tags:
        check_new_name("a tag", tag, TAG_MAX)


def _check_times(job: NewJob) -> None:
    check_integer("run_at_ms", job.run_at_ms, 0, INSTANT_MAX)
    check_integer("delay_ms", job.delay_ms, 0, DURATION_MAX)
    check_integer("expires_at_ms", job.expires_at_ms, 0, INSTANT_MAX)
    check_integer("expires_in_ms", job.expires_in_ms, 0, DURATION_MAX)
    if job.run_at_ms and job.delay_ms:
        raise BadInput("Give run_at_ms or delay_ms, not both.")
    if job.expires_at_ms and job.expires_in_ms:
        raise BadInput("Give expires_at_ms or expires_in_ms, not both.")
    check_duration_or_forever("lease_ms", job.lease_ms)
    check_integer("timeout_ms", job.timeout_ms, 0, DURATION_MAX)
    check_duration_or_forever("result_ttl_ms", job.result_ttl_ms)
    check_integer("tombstone_ms", job.tombstone_ms, 0, DURATION_MAX)


def check_edit(request: Edit, payload_max: int = PAYLOAD_MAX) -> None:
    check_instance("A request", request, Edit)
    check_boolean("in_any_state", request.in_any_state)
    check_id("id", request.id)
    check_integer("if_revision", request.if_revision, 0, UINT32_MAX)
    check_integer("if_token", request.if_token, 0, TOKEN_MAX)
    check_new_name("name", request.name, NAME_MAX, may_be_empty=True)
    if request.priority is not None:
        check_integer("priority", request.priority, INT32_MIN, INT32_MAX)
    if request.run_at_ms is not None:
        check_integer("run_at_ms", request.run_at_ms, 0, INSTANT_MAX)
    if request.payload is not None:
        check_new_blob("payload", request.payload, payload_max)
    if request.repeat not in (None, ""):
        check_repeat(request.repeat)
    if request.attempt is not None:
        check_integer("attempt", request.attempt, 0, UINT32_MAX)
