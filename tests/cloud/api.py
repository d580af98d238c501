"""The JSON API of Cloud Storage: objects, uploads, downloads, batches, and the tokens for them.

It does what the documentation says, as far as TensorFlow's, Google's and Beam's clients ask for it.
"""

from __future__ import annotations

import dataclasses
import email
import email.policy
import json
import re
import traceback
import urllib.parse
import uuid
from typing import Any

from tests.cloud.dataflow import Dataflow
from tests.cloud.faults import Faults
from tests.cloud.jobs import Jobs
from tests.cloud.objects import Buckets, Object, Refused

TOKEN = "token-of-the-tests"
# Objects in one answer at most; the service itself has 1000.
_PAGE = 50
_A_BUCKET = r"/storage/v1/b/[^/?]+(\?.*)?"


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
    received: int  # bytes of the answer


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
        self.dataflow = Dataflow()
        self.seen: list[Seen] = []
        # For which buckets keep what is removed; seven days unless that is turned off.
        self.kept_seconds = 0
        # Seconds that pass before each answer, as on the way to a distant service.
        self.delay = 0.0
        # Buckets that need no credentials.
        self.public: set[str] = set()
        # What this file cannot do; tests look that there is nothing.
        self.problems: list[str] = []
        self._sessions: dict[str, _Session] = {}

    @property
    def asked_of_storage(self) -> list[Seen]:
        """The requests for objects.

        Google's clients look after their credentials, and after what they know of a bucket
        (google.cloud.storage._bucket_metadata_cache), in threads of their own, whenever they like.
        """
        return [
            seen
            for seen in self.seen
            if seen.host == "storage.googleapis.com" and not re.fullmatch(_A_BUCKET, seen.path)
        ]

    def answer(self, request: Request) -> Answer:
        """Does what a request asks for."""
        try:
            if request.path in ("/token", "/oauth2/v4/token"):
                return Answer({"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})
            if request.host.startswith("iamcredentials"):
                return Answer({"locations": [], "encodedLocations": "0x0"})
            known = request.headers.get("Authorization") == f"Bearer {TOKEN}"
            if not known and not self._open_to_all(request.path):
                raise Refused(401, "Invalid Credentials")
            if "aiplatform" in request.host or "dataflow" in request.host:
                found = self._job(request)
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

    def _job(self, request: Request) -> Any:
        if "dataflow" in request.host:
            return self.dataflow.answer(request.method, request.path, request.body)
        return self.jobs.answer(request.method, request.path, request.query, request.body)

    def _open_to_all(self, path: str) -> bool:
        """What is in a batch is asked about one by one."""
        return path.startswith("/batch/") or any(f"/{name}/" in f"{path}/" for name in self.public)

    def _bucket(self, request: Request, bucket: str) -> Answer:
        self.buckets.names(bucket)
        found = {"kind": "storage#bucket", "name": bucket, "location": "EUROPE-WEST4"}
        policy = {"retentionDurationSeconds": str(self.kept_seconds)}
        return Answer({**found, "softDeletePolicy": policy})

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
            if known := request.headers.get("Authorization"):
                headers["Authorization"] = known
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
