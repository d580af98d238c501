"""A server for trying a model out: TensorFlow Serving's REST API, for this machine alone.

  GET  /v1/models/NAME[/versions/N]              its state
  GET  /v1/models/NAME[/versions/N]/metadata     its signatures
  POST /v1/models/NAME[/versions/N]:predict      predictions
  GET  /example                                  a body for the last one

The name is that of the config, the version the step of the export.
"""

from __future__ import annotations

import contextlib
import http
import http.server
import json
import re
import socketserver
import time
import traceback
from collections.abc import Callable
from typing import Any

from pipeline import config, errors
from pipeline.runs import exported
from serving.rest import json_codec
from serving.rest.json_codec import BadRequest

_HOST = "127.0.0.1"
# How a client of this machine calls it. A page of another site can have its own name resolved to
# this machine and read the answers: the browser then sends that name.
_NAMES = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d*)?", re.IGNORECASE)
# Bytes of a body that are taken, and read to their end before one that is larger is refused.
_MAX_BODY, _DRAINED = 64 << 20, 1 << 30
_PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(?:/(?P<kind>versions|labels)/(?P<which>[^/:]+))?"
    r"(?P<rest>/metadata|:\w+)?",
    re.IGNORECASE,
)


class Served:
    """One model under one name. Several threads may ask it."""

    def __init__(self, name: str, export: exported.Export, data: config.Data) -> None:
        """`data` says what rows must be like; its columns are those that the model takes."""
        self.name, self.version, self._data = name, export.step, data
        self._model = exported.load(export.path)
        self._signatures = {n: self._model.inputs(n) for n in self._model.signatures}
        self._definitions = exported.signature_defs(export.path)

    def predict(self, body: Any) -> dict[str, Any]:
        """Returns the answer to a parsed body. Raises `BadRequest`."""
        request = json_codec.read(body, self._data, self._signatures)
        try:
            outputs = self._model.call(request.signature, request.feeds)
        except exported.Refused as error:
            raise BadRequest(f"the model refuses it: {error}") from None
        return json_codec.answer(outputs, by_row=request.by_row)

    def status(self) -> dict[str, Any]:
        """Returns what `GetModelStatus` does."""
        state = {"error_code": "OK", "error_message": ""}
        one = {"version": str(self.version), "state": "AVAILABLE", "status": state}
        return {"model_version_status": [one]}

    def metadata(self) -> dict[str, Any]:
        """Returns what `GetModelMetadata` does."""
        spec = {"name": self.name, "signature_name": "", "version": str(self.version)}
        signatures = {"signature_def": {"signature_def": self._definitions}}
        return {"model_spec": spec, "metadata": signatures}


class Server(http.server.ThreadingHTTPServer):
    """Answers on a port of this machine that no other can reach."""

    # Threads end with their one request, so that the server can wait for all of them.
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, port: int, served: Served, example: dict[str, Any] | None = None) -> None:
        """Listens on a port, any if 0. Raises `UsageError` if it is taken or not ours to take."""
        self.served, self.example = served, example
        try:
            super().__init__((_HOST, port), _Handler)
        except OSError as error:
            raise errors.UsageError(
                f"--port {port}: {error.strerror or error}; choose another with --port="
            ) from None

    def server_bind(self) -> None:
        """Binds without asking a name server what this machine is called."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = _HOST, self.server_address[1]

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://{_HOST}:{self.server_port}"


class _Failed(Exception):
    """A status that is not 200, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "estimator-pipeline", ""
    # Of what is no request; the oldest version would have an answer without a status.
    default_request_version = "HTTP/1.0"
    # Seconds that a client may keep silent.
    timeout = 10

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _answer(self, of: Callable[[], Any]) -> None:
        self._started = time.monotonic()
        with contextlib.suppress(OSError):  # the client is gone
            self._send(*self._outcome(of))

    def _outcome(self, of: Callable[[], Any]) -> tuple[int, Any]:
        """Returns the status and what is sent with it."""
        try:
            self._check_host()
            return 200, of()
        except _Failed as error:
            return error.status, {"error": str(error)}
        except BadRequest as error:
            return 400, {"error": str(error)}
        except OSError:
            raise
        except Exception as error:
            traceback.print_exc()
            return 500, {"error": f"{error!r}"[:500]}

    def _check_host(self) -> None:
        for host in self.headers.get_all("Host") or ():
            if not _NAMES.fullmatch(host.strip()):
                raise _Failed(403, f"Host: {host!r} is not this server; use {self.server.address}")

    def _get(self) -> Any:
        if self.path == "/example":
            if self.server.example is None:
                raise _Failed(404, "there is no example for this model")
            return self.server.example
        rest = self._asked()
        if rest.startswith(":"):
            raise _Failed(405, f"{rest[1:]} is asked with POST")
        return self.server.served.metadata() if rest else self.server.served.status()

    def _post(self) -> Any:
        body = self._body()
        rest = self._asked()
        if rest != ":predict":
            raise _Failed(
                400, f"Malformed request: POST {self.path}; this model has :predict alone"
            )
        try:
            parsed = json.loads(body)
        except UnicodeDecodeError:
            raise BadRequest("JSON Parse error: the body is not UTF-8 text") from None
        except RecursionError:
            raise BadRequest("JSON Parse error: nested too deeply") from None
        except ValueError as error:
            raise BadRequest(f"JSON Parse error: {error}") from None
        return self.server.served.predict(parsed)

    def _asked(self) -> str:
        """Returns what is asked of our model: nothing, /metadata, or : and a verb."""
        match = _PATH.fullmatch(self.path.partition("?")[0])
        if match is None:
            known = self.path.startswith("/v1/")
            raise _Failed(400 if known else 404, f"Malformed request: {self.command} {self.path}")
        served, which = self.server.served, match["which"]
        of_label = (match["kind"] or "").lower() == "labels"
        wrong = of_label or which not in (None, str(served.version))
        if match["name"] != served.name or wrong:
            wanted = f"Specific({match['name']}, {which})" if which else f"Latest({match['name']})"
            raise _Failed(
                404,
                f"Servable not found for request: {wanted}; this server has {served.name!r}, "
                f"version {served.version}",
            )
        return (match["rest"] or "").lower()

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length")
        if length is None:
            raise _Failed(411, "Content-Length is missing; the body must be sent as a whole")
        if not re.fullmatch(r"\d{1,15}", length):
            raise _Failed(400, f"Content-Length: {length!r} is not a number of bytes")
        if int(length) > _MAX_BODY:
            self._drain(int(length))
            raise _Failed(
                413, f"the body has {int(length):,} bytes, at most {_MAX_BODY:,} are taken"
            )
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise _Failed(400, f"the body ends after {len(body):,} of {int(length):,} bytes")
        return body

    def _drain(self, length: int) -> None:
        """Reads a body that is refused: a client that is still sending would not see the answer."""
        left = min(length, _DRAINED)
        while left and (chunk := self.rfile.read(min(left, 1 << 20))):
            left -= len(chunk)

    def _send(self, status: int, content: Any) -> None:
        self.close_connection = True
        # What people look at in lines; predictions may be many.
        indent = 1 if self.command == "GET" else None
        text = f"{json.dumps(content, indent=indent)}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Says in JSON, too, what is no request at all."""
        self._started = time.monotonic()
        self._send(code, {"error": message or http.HTTPStatus(code).phrase})

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Prints a line a request."""
        took = (time.monotonic() - self._started) * 1000
        status = int(code)
        asked = self.requestline.removesuffix(" HTTP/1.1").encode("unicode_escape").decode()
        print(f"{asked}  {status}  {took:.1f} ms", flush=True)

    def log_error(self, *_: Any) -> None:
        """A client that sends nothing holds up no other."""
