"""Page about a queue or a task of which nothing is known: status 404, with a link to one of a similar name."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.dashboard.page_context import PageContext
from windlass.dashboard.rendering import render_page
from windlass.web.listener.messages import Response


class MissingView(msgspec.Struct, frozen=True):
    sentence: str
    suggestion: str  # empty: there is none


def render_missing(page: PageContext[Any], sentence: str, suggestion: str) -> Response:
    """Render the page in the section of the page that was asked for."""
    return render_page("missing.html", MissingView(sentence, suggestion), page, status=404)
