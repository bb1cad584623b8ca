"""Tests of path traversal."""

from __future__ import annotations

import contextlib
import http.client
from pathlib import Path

import pytest

from tests.support.server_process import ServerProcess, store_options
from windlass.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

LEAVING = [
    "..", "../..", "%2e%2e", "%2e%2e%2f%2e%2e%2fsecret", "..%2f..%2fsecret", "..%5c..%5csecret", "....//secret", "%00",
    "/etc/passwd", "%2fetc%2fpasswd", "file:%2f%2f%2fetc%2fpasswd", "..%c0%af..%c0%afsecret", "%252e%252e%252fsecret",
    "abc%00.css", "~root", ".", "CON",
]  # fmt: skip


def test_nothing_outside_is_served(store: Store, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("outside")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "abc").mkdir()
    (tmp_path / "files" / "abc" / "abcdefghijklmn").symlink_to(tmp_path / "secret")
    options = {"download_dir": str(tmp_path / "files")}
    with ServerProcess(store_options(store), **options) as server:
        for escape in LEAVING:
            for path in (
                f"/downloader/files/{escape}/{escape}",
                f"/downloader/files/abc/{escape}",
                f"/static/v/{escape}",
                f"/{escape}",
            ):
                status, body = _get_raw(server, path)
                assert status in (303, 400, 403, 404), path
                assert b"outside" not in body, path
                assert b"root:" not in body, path
        assert _get_raw(server, "/downloader/files/abc/abcdefghijklmn")[0] == 404  # a link


def _get_raw(server: ServerProcess, path: str) -> tuple[int, bytes]:
    """Send the path unchanged; HTTP clients normalize paths."""
    with contextlib.closing(http.client.HTTPConnection(*server.address, timeout=30)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
