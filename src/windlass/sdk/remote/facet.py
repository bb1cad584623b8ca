"""Base of the operations over HTTP: validation as in the service, then requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from windlass.core.errors import Refusal
from windlass.service import Service
from windlass.store.operation import BatchOperation, Operation
from windlass.store.store import Store
from windlass.wire.shape import Items, RequestShape, Results

from .request import ApiRequest, RequestFlow, post
from .store import RemoteStore
from .translation import read_results

T = TypeVar("T")
BATCH_MAX = 1_000  # items in one request


class RemoteFacet(Service):
    """Service whose operations send HTTP requests.

    A method first calls the method that it overrides, for its validation; an operation sends nothing before it is
    awaited. RemoteStore refuses operations that are not overridden here, as they need the engine."""

    def __init__(self, store: RemoteStore) -> None:
        super().__init__(cast(Store, store))
        self.remote = store

    def _single(self, request: ApiRequest, convert: Callable[[Any], T]) -> Operation[T]:
        def flow() -> RequestFlow[T]:
            return convert((yield request))

        return Operation(self.remote, flow)

    def _batch(
        self,
        verb: str,
        items: Sequence[RequestShape],
        response: Any,
        convert: Callable[[Any], T],
        *,
        is_repeatable: bool = True,
    ) -> BatchOperation[T]:
        """Run a verb on many jobs. `response`: the shape of an item's result."""

        def flow() -> RequestFlow[list[T | Refusal]]:
            found: list[T | Refusal] = []
            for start in range(0, len(items), BATCH_MAX):
                body = Items(list(items[start : start + BATCH_MAX]))
                request = post(f"/jobs:{verb}", Results[response], body, is_repeatable=is_repeatable)
                found += read_results((yield request), len(body.items), convert)
            return found

        return BatchOperation(self.remote, flow)
