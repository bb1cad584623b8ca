"""A filter to save."""

from __future__ import annotations

from windlass.core.filters.saved_filter import SavedFilter
from windlass.service import Service

FAILED = {"state": "failed", "queue": "mail"}


def save(service: Service, title: str, /, former: str = "", page: str = "jobs", **fields: str) -> SavedFilter:
    saved = SavedFilter(name=title, page=page, fields=fields or FAILED)
    service.save_filter(saved, former=former).wait()
    return saved
