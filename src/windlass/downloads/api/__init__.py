"""The downloader's API, /downloader: downloads with aggregations, their statistics, and the files."""

from __future__ import annotations

from . import files, monitor, openapi_document, orders

ROUTES = tuple(subject.routes for subject in (orders, monitor, files, openapi_document))
