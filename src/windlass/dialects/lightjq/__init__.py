"""LightJQ dialect at /lightjq: jobs in MessagePack, push workers, constraints, and routes for a web page."""

from __future__ import annotations

from . import constraints, jobs, openapi_document, reports, ui, workers

# The routes of the web page come first: they format errors differently from the others below the prefix.
ROUTES = (
    *(subject.routes for subject in (ui, jobs, workers, reports, constraints, openapi_document)),
    openapi_document.worker_routes,
)
