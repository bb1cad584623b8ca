"""Refusals with Bedrock's status lines, and the status line for each refusal of the engine."""

from __future__ import annotations

from windlass.core import errors

from .wire import Reply

NO_SUCH_JOB = (404, "No job with this jobID")
LEASE_LOST = (405, "The lease of this leaseToken has ended; nothing was changed")
_FAILED = (502, "Update failed")


class CommandRefused(Exception):
    """A command was refused with this status line. Nothing was changed."""

    def __init__(self, status: int, reason: str, detail: str = "") -> None:
        super().__init__(f"{status} {reason}")
        self.status = status
        self.reason = reason
        self.detail = detail  # explanation in the header `error`

    @property
    def reply(self) -> Reply:
        return Reply(self.status, self.reason, headers=(("error", self.detail),) if self.detail else ())


STATUS_LINES: dict[type[errors.Refusal], tuple[int, str]] = {
    errors.BadInput: (402, "Malformed parameter"),
    errors.TooLarge: (402, "Malformed parameter"),
    errors.UnknownJob: NO_SUCH_JOB,
    errors.AlreadyEnded: NO_SUCH_JOB,
    errors.StaleLease: _FAILED,
    errors.WrongState: _FAILED,
    errors.IdConflict: (400, "Unique Constraints Violation"),
    errors.QueueFull: (502, "Insert failed"),
    errors.EngineFull: (502, "Insert failed: the engine's memory is full"),
    errors.QueueInUse: _FAILED,
    errors.RevisionConflict: _FAILED,
    errors.UniqueConflict: (400, "Unique Constraints Violation"),
    errors.NamesNeedLanes: (502, "Select failed"),
    errors.NoExactPriority: (502, "Select failed"),
    errors.UnknownLimit: _FAILED,
    errors.UnknownAlert: _FAILED,
    errors.MemberFailed: _FAILED,
    errors.UnknownLimitKey: _FAILED,
    errors.LimitsChanged: _FAILED,
    errors.UnknownWorker: _FAILED,
    errors.UnknownSchedule: _FAILED,
    errors.UnknownCallback: _FAILED,
    errors.UnknownParent: (404, "parentJobID does not exist"),
    errors.ParentState: (405, "Can only create child job when parent is RUNNING, RUNQUEUED or PAUSED"),
    errors.UnknownMember: _FAILED,
    errors.UnknownFlow: _FAILED,
    errors.FlowExists: _FAILED,
    errors.FlowIncomplete: _FAILED,
    errors.Unsettled: _FAILED,
    errors.CrossPartition: (405, "The parent lies in another partition"),
    errors.PartitionStopped: (502, "Select failed"),
    errors.Unauthorized: (401, "Unauthorized"),
    errors.Forbidden: (403, "Forbidden"),
    errors.TooManyRequests: (429, "Too many requests"),
    errors.UnknownToken: _FAILED,
    errors.TokenExists: _FAILED,
    errors.LastAdminToken: _FAILED,
    errors.StepsFull: _FAILED,
    errors.MailboxFull: _FAILED,
    errors.StreamFull: _FAILED,
    errors.TooManySuspensions: _FAILED,
    errors.UnknownStep: _FAILED,
    errors.UnknownFilter: _FAILED,
}


REFUSED = (CommandRefused, errors.Refusal)


def reply_to_refusal(refused: CommandRefused | errors.Refusal) -> Reply:
    """Return the reply to a command that this dialect or the engine refused."""
    if isinstance(refused, CommandRefused):
        return refused.reply
    status, reason = STATUS_LINES[type(refused)]
    return Reply(status, reason, headers=(("error", str(refused)),))
