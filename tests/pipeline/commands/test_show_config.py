"""`estimator-pipeline config`: a config printed as the jobs see it."""

from __future__ import annotations

import json

import pytest
import yaml

from pipeline import config
from pipeline.config import config_file
from tests.support import commands


def test_what_is_printed_is_the_config(tmp_path):
    done = commands.run_pipeline("config", "--config=flights_delay", "--set=train.steps=7")
    assert done.returncode == 0, done.stderr
    path = tmp_path / "printed.yaml"
    path.write_text(done.stdout)
    assert config_file.load(str(path)) == config_file.load("flights_delay", ["train.steps=7"])
    assert "base" not in yaml.safe_load(done.stdout)


def test_secrets_are_not_printed():
    model = "model={name: 'mine:model_fn', params: {api_key: sk-0123456789abcdef0123}}"
    done = commands.run_pipeline("config", "CONFIG=mnist", f"--set={model}")
    assert "api_key: " in done.stdout
    assert "0123456789" not in done.stdout


def test_the_schema_has_every_section_and_its_meaning(schema):
    assert set(schema["properties"]) == {*config.Config.model_fields, "base"}
    train = schema["$defs"]["Train"]
    assert train["properties"]["epochs"]["description"].startswith("Passes over the train records")
    assert train["additionalProperties"] is False
    # A config with data.input_fn has no columns.
    assert schema["$defs"]["Data"]["required"] == []


@pytest.fixture(scope="module")
def schema():
    return json.loads(commands.run_pipeline("config", "--schema").stdout)


def missing(schema, part, value, where=""):
    """Yields the required keys that a value lacks, as an editor marks them."""
    part = schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    if not isinstance(value, dict):
        return
    yield from (f"{where}{key}" for key in part.get("required", ()) if key not in value)
    for key, inner in value.items():
        of_any = part.get("additionalProperties")
        found = part.get("properties", {}).get(key, of_any if isinstance(of_any, dict) else {})
        yield from missing(schema, found, inner, f"{where}{key}.")


@pytest.mark.parametrize(
    "text",
    [
        "{name: a, data: {input_fn: 'a:b'}, model: {name: 'a:c'}, train: {steps: 1}}",
        "{name: a, data: {columns: {x: {type: int64}}}, labels: {x: {}}, model: {name: mmoe}}",
        "{base: flights, model: {params: {hidden_units: [8]}}}",
        *sorted(path.read_text() for path in config_file.SHIPPED.glob("*.yaml")),
    ],
)
def test_an_editor_misses_nothing_in_a_config_that_is_right(schema, text):
    assert not list(missing(schema, schema, yaml.safe_load(text)))
    assert list(missing(schema, schema, {"data": {"columns": {"x": {}}}})) == [
        "data.columns.x.type"
    ]


def test_a_config_must_be_named():
    done = commands.run_pipeline("config")
    assert done.returncode == 64
    assert done.stderr == "error: --config is missing: name one in configs/, or give a path\n"
