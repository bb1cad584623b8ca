"""Texts of a demo deployment: plain or hostile. A hostile text starts with the plain words, so that tests can find
it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from zlib import crc32

TextMaker: TypeAlias = Callable[..., str]
SHORT = 120  # bytes; fits into every field

# If a browser interprets one of these as markup or script, the error monitor records it: a request for /nowhere, an
# exception, or a policy violation.
HOSTILE = (
    "<script>nowhere()</script>",
    '"><img src=/nowhere onerror=nowhere()>',
    "'\" onmouseover=nowhere() autofocus onfocus=nowhere() x='",
    "</textarea></script></style></title><svg onload=nowhere()>",
    "javascript:nowhere()",
    "{{ 7 * 7 }} {% include '/etc/passwd' %} ${nowhere()}",
    "&lt;b&gt; &amp;amp; <!-- ]]> \\u003cscript\\u003e",
    "/../..//%2e%2e/?a=b&c=d#e;%00%ff\\..",
    "\u202eתפוס את זה\u202c مرحبا بالعالم \u2066",
    "👩‍👩‍👧‍👦🏳️‍🌈 Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G \u2028\u00a0\u200b\ufeff",
    "W" * 5_000,
    "long words " * 500,
)


def plain_text(text: str, most: int = SHORT) -> str:
    return text


def hostile_text(text: str, most: int = SHORT) -> str:
    """Append a hostile text, always the same for the same text."""
    return cut(f"{text} {HOSTILE[crc32(text.encode()) % len(HOSTILE)]}", most)


def cut(text: str, most: int) -> str:
    return text.encode()[:most].decode(errors="ignore").rstrip()
