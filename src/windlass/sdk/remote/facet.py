"""What the facets of the remote service share: how a question becomes requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from windlass.core.errors import Refusal
from windlass.service import Service
from windlass.store.operation import BatchOperation, Operation
from windlass.store.store import Store
from windlass.wire.shape import Items, RequestShape, Results

from .request import Request, Requests, post
from .store import RemoteStore
from .translation import answers_of

T = TypeVar("T")
AT_ONCE = 1_000  # items in a request


class RemoteAsking(Service):
    """Its methods check as those of the service do, which they call for that: asking costs nothing before a question
    is awaited. What it does not replace is a call of the engine, and refused (RemoteStore)."""

    def __init__(self, store: RemoteStore) -> None:
        super().__init__(cast(Store, store))
        self.remote = store

    def _one(self, request: Request, read: Callable[[Any], T]) -> Operation[T]:
        def flow() -> Requests[T]:
            return read((yield request))

        return Operation(self.remote, flow)

    def _about(
        self,
        verb: str,
        items: Sequence[RequestShape],
        gives: Any,
        read: Callable[[Any], T],
        *,
        is_repeatable: bool = True,
    ) -> BatchOperation[T]:
        """The verb about many jobs."""

        def flow() -> Requests[list[T | Refusal]]:
            found: list[T | Refusal] = []
            for start in range(0, len(items), AT_ONCE):
                body = Items(list(items[start : start + AT_ONCE]))
                request = post(f"/jobs:{verb}", Results[gives], body, is_repeatable=is_repeatable)
                found += answers_of((yield request), read)
            return found

        return BatchOperation(self.remote, flow)
