"""The part of HTTP/1.1 that one page and a WebSocket handshake need: one request, one response,
close.

h11 reads every request first. wsproto only gets handshakes that were found valid, with headers made
here (`HttpRequest.handshake`).
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

import trio
from msgspec import Struct, structs

from .security import offered_token

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from .._public import Limits

MAX_FORM_BYTES: Final = 4096
"""Maximum bytes of a form's fields."""

FORM_TYPE: Final = (b"content-type", b"application/x-www-form-urlencoded")
_FORM_TYPE: Final = tuple(part.decode() for part in FORM_TYPE)

TOO_MUCH: Final = "a request to this address must not have a body"

RESPONSE_PIECE_BYTES: Final = 16 * 1024
"""Bytes of a response that a client must accept within the write deadline."""


SECURITY_HEADERS: Final = (
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " media-src data:; connect-src 'self'; worker-src 'self'; manifest-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'self'; frame-src 'self';"
        " require-trusted-types-for 'script'; trusted-types agentrt-worker",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "SAMEORIGIN"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), microphone=(), geolocation=()"),
)

SIGN_IN_STYLE: Final = (
    "body{margin:0;min-height:100vh;display:grid;place-items:center;"
    "font:16px/1.5 system-ui,sans-serif}"
    "main{max-width:26rem;padding:1.5rem}h1{margin:0;font-size:1.4rem}"
    "form{display:grid;gap:.5rem}input,button{font:inherit;padding:.6rem .8rem;"
    "border:1px solid GrayText;border-radius:.5rem}"
    "button{background:#1f6feb;border-color:#1f6feb;color:#fff}"
)
"""The style of the sign-in page."""

_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(SIGN_IN_STYLE.encode()).digest()).decode()

FORM_HEADERS: Final = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",  # without it, browsers omit the form's origin
}
"""The headers that differ in a response with a form."""

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}


class BadRequest(Exception):
    """A request that is answered with this status only."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class HttpRequest(Struct, frozen=True):
    """One request. `rest`: bytes that the client has already sent after it."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    rest: bytes = b""
    body: bytes = b""

    def values(self, name: str) -> list[str]:
        """Return the values of a header."""
        return [value for key, value in self.headers if key == name]

    def listed(self, name: str) -> list[str]:
        """Return the values of a list header, which may be spread over several lines."""
        every = ",".join(self.values(name)).split(",")
        return [value.strip() for value in every if value.strip()]

    @property
    def path(self) -> str:
        """The path of the target."""
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, list[str]]:
        """The parameters in the target's query."""
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True)

    @property
    def host(self) -> str:
        """The `Host` header; empty if it is missing."""
        return next(iter(self.values("host")), "")

    def cookies(self, name: str) -> list[str]:
        """Return the values of the cookies of this name."""
        pairs = (pair for header in self.values("cookie") for pair in header.split(";"))
        split = (pair.strip().partition("=") for pair in pairs)
        return [value for key, _, value in split if key == name]

    @property
    def token(self) -> str | None:
        """The client's token, from the `Authorization` header or the subprotocols."""
        for value in self.values("authorization"):
            scheme, _, token = value.partition(" ")
            return token.strip() if scheme.lower() == "bearer" else ""
        return offered_token(self.listed("sec-websocket-protocol"))

    @property
    def is_upgrade(self) -> bool:
        """True if the request asks for a WebSocket."""
        return any(value.lower() == "websocket" for value in self.listed("upgrade"))

    def handshake(self, protocol: str) -> list[tuple[bytes, bytes]]:
        """Return the headers of a valid WebSocket handshake, with the subprotocol if it is offered.
        Raises `BadRequest` if the handshake is not valid.
        """
        if "upgrade" not in (value.lower() for value in self.listed("connection")):
            raise BadRequest(400, "Connection: Upgrade is missing")
        if self.values("sec-websocket-version") != ["13"]:
            raise BadRequest(426, "the WebSocket's version must be 13")
        keys = self.values("sec-websocket-key")
        try:
            sound = len(keys) == 1 and len(base64.b64decode(keys[0], validate=True)) == 16
        except (binascii.Error, ValueError):
            sound = False
        if not sound:
            raise BadRequest(400, "Sec-WebSocket-Key is missing or broken")
        offered = protocol in self.listed("sec-websocket-protocol")
        return [
            (b"Host", b"agentrt"),
            (b"Connection", b"Upgrade"),
            (b"Upgrade", b"websocket"),
            (b"Sec-WebSocket-Version", b"13"),
            (b"Sec-WebSocket-Key", keys[0].encode()),
            *([(b"Sec-WebSocket-Protocol", protocol.encode())] if offered else []),
        ]


async def read_request(stream: trio.abc.Stream) -> HttpRequest | None:
    """Read the one request of a connection. Only a form has a body.

    Returns None if the connection ends before the request is complete. Raises `BadRequest`.
    Cancelling it leaves the stream in the middle of the request.
    """
    import h11  # only servers need it

    from .._base.http import BodyTooLarge, HttpConnection

    connection = HttpConnection(stream)
    try:
        head = await connection.request()
        if head is None:
            return None
        has_form = head.method == b"POST" and FORM_TYPE in list(head.headers)
        body = await connection.body(MAX_FORM_BYTES if has_form else 0)
    except h11.RemoteProtocolError as error:
        raise BadRequest(error.error_status_hint, str(error)) from error
    except BodyTooLarge as error:
        raise BadRequest(413, TOO_MUCH) from error
    headers = tuple((key.decode("ascii"), value.decode("latin-1")) for key, value in head.headers)
    rest, _ = connection.http.trailing_data
    method, target = head.method.decode("ascii"), head.target.decode("ascii")
    return check_target(HttpRequest(method, target, headers, rest, body))


def check_target(request: HttpRequest) -> HttpRequest:
    """Return the request. Raises `BadRequest` if its target is not a path."""
    if not request.target.startswith("/") or request.target.startswith("//"):
        raise BadRequest(400, "the target must be a path")
    return request


async def read_form(
    request: HttpRequest, next_bytes: Callable[[], Awaitable[tuple[bytes, bool]]]
) -> HttpRequest:
    """Read the body of a request, for a connection that is read by another server.

    `next_bytes` returns a piece, and true if there are more. Only a form has a body. Returns the
    request with its body. Raises `BadRequest`.
    """
    form = request.method == "POST" and (_FORM_TYPE in request.headers)
    body, more = b"", request.method not in ("GET", "HEAD")
    while more:
        data, more = await next_bytes()
        body += data
        if len(body) > (MAX_FORM_BYTES if form else 0):
            raise BadRequest(413, TOO_MUCH)
    return structs.replace(request, body=body)


class HttpResponse(Struct, frozen=True):
    """A whole response. For a HEAD request, `body` is shorter than the headers say."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""

    def encode(self) -> bytes:
        """Return the response as HTTP/1.1; the connection ends after it."""
        lines = [
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}",
            "Connection: close",
            *(f"{name}: {value}" for name, value in self.headers),
        ]
        return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1") + self.body


def response(
    status: int,
    body: str | bytes = b"",
    *,
    type: str = "text/plain; charset=utf-8",
    headers: tuple[tuple[str, str], ...] = (),
    cache: str = "no-store",
    head_only: bool = False,
    form: bool = False,
) -> HttpResponse:
    """Create a response with the common headers. `form`: it contains a form."""
    data = body.encode() if isinstance(body, str) else body
    every = (
        ("Content-Type", type),
        ("Content-Length", str(len(data))),
        ("Cache-Control", cache),
        *(
            (name, FORM_HEADERS.get(name, value) if form else value)
            for name, value in (*SECURITY_HEADERS, *headers)
        ),
    )
    return HttpResponse(status, every, b"" if head_only else data)


async def send_response(stream: trio.abc.Stream, answer: HttpResponse, limits: Limits) -> None:
    """Send a response, and read until the client has closed: unread data would reset the
    connection, and the response could be lost.

    However slowly a client reads, it gets the whole response, if it accepts a piece of it every
    `limits.ws_write_timeout_s` seconds. Raises `trio.TooSlowError` if it does not,
    `trio.BrokenResourceError` if it is gone. Cancelling it leaves part of the response sent.
    """
    data = memoryview(answer.encode())
    for start in range(0, len(data), RESPONSE_PIECE_BYTES):
        with trio.fail_after(limits.ws_write_timeout_s):
            await stream.send_all(data[start : start + RESPONSE_PIECE_BYTES])
    if isinstance(stream, trio.SocketStream):
        await stream.send_eof()
        with trio.move_on_after(limits.ws_close_timeout_s):
            while await stream.receive_some():
                pass


class PageFile(Struct, frozen=True):
    """A file of the page. `packed`: its content, compressed. `digest` identifies it."""

    type: str
    packed: bytes
    digest: str

    @property
    def body(self) -> bytes:
        """The content."""
        return _unpacked(self.packed)

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Return the file, compressed if the browser accepts that, or 304 if the browser has it."""
        accepted = [each.partition(";") for each in request.listed("accept-encoding")]
        gzipped = any(
            name.strip() == "gzip" and not _REFUSED.fullmatch(weight)
            for name, _, weight in accepted
        )
        tag = f'"{self.digest}-gzip"' if gzipped else f'"{self.digest}"'
        known = tag in request.listed("if-none-match")
        return response(
            304 if known else 200,
            self.packed if gzipped else self.body,
            type=self.type,
            headers=(
                ("ETag", tag),
                ("Vary", "Accept-Encoding"),
                *((("Content-Encoding", "gzip"),) if gzipped else ()),
            ),
            cache="private, no-cache",  # revalidate: a newer server has newer files
            head_only=known or request.method == "HEAD",
        )


@cache
def _unpacked(packed: bytes) -> bytes:
    return gzip.decompress(packed)


_REFUSED: Final = re.compile(r" *q *= *0(\.0*)? *")
"""Matches the weight of an encoding that the browser does not accept."""


def load_page(folder: Traversable | None = None) -> dict[str, PageFile]:
    """Load the files of the page.

    Returns them by path; nothing else is served. The files that the build made, which are
    compressed, take the place of sources with the same names. `folder`: by default the package's,
    which may be in a zip archive.
    """
    from importlib.resources import files as resources

    files = {}
    package = __name__.rpartition(".")[0]
    found = _below(resources(package) / "page" if folder is None else folder)
    for path, file in sorted(found, key=lambda each: each[0].startswith("/built/")):
        name = path.removeprefix("/built").removesuffix(".gz")
        kind = _TYPES.get(PurePosixPath(name).suffix)
        if kind is not None:
            data = file.read_bytes()
            packed = data if path.endswith(".gz") else gzip.compress(data, mtime=0)
            files[f"/page{name}"] = PageFile(kind, packed, hashlib.sha256(packed).hexdigest()[:32])
    files["/"] = files["/page/index.html"]
    return files


def _below(folder: Traversable, path: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield the files of a folder and its subfolders, by path."""
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_file():
            yield f"{path}/{each.name}", each
        elif each.is_dir():
            yield from _below(each, f"{path}/{each.name}")
