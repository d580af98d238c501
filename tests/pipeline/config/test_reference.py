"""The page on the config: each key with its type, range, default and meaning."""

from __future__ import annotations

import re

import pytest
import yaml

from pipeline import config, sections
from pipeline.config import config_file, reference, schema, strategy_table
from pipeline.steps import STEPS

PAGE = reference.page()


def _keys(part, path, parts):
    """The dotted names of all keys, out of the JSON schema that pydantic makes."""
    if "$ref" in part:
        yield from _keys(parts[part["$ref"].rpartition("/")[2]], path, parts)
    for other in (*part.get("anyOf", ()), *part.get("oneOf", ())):
        yield from _keys(other, path, parts)
    if isinstance(part.get("additionalProperties"), dict):
        yield from _keys(part["additionalProperties"], f"{path}.<name>", parts)
    for key, value in part.get("properties", {}).items():
        yield f"{path}.{key}".lstrip(".")
        yield from _keys(value, f"{path}.{key}", parts)


def test_each_key_of_the_config_has_a_row():
    tree = schema.Config.model_json_schema()
    keys = {*_keys(tree, "", tree["$defs"])}
    assert {"train.save_steps", "gcp.machines.<name>.disk_gb", "data.split.salt"} <= keys
    assert not keys - {*re.findall(r"^\| `([^`]+)` \|", PAGE, re.M)}


@pytest.mark.parametrize("name", STEPS)
def test_each_setting_of_a_step_has_a_row(name):
    part = PAGE.partition(f"\n### `{name}`\n")[2].partition("\n### ")[0]
    assert re.findall(r"^\| `(\w+)` \|", part, re.M) == list(STEPS[name].model_fields)[1:]


def test_each_row_has_type_default_and_meaning():
    rows = re.findall(r"^\| `.*$", PAGE, re.M)
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    assert len(cells) > 150
    assert not [row for row in cells if len(row) != 4 or not all(row)]


def test_links_within_the_page_lead_to_headings():
    """Anchors as GitHub makes them: lower case, no punctuation, hyphens for spaces."""
    headings = re.findall(r"^#+ (.*)$", PAGE, re.M)
    anchors = [re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings]
    assert len(set(anchors)) == len(anchors)
    assert {*re.findall(r"\]\(#([^)]+)\)", PAGE)} <= {*anchors}


def test_the_example_is_a_config():
    [text] = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)
    job = config_file.validate(yaml.safe_load(text), "example")
    assert job.features["distance"].steps[1].step == "z_score"


class Undocumented(sections.Section):
    """A section."""

    size: int = 0
    """How large it is,
    in bytes."""
    left: int = 0
    # No docstring.
    inner: schema.Drift = schema.Drift()


class Inherits(Undocumented):
    """Another."""

    left: int = 1
    """How much is left."""


def test_docstrings_stand_below_keys():
    assert reference.docstrings(Undocumented) == {"size": "How large it is, in bytes."}
    assert reference.docstrings(Inherits)["left"] == "How much is left."
    assert reference.docstrings(Inherits)["size"] == "How large it is, in bytes."


def test_a_key_without_a_meaning_fails(monkeypatch):
    monkeypatch.setattr(schema, "Config", Undocumented)
    with pytest.raises(ValueError, match=r"Undocumented\.left has no meaning; write a docstring"):
        reference.page()


def test_keys_of_some_strategies_name_all_of_these():
    meanings = reference.docstrings(config.Cluster)
    assert meanings["parameter_device"].endswith(
        "Only with `central_storage` as `strategy`, or `central_storage` as `eval_strategy`."
    )
    for name, strategy in strategy_table.STRATEGIES.items():
        assert all(f"`{name}`" in meanings[key].partition("Only with")[2] for key in strategy.keys)


def test_an_average_names_the_strategies_that_make_one():
    said = reference.docstrings(config.Optimizer)["average"].partition("Only with")[2]
    training, _, evaluating = said.partition("`cluster.strategy`, and not with")
    for name, row in strategy_table.STRATEGIES.items():
        assert (f"`{name}`" in training) == row.averages
        assert (f"`{name}`" in evaluating) == (row.mirrors and row.evaluates)


@pytest.mark.parametrize("arguments", [["--help"], [], ["a.md", "b.md"]])
def test_the_page_is_written_to_a_file_only(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"^usage: .* FILE, such as docs/config\.md; got "):
        reference.main(arguments)
    assert not list(tmp_path.iterdir())
