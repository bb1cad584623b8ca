"""Screenshots as PNG files with a palette, a third of the size of the browser's files. The browser computes the
palette, because it decodes images fast."""

from __future__ import annotations

import base64
import struct
import zlib

from playwright.async_api import Page

# Keeps the 256 most frequent colours; other colours become the nearest of these.
_INDEXED = """async (encoded) => {
    const picture = await createImageBitmap(await (await fetch("data:image/png;base64," + encoded)).blob());
    const { width, height } = picture;
    const context = new OffscreenCanvas(width, height).getContext("2d");
    context.drawImage(picture, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
    const counts = new Map();
    for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
    const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 256).map(([pixel]) => pixel);
    const parts = (pixel) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
    const colours = palette.map(parts);
    const places = new Map(palette.map((pixel, place) => [pixel, place]));
    const nearest = (pixel) => {
        const [red, green, blue] = parts(pixel);
        let found = 0, least = Infinity;
        colours.forEach(([r, g, b], place) => {
            const distance = (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
            if (distance < least) [found, least] = [place, distance];
        });
        return found;
    };
    const places_of = Uint8Array.from(pixels, (pixel) => {
        if (!places.has(pixel)) places.set(pixel, nearest(pixel));
        return places.get(pixel);
    });
    let text = "";
    for (let at = 0; at < places_of.length; at += 32768)
        text += String.fromCharCode(...places_of.subarray(at, at + 32768));
    return [width, height, colours, btoa(text)];
}"""


async def small_png(page: Page, png: bytes) -> bytes:
    """Convert a PNG. `page` must not have a content security policy; a blank page works."""
    width, height, colours, places = await page.evaluate(_INDEXED, base64.b64encode(png).decode())
    rows = base64.b64decode(places)
    unfiltered = b"".join(b"\0" + rows[at : at + width] for at in range(0, len(rows), width))
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", b"".join(bytes(colour) for colour in colours)),
            _chunk(b"IDAT", zlib.compress(unfiltered, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
