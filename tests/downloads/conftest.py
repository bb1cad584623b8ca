"""Fixtures of the downloader's tests: the server and clients of the dialects' tests."""

from __future__ import annotations

from tests.dialects.conftest import api, client, json_api, running, server_settings, server_url

__all__ = ["api", "client", "json_api", "running", "server_settings", "server_url"]
