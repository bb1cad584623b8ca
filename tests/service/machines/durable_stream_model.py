"""Model of a job's stream: values in order, none written twice by a repeated run or call."""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.core.durable import StreamItem, StreamWrite


@dataclass
class StreamModel:
    items: list[StreamItem] = field(default_factory=list)
    outside: int = 0  # values written outside of steps
    attempt: tuple[int, int] = (0, 0)  # attempt and round of the last value
    token: int = 0  # of the last writer
    sequence: int = 0  # values that this writer has written

    def write(self, request: StreamWrite, attempt: tuple[int, int], now_ms: int) -> None:
        new = request.values[self._count_known(request) :]
        if not new:
            return
        if self.items and attempt != self.attempt:
            self._append(StreamItem(position=0, at_ms=now_ms, attempt=attempt[0]))
        for value in new:
            self._append(StreamItem(position=0, at_ms=now_ms, attempt=attempt[0], value=value))
        self.attempt, self.token = attempt, request.token
        self.sequence = request.sequence + len(request.values)
        if request.outside is not None:
            self.outside = max(self.outside, request.outside + len(request.values))

    def _count_known(self, request: StreamWrite) -> int:
        """Return how many of the values were written before."""
        repeated = self.sequence - request.sequence if self.token == request.token else 0
        replayed = self.outside - request.outside if request.outside is not None else 0
        return max(0, repeated, replayed)

    def _append(self, item: StreamItem) -> None:
        position = len(self.items) + 1
        self.items.append(StreamItem(position=position, at_ms=item.at_ms, attempt=item.attempt, value=item.value))
