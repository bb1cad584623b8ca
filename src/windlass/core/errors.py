"""Every way Windlass says no. Each class has a stable `code`; a front end maps classes to its own words."""

from __future__ import annotations

from typing import ClassVar


class WindlassError(Exception):
    """The root of all errors raised by Windlass."""

    code: ClassVar[str] = "error"


class BadSetting(WindlassError):
    """A URL, directory or option that cannot be used as given."""

    code = "bad_setting"


class EngineUnavailable(WindlassError):
    """The engine could not be reached in time. Nothing is known about the outcome of the call."""

    code = "engine_unavailable"


class DiskFull(EngineUnavailable):
    """The engine cannot write to its disk. It accepts jobs again when there is room."""

    code = "disk_full"


class DataDirectoryLost(EngineUnavailable):
    """The data directory of the embedded engine was deleted or replaced while processes used it."""

    code = "data_directory_lost"


class EngineError(WindlassError):
    """The engine answered with an error of its own."""

    code = "engine_error"


class EngineNotPermitted(EngineError):
    """The engine's user lacks a right that Windlass needs. The message names the right, its purpose and the remedy."""

    code = "engine_not_permitted"


class EngineUnsuitable(WindlassError):
    """The engine is too old, would evict jobs, or holds another Windlass layout."""

    code = "engine_unsuitable"


class Refusal(WindlassError):
    """A coded no to one request. Nothing was changed by it."""

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
    """The job has ended before. After a lost answer this means that the first call went through."""

    code = "already_ended"
    sentence = "The job has already ended; nothing was changed."
    unkept: ClassVar[str] = (  # to a question about the job
        "The job has ended, and nothing of it is kept. To see later how a job ended, keep its result for a while "
        "(keep_result in Python, result_ttl_ms over HTTP), or give its queue a history."
    )


class StaleLease(Refusal):
    """The caller no longer holds the job: its lease ran out, or somebody else holds a newer one."""

    code = "stale_lease"
    sentence = "The lease is no longer valid; stop working on this job and drop its result."


class WrongState(Refusal):
    code = "wrong_state"
    sentence = "The job is in a state that does not allow this."


class IdConflict(Refusal):
    code = "id_conflict"
    sentence = "This id belongs to a job with other content; make a new id for a new job."


class QueueFull(Refusal):
    code = "queue_full"
    sentence = "The queue has reached its maximum length or size; try again when it has drained."


class EngineFull(Refusal):
    """The engine has reached its memory limit. What is there can still be taken and finished."""

    code = "engine_full"
    sentence = (
        "The engine's memory is full: nothing was accepted. Let it drain, or raise its maxmemory "
        "(WINDLASS_ENGINE_MEMORY_MAX for the embedded engine)."
    )


class RevisionConflict(Refusal):
    """The job was changed since it was read: read it again, merge, and write back with the new revision."""

    code = "revision_conflict"
    sentence = "The job was changed since it was read; read it again and retry with its new revision."


class UniqueConflict(Refusal):
    code = "unique_conflict"
    sentence = "Another job holds this job's unique key now."


class NamesNeedLanes(Refusal):
    code = "names_need_lanes"
    sentence = "This queue is not divided by name; configure it with name_lanes=True to take by name."


class NoExactPriority(Refusal):
    code = "no_exact_priority"
    sentence = "This queue ages its jobs, so none of them has an exact priority to be taken by."


class UnknownLimit(Refusal):
    code = "unknown_limit"
    sentence = "There is no limit of this name."


class LimitsChanged(Refusal):
    """The limits changed while jobs were matched against them. The service matches anew; callers do not see this."""

    code = "limits_changed"
    sentence = "The limits changed in this moment; try again."


class UnknownWorker(Refusal):
    code = "unknown_worker"
    sentence = "No worker is registered under this id; register it again."


class UnknownSchedule(Refusal):
    code = "unknown_schedule"
    sentence = "There is no schedule of this name."


class UnknownCallback(Refusal):
    """It was delivered, or removed after it was given up. After a lost answer this means that the first call went
    through."""

    code = "unknown_callback"
    sentence = "No callback is owed under this id; it may have been delivered already."


class UnknownParent(Refusal):
    code = "unknown_parent"
    sentence = "There is no job with the parent's id."


class ParentState(Refusal):
    code = "parent_state"
    sentence = "A child can only be added while its parent is dispatched, running or waiting."


class UnknownMember(Refusal):
    code = "unknown_member"
    sentence = "One of the jobs to wait for is not known; enqueue it first."


class Unsettled(Refusal):
    """A large family is worked on in steps; some operations must wait until the steps are done."""

    code = "unsettled"
    sentence = "The members of this job are still being let go; try again in a moment."


class CrossPartition(Refusal):
    """A relation or call that would touch two partitions at once."""

    code = "cross_partition"
    sentence = "These queues lie in different partitions; give their names a common {tag}."


class PartitionStopped(Refusal):
    """Jobs wait here, but the keys around them are torn between two nodes for now."""

    code = "partition_stopped"
    sentence = (
        "Nothing is taken from this partition: its slot is being moved key by key. It goes on by itself afterwards; "
        "move slots atomically to avoid this."
    )


class Unauthorized(Refusal):
    """Nobody is known by what was shown, or nothing was shown."""

    code = "unauthorized"
    sentence = "A valid token is needed; send it as `Authorization: Bearer <token>`."


class Forbidden(Refusal):
    """It is known who asks, and they may not."""

    code = "forbidden"
    sentence = "This token does not allow this; use one with the role, and for the queue, that it needs."


class TooManyRequests(Refusal):
    code = "too_many_requests"
    sentence = "This token's rate is used up; wait a moment and send fewer requests per second."


class UnknownToken(Refusal):
    code = "unknown_token"
    sentence = "There is no token of this name."


class TokenExists(Refusal):
    code = "token_exists"
    sentence = "There is a token of this name already; choose another name, or remove that one first."


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
        RevisionConflict,
        UniqueConflict,
        NamesNeedLanes,
        NoExactPriority,
        UnknownLimit,
        LimitsChanged,
        UnknownWorker,
        UnknownSchedule,
        UnknownCallback,
        UnknownParent,
        ParentState,
        UnknownMember,
        Unsettled,
        CrossPartition,
        PartitionStopped,
        Unauthorized,
        Forbidden,
        TooManyRequests,
        UnknownToken,
        TokenExists,
    )
}


def refusal(code: str, detail: str = "") -> Refusal:
    """The refusal for a code answered by a script, with the detail that the script gave."""
    cls = REFUSALS[code]
    return cls(f"{cls.sentence} ({detail})" if detail else "")
