"""The check of exports on random tables: rounding is never taken for a difference, and a planted
difference always is. `GATE_TABLES=50` takes that many of each kind, for which it needs minutes."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from tests.support.sets import slow_unless
from tests.trainer import small_table
from trainer.export import exporters, parity, serving_graph
from trainer.input import parsing

TABLES = int(os.environ.get("GATE_TABLES", "1"))
_WORDS = tuple("abcdefghij")


# Steps of another feature of a number; none for most.
_SECOND = ("", "", "piecewise", "buckets", "min_max", "clip")


def _step(name: str, mean: float, deviation: float) -> str:
    """Returns one of these steps as text, for numbers around the mean."""
    low, high = mean - deviation, mean + deviation
    if name == "clip":
        return f"{{clip: {{min: {low!r}, max: {high!r}}}}}"
    if name == "min_max":
        return f"{{min_max: {{min: {low!r}, max: {high!r}}}}}"
    edges = np.unique(np.float32([mean + deviation * x for x in (-2, -1, -0.3, 0, 0.3, 1, 2)]))
    # Numbers so far from zero can be too few for an interval.
    next_one = np.nextafter(edges[-1], np.float32(np.inf))
    bounds = edges.tolist() if len(edges) > 1 else [float(edges[0]), float(next_one)]
    key = "edges" if name == "piecewise" else "boundaries"
    return f"{{{name}: {{{key}: {bounds}}}}}"


class _Random:
    """A table drawn by seed: numbers of any offset and scale, some missing, and texts, each of
    them as one feature or two; rows that weigh alike or not; and a model with or without batch
    normalization, for a number one of one's own, too."""

    def __init__(self, seed: int, task: str) -> None:
        rng = np.random.default_rng(seed)
        self.seed, self.task = seed, task
        self.numbers = [
            (float(rng.choice([0, 0, 1e2, 1e5, -1e6])), float(10 ** rng.uniform(-3, 6)))
            for _ in range(rng.integers(1, 9))
        ]
        self.texts = [int(n) for n in rng.integers(2, 10, rng.integers(0, 4))]
        self.classes = int(rng.choice([2, 2, 3, 10]))
        self.offset = float(rng.choice([0, 0, 1, 4e3, 1e6, -1e5, 1.7e9, -1e12]))
        self.scale = float(10 ** rng.uniform(-7, 9))
        self.model = str(rng.choice(["linear", "dnn", "dnn_linear_combined"]))
        self.units = [int(n) for n in rng.choice([4, 32, 128, 512], rng.integers(1, 4))]
        if self.model == "dnn_linear_combined" and not self.texts:
            self.texts = [2]  # for the linear part, which takes ids
        self.weights = rng.normal(size=len(self.numbers) + len(self.texts))
        self.second = [str(x) for x in rng.choice(_SECOND, len(self.numbers))]
        self.own = task == "regression" and bool(rng.random() < 0.3)
        self.batch_norm = bool(rng.random() < 0.5)
        self.weighted = bool(rng.random() < 0.3)

    def config(self) -> str:
        columns = [f"    n{i}: {{type: float32, missing: allow}}" for i in range(len(self.numbers))]
        columns += [f"    t{i}: {{type: string}}" for i in range(len(self.texts))]
        features = [
            f"  n{i}: {{steps: [{{missing: {{fill: {mean!r}, indicator: true}}}}, "
            f"{{z_score: {{mean: {mean!r}, deviation: {deviation!r}}}}}]}}"
            for i, (mean, deviation) in enumerate(self.numbers)
        ]
        features += [
            f"  n{i}_second: {{of: n{i}, steps: [{{missing: {{fill: {mean!r}}}}}, "
            f"{_step(second, mean, deviation)}]}}"
            for i, ((mean, deviation), second) in enumerate(
                zip(self.numbers, self.second, strict=True)
            )
            if second
        ]
        for i, known in enumerate(self.texts):
            step = f"{{vocabulary: {{values: [{', '.join(_WORDS[:known])}]}}}}"
            embedding = "" if self.own or self.model == "linear" else ", embedding: 4"
            features.append(f"  t{i}: {{steps: [{step}]{embedding}}}")
            features.append(f"  t{i}_hash: {{of: t{i}, steps: [{{hash: {{buckets: 7}}}}]}}")
        if self.task == "regression":
            params = {"task": "regression", "offset": self.offset, "scale": self.scale}
            label, metric = "{type: float32}", "average_loss"
        else:
            params = {"classes": self.classes}
            label, metric = f"{{type: int64, min: 0, max: {self.classes - 1}}}", "accuracy"
        model = self.model
        if self.own:
            params["task"], model, metric = "null", "tests.e2e.far_model:model_fn", "loss"
        if self.own or self.model != "linear":
            params |= {"hidden_units": self.units, "batch_norm": str(self.batch_norm).lower()}
        if self.weighted:
            columns.append("    weight: {type: float32, min: 0}")
        lines = (
            "name: table",
            "data:",
            "  source: csv",
            "  inputs: {train: {files: none.csv}}",
            "  columns:",
            *columns,
            f"    label: {label}",
            "  label: label",
            "label: {weight: weight}" if self.weighted else "label: {}",
            "features:",
            *features,
            f"model: {{name: {model}, params: {params}}}".replace("'", ""),
            "train: {steps: 20, batch_size: 20}",
            f"eval: {{metric: {metric}, batch_size: 40}}",
            "cluster: {strategy: none}",
            "",
        )
        return "\n".join(lines)

    def payloads(self, split: str) -> list[bytes]:
        rng = np.random.default_rng([self.seed, len(split)])
        return [self._example(rng) for _ in range(small_table.ROWS[split])]

    def _example(self, rng: np.random.Generator) -> bytes:
        standard = rng.normal(size=len(self.numbers))
        values: dict[str, object] = {}
        for i, (mean, deviation) in enumerate(self.numbers):
            values[f"n{i}"] = None if rng.random() < 0.05 else [mean + deviation * standard[i]]
        drawn = [int(rng.integers(known)) for known in self.texts]
        for i, at in enumerate(drawn):
            values[f"t{i}"] = _WORDS[at].encode()
        inside = float(self.weights @ np.array([*standard, *[at - 2.0 for at in drawn]]))
        if self.weighted:
            values["weight"] = [float(rng.uniform(0, 3))]
        if self.task == "regression":
            values["label"] = [self.offset + self.scale * inside]
        else:
            values["label"] = int(abs(inside) * 2) % self.classes
        return small_table.example(**values)


def _export(table, receiver):
    written = table.estimator.export_saved_model(
        f"{table.run.path}/export", receiver, checkpoint_path=table.checkpoint
    ).decode()
    exporters.name_signatures(written)
    return written


def _draw_parameters(table, drawn):
    """Writes a checkpoint of random parameters: training the first table costs more than the rest
    of its test."""
    transforms, rng = table.records.transforms, np.random.default_rng(drawn.seed)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.create_global_step()
        batch = parsing.parse(tf.constant(drawn.payloads("eval")[:20]), transforms.columns)
        features, _ = transforms.examples(batch, training=False)
        modes, estimator = tf.estimator.ModeKeys, table.estimator
        estimator.model_fn(features, None, modes.PREDICT, estimator.config)
        session.run(tf.compat.v1.global_variables_initializer())
        for variable in tf.compat.v1.trainable_variables():
            shape = variable.shape.as_list()
            deviation = shape[0] ** -0.5 if len(shape) > 1 else 0.1
            session.run(variable.assign(np.float32(rng.normal(0, deviation, shape))))
        for variable in tf.compat.v1.global_variables():
            shape = variable.shape.as_list()
            if variable.op.name.endswith("moving_mean"):
                session.run(variable.assign(np.float32(rng.normal(0, 0.5, shape))))
            if variable.op.name.endswith("moving_variance"):
                session.run(variable.assign(np.float32(10 ** rng.uniform(-2, 2, shape))))
        pathlib.Path(table.run.path).mkdir(parents=True)
        tf.compat.v1.train.Saver().save(session, f"{table.run.path}/model.ckpt", global_step=20)


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("seed", range(TABLES))
def test_rounding_is_never_a_difference(tmp_path, seed, task):
    drawn = _Random(seed, task)
    table = small_table.Table(tmp_path, text=drawn.config(), made=drawn.payloads)
    if seed:
        _draw_parameters(table, drawn)
    written = _export(table, serving_graph.build_serving_input_fn(table.records.transforms))
    gate = parity.Gate(table.records)
    assert gate.check(table.estimator, table.checkpoint, written) >= small_table.ROWS["eval"]


# A regression whose offset hides what an absolute or relative tolerance would have to find.
_REGRESSION = (
    small_table.CONFIG.replace("late: {type: int64, min: 0, max: 1}", "late: {type: float32}")
    .replace("size: {steps: []}", "size: {steps: [{clip: {min: -3, max: 3}}]}")
    .replace("[AA, UA]", "[AA, UA, RARE]")
    .replace(
        "model: {name: linear}",
        "model: {name: linear, params: {task: regression, offset: 3979, scale: 3989}}",
    )
    .replace("metric: accuracy", "metric: average_loss")
)


def _prices(split: str, mean: float = 3979, deviation: float = 3989) -> list[bytes]:
    """The records of the small table, with a price as label."""
    made = []
    for payload in small_table.payloads(split):
        example = tf.train.Example.FromString(payload)
        late = example.features.feature["late"].int64_list.value[0]
        example.features.feature.pop("late")
        value = mean + deviation * (late - 0.3)
        example.features.feature["late"].float_list.value.append(value)
        made.append(example.SerializeToString())
    return made


def _half(features):
    """A transform that rounds."""
    name = "dep time"
    return {**features, name: tf.cast(tf.cast(features[name], tf.bfloat16), tf.float32)}


def _swapped(features):
    return {**features, "size": tf.reverse(features["size"], [1])}


def _shifted(features):
    return {**features, "day": tf.maximum(features["day"] - 1, 0)}


PLANTED = {
    "vocabulary in another order": ("[AA, UA,", "[UA, AA,"),
    "vocabulary of yesterday": ("[AA, UA,", "[ZZ, UA,"),
    "vocabulary without a word that no row has": ("UA, RARE]", "UA, BB]"),
    "another mean": ("mean: 600,", "mean: 600.6,"),
    "another deviation": ("deviation: 300", "deviation: 300.3"),
    "another stand-in for missing": ("fill: 0,", "fill: 1,"),
    "other bounds of a clip": ("min: -3, max: 3", "min: -1, max: 1"),
    "values that are rounded": _half,
    "features that are swapped": _swapped,
    "ids that are shifted": _shifted,
}
# Another parameter of a step, another vocabulary, and another tensor.
OF_EACH_KIND = ("another mean", "vocabulary in another order", "values that are rounded")


@pytest.fixture(scope="module")
def prices(tmp_path_factory):
    table = small_table.Table(tmp_path_factory.mktemp("prices"), text=_REGRESSION, made=_prices)
    return table, parity.Gate(table.records)


def test_a_regression_far_from_zero_passes(prices):
    table, gate = prices
    written = _export(table, serving_graph.build_serving_input_fn(table.records.transforms))
    assert gate.check(table.estimator, table.checkpoint, written) >= 100


@pytest.mark.parametrize("planted", [slow_unless(name in OF_EACH_KIND, name) for name in PLANTED])
def test_a_planted_difference_is_found(prices, planted, tmp_path):
    table, gate = prices
    planted = PLANTED[planted]
    if callable(planted):
        true = serving_graph.build_serving_input_fn(table.records.transforms)

        def receiver():
            made = true()
            return made._replace(features=planted(made.features))
    else:
        other = small_table.Table(tmp_path, text=_REGRESSION.replace(*planted), made=_prices)
        assert other.job != table.job
        receiver = serving_graph.build_serving_input_fn(other.records.transforms)
    with pytest.raises(errors.ModelError, match=r"Estimator\.predict differ on \d+ of"):
        gate.check(table.estimator, table.checkpoint, _export(table, receiver))


def test_a_stale_word_far_down_a_long_vocabulary_is_found(tmp_path):
    words = [f"w{n}" for n in range(6000)]
    assert words[5000] == "w5000"
    text = _REGRESSION.replace("RARE", ", ".join(words))
    table = small_table.Table(tmp_path, text=text, made=_prices)
    (tmp_path / "stale").mkdir()
    stale = small_table.Table(
        tmp_path / "stale", text=text.replace(" w5000,", " yesterday,"), made=_prices
    )
    written = _export(table, serving_graph.build_serving_input_fn(stale.records.transforms))
    with pytest.raises(
        errors.ModelError, match=r"differ on 1 of \d+ rows .*'carrier' \(known value 'w5000'\)"
    ):
        parity.Gate(table.records).check(table.estimator, table.checkpoint, written)


def _one_deviation_more(table):
    """Writes the same parameters with a bias one higher."""
    transforms, estimator = table.records.transforms, table.estimator
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.create_global_step()
        batch = parsing.parse(tf.constant(_prices("eval")[:20]), transforms.columns)
        features, _ = transforms.examples(batch, training=False)
        estimator.model_fn(features, None, tf.estimator.ModeKeys.PREDICT, estimator.config)
        saver = tf.compat.v1.train.Saver()
        saver.restore(session, table.checkpoint)
        [bias] = [v for v in tf.compat.v1.trainable_variables() if "bias" in v.name]
        session.run(bias.assign_add(tf.ones_like(bias)))
        return saver.save(session, f"{table.run.path}/shifted.ckpt", latest_filename="last")


def test_one_deviation_is_found_where_predictions_cannot_show_it(tmp_path):
    """About 1e9 float32 has steps of 64, which rounding alone makes."""
    text = _REGRESSION.replace("offset: 3979, scale: 3989", "offset: 1.0e9, scale: 50")

    table = small_table.Table(
        tmp_path, text=text, made=lambda split: _prices(split, mean=1e9, deviation=50)
    )
    gate, receiver = (
        parity.Gate(table.records),
        serving_graph.build_serving_input_fn(table.records.transforms),
    )
    assert gate.check(table.estimator, table.checkpoint, _export(table, receiver)) >= 100
    first = table.checkpoint
    written = table.estimator.export_saved_model(
        f"{table.run.path}/shifted", receiver, checkpoint_path=_one_deviation_more(table)
    ).decode()
    exporters.name_signatures(written)
    with pytest.raises(
        errors.ModelError, match=r"differ on \d+ of \d+ rows \(serving_default/unscaled"
    ):
        gate.check(table.estimator, first, written)


def _scaled(features):
    """A transform that makes one feature 1 % larger."""
    return {**features, "dep time": features["dep time"] * 1.01}


def _dropped(features):
    """A transform that loses one value of a vector in few rows."""
    size = features["size"]
    return {**features, "size": tf.where(size > 2, 2.0, size)}


@pytest.fixture(scope="module")
def moments(tmp_path_factory):
    """A model of one's own, whose labels are a day of Unix seconds."""
    settings = "{task: null, offset: 1700000000.0, scale: 17000.0}"
    model = f"{{name: tests.e2e.far_model:model_fn, params: {settings}}}"
    text = _REGRESSION.partition("\nmodel:")[0] + f"\nmodel: {model}\n"
    text += "train: {steps: 20, batch_size: 20}\neval: {metric: loss, batch_size: 40}\n"
    table = small_table.Table(
        tmp_path_factory.mktemp("moments"),
        text=text + "cluster: {strategy: none}\n",
        made=lambda split: _prices(split, mean=1.7e9, deviation=17000),
    )
    return table, parity.Gate(table.records)


def test_a_narrow_label_far_from_zero_of_ones_own_model_passes(moments):
    table, gate = moments
    written = _export(table, serving_graph.build_serving_input_fn(table.records.transforms))
    assert gate.check(table.estimator, table.checkpoint, written) >= 100


@pytest.mark.parametrize("planted", [_scaled, _dropped, _swapped])
def test_an_offset_of_ones_own_model_hides_no_difference(moments, planted):
    table, gate = moments
    true = serving_graph.build_serving_input_fn(table.records.transforms)

    def receiver():
        made = true()
        return made._replace(features=planted(made.features))

    with pytest.raises(errors.ModelError, match=r"Estimator\.predict differ on \d+ of"):
        gate.check(table.estimator, table.checkpoint, _export(table, receiver))


def test_parameters_of_another_checkpoint_are_found(prices):
    table, gate = prices
    first = table.checkpoint
    written = _export(table, serving_graph.build_serving_input_fn(table.records.transforms))
    table.trainable().train(table.input_fn, steps=1)
    newest = tf.train.latest_checkpoint(table.run.path)
    assert newest != first
    with pytest.raises(errors.ModelError, match="parameters or code of the model differ"):
        gate.check(table.estimator, newest, written)
