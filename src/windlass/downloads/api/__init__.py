"""HTTP API of the downloader under /downloader: downloads with aggregations, statistics, and files."""

from __future__ import annotations

from . import aggregation_limits, files, monitor, openapi_document, orders, status

ROUTES = tuple(subject.routes for subject in (orders, status, monitor, aggregation_limits, files, openapi_document))
