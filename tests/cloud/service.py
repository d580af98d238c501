"""The hosts of Google on loopback, for clients that know nothing of it.

They are told of an HTTPS proxy, which ends TLS itself with certificates of an authority they are
told to trust, and answers for these hosts.
"""

from __future__ import annotations

import json
import pathlib
import socketserver
import ssl
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.cloud import certificates
from tests.cloud.api import Answer, Api, Request, Seen, refusal

HOSTS = (
    "storage.googleapis.com",
    "www.googleapis.com",
    "oauth2.googleapis.com",
    "iamcredentials.googleapis.com",
    "europe-west4-aiplatform.googleapis.com",
    "dataflow.googleapis.com",
)
_SLOW_BYTES, _SLOW_SECONDS = 4 << 10, 0.02


class _Tunnel(BaseHTTPRequestHandler):
    """One connection to the proxy: ends TLS, then answers as the host that was asked for."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_CONNECT(self) -> None:
        self.send_response(200)
        self.end_headers()
        host = self.path.partition(":")[0]
        try:
            with self.server.tls.wrap_socket(self.connection, server_side=True) as secure:
                _Conversation(secure, self.client_address, self.server, host)
        except (OSError, ssl.SSLError):
            pass  # the client has gone
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


class _Conversation(BaseHTTPRequestHandler):
    """The requests of one TLS connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def __init__(self, connection: Any, address: Any, server: _Server, host: str) -> None:
        self._host = host
        super().__init__(connection, address, server)

    def _serve(self) -> None:
        api = self.server.api
        client = self.headers.get("User-Agent", "")
        readable = urllib.parse.unquote(self.path)
        fault = api.faults.take(f"{self.command} {self._host}{readable}", client)
        body = self._read_body(half=fault is not None and fault.kind == "cut_upload")
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        request = Request(self.command, self._host, url.path, query, self.headers, body)
        if fault is not None and fault.kind == "status":
            answer = refusal(fault.status, "injected")
        else:
            answer = api.answer(request)
        size = len(answer.body) if isinstance(answer.body, bytes) else 0
        api.seen.append(
            Seen(self.command, self._host, self.path, client, len(body), answer.status, size)
        )
        if api.delay:
            time.sleep(api.delay)
        if fault is not None and fault.kind in ("cut_upload", "lose_answer"):
            self.close_connection = True
            return
        self._send(answer, fault.kind if fault else None)

    do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = _serve

    def _read_body(self, half: bool) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            chunks = []
            while size := int(self.rfile.readline(), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)
        size = int(self.headers.get("Content-Length", 0))
        return self.rfile.read(size // 2 if half else size)

    def _send(self, answer: Answer, fault: str | None) -> None:
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        headers = {"Content-Type": "application/json; charset=UTF-8", **answer.headers}
        self.send_response(answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault == "cut_download":
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        elif fault == "slow_download":
            for start in range(0, len(body), _SLOW_BYTES):
                self.wfile.write(body[start : start + _SLOW_BYTES])
                self.server.pace.wait(_SLOW_SECONDS)
        else:
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, api: Api, tls: ssl.SSLContext) -> None:
        self.api, self.tls = api, tls
        self.pace = threading.Event()  # never set: it is only waited for
        super().__init__(("127.0.0.1", 0), _Tunnel)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are no news."""


class Service:
    """The service while it runs. A context manager."""

    def __init__(self, folder: pathlib.Path, *buckets: str) -> None:
        self.api = Api(*buckets)
        self._authority, tls = certificates.make(folder, HOSTS)
        self._server: socketserver.BaseServer = _Server(self.api, tls)
        self._port = self._server.server_address[1]
        self._account = folder / "account.json"
        self._account.write_text(json.dumps(_service_account()))

    def __enter__(self) -> Service:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """What clients must find in their environment to come here, and nowhere else."""
        return {
            "HTTPS_PROXY": f"http://127.0.0.1:{self._port}",
            # One for TensorFlow's client, one for those in Python.
            "CURL_CA_BUNDLE": str(self._authority),
            "REQUESTS_CA_BUNDLE": str(self._authority),
            "GOOGLE_APPLICATION_CREDENTIALS": str(self._account),
            "GCS_RETRY_CONFIG_INIT_DELAY_TIME_US": "10000",
            "GCS_RETRY_CONFIG_MAX_DELAY_TIME_US": "50000",
        }


def _service_account() -> dict[str, str]:
    return {
        "type": "service_account",
        "project_id": "tests",
        "private_key_id": "1",
        "private_key": certificates.key_as_pem(certificates.private_key()).decode(),
        "client_email": "tests@tests.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": "https://oauth2.googleapis.com/token",
    }
