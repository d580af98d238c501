"""What a server says at its start: where it is, and a request that the model answers."""

from __future__ import annotations

import base64
import io
import json
import shlex

import pytest
from PIL import Image

from pipeline import config
from pipeline.config import config_file
from pipeline.records import builds
from pipeline.runs import run_folder
from serving.rest import session
from serving.rest.rest_server import RestServer


@pytest.fixture(scope="module")
def served(classifier):
    return classifier.served()


def _records(published):
    records = run_folder.records_folder(str(published.storage), published.job.name)
    return builds.find_current(records)


def test_the_example_is_a_record_that_was_never_trained_on(classifier, served):
    data = session.build_rules(classifier.job)
    row = session.build_instance(data, _records(classifier))
    assert list(row) == ["delay", "origin", "carrier", "hour"]
    assert row["origin"] in ("EWR", "JFK", "LGA")
    [answer] = served.predict({"instances": [row]})["predictions"]
    first = classifier.predicted()["probabilities"][0]
    assert answer["probabilities"] == pytest.approx(first.tolist(), abs=1e-6)


def test_without_records_it_is_made_up_by_the_rules(classifier, served, tmp_path):
    row = session.build_instance(session.build_rules(classifier.job), str(tmp_path))
    assert row == {"delay": -60.0, "origin": "EWR", "carrier": "x", "hour": 0}
    assert len(served.predict({"instances": [row]})["predictions"]) == 1


def test_sensitive_values_are_made_up(classifier):
    data = session.build_rules(classifier.job)
    columns = {
        n: c.model_copy(update={"sensitive": n == "origin"}) for n, c in data.columns.items()
    }
    shown = [
        session.build_instance(data.model_copy(update={"columns": columns}), _records(classifier))
        for _ in range(2)
    ]
    assert [row["origin"] for row in shown] == ["EWR", "EWR"]
    assert shown[0]["hour"] == session.build_instance(data, _records(classifier))["hour"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ({"type": "int64"}, 0),
        ({"type": "int64", "min": 2.5}, 3),
        ({"type": "float32", "max": -1}, -1),
        ({"type": "float32", "shape": [2, 2], "min": 1}, [[1, 1], [1, 1]]),
        ({"type": "int64", "allowed": [7, 8]}, 7),
        ({"type": "string", "min_length": 3}, "xxx"),
        ({"type": "string", "shape": [2]}, ["x", "x"]),
        ({"type": "uint8", "shape": [2]}, {"b64": "AAA="}),
    ],
)
def test_values_that_keep_the_rules(column, value):
    assert session.make_up(config.Column(**column)) == value


def test_an_image_is_a_real_one():
    content = base64.b64decode(session.make_up(config.Column(type="image"))["b64"])
    assert Image.open(io.BytesIO(content)).size == (1, 1)


def test_a_short_example_is_on_the_command_line(served, classifier):
    row = session.build_instance(session.build_rules(classifier.job), "nowhere")
    with RestServer(0, served, {"instances": [row]}) as server:
        where, command = session.welcome(server, classifier.export.step)
    url = f"http://127.0.0.1:{server.port}/v1/models/punctual"
    assert where == f"serving {url}, version 60; Ctrl-C ends it"
    *_, body, asked = shlex.split(command)
    assert json.loads(body) == {"instances": [row]}
    assert asked == f"{url}:predict"


def test_a_long_one_is_fetched_from_the_server(served, classifier):
    with RestServer(0, served, {"instances": ["x" * 2000]}) as server:
        *_, command = session.welcome(server, classifier.export.step)
    assert f"curl -s {server.address}/example | curl -s -d @- {server.address}/v1/models" in command


def test_without_an_example_there_is_none(served, classifier):
    with RestServer(0, served) as server:
        assert len(session.welcome(server, classifier.export.step)) == 1


def test_pixels_and_lists_of_records_are_as_requests_have_them(small_records):
    data = session.build_rules(small_records.job)
    row = session.build_instance(data, small_records.folder)
    assert len(base64.b64decode(row["image"]["b64"])) == 784
    assert session.nest([1, 2, 3, 4, 5, 6], (2, 3)) == [[1, 2, 3], [4, 5, 6]]


def test_rules_are_those_of_what_the_model_takes():
    data = session.build_rules(config_file.load("flights"))
    assert "arr_delay" not in data.columns
    assert data.columns["dep_delay"].max == 2880
    assert data.key == ()
