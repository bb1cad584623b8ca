"""The example of a program with Windlass below a path and its own login."""

from __future__ import annotations

import httpx
import pytest

pytestmark = pytest.mark.anyio


async def test_users_of_the_program_have_their_roles(deployment: None) -> None:
    from mounted_app import api

    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://host", follow_redirects=True) as client,
    ):
        refused = await client.get("/jobs/queues", headers={"accept": "text/html"}, follow_redirects=False)
        assert (refused.status_code, refused.headers["location"]) == (303, "/login?next=%2Fjobs%2Fqueues")
        assert (await client.post("/mails", params={"to": "ada"})).status_code == 200
        for user, status in (("ada", 403), ("grace", 200)):
            page = await client.get("/login", params={"user": user, "next": "/jobs/queues"})
            assert (page.url.path, "mail" in page.text, user in page.text) == ("/jobs/queues", True, True)
            assert (await client.get("/jobs/audit")).status_code == status
