"""A server on a port of its own, asked as any client would."""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import http.client
import json
import socket
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest

from pipeline import errors
from pipeline.runs import exported
from serving.rest import rest_server, session

ROW = {"delay": 30.5, "origin": "EWR", "carrier": "AA", "hour": 12}


def _started(published, **others):
    server = rest_server.RestServer(0, published.served(), **others)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    return server, thread


@contextlib.contextmanager
def _running(published, **others):
    server, thread = _started(published, **others)
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def server(classifier):
    with _running(classifier, example={"instances": [ROW]}) as running:
        yield running


def _ask(server, path, body=None):
    """Returns the status and the parsed answer."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(f"{server.address}{path}", data) as answer:
            assert answer.headers["Content-Type"] == "application/json"
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        assert error.headers["Content-Type"] == "application/json"
        return error.code, json.load(error)


MODEL = "/v1/models/punctual"


def test_values_that_the_step_date_cannot_read_are_logged(classifier, capsys):
    served = rest_server.Served(
        "punctual",
        classifier.export,
        session.build_rules(classifier.job),
        dates={"carrier": ("iso",)},
    )
    assert served.predict({"instances": [ROW]})["predictions"]
    said = "warning: column 'carrier': 1 value is no date in the form iso, such as 'AA'. The step"
    assert capsys.readouterr().out.startswith(said)


def test_predictions_are_those_of_the_saved_model(server, classifier):
    rows = [ROW, {**ROW, "delay": float("nan"), "carrier": ""}, {**ROW, "origin": "LGA"}]
    status, answer = _ask(server, f"{MODEL}:predict", {"instances": rows})
    assert status == 200
    feeds = {
        "delay": np.array([row["delay"] for row in rows], np.float32),
        "hour": np.array([row["hour"] for row in rows]),
        **{
            name: np.array([row[name].encode() for row in rows], object)
            for name in ("origin", "carrier")
        },
    }
    wanted = exported.load(classifier.export.path).call(exported.COLUMNS, feeds)
    assert [row["class"] for row in answer["predictions"]] == wanted["class"].tolist()
    found = [row["probabilities"] for row in answer["predictions"]]
    np.testing.assert_array_equal(np.array(found, np.float32), wanted["probabilities"])


def test_columns_are_answered_by_columns(server):
    _, by_row = _ask(server, f"{MODEL}:predict", {"instances": [ROW, ROW]})
    columns = {name: [value] * 2 for name, value in ROW.items()}
    status, answer = _ask(server, f"{MODEL}:predict", {"inputs": columns})
    assert status == 200
    assert answer["outputs"]["class"] == [row["class"] for row in by_row["predictions"]]


def test_records_are_answered_through_the_other_signature(server, classifier):
    [path] = classifier.records.list_blocks("test").paths
    from pipeline.records import tfrecord

    payloads = list(tfrecord.read(path, count=3))
    rows = [{"b64": base64.b64encode(payload).decode()} for payload in payloads]
    body = {"signature_name": "examples", "instances": rows}
    status, answer = _ask(server, f"{MODEL}:predict", body)
    assert status == 200
    wanted = classifier.predicted()["probabilities"][:3]
    found = [row["probabilities"] for row in answer["predictions"]]
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_one_output_has_no_name(regressor):
    with _running(regressor) as server:
        status, answer = _ask(server, "/v1/models/minutes:predict", {"instances": [ROW]})
        assert status == 200
        [number] = answer["predictions"]
        assert isinstance(number, float)
        assert _ask(server, "/example") == (404, {"error": "there is no example for this model"})


@pytest.mark.parametrize("path", [MODEL, f"{MODEL}/versions/60", "/V1/Models/punctual"])
def test_the_state_of_the_model(server, path):
    ok = {"error_code": "OK", "error_message": ""}
    assert _ask(server, path) == (
        200,
        {"model_version_status": [{"version": "60", "state": "AVAILABLE", "status": ok}]},
    )


@pytest.mark.parametrize("path", [f"{MODEL}/metadata", f"{MODEL}/versions/60/metadata"])
def test_the_signatures_of_the_model(server, path):
    status, answer = _ask(server, path)
    assert status == 200
    assert answer["model_spec"] == {"name": "punctual", "signature_name": "", "version": "60"}
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert {"serving_default", "examples"} <= set(signatures)
    assert sorted(signatures["serving_default"]["inputs"]) == sorted(ROW)


def test_a_version_may_be_named(server):
    path = f"{MODEL}/versions/60:predict"
    assert _ask(server, path, {"instances": [ROW]})[0] == 200


def test_the_example_is_a_body(server):
    status, example = _ask(server, "/example")
    assert status == 200
    assert _ask(server, f"{MODEL}:predict", example)[0] == 200


BODY = {"instances": [ROW]}


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/v1/models/other:predict", BODY, 404, "Servable not found for request: Latest(other)"),
        (f"{MODEL}/versions/7:predict", BODY, 404, "request: Specific(punctual, 7); this server"),
        (f"{MODEL}/versions/x", None, 404, "Specific(punctual, x)"),
        (f"{MODEL}/labels/stable", None, 404, "Specific(punctual, stable)"),
        (f"{MODEL}/labels/60", None, 404, "Specific(punctual, 60)"),
        ("/v1/models/other", None, 404, "this server has 'punctual', version 60"),
        ("/v1/models", None, 400, "Malformed request: GET /v1/models"),
        ("/", None, 404, "Malformed request: GET /"),
        (f"{MODEL}:classify", BODY, 400, "this model has :predict alone"),
        (MODEL, BODY, 400, "this model has :predict alone"),
        (f"{MODEL}:predict", None, 405, "predict is asked with POST"),
        (f"{MODEL}:predict", b"", 400, "JSON Parse error"),
        (f"{MODEL}:predict", b"{", 400, "JSON Parse error: Expecting property name"),
        (f"{MODEL}:predict", b"\xff\xfe\xff", 400, "JSON Parse error: the body is not UTF-8"),
        (f"{MODEL}:predict", b"[" * 100_000, 400, "JSON Parse error: nested too deeply"),
        (f"{MODEL}:predict", {"instances": [{**ROW, "hour": "x"}]}, 400, "[0].hour: is 'x', must"),
        (
            f"{MODEL}:predict",
            json.dumps({"instances": [{**ROW, "hour": 5}]})
            .replace("5}", "9" * 5001 + "}")
            .encode(),
            400,
            "instances[0].hour: is a number of 5,001 digits, too large for int64",
        ),
        (
            f"{MODEL}:predict",
            {"instances": [{**ROW, "hour": 24}]},
            400,
            "is 24, allowed is 0 to 23",
        ),
    ],
)
def test_what_cannot_be_answered_says_why(server, path, body, status, message):
    found, answer = _ask(server, path, body)
    assert found == status
    assert list(answer) == ["error"]
    assert message in answer["error"]


def _raw(server, *lines, body=b"", hosts=("localhost",)):
    """Sends lines as they are; returns the status and the parsed answer."""
    lines = (*lines, *(f"Host: {host}" for host in hosts))
    with socket.create_connection(server.server_address, timeout=30) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        connection.shutdown(socket.SHUT_WR)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, json.loads(answer.read())


POST = f"POST {MODEL}:predict HTTP/1.1"


@pytest.mark.parametrize(
    ("lines", "status", "message"),
    [
        ([POST], 411, "Content-Length is missing"),
        ([POST, "Transfer-Encoding: chunked"], 411, "Content-Length is missing"),
        ([POST, "Content-Length: many"], 400, "Content-Length: 'many' is not a number of bytes"),
        ([POST, "Content-Length: -1"], 400, "Content-Length: '-1' is not a number of bytes"),
        (
            [POST, "Content-Length: 99"],
            400,
            "the body is shorter than its Content-Length of 99 bytes",
        ),
        ([f"PUT {MODEL} HTTP/1.1"], 405, f"{MODEL} is asked with GET or HEAD or POST"),
        ([f"OPTIONS {MODEL} HTTP/1.1"], 405, f"{MODEL} is asked with GET or HEAD or POST"),
        (["nonsense"], 400, "Bad request syntax ('nonsense')"),
    ],
)
def test_requests_that_no_client_should_send(server, lines, status, message):
    found, answer = _raw(server, *lines, body=b"{}")
    assert found == status
    assert message in answer["error"]


def test_a_body_that_is_too_large_is_refused_and_its_client_sees_why(classifier):
    with _running(classifier, max_body=1000) as server:
        found, answer = _ask(server, f"{MODEL}:predict", b"x" * 5_000_000)
    assert (found, answer["error"]) == (
        413,
        "the body has 5,000,000 bytes, at most 1,000 are taken",
    )


def test_a_client_may_ask_whether_to_send_its_body(server):
    body = json.dumps(BODY).encode()
    lines = (POST, f"Content-Length: {len(body)}", "Expect: 100-continue")
    assert _raw(server, *lines, body=body)[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "allowed"),
    [
        ("HEAD", MODEL, 200, None),
        ("HEAD", "/v1/models/other", 404, None),
        ("GET", f"{MODEL}:predict", 405, "POST"),
        ("DELETE", MODEL, 405, "GET, HEAD, POST"),
    ],
)
def test_methods(server, method, path, status, allowed):
    connection = http.client.HTTPConnection(*server.server_address, timeout=30)
    connection.request(method, path)
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Allow"]) == (status, allowed)
    assert bool(answer.read()) == (method != "HEAD")
    connection.close()


def test_many_at_once_get_each_their_own_answer(server):
    rows = [{**ROW, "delay": float(number)} for number in range(-20, 20)]

    def ask(row):
        return _ask(server, f"{MODEL}:predict", {"instances": [row]})[1]["predictions"][0]

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        apart = list(threads.map(ask, rows))
    _, together = _ask(server, f"{MODEL}:predict", {"instances": rows})
    np.testing.assert_allclose(
        [row["probabilities"] for row in apart],
        [row["probabilities"] for row in together["predictions"]],
        atol=1e-6,
    )
    assert len({row["probabilities"][0] for row in apart}) > 20


def test_a_client_that_disconnects_disturbs_no_other(classifier, capfd):
    with _running(classifier) as server:
        for _ in range(5):
            with socket.create_connection(server.server_address) as connection:
                connection.sendall(f"{POST}\r\nContent-Length: 10\r\n\r\n{{".encode())
        assert _ask(server, MODEL)[0] == 200
    # The server has ended, and so have the threads of all its requests.
    assert "Traceback" not in capfd.readouterr().err


class Slow:
    """A model that answers when it is let."""

    name, version = "punctual", 60

    def __init__(self):
        self.asked, self.may_answer = threading.Event(), threading.Event()

    def predict(self, body):
        self.asked.set()
        assert self.may_answer.wait(60)
        return {"predictions": [body["instances"][0]]}


def test_a_request_is_answered_though_the_server_ends_meanwhile():
    slow = Slow()
    server = rest_server.RestServer(0, slow)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        answer = threads.submit(_ask, server, f"{MODEL}:predict", {"instances": [7]})
        assert slow.asked.wait(60)
        server.shutdown()
        assert serving.is_alive(), "it waits for the request"
        slow.may_answer.set()
        assert answer.result(60) == (200, {"predictions": [7]})
    serving.join()


def test_a_port_that_is_taken_is_a_line(server):
    with pytest.raises(errors.UsageError, match=r"--port \d+: Address already in use; choose"):
        rest_server.RestServer(server.port, server.served)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LocalHost:8501", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8501", 200),
        ("evil.example", 403),
        ("evil.example:8501", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost@evil.example", 403),
        ("", 403),
        ("[::1]evil.example", 403),
    ],
)
def test_only_names_of_this_machine_are_answered(server, host, status):
    found, _ = _raw(server, "GET /example HTTP/1.1", hosts=[host])
    assert found == status
    found, _ = _raw(server, POST, "Content-Length: 2", body=b"{}", hosts=[host])
    assert (found == 403) == (status == 403)


def test_a_second_name_does_not_hide_the_first(server):
    status, answer = _raw(server, "GET /example HTTP/1.1", hosts=["localhost", "evil.example"])
    assert status == 403
    assert answer["error"] == (
        f"Host: 'localhost,evil.example' is not this server; use {server.address}"
    )


def test_only_this_machine_is_answered(server):
    assert server.server_address[0] == "127.0.0.1"
