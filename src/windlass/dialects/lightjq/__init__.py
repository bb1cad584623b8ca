"""LightJQ, /lightjq: jobs in MessagePack, workers that are called, constraints, and what a web page needs."""

from __future__ import annotations

from . import constraints, jobs, openapi_document, reports, ui, workers

# The page's own words come before those of everything else below the prefix.
ROUTES = tuple(subject.routes for subject in (ui, jobs, workers, reports, constraints, openapi_document))
