"""LightJQ, /lightjq: jobs in MessagePack, workers that are called, constraints, and what a web page needs."""

from __future__ import annotations

from . import constraints, done, jobs, openapi_document, page, workers

# The page's own words come before those of everything else below the prefix.
ROUTES = tuple(subject.routes for subject in (page, jobs, workers, done, constraints, openapi_document))
