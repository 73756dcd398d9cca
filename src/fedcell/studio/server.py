"""The server of the studio: this machine only, with a token, on the standard library.

A page of another site can send requests to 127.0.0.1. So each one must name this server as its host
and its origin, and questions need the token that only the printed address has.
"""

import hmac
import re
import secrets
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import numpy as np

from fedcell.core.errors import BadInput, FedcellError, printable

from .routes import Answer, Body, Studio
from .takeaway import Download

HOST = "127.0.0.1"
PORT = 8765
TRIED_PORTS = 20  # from PORT on, where none is asked for
MAX_BODY = 2**18  # [byte] of a question
TOKEN_HEADER = "X-Fedcell-Token"
STATIC = {  # all files of the page, by their names in its address
    "studio.css": "text/css",
    "studio.js": "text/javascript",
    "controls.js": "text/javascript",
    "format.js": "text/javascript",
    "heatmap.js": "text/javascript",
    "charts.js": "text/javascript",
    "plan.js": "text/javascript",
    "panels.js": "text/javascript",
    "runs.js": "text/javascript",
    "uplot.js": "text/javascript",
    "uplot.css": "text/css",
    "icon.svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
WORDS = {  # of the page, for arguments and functions of the library
    "budget": "budget",
    "clients": "clients a round",
    "limits": "limits",
    "loss": "target",
    "pilot": "a pilot",
    "plan_training": "the planner",
    "run_pilot": "a pilot",
    "rounds": "rounds of a trial",
    "steps": "local steps",
}
NO_TOKEN = "Open the address that fedcell studio has printed: it ends with a token."


class StudioServer(ThreadingHTTPServer):
    """Serves a studio to pages of this machine that know the token."""

    daemon_threads = True
    allow_reuse_address = sys.platform != "win32"  # there it would share a port that is taken

    def __init__(self, studio: Studio, port: int | None = None) -> None:
        self.token = secrets.token_urlsafe(24)
        self.routes: Mapping[str, Callable[[Body], Answer]] = studio.routes
        super().__init__((HOST, _free_port(port)), Handler)

    @property
    def port(self) -> int:
        """Return the port."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """Return the address of the page, with its token."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that a browser has closed."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def _free_port(port: int | None) -> int:
    """Return the port that is asked for, or the first free one of the usual ones."""
    if port == 0:
        return 0
    for tried in [port] if port else range(PORT, PORT + TRIED_PORTS):
        with socket.socket() as probe:
            if sys.platform != "win32":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, tried))
            except OSError:
                continue
            return tried
    named = f"port {port} is" if port else f"ports {PORT} to {PORT + TRIED_PORTS - 1} are"
    raise BadInput(f"{named} taken, or may not be used: choose another `port`, or 0 for a free one")


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: StudioServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "fedcell", ""
    timeout = 120  # [s] without a request, after which a connection ends
    disable_nagle_algorithm = True  # else an answer waits 40 ms for the receipt of its headers
    wbufsize = -1  # headers and content in one write

    def log_message(self, *_: Any) -> None:
        """Print nothing: the token is in the address."""

    def do_GET(self) -> None:
        """Send a file of the page."""
        if not self._is_local():
            return
        place = urlsplit(self.path)
        if place.path == "/":
            if not self._knows(parse_qs(place.query).get("token", [""])[0]):
                self._send(HTTPStatus.FORBIDDEN, "text/plain; charset=utf-8", NO_TOKEN.encode())
            else:
                self._send(HTTPStatus.OK, "text/html; charset=utf-8", _page("index.html"))
        elif (name := place.path.removeprefix("/static/")) in STATIC:
            self._send(HTTPStatus.OK, f"{STATIC[name]}; charset=utf-8", _page(name))
        else:
            self._fail(HTTPStatus.NOT_FOUND, "there is no such page")

    def do_POST(self) -> None:
        """Answer a question of the page."""
        body = self._body()
        if body is None:
            return
        answer = self.server.routes.get(urlsplit(self.path).path.removeprefix("/api/"))
        if answer is None:
            self._fail(HTTPStatus.NOT_FOUND, "there is no such question")
            return
        try:
            with np.errstate(all="ignore"):  # overflows are found in the results
                given = answer(body)
            self._give(given)
        except FedcellError as error:  # an answer as well: no plan keeps the limits, say
            self._fail(HTTPStatus.OK, *(in_page_words(fault) for fault in error.faults))
        except MemoryError:
            self._fail(HTTPStatus.OK, "there is not enough memory: take fewer clients or rounds")
        except OSError as error:
            if isinstance(error, ConnectionError):
                raise
            words = printable(f"{error.filename or 'a file'}: {error.strerror or error}")
            self._fail(HTTPStatus.OK, words)
        except Exception:
            traceback.print_exc()
            words = "the studio failed at this question; the terminal has the details"
            self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, words)

    def _body(self) -> Body | None:
        """Return the question of a request that may ask; None where it was refused."""
        if not self._is_local():
            return None
        if not self._knows(self.headers.get(TOKEN_HEADER, "")):
            self._refuse(HTTPStatus.FORBIDDEN, NO_TOKEN)
            return None
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or "Transfer-Encoding" in self.headers:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "a question has a length")
            return None
        if int(length) > MAX_BODY:
            words = f"a question has at most {MAX_BODY} bytes"
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words)
            return None
        try:
            body = msgspec.json.decode(self.rfile.read(int(length)))
        except (msgspec.DecodeError, RecursionError):
            body = None
        if not isinstance(body, dict):
            self._refuse(HTTPStatus.BAD_REQUEST, "the question is not an object of JSON")
            return None
        return body

    def _is_local(self) -> bool:
        """Tell whether the request is meant for this server, and of its own page; else refuse."""
        hosts = {f"{name}:{self.server.port}" for name in (HOST, "localhost")}
        origin = self.headers.get("Origin")
        if self.headers.get("Host") in hosts and (
            origin is None or origin in {f"http://{host}" for host in hosts}
        ):
            return True
        self._refuse(HTTPStatus.FORBIDDEN, "this server answers its own page only")
        return False

    def _knows(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.server.token.encode())

    def _give(self, answer: Answer) -> None:
        if isinstance(answer, Download):
            self._send(HTTPStatus.OK, answer.kind, answer.content, answer.name)
        else:
            self._send(HTTPStatus.OK, "application/json", msgspec.json.encode(answer))

    def _refuse(self, status: HTTPStatus, words: str) -> None:
        """Refuse a request whose body is not read: the connection ends."""
        self.close_connection = True
        self._fail(status, words)

    def _fail(self, status: HTTPStatus, *faults: str) -> None:
        self._send(status, "application/json", msgspec.json.encode({"faults": faults}))

    def _send(self, status: HTTPStatus, kind: str, content: bytes, name: str = "") -> None:
        self.send_response(status)
        for header, value in HEADERS.items():
            self.send_header(header, value)
        if name:
            safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in name if c.isascii())
            self.send_header("Content-Disposition", f'attachment; filename="{safe}"')
        if self.close_connection:
            self.send_header("Connection", "close")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def in_page_words(fault: str) -> str:
    """Return a message of the library with the words of the page for arguments and functions."""
    words = re.sub(r"`(\w+)`", lambda match: WORDS.get(match[1], match[1]), fault)
    return printable(words)


def _page(name: str) -> bytes:
    """Return a file of the page."""
    return (resources.files("fedcell.studio") / "static" / name).read_bytes()
