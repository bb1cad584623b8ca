"""Small model of the documented states of jobs: no leases, no clock, two levels of parents and children.

Every command returns the status line that the router must give."""

from __future__ import annotations

from dataclasses import dataclass, field

OK = "200 OK"
UNKNOWN = "404 No job with this jobID"
NOT_RUNNING = "405 Can only retry/finish RUNNING and RUNQUEUED jobs"
PARENT_RUNS = "405 Can only retry/finish child job when parent is PAUSED"
PARENT_STATE = "405 Can only create child job when parent is RUNNING, RUNQUEUED or PAUSED"
RUNS = ("RUNNING", "RUNQUEUED")
PENDING = ("QUEUED", "RUNQUEUED", "RUNNING", "PAUSED")


@dataclass
class Row:
    number: int
    name: str
    priority: int
    retries: bool  # has retryAfter: an hour
    repeats: bool  # without a pause
    parent: int = 0
    state: str = "QUEUED"
    data: dict[str, int] = field(default_factory=dict)
    count: int = 0
    order: int = 0  # of its next run, among its priority
    is_doomed: bool = False  # its parent failed while it ran


class Model:
    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self._numbers = 0
        self._order = 0

    def _next_order(self) -> int:
        self._order += 1
        return self._order

    def children(self, row: Row, *states: str) -> list[Row]:
        return [one for one in self.rows.values() if one.parent == row.number and (not states or one.state in states)]

    def findings(self) -> set[str]:
        """Return the expected findings of the doctor: DeleteJob of the last child does not resume its parent."""
        waiting = [row for row in self.rows.values() if row.state == "PAUSED" and not row.parent]
        return {
            "wait_is_over" if self.children(row) else "waits_forever"
            for row in waiting
            if not self.children(row, *PENDING)
        }

    def create(self, name: str, priority: int, retries: bool, repeats: bool, parent: int) -> str:
        owner = self.rows.get(parent)
        if parent and owner is None:
            return "404 parentJobID does not exist"
        if owner is not None and owner.state not in (*RUNS, "PAUSED"):
            return PARENT_STATE
        if owner is not None and owner.parent:
            return "405 Cannot create grandchildren"
        self._numbers += 1
        row = Row(self._numbers, name, priority, retries, repeats, parent, order=self._next_order())
        if owner is not None and owner.state in RUNS:
            row.state = "PAUSED"
        self.rows[row.number] = row
        return OK

    def get(self, name: str) -> tuple[str, int]:
        """Take a job. The name is a single letter or `*`."""
        due = [row for row in self.rows.values() if row.state == "QUEUED" and name in ("*", row.name)]
        if not due:
            return "404 No job found", 0
        row = min(due, key=lambda one: (-one.priority, one.order))
        row.state = "RUNQUEUED" if row.retries else "RUNNING"
        row.count += row.retries
        return OK, row.number

    def _ended(self, number: int) -> tuple[str, Row | None]:
        """Run the checks shared by finish and retry."""
        row = self.rows.get(number)
        if row is None:
            return UNKNOWN, None
        if row.state not in RUNS:
            return NOT_RUNNING, None
        owner = self.rows.get(row.parent)
        if owner is not None and owner.state != "PAUSED":
            return PARENT_RUNS, None
        for child in self.children(row, "FINISHED", "CANCELLED"):
            del self.rows[child.number]
        return OK, row

    def finish(self, number: int, data: dict[str, int] | None) -> str:
        line, row = self._ended(number)
        if row is None:
            return line
        row.data = row.data if data is None else data
        row.count = 0
        if self.children(row, *PENDING):
            row.state = "PAUSED"
            for child in self.children(row, "PAUSED"):
                child.state = "QUEUED"
        elif row.repeats and row.is_doomed:
            row.state, row.is_doomed = "CANCELLED", False
        elif row.repeats:
            row.state, row.order = "QUEUED", self._next_order()
        elif row.parent:
            row.state = "FINISHED"
            self._resume(self.rows[row.parent], PENDING)
        else:
            self._remove(row)
        return OK

    def retry(self, number: int, name: str) -> str:
        line, row = self._ended(number)
        if row is not None and row.is_doomed:
            row.state, row.is_doomed = "CANCELLED", False
        elif row is not None:
            row.state, row.count, row.name, row.order = "QUEUED", 0, name or row.name, self._next_order()
        return line

    def fail(self, number: int) -> str:
        row = self.rows.get(number)
        if row is None:
            return UNKNOWN
        if row.state not in RUNS:
            return "405 Can only fail RUNNING or RUNQUEUED jobs"
        row.state = "FAILED"
        self._let_go(row, "CANCELLED")
        if row.parent:
            self._resume(self.rows[row.parent], PENDING)
        return OK

    def cancel(self, number: int) -> str:
        row = self.rows.get(number)
        if row is None:
            return UNKNOWN
        if self.children(row):
            return "404 Invalid jobID - Cannot cancel a job with children"
        if not row.parent:
            return "404 Invalid jobID - Cannot cancel a job without a parent"
        if row.state not in ("RUNNING", "FINISHED", "PAUSED", "CANCELLED"):
            row.state = "CANCELLED"
            self._resume(self.rows[row.parent], ("QUEUED", *RUNS))
        return OK

    def delete(self, number: int) -> str:
        row = self.rows.get(number)
        if row is None:
            return UNKNOWN
        if row.state == "RUNNING":
            return "405 Can't delete a RUNNING job"
        if row.state == "PAUSED":
            return "405 Can't delete a parent jobs with children running"
        self._remove(row)
        return OK

    def update(self, number: int, data: dict[str, int]) -> str:
        row = self.rows.get(number)
        if row is None:
            return UNKNOWN
        row.data, row.count = data, 0
        return OK

    def _resume(self, owner: Row, waited_for: tuple[str, ...]) -> None:
        if owner.state == "PAUSED" and not self.children(owner, *waited_for):
            owner.state = "QUEUED"

    def _remove(self, row: Row) -> None:
        del self.rows[row.number]
        self._let_go(row, "QUEUED")

    def _let_go(self, row: Row, paused_become: str) -> None:
        """Detach the children of a job that failed or was removed. Finished children are deleted."""
        for child in self.children(row):
            child.parent = 0
            if child.state == "FINISHED":
                del self.rows[child.number]
            elif child.state == "PAUSED":
                child.state = paused_become
            elif child.state == "QUEUED" and paused_become == "CANCELLED":
                child.state = "CANCELLED"
            elif child.state in RUNS and paused_become == "CANCELLED":
                child.is_doomed = True
