"""MIME type of content, from its first bytes. A library knows the signatures; formats without a signature are detected
here and named as libmagic names them. No I/O."""

from __future__ import annotations

import re

LOOKED_AT = 1024  # bytes
EMPTY, TEXT, UNKNOWN = "application/x-empty", "text/plain", "application/octet-stream"

# Names that differ between the library and libmagic.
_LIBMAGIC_NAMES = {
    "application/rtf": "text/rtf",
    "application/x-msdownload": "application/vnd.microsoft.portable-executable",
    "image/x-icon": "image/vnd.microsoft.icon",
}
# Formats whose first bytes may be text. Anything else that looks like text is text: a signature of two letters does not
# make it an image.
_TEXTUAL_FORMATS = frozenset({"application/pdf", "application/postscript", "text/rtf"})
# Possessive and atomic patterns do not backtrack, because the content comes from outside.
_HTML = re.compile(
    rb"(?>\s|<!--.*?-->|<\?xml[^>]*\?>)*+<(?:!doctype\s+html|(?:html|head|title|body|script|style|table|h1|a\s+href=)\b)",
    re.IGNORECASE | re.DOTALL,
)
_SVG = re.compile(rb"(?>\s|<!--.*?-->|<\?xml[^>]*\?>|<!doctype[^>]*>)*+<svg\b", re.IGNORECASE | re.DOTALL)
_JSON = re.compile(rb"""\s*+(?:\{\s*+(?:"(?:[^"\\]|\\.)*+"\s*+:|\}\s*$)|\[\s*+(?:[\[{"\d-]|true|false|null|\]\s*$))""")
_SHELL = re.compile(rb"#!\s*/\S*(?:/env\s+)?\S*sh\b")
# Text may contain these control characters: 7 (BEL), backspace, tab, line feed, form feed, return, escape.
_NOT_IN_TEXT = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27}) + b"\x7f"
_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


def mime_type_of(beginning: bytes) -> str:
    """Return the type of content that starts with these bytes, which may be all of it."""
    beginning = beginning[:LOOKED_AT]
    if not beginning:
        return EMPTY
    found = _guess(beginning)
    known = _LIBMAGIC_NAMES.get(found, found) if found else ""
    text = _text_in(beginning)
    if text is None or known in _TEXTUAL_FORMATS:
        return known or UNKNOWN
    return _kind_of_text(text)


def _guess(beginning: bytes) -> str | None:
    import filetype  # a package of the server; commands that only read our jobs import this module too

    found: str | None = filetype.guess_mime(beginning)
    return found


def _text_in(beginning: bytes) -> bytes | None:
    """Return the text, or None if the content is not text."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if beginning.startswith(mark):
            text = beginning[len(mark) :].decode(encoding, errors="replace").encode()
            return None if _has_any(text, _NOT_IN_TEXT) else text
    # A byte beyond ASCII may be a letter of UTF-8 or of an older encoding.
    return None if _has_any(beginning, _NOT_IN_TEXT) else beginning


def _has_any(text: bytes, wanted: bytes) -> bool:
    return len(text.translate(None, wanted)) != len(text)


def _kind_of_text(text: bytes) -> str:
    if _SVG.match(text):
        return "image/svg+xml"
    if _HTML.match(text):
        return "text/html"
    if _SHELL.match(text):
        return "text/x-shellscript"
    if text.lstrip().startswith(b"<?xml"):
        return "text/xml"
    return "application/json" if _JSON.match(text) else TEXT  # the beginning of an object or an array
