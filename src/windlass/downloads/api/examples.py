"""Example requests of the downloader, shown in API documents."""

from __future__ import annotations

from typing import Any

DOWNLOAD_EXAMPLES: dict[str, Any] = {
    "download": {
        "url": "https://example.com/photo.jpg",
        "aggr_id": "beststore",
        "aggr_limit": 4,
        "callback_url": "https://example.com/done",
    },
    "set_aggregation": {"aggr_limit": 8},
}
