"""One request over ASGI: read, plan, run the handler, send the answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from windlass.web.listener import serializer
from windlass.web.listener.deferred import DeferredAnswer
from windlass.web.listener.messages import (
    Client,
    IncompleteBody,
    Plan,
    Reply,
    Request,
    Response,
    StreamedResponse,
    path_for_logs,
)

from .body import BufferedBody, ClientGone, stream_body
from .scope import BadScope, Message, MountedHead, Receive, Scope, Send, head_of, peer_of

if TYPE_CHECKING:
    from .transport import AsgiTransport

log = logging.getLogger("windlass.web")
T = TypeVar("T")
_FAILED = "The server failed to answer; its log says why."
_CANCELLED = "The server cancelled the request."


class AsgiRequest:
    """A request and its answer."""

    def __init__(self, transport: AsgiTransport, scope: Scope, receive: Receive, send: Send) -> None:
        self._transport = transport
        self._scope = scope
        self._receive = receive
        self._send_message = send
        self._head: MountedHead | None = None
        self._client = Client(peer_of(scope), scope.get("scheme") == "https")
        self._started_at = perf_counter()
        self._is_answered = False  # at least the head of the answer is sent

    async def run(self) -> None:
        """Answer the request. Raise only if the answer breaks off, so that the host's server cuts the connection."""
        try:
            answer = await self._answer()
            if answer is not None:
                await self._send(answer)
        except ClientGone:
            self._client.is_gone = True

    async def _answer(self) -> Response | None:
        """Return the answer, or None if it was streamed already."""
        try:
            self._head = head = head_of(self._scope, self._transport.bounds)
            plan = await self._transport.plan(head)
            return plan if isinstance(plan, Response) else await self._run_plan(plan, head)
        except BadScope as refusal:
            return self._refuse(refusal.status, refusal.detail)
        except IncompleteBody as error:
            return self._refuse(400, str(error))
        except ClientGone:
            raise
        except Exception:
            if self._is_answered:
                raise
            path = path_for_logs(self._scope["path"])
            log.exception("%s %s failed unexpectedly; it is answered 500.", self._scope["method"], path)
            return self._refuse(500, _FAILED)

    def _refuse(self, status: int, detail: str) -> Response:
        if self._is_answered:
            raise ClientGone  # half an answer is sent: no other can follow
        return self._transport.application.refuse(status, detail, self._head)

    async def _run_plan(self, plan: Plan, head: MountedHead) -> Response | None:
        if plan.streams_body:
            return await self._handle(plan, Request(head, b"", self._client, stream_body(self._receive)))
        body = BufferedBody(self._receive, self._transport.budget, plan.body_max)
        try:
            body.check_length(head.headers.get("content-length", ""))
            return await self._handle(plan, Request(head, await body.read(), self._client))
        finally:
            body.release()

    async def _handle(self, plan: Plan, request: Request) -> Response | None:
        result = plan.handle(request)
        if isinstance(result, Response):
            return result
        if isinstance(result, DeferredAnswer):
            await asyncio.wait((result.future,))
            if result.future.cancelled():
                raise BadScope(500, _CANCELLED)
            return result.to_answer(result.future)
        # In a task of its own: a request that its server cancels must not leave an action half done.
        task = self._transport.start(self._run(result))
        if plan.waits:
            return await self._watch(task)
        await asyncio.wait((task,))  # the task goes on if this request is cancelled
        return _result(task)

    async def _run(self, handling: Coroutine[Any, Any, Reply]) -> Response | None:
        """Run the handler, and send its answer if that is a stream."""
        reply = await handling
        if isinstance(reply, StreamedResponse):
            await self._send_stream(reply)
            return None
        return reply

    async def _watch(self, task: asyncio.Task[Response | None]) -> Response | None:
        """Wait for the task, and cancel it when the client disconnects."""
        watching = self._transport.start(self._wait_for_disconnect())
        try:
            with self._transport.host_watch:
                await asyncio.wait((task, watching), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientGone
            return _result(task)
        finally:
            self._client.is_gone = not task.done()
            await _cancel(task, watching)

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    # Sending.

    async def _send(self, answer: Response) -> None:
        self._is_answered = True
        status, size = await send_response(self._send_checked, answer, is_head=self._is_head_request)
        self._count(status, size)

    async def _send_stream(self, answer: StreamedResponse) -> None:
        size = 0
        try:
            headers = serializer.header_pairs(answer.headers, answer.content_type)
            if answer.length is not None:
                headers.append((b"content-length", b"%d" % answer.length))
            self._is_answered = True
            await self._send_checked(_start(answer.status, headers))
            if not self._is_head_request:
                async for data in answer.chunks:
                    if data:
                        size += len(data)
                        await self._send_checked(_part(data, has_more=True))
            await self._send_checked(_part(b"", has_more=False))
        finally:
            self._count(answer.status, size)
            close = getattr(answer.chunks, "aclose", None)
            if close is not None:
                await close()

    async def _send_checked(self, message: Message) -> None:
        try:
            await self._send_message(message)
        except OSError as error:  # from a server that reports a lost client
            raise ClientGone from error

    @property
    def _is_head_request(self) -> bool:
        return bool(self._scope["method"] == "HEAD")

    def _count(self, status: int, size: int) -> None:
        self._transport.on_answer(self._head, status, size, perf_counter() - self._started_at, self._client)


async def send_response(send: Send, answer: Response, *, is_head: bool) -> tuple[int, int]:
    """Send a whole response. Return its status and the number of bytes of its body."""
    try:
        headers = serializer.header_pairs(answer.headers, answer.content_type)
    except ValueError:
        log.exception("Could not write the head of a response; it is replaced by a 500.")
        answer, headers = Response(500), []
    is_bodiless = answer.status in serializer.BODILESS
    if not is_bodiless:
        headers.append((b"content-length", b"%d" % len(answer.body)))
    body = b"" if is_bodiless or is_head else answer.body
    await send(_start(answer.status, headers))
    await send(_part(body, has_more=False))
    return answer.status, len(body)


def _start(status: int, headers: list[tuple[bytes, bytes]]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


def _part(data: bytes, *, has_more: bool) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": has_more}


def _result(task: asyncio.Task[T]) -> T:
    if task.cancelled():
        raise BadScope(500, _CANCELLED)
    return task.result()


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
