"""A server for trying a model out: TensorFlow Serving's REST API, for this machine alone.

  GET  /v1/models/NAME[/versions/N]              its state
  GET  /v1/models/NAME[/versions/N]/metadata     its signatures
  POST /v1/models/NAME[/versions/N]:predict      predictions
  GET  /example                                  a body for the last one

The name is that of the config, the version the step of the export.
"""

from __future__ import annotations

import http
import json
import os
import re
import socket
import time
import traceback
from typing import Any

from werkzeug import exceptions, serving
from werkzeug.wrappers import Request, Response

from pipeline import config, errors
from pipeline.config.date_rules import NONE, Unruled
from pipeline.runs import exported
from preprocessing.rows import undated
from serving.rest import json_codec
from serving.rest.json_codec import BadRequest

_HOST = "127.0.0.1"
# How a client of this machine calls it. A page of another site can have its own name resolved to
# this machine and read the answers: the browser then sends that name.
_NAMES = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d*)?", re.IGNORECASE)
# Bytes of a body.
_MAX_BODY = 64 << 20
_PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(?:/(?P<kind>versions|labels)/(?P<which>[^/:]+))?"
    r"(?P<rest>/metadata|:\w+)?",
    re.IGNORECASE,
)


class Served:
    """One model under one name. Several threads may ask it."""

    def __init__(
        self, name: str, export: exported.Export, data: config.Data, *, dates: Unruled = NONE
    ) -> None:
        """`data` says what rows must be like; its columns are those that the model takes. Other
        values in columns of `dates` are logged."""
        self.name, self.version, self._data, self._dates = name, export.step, data, dates
        self._model = exported.load(export.path)
        self._signatures = {n: self._model.inputs(n) for n in self._model.signatures}
        self._definitions = exported.signature_defs(export.path)

    def predict(self, body: Any) -> dict[str, Any]:
        """Returns the answer to a parsed body. Raises `BadRequest`."""
        request = json_codec.read(body, self._data, self._signatures, dates=self._dates)
        for line in undated.format_warnings(request.undated, self._dates):
            print(f"warning: {line}", flush=True)
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


class RestServer(serving.ThreadedWSGIServer):
    """Answers on a port of this machine that no other can reach."""

    # Threads end with their one request, so that the server can wait for all of them.
    daemon_threads = False

    def __init__(
        self,
        port: int,
        served: Served,
        example: dict[str, Any] | None = None,
        *,
        max_body: int = _MAX_BODY,
    ) -> None:
        """Listens on a port, any if 0. Raises `UsageError` if it is taken or not ours to take.

        Bodies of more than `max_body` bytes are refused.
        """
        self.served, self.example, self._max_body = served, example, max_body
        # werkzeug would exit where it cannot listen.
        try:
            listener = socket.create_server((_HOST, port), backlog=self.request_queue_size)
        except OSError as error:
            raise errors.UsageError(
                f"--port {port}: {os.strerror(error.errno or 0)}; choose another with --port="
            ) from None
        with listener:
            application = Request.application(self._answer)
            super().__init__(_HOST, port, application, _Handler, fd=listener.fileno())

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://{_HOST}:{self.port}"

    def _answer(self, request: Request) -> Response:
        request.max_content_length = self._max_body
        status, headers = 200, {}
        try:
            content = self._content(request)
        except exceptions.HTTPException as error:
            status, headers = error.code or 500, dict(error.get_headers())
            content = {"error": error.description}
        except BadRequest as error:
            status, content = 400, {"error": str(error)}
        except Exception as error:
            traceback.print_exc()
            status, content = 500, {"error": f"{error!r}"[:500]}
        # What people look at in lines; predictions may be many.
        indent = None if request.method == "POST" else 1
        headers["Content-Type"] = "application/json"
        return Response(f"{json.dumps(content, indent=indent)}\n", status, headers)

    def _content(self, request: Request) -> Any:
        host = request.headers.get("Host")
        if host is not None and not _NAMES.fullmatch(host.strip()):
            raise exceptions.Forbidden(f"Host: {host!r} is not this server; use {self.address}")
        _allow(request, "GET", "HEAD", "POST")
        if request.method == "POST":
            return self._post(request)
        if request.path == "/example":
            if self.example is None:
                raise exceptions.NotFound("there is no example for this model")
            return self.example
        rest = self._parse_path(request)
        if rest.startswith(":"):
            _allow(request, "POST")
        return self.served.metadata() if rest else self.served.status()

    def _post(self, request: Request) -> Any:
        body = _read_body(request)
        if self._parse_path(request) != ":predict":
            raise exceptions.BadRequest(
                f"Malformed request: POST {request.path}; this model has :predict alone"
            )
        try:
            parsed = json.loads(body, parse_int=json_codec.parse_whole)
        except UnicodeDecodeError:
            raise BadRequest("JSON Parse error: the body is not UTF-8 text") from None
        except RecursionError:
            raise BadRequest("JSON Parse error: nested too deeply") from None
        except ValueError as error:
            raise BadRequest(f"JSON Parse error: {error}") from None
        return self.served.predict(parsed)

    def _parse_path(self, request: Request) -> str:
        """Returns what is asked of our model: nothing, /metadata, or : and a verb."""
        match = _PATH.fullmatch(request.path)
        if match is None:
            known = request.path.startswith("/v1/")
            kind = exceptions.BadRequest if known else exceptions.NotFound
            raise kind(f"Malformed request: {request.method} {request.path}")
        served, which = self.served, match["which"]
        of_label = (match["kind"] or "").lower() == "labels"
        wrong = of_label or which not in (None, str(served.version))
        if match["name"] != served.name or wrong:
            wanted = f"Specific({match['name']}, {which})" if which else f"Latest({match['name']})"
            raise exceptions.NotFound(
                f"Servable not found for request: {wanted}; this server has {served.name!r}, "
                f"version {served.version}",
            )
        return (match["rest"] or "").lower()


def _allow(request: Request, *methods: str) -> None:
    if request.method not in methods:
        raise exceptions.MethodNotAllowed(
            methods, f"{request.path} is asked with {' or '.join(methods)}"
        )


def _read_body(request: Request) -> bytes:
    # werkzeug would end a body in chunks at the limit, and takes no number for no body.
    if request.content_length is None:
        raise exceptions.LengthRequired(
            "Content-Length is missing; the body must be sent as a whole"
        )
    length = request.headers["Content-Length"]
    if not length.isdecimal():
        raise exceptions.BadRequest(f"Content-Length: {length!r} is not a number of bytes")
    try:
        return request.get_data(cache=False)
    except exceptions.RequestEntityTooLarge:
        raise exceptions.RequestEntityTooLarge(
            f"the body has {int(length):,} bytes, at most {request.max_content_length:,} are taken"
        ) from None
    except exceptions.ClientDisconnected:
        raise exceptions.BadRequest(
            f"the body is shorter than its Content-Length of {int(length):,} bytes"
        ) from None


class _Handler(serving.WSGIRequestHandler):
    server_version, sys_version = "estimator-pipeline", ""
    # Assumed for what is no request; the oldest version's answers have no status.
    default_request_version = "HTTP/1.0"
    # Seconds that a client may keep silent.
    timeout = 10

    def run_wsgi(self) -> None:
        self._started = time.monotonic()
        super().run_wsgi()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Says in JSON, too, what is no request at all."""
        self._started = time.monotonic()
        self.close_connection = True
        text = f"{json.dumps({'error': message or http.HTTPStatus(code).phrase})}\n".encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Prints a line a request."""
        took = (time.monotonic() - self._started) * 1000
        asked = self.requestline.removesuffix(" HTTP/1.1").encode("unicode_escape").decode()
        print(f"{asked}  {int(code)}  {took:.1f} ms", flush=True)

    def log(self, type: str, message: str, *args: Any) -> None:
        """A client that sends nothing holds up no other."""
