"""OpenAPI document of the downloader. Paths are relative to /downloader, as its clients expect."""

from __future__ import annotations

from typing import Any

from windlass.web.app.router import Route
from windlass.web.docs.dialect_document import TAG, build_dialect_document, serve_document
from windlass.web.docs.openapi import DocumentInfo, Examples

from .examples import DOWNLOAD_EXAMPLES
from .order_form import REQUIRED
from .refusals import PREFIX, routes_of

routes = routes_of(TAG)

_ABOUT = DocumentInfo(
    "Windlass downloader",
    "Downloads with a concurrency limit per aggregation, in the API of skroutz's downloader. Errors are plain text.",
    PREFIX,
)
_EXAMPLES = Examples(DOWNLOAD_EXAMPLES)


def self_description(served: list[Route]) -> dict[str, Any]:
    made = build_dialect_document(served, _EXAMPLES, _ABOUT)
    # The decoder accepts a body without required fields, so that the error names the field in the downloader's words.
    made["components"]["schemas"]["OrderForm"]["required"] = list(REQUIRED)
    # A file has the media type of its content. Generators know what to do with the first of the two.
    answers = made["paths"]["/files/{folder}/{name}"]["get"]["responses"]
    for status in ("200", "206"):
        answers[status]["content"]["*/*"] = {}
    return made


serve_document(routes, "downloader", self_description)
