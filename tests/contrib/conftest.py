"""Fixtures of the integrations' tests: the engine, application and workers of the SDK's tests."""

from __future__ import annotations

from tests.sdk.conftest import app, engine, working

__all__ = ["app", "engine", "working"]
