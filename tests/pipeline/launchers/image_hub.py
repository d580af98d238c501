"""A double of Docker Hub's registry, which follows the Distribution specification."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterator, Mapping

from pipeline.launchers.image_registry import Registry


class _Handler(http.server.BaseHTTPRequestHandler):
    digests: Mapping[str, str]

    def log_message(self, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        assert query["service"] == ["registry.docker.io"]
        body = json.dumps({"token": f"for {query['scope'][0]}"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self) -> None:
        """A token is for one repository, and only an index was asked for."""
        path, _, tag = self.path.removeprefix("/v2/").rpartition("/manifests/")
        assert "image.index.v1+json" in self.headers["Accept"]
        digest = self.digests.get(f"{path}:{tag}")
        is_allowed = self.headers["Authorization"] == f"Bearer for repository:{path}:pull"
        self.send_response(401 if not is_allowed else 404 if digest is None else 200)
        if digest is not None:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()


@contextlib.contextmanager
def serve(digests: Mapping[str, str]) -> Iterator[Registry]:
    """Serves digests by path and tag, such as `library/python:3.11-slim`."""
    handler = type("Handler", (_Handler,), {"digests": digests})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield Registry(f"{address}/token?service=registry.docker.io", f"{address}/v2")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
