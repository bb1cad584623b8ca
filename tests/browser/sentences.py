"""How a deployment is worded: as people would word it, or as somebody would who means harm. Either way a text begins
with its plain words, by which a test finds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from zlib import crc32

Wording: TypeAlias = Callable[..., str]
SHORT = 120  # bytes: fits wherever a text may be given

# What of these is taken for markup or script is heard: a request for /nowhere, an exception, or the policy's refusal.
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


def plainly(text: str, most: int = SHORT) -> str:
    return text


def hostilely(text: str, most: int = SHORT) -> str:
    """The same for the same text, whoever asks."""
    return cut(f"{text} {HOSTILE[crc32(text.encode()) % len(HOSTILE)]}", most)


def cut(text: str, most: int) -> str:
    return text.encode()[:most].decode(errors="ignore").rstrip()
