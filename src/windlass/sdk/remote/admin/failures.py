"""Failure groups over HTTP."""

from __future__ import annotations

from windlass.core.ids import parse_id
from windlass.core.stats.failure_groups import FailureGroup, Failures
from windlass.sdk.remote.facet import RemoteFacet
from windlass.sdk.remote.request import get
from windlass.store.operation import Operation
from windlass.wire.failure_groups import FailureGroupShape, FailuresShape


class RemoteFailureOperations(RemoteFacet):
    def failures(
        self, *, queue: str = "", name: str = "", looked_at: int = 2_000, queues: tuple[str, ...] = ()
    ) -> Operation[Failures]:
        """Return groups of failed jobs. The server adds the queues of the token; narrower `queues` are for the
        server."""
        super().failures(queue=queue, name=name, looked_at=looked_at, queues=queues)
        query = {"queue": queue or None, "name": name or None, "looked_at": looked_at}
        return self._single(get("/failures", FailuresShape, query=query), _failures)


def _failures(shape: FailuresShape) -> Failures:
    fields = {name: getattr(shape, name) for name in Failures.__struct_fields__}
    return Failures(**fields | {"groups": [_group(group) for group in shape.groups]})


def _group(shape: FailureGroupShape) -> FailureGroup:
    fields = {name: getattr(shape, name) for name in FailureGroup.__struct_fields__}
    return FailureGroup(**fields | {"sample": parse_id(shape.sample)})
