"""Size of PNG, GIF and JPEG images, read from their headers."""

from __future__ import annotations

import struct
from typing import BinaryIO

# JPEG markers that start a frame: C0 to CF without tables and reserved markers (C4, C8, CC).
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_SEGMENTS_MAX = 10_000  # bounds the scan of a malicious file


class NotAnImage(Exception):
    """Error for a file that starts like an image but is not valid."""


def image_size(mime_type: str, file: BinaryIO) -> str:
    """Return `<width>x<height>`; empty for other types."""
    read = {"image/png": _png, "image/gif": _gif, "image/jpeg": _jpeg}.get(mime_type)
    if read is None:
        return ""
    try:
        width, height = read(file)
    except struct.error as error:
        raise NotAnImage("image: the file ends within its header") from error
    if width == 0 or height == 0:
        raise NotAnImage(f"image: {width}x{height} is no size")
    return f"{width}x{height}"


def _png(file: BinaryIO) -> tuple[int, int]:
    signature, _, kind, width, height = struct.unpack(">8sI4sII", file.read(24))
    if signature != b"\x89PNG\r\n\x1a\n" or kind != b"IHDR":
        raise NotAnImage("image: a PNG without its header")
    return width, height


def _gif(file: BinaryIO) -> tuple[int, int]:
    signature, width, height = struct.unpack("<6sHH", file.read(10))
    if signature not in (b"GIF87a", b"GIF89a"):
        raise NotAnImage("image: a GIF without its header")
    return width, height


def _jpeg(file: BinaryIO) -> tuple[int, int]:
    if file.read(2) != b"\xff\xd8":
        raise NotAnImage("image: a JPEG without its header")
    for _ in range(_SEGMENTS_MAX):
        marker = _next_marker(file)
        if marker in _WITHOUT_LENGTH:
            continue
        if marker in (0xD9, 0xDA):
            break
        (length,) = struct.unpack(">H", file.read(2))
        if marker in _FRAMES:
            _, height, width = struct.unpack(">BHH", file.read(5))
            return width, height
        if length < 2:
            raise NotAnImage("image: a JPEG with a segment of no length")
        file.seek(length - 2, 1)
    raise NotAnImage("image: a JPEG without a frame")


def _next_marker(file: BinaryIO) -> int:
    """Read the next marker. Any number of fill bytes may precede it."""
    (first,) = struct.unpack("B", file.read(1))
    if first != 0xFF:
        raise NotAnImage("image: a JPEG with a stray byte between its segments")
    marker = 0xFF
    for _ in range(_SEGMENTS_MAX):
        (marker,) = struct.unpack("B", file.read(1))
        if marker != 0xFF:
            break
    return int(marker)
