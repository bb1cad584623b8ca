"""HTTP API of the downloader under /downloader: downloads with aggregations, statistics, and files."""

from __future__ import annotations

from . import files, monitor, openapi_document, orders

ROUTES = tuple(subject.routes for subject in (orders, monitor, files, openapi_document))
