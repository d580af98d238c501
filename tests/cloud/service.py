"""Cloud Storage's own protocol on loopback: the JSON API, uploads, downloads and tokens.

Clients reach it unchanged. They are told of an HTTPS proxy, which ends TLS itself with
certificates of an authority they are told to trust, and answers for the hosts of Google. It does
what the documentation of the JSON API says, as far as TensorFlow's, Google's and Beam's clients
ask for it.
"""

from __future__ import annotations

import dataclasses
import email
import email.policy
import json
import pathlib
import re
import socketserver
import ssl
import threading
import traceback
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.cloud import certificates
from tests.cloud.faults import Faults
from tests.cloud.jobs import Jobs
from tests.cloud.objects import Buckets, Object, Refused

HOSTS = (
    "storage.googleapis.com",
    "www.googleapis.com",
    "oauth2.googleapis.com",
    "iamcredentials.googleapis.com",
    "europe-west4-aiplatform.googleapis.com",
)
TOKEN = "token-of-the-tests"
# Objects in one answer at most; the service itself has 1000.
_PAGE = 50
_SLOW_BYTES, _SLOW_SECONDS = 4 << 10, 0.02


@dataclasses.dataclass
class Answer:
    """An HTTP response. A body of another type than bytes is JSON."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Request:
    """An HTTP request as the API sees it."""

    method: str
    host: str
    path: str
    query: dict[str, str]
    headers: Any
    body: bytes

    @property
    def match(self) -> str | None:
        """The generation that the object must have, if one is asked for."""
        return self.query.get("ifGenerationMatch")


@dataclasses.dataclass
class Seen:
    """A request that has been answered, for tests to look at."""

    method: str
    host: str
    path: str
    client: str
    sent: int
    status: int


@dataclasses.dataclass
class _Session:
    """A resumable upload: the parts that have come so far."""

    bucket: str
    name: str
    match: str | None
    metadata: dict[str, Any]
    data: bytes = b""


class Api:
    """Answers requests, by the tables at the end of the class."""

    def __init__(self, *buckets: str) -> None:
        self.buckets = Buckets(*buckets)
        self.faults = Faults()
        self.jobs = Jobs()
        self.seen: list[Seen] = []
        # What this file cannot do; tests look that there is nothing.
        self.problems: list[str] = []
        self._sessions: dict[str, _Session] = {}

    def answer(self, request: Request) -> Answer:
        """Does what a request asks for."""
        try:
            if request.path in ("/token", "/oauth2/v4/token"):
                return Answer({"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})
            if request.host.startswith("iamcredentials"):
                return Answer({"locations": [], "encodedLocations": "0x0"})
            if request.headers.get("Authorization") != f"Bearer {TOKEN}":
                raise Refused(401, "Invalid Credentials")
            if "aiplatform" in request.host:
                found = self.jobs.answer(request.method, request.path, request.query, request.body)
                if found is None:
                    raise Refused(404, "Not found")
                return Answer(found)
            for method, pattern, call in self._ROUTES:
                found = re.fullmatch(pattern, request.path)
                if found and request.method in method.split():
                    return call(self, request, *map(urllib.parse.unquote, found.groups()))
            raise NotImplementedError(f"{request.method} {request.path}")
        except Refused as refused:
            return refusal(refused.status, str(refused))
        except Exception:
            self.problems.append(traceback.format_exc())
            return refusal(500, "the fake is broken")

    def _bucket(self, request: Request, bucket: str) -> Answer:
        self.buckets.names(bucket)
        return Answer({"kind": "storage#bucket", "name": bucket, "location": "EUROPE-WEST4"})

    def _list(self, request: Request, bucket: str) -> Answer:
        query = request.query
        items, prefixes = self.buckets.list(
            bucket, query.get("prefix", ""), query.get("delimiter", "")
        )
        rows = sorted(
            [(item.name, item) for item in items] + [(prefix, None) for prefix in prefixes]
        )
        start = int(query.get("pageToken", "0"))
        end = start + min(int(query.get("maxResults", _PAGE)), _PAGE)
        page = rows[start:end]
        body: dict[str, Any] = {"kind": "storage#objects"}
        if found := [item.resource() for _, item in page if item is not None]:
            body["items"] = found
        if common := [name for name, item in page if item is None]:
            body["prefixes"] = common
        if end < len(rows):
            body["nextPageToken"] = str(end)
        return Answer(body)

    def _get(self, request: Request, bucket: str, name: str) -> Answer:
        found = self.buckets.get(bucket, name, request.match)
        if request.query.get("alt") == "media":
            return _download(request, found)
        return Answer(found.resource())

    def _media(self, request: Request, bucket: str, name: str) -> Answer:
        return _download(request, self.buckets.get(bucket, name, request.match))

    def _delete(self, request: Request, bucket: str, name: str) -> Answer:
        self.buckets.delete(bucket, name, request.match)
        return Answer(status=204)

    def _rewrite(
        self, request: Request, bucket: str, name: str, to_bucket: str, to_name: str
    ) -> Answer:
        found = self.buckets.get(bucket, name, request.query.get("ifSourceGenerationMatch"))
        new = self.buckets.put(to_bucket, to_name, found.data, request.match)
        if "/copyTo/" in request.path:
            return Answer(new.resource())
        size = str(len(new.data))
        return Answer(
            {
                "kind": "storage#rewriteResponse",
                "done": True,
                "objectSize": size,
                "totalBytesRewritten": size,
                "resource": new.resource(),
            }
        )

    def _upload(self, request: Request, bucket: str) -> Answer:
        kind, name = request.query["uploadType"], request.query.get("name", "")
        self.buckets.names(bucket)
        if kind == "media":
            return Answer(self.buckets.put(bucket, name, request.body, request.match).resource())
        if kind == "multipart":
            metadata, data = _parts(request)
            made = self.buckets.put(
                bucket, metadata.get("name", name), data, request.match, metadata
            )
            return Answer(made.resource())
        metadata = json.loads(request.body or b"{}")
        identity = uuid.uuid4().hex
        self._sessions[identity] = _Session(
            bucket, metadata.get("name", name), request.match, metadata
        )
        place = f"https://{request.host}{request.path}?uploadType=resumable&upload_id={identity}"
        return Answer(headers={"Location": place})

    def _continue(self, request: Request, bucket: str) -> Answer:
        """Takes a part of a resumable upload, or says how much of it is there."""
        session = self._sessions.get(request.query.get("upload_id", ""))
        if session is None:
            raise Refused(410, "The upload session is gone")
        if request.method == "DELETE":
            del self._sessions[request.query["upload_id"]]
            return Answer(status=204)
        found = re.fullmatch(
            r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", request.headers.get("Content-Range", "bytes */*")
        )
        if found is None:
            raise Refused(400, "bad Content-Range")
        if found[1] is not None:
            if int(found[1]) > len(session.data):
                raise Refused(400, "a part is missing")
            session.data = session.data[: int(found[1])] + request.body
        elif request.body:  # a whole object in one request
            session.data = request.body
        total = len(session.data) if "Content-Range" not in request.headers else found[3]
        if total == "*" or int(total) != len(session.data):
            received = {"Range": f"bytes=0-{len(session.data) - 1}"} if session.data else {}
            return Answer(status=308, headers=received)
        metadata = {**session.metadata, **_checksum(request)}
        made = self.buckets.put(session.bucket, session.name, session.data, session.match, metadata)
        return Answer(made.resource())

    def _batch(self, request: Request) -> Answer:
        """Answers several requests in one, each a part of a multipart message."""
        boundary = f"batch_{uuid.uuid4().hex}"
        lines = []
        for part in _message(request).iter_parts():
            text = part.get_payload(decode=True).decode().replace("\r\n", "\n")
            head, _, body = text.partition("\n\n")
            first, *rest = head.splitlines()
            method, target, _ = first.split(" ")
            url = urllib.parse.urlsplit(target)
            query = dict(urllib.parse.parse_qsl(url.query))
            headers = email.message_from_string("\n".join(rest))
            headers["Authorization"] = request.headers["Authorization"]
            inner = self.answer(
                Request(method, request.host, url.path, query, headers, body.encode())
            )
            given = inner.body.decode() if isinstance(inner.body, bytes) else json.dumps(inner.body)
            lines += [
                f"--{boundary}",
                "Content-Type: application/http",
                f"Content-ID: <response-{part.get('Content-ID', '').strip('<>')}>",
                "",
                f"HTTP/1.1 {inner.status} any",
                "Content-Type: application/json; charset=UTF-8",
                f"Content-Length: {len(given)}",
                "",
                given,
            ]
        whole = "\r\n".join([*lines, f"--{boundary}--", ""]).encode()
        return Answer(whole, headers={"Content-Type": f"multipart/mixed; boundary={boundary}"})

    # Methods, path, what answers them with the groups of the path.
    _ROUTES = (
        ("GET", r"/storage/v1/b/([^/]+)", _bucket),
        ("GET", r"/storage/v1/b/([^/]+)/o", _list),
        ("GET", r"/(?:download/)?storage/v1/b/([^/]+)/o/([^/]+)", _get),
        ("DELETE", r"/storage/v1/b/([^/]+)/o/([^/]+)", _delete),
        (
            "POST",
            r"/storage/v1/b/([^/]+)/o/([^/]+)/(?:rewrite|copy)To/b/([^/]+)/o/([^/]+)",
            _rewrite,
        ),
        ("POST", r"/(?:resumable/)?upload/storage/v1/b/([^/]+)/o", _upload),
        ("PUT DELETE", r"/(?:resumable/)?upload/storage/v1/b/([^/]+)/o", _continue),
        ("POST", r"/batch/storage/v1", _batch),
        ("GET", r"/([^/]+)/(.+)", _media),
    )


def refusal(status: int, message: str) -> Answer:
    """Returns an error as the JSON API words it."""
    return Answer({"error": {"code": status, "message": message}}, status)


def _download(request: Request, found: Object) -> Answer:
    checksums = found.checksums
    headers = {
        "x-goog-generation": str(found.generation),
        "x-goog-hash": f"crc32c={checksums['crc32c']},md5={checksums['md5Hash']}",
        "Content-Type": "application/octet-stream",
        "ETag": str(found.generation),
    }
    wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
    if wanted is None:
        return Answer(found.data, headers=headers)
    start, size = int(wanted[1]), len(found.data)
    end = min(int(wanted[2]) if wanted[2] else size - 1, size - 1)
    if start >= size:
        return Answer(status=416, headers={"Content-Range": f"bytes */{size}"})
    headers["Content-Range"] = f"bytes {start}-{end}/{size}"
    return Answer(found.data[start : end + 1], 206, headers)


def _checksum(request: Request) -> dict[str, str]:
    found = re.search(r"crc32c=([^,]+)", request.headers.get("X-Goog-Hash", ""))
    return {"crc32c": found[1]} if found else {}


def _message(request: Request) -> Any:
    head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
    return email.message_from_bytes(head + request.body, policy=email.policy.HTTP)


def _parts(request: Request) -> tuple[dict[str, Any], bytes]:
    """Returns metadata and content of a multipart upload."""
    boundary = re.search(r"boundary=\"?([^\";]+)", request.headers["Content-Type"])[1]
    _, metadata, content, _ = request.body.split(f"--{boundary}".encode())
    data = content.partition(b"\r\n\r\n")[2]
    return json.loads(metadata.partition(b"\r\n\r\n")[2]), data.removesuffix(b"\r\n")


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
        api.seen.append(Seen(self.command, self._host, self.path, client, len(body), answer.status))
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
