"""MIME type by the first bytes, MIME patterns, image sizes and temporary files."""

from __future__ import annotations

import fnmatch
import io
import struct
import threading
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.downloads.origin import files_in, png
from windlass.core.errors import BadInput, BadSetting
from windlass.downloads.worker import parse_headers
from windlass.downloads.worker.content_type import mime_type_of
from windlass.downloads.worker.globs import parse_globs
from windlass.downloads.worker.image_size import NotAnImage, image_size
from windlass.downloads.worker.temp_file import TempFile


def _zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("a.txt", "hello")
    return made.getvalue()


JFIF = bytes.fromhex("ffd8ffe000104a46494600010100000100010000")
BMP = b"BM" + struct.pack("<IHHIIiiHH", 70, 0, 0, 54, 40, 2, 2, 1, 24) + b"\0" * 40


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "application/x-empty"),
        (png(2, 2), "image/png"),
        (JFIF, "image/jpeg"),
        (b"GIF89a\n\0\n\0\x80\0\0", "image/gif"),
        (b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj", "application/pdf"),
        (b"%PDF-1.4\nall in letters", "application/pdf"),
        (BMP, "image/bmp"),
        (b"<!DOCTYPE html><html>", "text/html"),
        (b"\n <!-- a --> <!-- b -->\n<HTML lang=en>", "text/html"),
        (b"hello world\n", "text/plain"),
        ("Καλημέρα".encode(), "text/plain"),
        ("Καλημέρα".encode("iso-8859-7"), "text/plain"),
        ("hello".encode("utf-16"), "text/plain"),
        (b'{"a": [1, 2]}', "application/json"),
        (b'[{"a": "' + b"x" * 2000, "application/json"),
        (b"{not json}", "text/plain"),
        (b"[Note] to self", "text/plain"),
        (_zip(), "application/zip"),
        (b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41", "video/mp4"),
        (b"RIFF\x24\0\0\0WEBPVP8 \0\0", "image/webp"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "application/gzip"),
        (b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', "image/svg+xml"),
        (b'<?xml version="1.0"?><a/>', "text/xml"),
        (b"#!/bin/sh\necho\n", "text/x-shellscript"),
        (b"BMW makes cars", "text/plain"),
        (b"MZ is where this text begins", "text/plain"),
        (b"GIF is a format", "text/plain"),
        (bytes(100), "application/octet-stream"),
        (b"text, and then\0\x01", "application/octet-stream"),
        (b"x" * 1024 + b"\0" * 10, "text/plain"),  # only the first bytes count
    ],
)
def test_the_first_bytes_say_what_it_is(content: bytes, found: str) -> None:
    assert mime_type_of(content) == found


@given(st.binary(max_size=1100))
def test_anything_has_a_type(content: bytes) -> None:
    assert "/" in mime_type_of(content)


@pytest.mark.parametrize("part", [b"<!---->", b"<?xml ?>", b" ", b"<!--", b'{"', b"<!doctype >", b"\\"])
def test_no_content_takes_long_to_look_at(part: bytes) -> None:
    assert mime_type_of(part * 1024)


@pytest.mark.parametrize("text", ["[]a]", "\\", "[", "[a", "[a-", "[-a]", "[a-]", "a\\", "[^]", "[\\", "ok/*,!["])
def test_a_bad_pattern_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a pattern"):
        parse_globs(text)


@pytest.mark.parametrize(
    ("text", "mime_type", "fits"),
    [
        ("", "image/png", True),
        (" , ", "image/png", True),
        ("image/*", "image/png", True),
        ("image/*", "image/svg/xml", False),
        ("*", "image/png", False),
        ("*/*", "image/png", True),
        ("image/png, image/jpeg", "image/jpeg", True),
        ("image/png,image/jpeg", "image/gif", False),
        ("image/p?g", "image/png", True),
        ("image?png", "image/png", False),
        ("image/[a-p]ng", "image/png", True),
        ("image/[^a-p]ng", "image/png", False),
        ("image[^a]png", "image/png", False),
        ("image/\\*", "image/*", True),
        ("image/\\*", "image/png", False),
        ("!image/*", "text/plain", True),
        ("!image/*", "image/png", False),
        ("image/*,!image/gif", "image/png", True),
        ("image/*,!image/gif", "image/gif", False),
        ("image/*,!image/gif", "text/plain", False),
        ("*a*b*c/*", "xaxbxc/d", True),
        ("*a*b*c/*", "xaxbx/c", False),
    ],
)
def test_patterns(text: str, mime_type: str, fits: bool) -> None:
    assert (parse_globs(text).mismatch(mime_type) == "") == fits


@given(st.text("ab*?", max_size=12), st.text("ab", max_size=12))
def test_patterns_without_slashes_are_as_everywhere(pattern: str, text: str) -> None:
    expected = not pattern or fnmatch.fnmatchcase(text, pattern)
    assert (parse_globs(pattern).mismatch(text) == "") == expected


def test_no_pattern_takes_long() -> None:
    assert parse_globs("*a" * 500 + "b").mismatch("a" * 500)


def frame(marker: int, height: int, width: int) -> bytes:
    return bytes([0xFF, marker, 0, 11, 8]) + struct.pack(">HH", height, width) + b"\x01\x01\x11\0"


@pytest.mark.parametrize(
    ("mime_type", "content", "size"),
    [
        ("image/png", png(10, 20), "10x20"),
        ("image/gif", b"GIF87a" + struct.pack("<HH", 300, 7), "300x7"),
        ("image/jpeg", JFIF + frame(0xC0, 20, 10), "10x20"),
        ("image/jpeg", JFIF + b"\xff\xc4\0\x04ab\xff\xff\xff" + frame(0xC2, 1, 65535)[1:], "65535x1"),  # progressive
        ("image/jpeg", JFIF + b"\xff\xe1\xff\xff" + b"\xff" * 65533 + frame(0xC1, 20, 10), "10x20"),
        ("image/bmp", BMP, ""),
        ("text/plain", b"", ""),
    ],
)
def test_sizes_of_images(mime_type: str, content: bytes, size: str) -> None:
    assert image_size(mime_type, io.BytesIO(content)) == size


@pytest.mark.parametrize(
    ("mime_type", "content"),
    [
        ("image/png", png(10, 10)[:20]),
        ("image/png", png(0, 10)),
        ("image/png", b"\x89PNG\r\n\x1a\n" + b"\0" * 30),
        ("image/gif", b"GIF89a\n"),
        ("image/jpeg", JFIF),
        ("image/jpeg", JFIF + b"\xff\xda\0\x02"),
        ("image/jpeg", JFIF + b"stray"),
        ("image/jpeg", JFIF + b"\xff\xe1\0\0"),
        ("image/jpeg", JFIF + b"\xff" * 100_000),
    ],
)
def test_an_image_that_cannot_be_read(mime_type: str, content: bytes) -> None:
    with pytest.raises(NotAnImage):
        image_size(mime_type, io.BytesIO(content))


def test_headers_are_read_from_a_setting() -> None:
    assert (parse_headers(""), parse_headers('{"A": "b"}')) == ({}, {"A": "b"})
    for wrong in ("A: b", '{"A": 1}', "[]"):
        with pytest.raises(BadSetting, match="download_headers"):
            parse_headers(wrong)


def test_what_another_has_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "name.tmp").write_bytes(b"longer than what comes")
    temp = TempFile(tmp_path, "name", threading.Event())
    temp.open()
    temp.write([b"a", b"b"])
    temp.move(tmp_path / "new" / "place")
    assert (files_in(tmp_path), temp.is_open) == ({"new/place": b"ab"}, False)
