"""All errors of Windlass. Each class has a stable `code`; front ends map classes to their own status codes."""

from __future__ import annotations

from typing import ClassVar


class WindlassError(Exception):
    """Base class of all errors raised by Windlass."""

    code: ClassVar[str] = "error"


class BadSetting(WindlassError):
    """A URL, directory or option that cannot be used as given."""

    code = "bad_setting"


class EngineUnavailable(WindlassError):
    """The engine could not be reached in time. The outcome of the call is unknown."""

    code = "engine_unavailable"


class DiskFull(EngineUnavailable):
    """The engine cannot write to its disk. It accepts jobs again when space is free."""

    code = "disk_full"


class DataDirectoryLost(EngineUnavailable):
    """The data directory of the embedded engine was deleted or replaced while processes used it."""

    code = "data_directory_lost"


class EngineError(WindlassError):
    """The engine replied with an error."""

    code = "engine_error"


class EngineNotPermitted(EngineError):
    """The engine's user lacks a permission that Windlass needs. The message names the permission, its purpose and the
    remedy."""

    code = "engine_not_permitted"


class EngineUnsuitable(WindlassError):
    """The engine is too old, would evict jobs, or holds another Windlass layout."""

    code = "engine_unsuitable"


class Refusal(WindlassError):
    """A request that was refused with a code. It changed nothing."""

    code = "refused"
    sentence: ClassVar[str] = "The request was refused."

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.sentence)


class BadInput(Refusal):
    """A value of the wrong type, out of range, or malformed."""

    code = "bad_input"
    sentence = "A value is of the wrong type or out of range."


class TooLarge(Refusal):
    """A payload, result, name, or list beyond its limit."""

    code = "too_large"
    sentence = "A value is larger than allowed."


class UnknownJob(Refusal):
    code = "unknown_job"
    sentence = "There is no job with this id; it may have ended and been removed."


class AlreadyEnded(Refusal):
    """The job has already ended. After a lost reply this means that the first call succeeded."""

    code = "already_ended"
    sentence = "The job has already ended; nothing was changed."
    unkept: ClassVar[str] = (  # sentence for reads of a job whose record is gone
        "The job has ended, and nothing of it is kept. To see later how a job ended, keep its result for a while "
        "(keep_result in Python, result_ttl_ms over HTTP), or give its queue a history."
    )


class StaleLease(Refusal):
    """The caller no longer holds the job: the lease expired, or another worker holds a newer lease."""

    code = "stale_lease"
    sentence = "The lease is no longer valid; stop working on this job and drop its result."


class WrongState(Refusal):
    code = "wrong_state"
    sentence = "The job is in a state that does not allow this."


class IdConflict(Refusal):
    code = "id_conflict"
    sentence = "This id belongs to a job with different content; use a new id for a new job."


class QueueFull(Refusal):
    code = "queue_full"
    sentence = "The queue has reached its maximum length or size; try again when it has drained."


class EngineFull(Refusal):
    """The engine has reached its memory limit. Existing jobs can still be taken and finished."""

    code = "engine_full"
    sentence = (
        "The engine's memory is full: nothing was accepted. Let the queues drain, or raise maxmemory "
        "(WINDLASS_ENGINE_MEMORY_MAX for the embedded engine)."
    )


class QueueInUse(Refusal):
    """The queue holds jobs, or live workers serve it, so it cannot be removed."""

    code = "queue_in_use"
    sentence = "The queue is in use, so it cannot be removed."


class RevisionConflict(Refusal):
    """The job was changed since it was read. Read it again, merge, and write with the new revision."""

    code = "revision_conflict"
    sentence = "The job was changed since it was read; read it again and retry with its new revision."


class UniqueConflict(Refusal):
    code = "unique_conflict"
    sentence = "Another job holds this job's unique key."


class NamesNeedLanes(Refusal):
    code = "names_need_lanes"
    sentence = "This queue is not divided by name; configure it with name_lanes=True to take by name."


class NoExactPriority(Refusal):
    code = "no_exact_priority"
    sentence = "This queue ages its jobs, so its jobs cannot be taken by exact priority."


class UnknownLimit(Refusal):
    code = "unknown_limit"
    sentence = "There is no limit with this name."


class MemberFailed(Refusal):
    code = "member_failed"
    sentence = (
        "A job that this job waits for has failed or was cancelled. Retry that job, or resume the flow: this job then "
        "waits for it again."
    )


class UnknownLimitKey(Refusal):
    code = "unknown_limit_key"
    sentence = "This key of the limit has no jobs; its cap is set by its first job."


class LimitsChanged(Refusal):
    """The limits changed while jobs were matched against them. The service repeats the match; callers do not see this
    error."""

    code = "limits_changed"
    sentence = "The limits changed during the call; try again."


class UnknownWorker(Refusal):
    code = "unknown_worker"
    sentence = "No worker is registered under this id; register it again."


class UnknownSchedule(Refusal):
    code = "unknown_schedule"
    sentence = "There is no schedule with this name."


class UnknownCallback(Refusal):
    """The callback was delivered, or removed after it was given up. After a lost reply this means that the first call
    succeeded."""

    code = "unknown_callback"
    sentence = "No pending callback has this id; it may have been delivered already."


class UnknownParent(Refusal):
    code = "unknown_parent"
    sentence = "There is no job with the id of the parent."


class ParentState(Refusal):
    code = "parent_state"
    sentence = "A child can only be added while its parent is dispatched, running or waiting."


class UnknownMember(Refusal):
    code = "unknown_member"
    sentence = "One of the jobs to wait for does not exist; enqueue it first."


class UnknownFlow(Refusal):
    code = "unknown_flow"
    sentence = "There is no flow with this id; a flow is removed a day after the last record of its jobs."


class FlowExists(Refusal):
    """A flow is created by one call. After a lost reply, the same call with the same jobs is no error."""

    code = "flow_exists"
    sentence = "A flow with this id exists already; make a new id for a new flow."


class FlowIncomplete(Refusal):
    """Records of some steps are gone, so the flow cannot be run again."""

    code = "flow_incomplete"
    sentence = (
        "The flow cannot run again, because records of its steps are gone. Keep the results of its jobs for a while "
        "(keep_result in Python, result_ttl_ms over HTTP), or give their queues a history."
    )


class Unsettled(Refusal):
    """Many dependencies are processed in steps. Some operations must wait until the steps are done."""

    code = "unsettled"
    sentence = "The members of this job are still being released; try again in a moment."


class CrossPartition(Refusal):
    """A relation or call that would need two partitions at once."""

    code = "cross_partition"
    sentence = "These queues are in different partitions; give their names a common {tag}."


class PartitionStopped(Refusal):
    """Jobs wait in this partition, but its keys are currently split between two nodes."""

    code = "partition_stopped"
    sentence = (
        "No job is taken from this partition: its slot is being moved key by key. It continues by itself afterwards; "
        "move slots atomically to avoid this."
    )


class Unauthorized(Refusal):
    """The request has no token, or an unknown one."""

    code = "unauthorized"
    sentence = "A valid token is needed; send it as `Authorization: Bearer <token>`."


class Forbidden(Refusal):
    """The token is valid but does not permit the request."""

    code = "forbidden"
    sentence = "This token does not permit the request; use a token with the required role and queue."


class TooManyRequests(Refusal):
    code = "too_many_requests"
    sentence = "This token's rate is used up; wait a moment and send fewer requests per second."


class UnknownToken(Refusal):
    code = "unknown_token"
    sentence = "There is no token with this name."


class TokenExists(Refusal):
    code = "token_exists"
    sentence = "A token with this name already exists; choose another name, or remove that token first."


class UnknownAlert(Refusal):
    code = "unknown_alert"
    sentence = "There is no alert rule with this name."


class LastAdminToken(Refusal):
    code = "last_admin_token"
    sentence = "This deployment would have no admin token; create one first."


class StepsFull(Refusal):
    """The steps of a job have reached their number or size. More would not be stored."""

    code = "steps_full"
    sentence = (
        "The job has 1,000 steps, or their values have 16 MiB. Use fewer steps, or store large values elsewhere and "
        "return references."
    )


class MailboxFull(Refusal):
    code = "mailbox_full"
    sentence = "The job has 100 unread signals. Send more when it has read some of them."


class StreamFull(Refusal):
    code = "stream_full"
    sentence = "The stream of the job has 50,000 values, or 16 MiB. Write fewer or larger values, or references."


class TooManySuspensions(Refusal):
    code = "too_many_suspensions"
    sentence = "The job was suspended 10,000 times. Continue in a new job."


class UnknownFilter(Refusal):
    code = "unknown_filter"
    sentence = "There is no saved filter of this name."


class UnknownStep(Refusal):
    code = "unknown_step"
    sentence = "The job has no stored step of this name."


REFUSALS: dict[str, type[Refusal]] = {
    cls.code: cls
    for cls in (
        BadInput,
        TooLarge,
        UnknownJob,
        AlreadyEnded,
        StaleLease,
        WrongState,
        IdConflict,
        QueueFull,
        EngineFull,
        QueueInUse,
        RevisionConflict,
        UniqueConflict,
        NamesNeedLanes,
        NoExactPriority,
        UnknownLimit,
        UnknownFilter,
        MemberFailed,
        UnknownLimitKey,
        LimitsChanged,
        UnknownWorker,
        UnknownSchedule,
        UnknownCallback,
        UnknownParent,
        ParentState,
        UnknownMember,
        UnknownFlow,
        FlowExists,
        FlowIncomplete,
        Unsettled,
        CrossPartition,
        PartitionStopped,
        Unauthorized,
        Forbidden,
        TooManyRequests,
        UnknownToken,
        TokenExists,
        UnknownAlert,
        LastAdminToken,
        StepsFull,
        MailboxFull,
        StreamFull,
        TooManySuspensions,
        UnknownStep,
    )
}


def refusal(code: str, detail: str = "") -> Refusal:
    """Return the refusal for a code that a script returned, with the script's detail."""
    cls = REFUSALS[code]
    return cls(f"{cls.sentence} ({detail})" if detail else "")
