"""Keras models made of checkpoints, and loaded where nothing of the project is."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors, storage
from pipeline.config import config_file
from pipeline.steps import categories
from tests.pipeline.process_help import ROOT, child_environment
from tests.support.sets import matrix, slow
from tests.trainer import changed_model, small_table
from tests.trainer.migration.scene import CONFIG, OF_KERAS, Scene
from tests.trainer.models import networks
from trainer.export import parity_client
from trainer.migration import migration

# A team that has never heard of this project loads the model, asks it, and trains it on.
FRESH = """
import json, sys
import numpy as np
import tensorflow as tf

model = tf.keras.models.load_model(sys.argv[1])
rows = {name: tf.constant(values, model.input[name].dtype)
        for name, values in json.loads(sys.argv[2]).items()}
before = model(rows)["probabilities"].numpy()
learner = tf.keras.Model(model.input, model.output["probabilities"])
learner.compile("adam", "sparse_categorical_crossentropy")
learner.fit(rows, np.ones(len(before)), epochs=3, verbose=0)
after = model(rows)["probabilities"].numpy()
json.dump([before.tolist(), after.tolist()], sys.stdout)
assert not any(name.split(".")[0] in ("trainer", "pipeline") for name in sys.modules)
"""
ROWS = {
    "dep time": [600.0, float("nan"), 1300.0],
    "size": [[0.0, 1.0], [2.0, 3.0], [-1.0, 0.5]],
    "day": [3, 0, 31],
    "carrier": ["AA", "", "ZZ"],
}


def _fresh(path, rows):
    command = [sys.executable, "-c", FRESH, path, json.dumps(rows)]
    environment = {k: v for k, v in child_environment().items() if k != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")
    assert done.returncode == 0, done.stderr
    return [np.array(side) for side in json.loads(done.stdout)]


@pytest.mark.parametrize(
    "model",
    [
        slow("{name: linear, params: {task: regression}}"),
        "{name: linear, params: {task: regression, offset: 300, scale: 20}}",
        matrix("{name: dnn, params: {hidden_units: [6, 4], batch_norm: true, dropout: 0.1}}"),
        matrix("{name: dnn, params: {classes: 3, activation: tanh}}"),
        slow("{name: dcn, params: {hidden_units: [8], dropout: 0.1, rank: 3}}"),
    ],
)
def test_settings_of_models(tmp_path, model):
    """With names of columns that TensorFlow would not have, missing and unseen values."""
    scene = Scene(tmp_path, f"model={model}")
    found = scene.publish()
    assert found.new
    assert found.rows > 100
    assert scene.published == ["20"]
    served = tf.saved_model.load(f"{found.path}/saved_model").signatures["serving_default"]
    assert set(served.structured_input_signature[1]) == {
        "dep_time",
        "size",
        "day",
        "carrier",
        "unused",
    } | ({"pixels"} if "pixels" in scene.table.records.transforms.serving_columns else set())


def _config(columns, features, model):
    """Returns a config in which every line of `columns` and `features` is one of them."""
    return "\n".join(
        [
            "name: table\ndata:\n  source: csv\n  inputs: {train: {files: none.csv}}\n  columns:",
            *(f"    {line}" for line in columns),
            "    late: {type: int64, min: 0, max: 1}\n  label: late\nfeatures:",
            *(f"  {line}" for line in features),
            f"model: {{name: {model}, params: {{hidden_units: [8]}}}}",
            "train: {steps: 20, batch_size: 20}",
            "eval: {metric: accuracy, batch_size: 40}\ncluster: {strategy: none}\n",
        ]
    )


def _payloads(draw):
    """Returns a function that makes the records of a split; `draw` makes the values of one."""

    def made(split):
        rng = np.random.default_rng(len(split))
        return [small_table.example(**draw(rng)) for _ in range(small_table.ROWS[split])]

    return made


_MANY = {f"n{i}": "int64" if i % 10 == 9 else "float32" for i in range(80)}
_WIDE = _config(
    [f"{name}: {{type: {kind}}}" for name, kind in _MANY.items()],
    [f"{n}: {{steps: [{{z_score: {{mean: {3 + len(n)}, deviation: 7}}}}]}}" for n in _MANY],
    "dnn",
)


def _wide(rng):
    drawn = 10 * rng.normal(size=len(_MANY))
    values = {
        name: int(x) if kind == "int64" else [float(x)]
        for (name, kind), x in zip(_MANY.items(), drawn, strict=True)
    }
    return {**values, "late": int(drawn[0] > 0)}


def test_many_numbers_are_few_layers(tmp_path):
    """A layer for each step of each column made `make migrate` of 750 columns take minutes."""
    found = Scene(tmp_path, text=_WIDE, made=_payloads(_wide)).publish()
    assert found.rows >= 100
    model = tf.keras.models.load_model(f"{found.path}/model.keras")
    layers = [layer for layer in model.submodules if isinstance(layer, tf.keras.layers.Layer)]
    inputs = [layer for layer in layers if isinstance(layer, tf.keras.layers.InputLayer)]
    assert len(inputs) == 2 * len(_MANY)
    assert len(layers) - len(inputs) < 1.5 * len(_MANY)


_NUMBERS = [f"n{i}" for i in range(900)]
_TEXTS = [f"t{i}" for i in range(150)]
_WIDER = _config(
    [
        *(f"{name}: {{type: float32, missing: allow}}" for name in _NUMBERS),
        *(f"{name}: {{type: string, missing: allow}}" for name in _TEXTS),
        "size: {type: float32, shape: [2]}",
    ],
    [
        *(
            f"{name}: {{steps: [{{missing: {{fill: 1, indicator: {str(n % 9 == 0).lower()}}}}}, "
            f"{{z_score: {{mean: {n % 7}, deviation: 7}}}}]}}"
            for n, name in enumerate(_NUMBERS)
        ),
        *(
            f"{name}: {{steps: [{{vocabulary: {{values: {['A', 'B', 'C'][: 1 + n % 3]}}}}}]}}"
            for n, name in enumerate(_TEXTS)
        ),
        "size: {steps: []}",
    ],
    "dnn_linear_combined",
)


def _wider(rng):
    numbers, texts = 10 * rng.normal(size=len(_NUMBERS)), rng.integers(0, 5, len(_TEXTS))
    values = {n: [float(x)] for n, x in zip(_NUMBERS, numbers, strict=True) if abs(x) < 15}
    # "D" is in no vocabulary.
    values |= {n: b"ABCD"[x : x + 1] for n, x in zip(_TEXTS, texts, strict=True) if x < 4}
    return {**values, "size": [1.0, 2.0], "late": int(numbers[0] > 0)}


@pytest.mark.matrix
@pytest.mark.slow
def test_more_than_a_thousand_columns_are_few_inputs(tmp_path):
    """Keras needs minutes for a model of so many inputs."""
    found = Scene(tmp_path, text=_WIDER, made=_payloads(_wider)).publish()
    assert found.rows >= 100
    content = json.loads(pathlib.Path(f"{found.path}/migration.json").read_text())
    assert content["packed"] == found.packed
    assert {name: len(columns) for name, columns in found.packed.items()} == {
        "packed/float32": 900,
        "packed/string": 150,
    }
    assert "900 columns side by side in 'packed/float32'" in str(found)
    model = tf.keras.models.load_model(f"{found.path}/model.keras")
    assert set(model.input) == {*found.packed, "size"}
    rng = np.random.default_rng(1)
    rows: dict[str, np.ndarray] = {name: 9 * rng.normal(size=5) for name in _NUMBERS}
    rows |= {name: rng.choice(["A", "B", "C", "D", ""], 5) for name in _TEXTS}
    fed = {
        name: tf.stack([tf.constant(rows[column], kind) for column in columns], axis=1)
        for (name, columns), kind in zip(found.packed.items(), ("float32", "string"), strict=True)
    }
    size = tf.constant(rng.normal(size=(5, 2)), "float32")
    answers = model({**fed, "size": size})
    served = tf.saved_model.load(f"{found.path}/saved_model").signatures["serving_default"]
    kinds = dict.fromkeys(_NUMBERS, "float32") | dict.fromkeys(_TEXTS, "string")
    columns = {name: tf.constant(values, kinds[name]) for name, values in rows.items()}
    np.testing.assert_allclose(
        answers["probabilities"], served(**columns, size=size)["probabilities"], atol=1e-6
    )


@pytest.mark.slow
def test_averages_are_what_is_migrated(tmp_path):
    scene = Scene(tmp_path, "model={name: linear}", "train.optimizer.average=0.9")
    assert scene.publish().rows > 100


@pytest.mark.slow
def test_a_network_is_loaded_and_trained_on_without_the_project(tmp_path):
    found = Scene(tmp_path, "model={name: dnn}").publish()
    rows = {**ROWS, "words": [[1, 2], [-1, -1], [3, -1]]}
    before, after = _fresh(f"{found.path}/model.keras", rows)
    assert before.shape == (3, 2)
    assert (after[:, 1] > before[:, 1]).all()


def _keras(network, **params):
    params = {"network": f"{networks.__name__}:{network}", **params}
    return f"model={json.dumps({'name': 'keras', 'params': params})}"


@pytest.mark.parametrize("network", ["mixed", slow("columns_of_one")])
def test_a_network_of_keras(tmp_path, network):
    found = Scene(tmp_path, _keras(network), text=OF_KERAS).publish()
    assert found.needs == ()
    rows = {name: ROWS[name] for name in ("dep time", "carrier")}
    before, _ = _fresh(f"{found.path}/model.keras", rows)
    np.testing.assert_allclose(before.sum(axis=1), 1, atol=1e-6)


@pytest.fixture
def _importable(monkeypatch):
    """The process that checks models finds what is on PYTHONPATH, as that of a user does."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    parity_client.get_shared_server().close()
    yield
    parity_client.get_shared_server().close()


@pytest.mark.slow
@pytest.mark.usefixtures("_importable")
def test_layers_of_ones_own_are_named(tmp_path):
    found = Scene(tmp_path, _keras("own_layer"), text=OF_KERAS).publish()
    assert found.needs == (f"{networks.__name__}:Half",)
    assert f"custom_objects=…) needs {networks.__name__}:Half" in str(found)


def test_what_answers_otherwise_is_not_published(tmp_path, monkeypatch):
    """Unknown carriers get the id of a known one."""
    whole = categories.Vocabulary.layer

    def wrong(step, x):
        return tf.minimum(whole(step, x), len(step.values) - 1)

    scene = Scene(tmp_path, "model={name: linear}")
    monkeypatch.setattr(categories.Vocabulary, "layer", wrong)
    with pytest.raises(
        errors.ModelError, match=r"Estimator\.predict differ on .* Nothing was published"
    ):
        scene.publish()
    assert scene.published == []


@pytest.mark.matrix
@pytest.mark.slow
def test_the_feature_that_differs_is_named(tmp_path, monkeypatch):
    buckets = categories.Buckets.layer
    features = CONFIG.replace("  weekday: {of: day", "  weekday_: {of: day")
    scene = Scene(tmp_path, "model={name: linear}", text=features)
    monkeypatch.setattr(categories.Buckets, "layer", lambda step, x: buckets(step, x) * 0)
    with pytest.raises(errors.ModelError, match="First feature that differs: 'dep time'"):
        scene.publish()


@pytest.mark.slow
def test_what_is_there_stays(tmp_path):
    scene = Scene(tmp_path, "model={name: linear}")
    first = scene.publish()
    kept = pathlib.Path(first.path, "migration.json").stat()
    again = scene.publish()
    assert not again.new
    assert (again.path, again.rows, again.step) == (first.path, first.rows, 20)
    assert "was there already" in str(again)
    assert pathlib.Path(first.path, "migration.json").stat() == kept
    pathlib.Path(first.path, "model.keras").write_bytes(b"other")
    with pytest.raises(errors.DataError, match=r"'model\.keras' is not as it was published"):
        scene.publish()


def test_a_checkpoint_of_other_code(tmp_path):
    table = small_table.Table(tmp_path, "model={name: linear}", text=CONFIG)
    checkpoint = table.checkpoint
    job = config_file.load(str(tmp_path / "table.yaml"), ["model={name: dnn}"])
    storage.write_text(table.run.config_path, config_file.dump(job))
    changed = migration.Migration(table.run, table.records_path)
    with pytest.raises(errors.ModelError, match=r"has no 'dnn/.*', which its Keras form"):
        changed.publish(checkpoint)


def test_a_model_fn_is_refused(tmp_path):
    text = CONFIG.replace("model: {name: linear}", "model: {name: 'mine:model_fn'}")
    (tmp_path / "mine.yaml").write_text(text)
    run = small_table.RunFolder(str(tmp_path / "run"))
    job = config_file.load(str(tmp_path / "mine.yaml"))
    storage.makedirs(run.path)
    storage.write_text(run.config_path, config_file.dump(job))
    with pytest.raises(errors.UsageError, match="'mine:model_fn': is code of your own"):
        migration.Migration(run, str(tmp_path / "records"))


def test_a_checkpoint_of_a_changed_network_is_refused(tmp_path):
    table, checkpoint = changed_model.build(tmp_path)
    storage.makedirs(table.run.path)
    storage.write_text(table.run.config_path, config_file.dump(table.job))
    with changed_model.expect_refusal(checkpoint):
        migration.Migration(table.run, table.records_path).publish(checkpoint)
