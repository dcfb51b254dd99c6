"""A guard of web_app.py's page: it refuses other pages, large requests, and addresses of other machines.

A page of another site can make a browser send requests to this machine. DNS rebinding even makes them look
like requests of the same site; the header Host then still names the other site.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

HOSTS = "127.0.0.1", "localhost", "[::1]"
SMALL = 1 << 20  # bytes of a request that is no upload
SLACK = 1 << 16  # bytes of an upload that are not its file's
UPLOAD, FILE = "/gradio_api/upload", "/gradio_api/file="
ROUTES = re.compile(  # what the page needs; gradio has more, some of which ask other machines
    r"/|/config|/theme\.css|/manifest\.json|/favicon\.ico|/pwa_icon|/(assets|static|svelte)/[\w./@-]+"
    r"|/gradio_api/(info|startup-events|theme\.css|upload|upload_progress|queue/join|queue/data|reset|cancel)"
    r"|/gradio_api/heartbeat/\w+"
)
ADDRESS = re.compile(r"^\s*([a-z][a-z0-9+.-]*:)?[/\\]{2}", re.IGNORECASE)
HEADERS = {
    "content-security-policy": "default-src 'self' data: blob:; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'self'; form-action 'self'; "
    "frame-ancestors 'none'",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
}


class RefusedError(Exception):
    """A request is refused with an HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Guard:
    """Middleware (ASGI) that refuses requests, and forbids the page to load anything from elsewhere."""

    def __init__(self, app: Any, most: int) -> None:
        """Guard `app`, whose uploads may have `most` bytes."""
        self.app, self.most = app, most

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer as the app does, with more headers, or refuse."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return

        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start":
                more = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        try:
            if scope["type"] != "http":
                raise RefusedError(403, "only HTTP is served")
            scope["headers"] = [h for h in scope["headers"] if not h[0].startswith(b"x-forwarded")]
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            check(scope["method"], scope["path"], headers)
            most = self.most + SLACK if scope["path"] == UPLOAD else SMALL
            if int(headers.get("content-length", "0") or 0) > most:
                raise RefusedError(413, f"more than {most} bytes")
            if scope["method"] == "POST" and scope["path"] != UPLOAD:
                body = await _whole(receive, most)
                check_body(body, headers["host"])
                receive = _again(body, receive)
            else:
                receive = _bounded(receive, most)
            await self.app(scope, receive, answer)
        except RefusedError as error:
            if scope["type"] == "http":
                await _refuse(answer, error)


def check(method: str, path: str, headers: dict[str, str]) -> None:
    """Raise RefusedError for another host, another page, or a path that the page does not need."""
    host = headers.get("host", "")
    if re.sub(r":\d+$", "", host).lower() not in HOSTS:
        raise RefusedError(403, f"the header Host names {host!r}, not this machine")
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        raise RefusedError(403, f"a page of {origin!r} cannot ask this one")
    site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "")
    followed = method == "GET" and path == "/" and mode == "navigate"  # a link to the page
    if site not in ("same-origin", "none") and not followed:
        raise RefusedError(403, "a page of another site cannot ask this one")
    if path.startswith(FILE) and method != "POST" and not ADDRESS.match(path.removeprefix(FILE)):
        return  # gradio shows only files that have been uploaded
    if method not in ("GET", "HEAD", "POST") or not ROUTES.fullmatch(path):
        raise RefusedError(404, "the page does not need this")


def check_body(body: bytes, host: str) -> None:
    """Raise RefusedError if a request names an address of another machine, which gradio would ask."""
    try:
        found = json.loads(body) if body else None
    except (ValueError, RecursionError):
        raise RefusedError(400, "the request is not JSON") from None
    for key, text in _texts(found):
        own = key == "url" and text.startswith(f"http://{host}/")  # where the page shows an upload
        if ADDRESS.match(text) and not own:
            raise RefusedError(400, "the request names an address of another machine")


def _texts(found: Any) -> Iterator[tuple[str, str]]:
    """Yield all texts of a JSON document, each with the key of the nearest object."""
    waiting = [("", found)]
    while waiting:
        key, one = waiting.pop()
        if isinstance(one, str):
            yield key, one
        elif isinstance(one, dict):
            waiting += one.items()
        elif isinstance(one, list):
            waiting += [(key, value) for value in one]


async def _whole(receive: Any, most: int) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > most:
            raise RefusedError(413, f"more than {most} bytes")
        if not message.get("more_body"):
            return body


def _again(body: bytes, receive: Any) -> Any:
    """Return a channel that gives a request's body again, and then what else comes."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def channel() -> Any:
        return waiting.pop() if waiting else await receive()

    return channel


def _bounded(receive: Any, most: int) -> Any:
    """Return a channel that refuses a body as soon as it has more than `most` bytes."""
    seen = 0

    async def channel() -> Any:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise RefusedError(413, f"more than {most} bytes")
        return message

    return channel


async def _refuse(send: Any, error: RefusedError) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": str(error).encode()})
