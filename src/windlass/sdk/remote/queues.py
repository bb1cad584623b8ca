"""Queue operations over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from windlass.core.explain.unknown_names import UnknownName
from windlass.core.queue import (
    Configuration,
    Minute,
    Pause,
    Property,
    QueuePage,
    QueuePresence,
    QueueStats,
    QueueSurvey,
    survey_of,
)
from windlass.core.scale import Scale, ScaleTarget
from windlass.core.validation.bounds import PAGE_MAX
from windlass.store.operation import Operation
from windlass.wire.queues import (
    UNKNOWN_NAMES_MAX,
    AllWeightsShape,
    ConfigurationChangesShape,
    ConfigurationShape,
    HistoryShape,
    PauseShape,
    PausesShape,
    QueueShape,
    QueuesShape,
    RemovedQueueShape,
    ResumeShape,
    ScaleShape,
    UnknownNamesShape,
    WasPausedShape,
    WeightsShape,
)

from .facet import RemoteFacet
from .request import ApiRequest, RequestFlow, get, post, quote_segment
from .translation import copy_fields

READ_ALONE = 3  # queues whose statistics are read by a request each; more are read from the list of all queues


class RemoteQueueOperations(RemoteFacet):
    def queues(self) -> Operation[list[str]]:
        return Operation(self.remote, _list_queues)

    def queues_page(self, *, after: str = "", most: int = 100, queues: tuple[str, ...] = ()) -> Operation[QueuePage]:
        """Ask the server. It lists the queues that the token may see, so `queues` has no effect."""
        super().queues_page(after=after, most=most, queues=queues)
        return self._single(_page_request(after, most), _queue_page)

    def survey(self, queues: tuple[str, ...] = ()) -> Operation[QueueSurvey]:
        """Read all queues that the token may see, page by page."""
        super().survey(queues)
        return Operation(self.remote, _survey)

    def stats(self, names: Sequence[str]) -> Operation[list[QueueStats]]:
        super().stats(names)
        return Operation(self.remote, lambda: _read_stats(names))

    def scale(self, queue: str, goal: ScaleTarget = ScaleTarget()) -> Operation[Scale]:  # noqa: B008 (it is frozen)
        super().scale(queue, goal)
        request = get(f"{_path(queue)}/scale", ScaleShape, query=msgspec.structs.asdict(goal))
        return self._single(request, lambda shape: copy_fields(shape, Scale))

    def history(self, queue: str, *, hours: int = 1) -> Operation[list[Minute]]:
        super().history(queue, hours=hours)
        request = get(f"{_path(queue)}/history", HistoryShape, query={"hours": hours})
        return self._single(request, lambda history: [copy_fields(minute, Minute) for minute in history.minutes])

    def configure(self, queue: str, changes: Mapping[str, Property]) -> Operation[Configuration]:
        super().configure(queue, changes)
        path = f"{_path(queue)}/configuration"
        if not changes:
            return self._single(get(path, ConfigurationShape), lambda shape: copy_fields(shape, Configuration))
        body = msgspec.convert(dict(changes), ConfigurationChangesShape)
        request = ApiRequest(method="PATCH", path=path, response_type=ConfigurationShape, body=body)
        return self._single(request, lambda shape: copy_fields(shape, Configuration))

    def pause(self, queue: str, *, lane: str = "", name: str = "", reason: str = "") -> Operation[bool]:
        super().pause(queue, lane=lane, name=name, reason=reason)
        request = post(f"{_path(queue)}/pause", WasPausedShape, PauseShape(lane=lane, name=name, reason=reason))
        return self._single(request, lambda reply: not reply.was_paused)

    def resume(self, queue: str, *, lane: str = "", name: str = "") -> Operation[bool]:
        super().resume(queue, lane=lane, name=name)
        request = post(f"{_path(queue)}/resume", WasPausedShape, ResumeShape(lane=lane, name=name))
        return self._single(request, lambda reply: reply.was_paused)

    def pauses(self, queue: str) -> Operation[list[Pause]]:
        super().pauses(queue)
        request = get(f"{_path(queue)}/pauses", PausesShape)
        return self._single(request, lambda reply: [copy_fields(pause, Pause) for pause in reply.pauses])

    def set_weights(self, queue: str, weights: Mapping[str, int]) -> Operation[dict[str, int]]:
        super().set_weights(queue, weights)
        return Operation(self.remote, lambda: _set_weights(queue, weights))

    def unknown_names(self, queue: str) -> Operation[list[UnknownName]]:
        super().unknown_names(queue)
        request = get(_path(queue), QueueShape)
        return self._single(request, lambda reply: [copy_fields(found, UnknownName) for found in reply.unknown_names])

    def unknown_among(self, queue: str, names: Sequence[str]) -> Operation[list[UnknownName]]:
        super().unknown_among(queue, names)

        def flow() -> RequestFlow[list[UnknownName]]:
            found: list[UnknownName] = []
            for start in range(0, len(names), UNKNOWN_NAMES_MAX):
                query = {"name": list(names[start : start + UNKNOWN_NAMES_MAX])}
                reply = yield get(f"{_path(queue)}/unknown-names", UnknownNamesShape, query=query)
                found += [copy_fields(unknown, UnknownName) for unknown in reply.unknown_names]
            return found

        return Operation(self.remote, flow)

    def queue_presence(self, queue: str, *, queues: tuple[str, ...] = ()) -> Operation[QueuePresence]:
        """Ask the server. It suggests queues that the token may see, so `queues` has no effect."""
        super().queue_presence(queue, queues=queues)
        return self._single(
            get(_path(queue), QueueShape),
            lambda reply: QueuePresence(queue=queue, exists=reply.exists, suggestion=reply.suggestion),
        )

    def remove_queue(self, queue: str, *, force: bool = False) -> Operation[bool]:
        super().remove_queue(queue, force=force)
        query = {"force": True} if force else {}
        request = ApiRequest(method="DELETE", path=_path(queue), response_type=RemovedQueueShape, query=query)
        return self._single(request, lambda reply: reply.existed)


def _path(queue: str) -> str:
    return f"/queues/{quote_segment(queue)}"


def _list_queues() -> RequestFlow[list[str]]:
    return list((yield from _list_stats()))


def _page_request(after: str, most: int) -> ApiRequest:
    return get("/queues", QueuesShape, query={"after": after or None, "most": most})


def _queue_page(page: QueuesShape) -> QueuePage:
    return QueuePage(stats=[copy_fields(stats, QueueStats) for stats in page.queues], after=page.after)


def _list_stats() -> RequestFlow[dict[str, QueueStats]]:
    """Read the statistics of all queues, by name."""
    found: dict[str, QueueStats] = {}
    after = ""
    while True:
        page = _queue_page((yield _page_request(after, PAGE_MAX)))
        found |= {stats.queue: stats for stats in page.stats}
        after = page.after
        if not after:
            return found


def _survey() -> RequestFlow[QueueSurvey]:
    return survey_of(list((yield from _list_stats()).values()), 0)


def _read_stats(names: Sequence[str]) -> RequestFlow[list[QueueStats]]:
    listed: dict[str, QueueStats] = {}
    if len(names) > READ_ALONE:
        listed = yield from _list_stats()
    found = []
    for name in names:
        if name in listed:
            found.append(listed[name])
            continue
        queue = yield get(_path(name), QueueShape)
        found.append(copy_fields(queue.stats, QueueStats))
    return found


def _set_weights(queue: str, weights: Mapping[str, int]) -> RequestFlow[dict[str, int]]:
    """Change the weights of some lanes. A request sets those of all lanes, so the others are read first."""
    known: dict[str, int] = (yield get(_path(queue), QueueShape)).weights
    if not weights:
        return known
    changed = {lane: weight for lane, weight in (known | dict(weights)).items() if weight != 1}
    reply = yield ApiRequest(
        method="PUT", path=f"{_path(queue)}/weights", response_type=AllWeightsShape, body=WeightsShape(weights=changed)
    )
    return dict(reply.weights)
