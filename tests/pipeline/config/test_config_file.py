import json
import math
import os
import pathlib

import pytest
import yaml

from pipeline import config, errors
from pipeline.config import config_file, yaml_loader
from tests.pipeline.feature_tables import make


@pytest.fixture
def write(tmp_path):
    """Writes a config file out of MNIST's, changed; returns its path."""

    def write(change=lambda tree: None, text=None):
        tree = yaml.safe_load((config_file.SHIPPED / "mnist.yaml").read_text())
        change(tree)
        path = tmp_path / "job.yaml"
        path.write_text(yaml.safe_dump(tree) if text is None else text)
        return str(path)

    return write


@pytest.mark.parametrize("path", sorted(config_file.SHIPPED.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_shipped_config_is_valid_and_is_called_like_its_file(path):
    assert config_file.load(path.stem).name == path.stem
    assert path.read_text().startswith("# "), "says at its top what it is"


def test_a_config_can_be_given_by_path(write):
    assert config_file.load(write()).name == "mnist"


def test_inputs_start_at_the_folder_of_the_file(write, tmp_path):
    def change(tree):
        tree["data"]["inputs"]["train"] = {
            "images": "raw/i.gz",
            "labels": "/abs/l.gz",
            "more": "gs://bucket/m.gz",
        }

    found = config_file.load(write(change)).data.inputs["train"]
    assert found == {
        "images": f"{tmp_path}/raw/i.gz",
        "labels": "/abs/l.gz",
        "more": "gs://bucket/m.gz",
    }


def test_what_is_dumped_loads_as_the_same(tmp_path):
    job = config_file.load("mnist", ["train.batch_size=64"])
    path = tmp_path / "elsewhere" / "config.yaml"
    path.parent.mkdir()
    path.write_text(config_file.dump(job))
    assert config_file.load(str(path)) == job


def test_other_alphabets_are_dumped_as_they_are_written():
    job = config_file.load("mnist", ["data.inputs.train.images=/Süd/Preis €.gz"])
    assert "/Süd/Preis €.gz" in config_file.dump(job)
    assert "/Süd/Preis €.gz" in config_file.changes(job)


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("train.steps=7", lambda job: job.train.steps == 7),
        (
            "train.optimizer.learning_rate=1e-2",
            lambda job: job.train.optimizer.learning_rate == 0.01,
        ),
        ("train.optimizer={name: sgd}", lambda job: job.train.optimizer.name == "sgd"),
        ("eval.metric=loss", lambda job: job.eval.metric == "loss"),
        ("model.params.classes=3", lambda job: job.model.params["classes"] == 3),
        ("cluster.strategy=none", lambda job: job.cluster.strategy == "none"),
    ],
)
def test_overrides(override, found):
    assert found(config_file.load("mnist", [override]))


def test_the_last_override_wins():
    assert config_file.load("mnist", ["train.steps=1", "train.steps=2"]).train.steps == 2


@pytest.mark.parametrize(
    ("override", "text"),
    [
        (
            "train.stesp=5",
            r"unknown key 'train\.stesp' \(did you mean 'steps'\?\); known here: steps",
        ),
        (
            "trian.steps=5",
            r"unknown key 'trian' \(did you mean 'train'\?\); known here: name, data",
        ),
        (
            "data.columns.image.tpye=x",
            r"unknown key 'data\.columns\.image\.tpye' \(did you mean 'type",
        ),
        (
            "slurm.partition=off",
            r"slurm\.partition: must be a text, got false, as which YAML reads no, off and false: "
            r"put it in quotes",
        ),
        ("slurm.account=yes", r"slurm\.account: must be a text, got true, as which YAML reads yes"),
        ("slurm.qos=5", r"slurm\.qos: must be a text, got the number 5: put it in quotes"),
        (
            "slurm.options=--exclusive",
            r"slurm\.options: must be a list, such as \[a, b\], got '--e",
        ),
        ("train.steps=0", r"train\.steps: input should be greater than 0, got 0"),
        ("train.steps=many", r"train\.steps: input should be a valid integer, .*got 'many'"),
        (
            f"train.steps={'9' * 5001}",
            r"train\.steps: must be a whole number of fewer digits, got 5,001",
        ),
        (
            f"train.optimizer.learning_rate={'9' * 5001}",
            r"learning_rate: .* finite number, got '99",
        ),
        ("train.steps=1.5", r"train\.steps: .*got 1\.5"),
        ("train.steps=", r"train: missing: steps or epochs"),
        ("data.split.eval=1.5", r"data\.split\.eval: input should be less than 1, got 1\.5"),
        (
            "data.split.evl=0.5",
            r"unknown key 'data\.split\.evl' \(did you mean 'eval'\?\); known here: by, columns",
        ),
        ("data.split={by: time}", r"missing key 'data\.split\.column'"),
        (
            "data.split.by=tim",
            r"data\.split\.by: input should be one of 'hash', 'time', 'column', got 'tim'",
        ),
        (
            "train.optimizer.name=adma",
            r"train\.optimizer\.name: input should be 'adam'.*got 'adma'",
        ),
        (
            "train.optimizer.learning_rate=-1",
            r"learning_rate: input should be greater than 0, got -1",
        ),
        (
            "train.keep_checkpoints=1",
            r"keep_checkpoints: input should be greater than or equal to 2",
        ),
        ("data.label=digit", r"data: label: 'digit' is not among the columns"),
        ("data.columns={}", r"data\.columns: .*at least 1"),
        ("name=../x", r"name: must look like 'flights-2024', got '\.\./x'"),
        ("train=5", r"^config 'mnist': train: .*got 5"),
        ("steps", r"^--set 'steps': must be section\.key=value"),
        ("=5", r"^--set '=5': must be section\.key=value"),
        ("train.steps.x=5", r"^--set 'train\.steps\.x=5': 'steps' has no keys below it"),
        ("data.label=2024-02-30", r"^--set .*: '2024-02-30' is not a YAML value"),
        ("train.steps={", r"^--set 'train\.steps=\{': '\{' is not a YAML value"),
    ],
)
def test_bad_overrides_name_key_value_and_what_is_allowed(override, text):
    with pytest.raises(errors.UsageError, match=text):
        config_file.load("mnist", [override])


def test_all_that_is_wrong_is_reported_at_once():
    with pytest.raises(errors.UsageError, match=r"train\.steps: .*; eval\.batch_size: "):
        config_file.load("mnist", ["train.steps=0", "eval.batch_size=0"])


def test_a_missing_key_is_named(write):
    with pytest.raises(errors.UsageError, match=r"missing key 'data\.label'"):
        config_file.load(write(lambda tree: tree["data"].pop("label")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", r"job\.yaml' line \d+: not valid YAML: "),
        ("name: 2024-02-30", r"job\.yaml': not valid YAML: day is out of range for month"),
        ("train: {steps: 1}\ntrain: {steps: 2}", r"line 2: not valid YAML: 'train' is given twice"),
        ("", r"must be a mapping of sections such as data: and model:, got None"),
        ("- a", r"must be a mapping of sections such as data: and model:, got \['a'\]"),
        ("words " * 9999, r"got 'words words [^']*\.\.\. \(\S+ characters\)$"),
        ("a: !!python/object/apply:os.system ['touch {marker}']", r"not valid YAML: could not"),
    ],
)
def test_files_that_are_no_config(write, tmp_path, text, message):
    marker = tmp_path / "marker"
    with pytest.raises(errors.UsageError, match=message):
        config_file.load(write(text=text.replace("{marker}", str(marker))))
    assert not marker.exists(), "a config must not run code"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mnits", r"^config 'mnits': not one of .*mnist.* \(did you mean 'mnist'\?\); a path must"),
        ("nowhere/job.yaml", r"^config 'nowhere/job\.yaml': no such file"),
        ("../mnist", r"^config '\.\./mnist': no such file"),
    ],
)
def test_configs_that_are_not_there(name, text):
    with pytest.raises(errors.UsageError, match=text):
        config_file.load(name)


def test_what_is_merged_may_be_given_again(write):
    base = "a: {b: &c {<<: &d {x: 1}, x: 2}}\ntop: {<<: *c, x: 3}"
    with pytest.raises(errors.UsageError, match="unknown key 'a'"):
        config_file.load(write(text=base))


def test_a_pipe_is_no_config(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(errors.UsageError, match="cannot be read: it is not a regular file"):
        config_file.load(str(tmp_path / "pipe.yaml"))


def test_a_folder_is_no_config(tmp_path):
    with pytest.raises(errors.UsageError, match=rf"^config '{tmp_path}': cannot be read: Is a dir"):
        config_file.load(str(tmp_path))


def test_a_config_that_is_no_text(write):
    path = pathlib.Path(write())
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(errors.PipelineError, match="not UTF-8 text"):
        config_file.load(str(path))


_LEVELS = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 9)]
_BOMB = "{" + ", ".join(["l0: &l0 [a, a, a, a, a, a, a, a, a]", *_LEVELS]) + "}"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (_BOMB, r"its aliases make [\d,]+ more values of it; at most 100,000 are allowed"),
        ("&a [1, *a]", "line 1: not valid YAML: an alias refers to a value that contains it"),
        ("[" * 500, "line 1: not valid YAML: it is nested more than 50 levels deep"),
    ],
)
def test_a_text_that_is_small_and_becomes_large_is_refused(write, value, problem):
    with pytest.raises(errors.UsageError, match=problem):
        config_file.load(write(text=f"a: {value}"))
    with pytest.raises(errors.UsageError, match="is not a YAML value"):
        config_file.load("mnist", [f"model.params={value}"])


def test_aliases_of_a_few_values_are_taken(write):
    def change(tree):
        shared = {"hidden": [8, 4]}
        tree["model"] = {"name": "mine.models:fn", "params": {"a": shared, "b": shared}}

    path = write(change)
    assert "*id001" in pathlib.Path(path).read_text()
    assert config_file.load(path).model.params == {"a": {"hidden": [8, 4]}, "b": {"hidden": [8, 4]}}


def test_a_wide_table_has_more_values_than_aliases_may_make(write, monkeypatch):
    monkeypatch.setattr(yaml_loader, "MOST_VALUES", 100)

    def change(tree):
        shared = {"a": 1}
        tree["model"] = {"name": "mine.models:fn", "params": {"a": shared, "b": shared}}
        tree["data"]["columns"] |= {f"c{n}": {"type": "float32"} for n in range(100)}

    assert len(config_file.load(write(change)).data.columns) >= 100


def test_a_secret_is_named_and_left_out_of_what_others_see():
    job = config_file.load("mnist", ["model={name: my:fn, params: {api_token: abc123, size: 8}}"])
    assert config_file.dump(job).count("abc123") == 1
    shown = yaml.safe_load(config_file.dump(job, redacted=True))
    assert shown["model"]["params"] == {"api_token": "[hidden]", "size": 8}
    (line,) = config_file.warnings(job)
    assert line.startswith("model.params.api_token looks like a secret. config.yaml of the run ")
    assert "abc123" not in line
    assert not config_file.warnings(config_file.load("mnist"))


@pytest.fixture
def based(tmp_path):
    """Writes config files by name, each over MNIST's sections unless it has a base; returns the
    path of the last."""

    def write(**files):
        for name, text in files.items():
            path = tmp_path / f"{name}.yaml"
            path.write_text(text)
        return str(path)

    return write


def test_a_base_gives_what_is_not_given(based):
    path = based(job="name: job\nbase: mnist\ntrain: {steps: 7, optimizer: {learning_rate: 0.5}}\n")
    found, mnist = config_file.load(path), config_file.load("mnist")
    assert (found.name, found.train.steps) == ("job", 7)
    assert found.train.optimizer == mnist.train.optimizer.model_copy(update={"learning_rate": 0.5})
    assert found.data == mnist.data
    assert config_file.load(path, ["train.steps=9"]).train.steps == 9


def test_null_leaves_out_what_the_base_has(based):
    job = config_file.load(based(job="name: job\nbase: flights\nfeatures: {route: null}\n"))
    assert set(config_file.load("flights").features) - set(job.features) == {"route"}
    assert job.train == config_file.load("flights").train


def test_bases_have_bases_and_paths_start_at_the_file_that_gives_them(based, tmp_path):
    (tmp_path / "below").mkdir()
    inner = "name: inner\nbase: mnist\ndata: {inputs: {train: {images: i.gz}}}\n"
    (tmp_path / "below" / "inner.yaml").write_text(inner)
    outer = "name: outer\nbase: below/inner.yaml\ndata: {inputs: {train: {labels: l.gz}}}\n"
    train = config_file.load(based(outer=outer)).data.inputs["train"]
    assert train == {"images": f"{tmp_path}/below/i.gz", "labels": f"{tmp_path}/l.gz"}


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"a": "name: a\nbase: 3\n"}, r"base: must be a shipped config or the path of one, got 3$"),
        ({"a": "base: mnist\n"}, r"name: is missing; with that of 'mnist' it would share its rec"),
        ({"a": "name: a\nbase: mnits\n"}, r"a\.yaml': base: config 'mnits': .*mean 'mnist'"),
        ({"a": "name: a\nbase: b.yaml\n"}, r"base: config '.*/b.yaml': no such file$"),
        (
            {"b": "name: b\nbase: a.yaml\n", "a": "name: a\nbase: b.yaml\n"},
            r"a\.yaml': its bases come round to '.*a\.yaml' again$",
        ),
        (
            {"a": "name: a\nbase: mnist\ntrain: {stepz: 1}\n"},
            r"unknown key 'train\.stepz' \(did you mean 'steps'\?\)",
        ),
    ],
)
def test_wrong_bases_are_refused(based, files, text):
    with pytest.raises(errors.UsageError, match=text):
        config_file.load(based(**files))


def _wide(tree):
    """Of more than a thousand columns, with texts that could be taken for other values."""
    kept = tree["data"]["label"]
    columns = {kept: tree["data"]["columns"][kept]}
    columns |= {f"c{n}": {"type": "float32", "missing": "allow"} for n in range(700)}
    columns["1e5"] = {"type": "string", "missing": "allow", "vocabulary": {}}
    tree["data"]["columns"] = columns
    tree["features"] = {f"c{n}": {"steps": [{"missing": {"fill": 1e-5}}]} for n in range(700)}
    values = ["NaN", "Infinity", "null", "yes", "1e-4", 'é \u2028 "q"', "😀"]
    tree["features"]["1e5"] = {"steps": [{"vocabulary": {"values": values}}]}
    tree["model"] = {"name": "linear"}


def test_the_config_of_a_very_wide_table_is_written_as_json(write, tmp_path):
    """YAML of ten thousand columns takes seconds to write, and in each process to read."""
    found = config_file.load(write(_wide))
    text = config_file.dump(found)
    json.loads(text)
    assert '\n"c17": {"type": "float32"' in text
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert config_file.load(str(path)) == found
    assert (
        json.loads(config_file.changes(found))["data"]["columns"].keys()
        == found.data.columns.keys()
    )
    assert config_file.load(str(path), ["model.params.classes=3"]).model.params == {"classes": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"name": "a", "name": "b"}', r"line 1: not valid YAML: 'name' is given twice"),
        ('{"name": "a"} {}', r"not valid YAML"),
        ('{"name": ' + "[" * 100_000, r"nested more than 50 levels deep"),
        ('{"name": "a", "nme": NaN}', r"unknown key 'nme'"),
        ("{name: a, nme: 1}", r"unknown key 'nme'"),
    ],
)
def test_json_that_is_wrong_is_refused_like_yaml(write, text, message):
    with pytest.raises(errors.UsageError, match=message):
        config_file.load(write(text=text))


@pytest.mark.parametrize("redacted", [False, True])
def test_infinite_limits_are_read_back(tmp_path, redacted):
    size = {"type": "float32", "min": -math.inf, "max": math.inf}
    made, plain = make(columns={"size": size}), make(columns={"size": {"type": "float32"}})
    (tmp_path / "made.yaml").write_text(config_file.dump(made, redacted=redacted))
    columns = config_file.load(str(tmp_path / "made.yaml")).data.columns
    assert (columns["size"].min, columns["size"].max) == (-math.inf, math.inf)
    assert config.digest(made.data) != config.digest(plain.data)
