"""A studio that is served in a thread, and a client that asks it as its page does."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedcell.studio.planning import World
from fedcell.studio.routes import Studio
from fedcell.studio.server import HOST, TOKEN_HEADER, StudioServer

LAW = {"mixing": 50.0, "drift": 0.02, "start": 250.0, "floor": 12.0}
MARKUP = "<script>alert(1)</script>"


class Asking:
    """Asks a served studio."""

    def __init__(self, server: StudioServer) -> None:
        self.server = server

    def request(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        """Send a request with its own headers, "_" for "-"; return status, content and headers."""
        link = http.client.HTTPConnection(HOST, self.server.port, timeout=60)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            link.putrequest(method, path, skip_host="Host" in given)
            for name, value in given.items():
                link.putheader(name, value)
            if body is not None and "Content-Length" not in given:
                link.putheader("Content-Length", str(len(body)))
            link.endheaders(body)
            answer = link.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            link.close()

    def __call__(self, question: str, /, **body: Any) -> Any:
        """Ask as the page does; plain values, or bytes."""
        sent = json.dumps(body).encode()
        status, content, headers = self.request(
            "POST", f"/api/{question}", sent, **{TOKEN_HEADER: self.server.token}
        )
        assert status == 200, (status, content[:300])
        if "Content-Disposition" in headers:
            return content
        return json.loads(content)


@contextmanager
def served(
    named: str | None = "digits", pilot: Path | None = None, folders: tuple[Path, ...] = ()
) -> Iterator[Asking]:
    """Serve a studio of a scenario, or of folders alone."""
    studio = Studio(None if named is None else World.of(named, pilot), folders)
    server = StudioServer(studio, 0)
    thread = threading.Thread(target=server.serve_forever, args=[0.01], daemon=True)
    thread.start()
    try:
        yield Asking(server)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        studio.close()
