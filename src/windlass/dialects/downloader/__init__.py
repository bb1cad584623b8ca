"""The downloader's API, /downloader: downloads with aggregations, their statistics, and the files."""

from __future__ import annotations

from . import files, ordering, self_description, watching

ROUTES = tuple(subject.routes for subject in (ordering, watching, files, self_description))
