"""The Keras model of two towers, from a CSV on, and what else an export of them is."""

from __future__ import annotations

import base64
import contextlib

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.runs import exported
from serving.batch import inputs, predictions
from serving.rest.json_codec import BadRequest
from tests import exports
from tests.preprocessing import examples
from tests.support import towers
from trainer.export import parity
from trainer.migration import migration

pytestmark = pytest.mark.slow

OF = {"user": ["age", "seen", "user"], "item": ["item", "price"]}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    table = "\n".join([",".join(towers.NAMES), *towers.make_rows(), ""])
    return exports.publish_table(tmp_path_factory.mktemp("towers"), table, towers.CONFIG)


def _feeds():
    return {
        "user": [3, 30, 7],
        "age": [20.0, 55.0, float("nan")],
        "seen": [["i1", "i2"], ["i3", ""], ["", ""]],
        "item": ["i1", "i4", "new"],
        "price": [1.0, 2.0, 3.0],
    }


def _asked(published, signature):
    found = tf.saved_model.load(published.export.path).signatures[signature]
    names = OF.get(signature, list(_feeds()))
    assert sorted(found.structured_input_signature[1]) == sorted(names)
    kinds = {"age": tf.float32, "price": tf.float32, "user": tf.int64}
    fed = {n: tf.constant(x, kinds.get(n)) for n, x in _feeds().items() if n in names}
    return {name: x.numpy() for name, x in found(**fed).items()}


def test_it_migrates_to_keras(published):
    checkpoint = tf.train.latest_checkpoint(published.run.path)
    migrated = migration.Migration(published.run, published.records.folder).publish(checkpoint)
    assert migrated.rows > 100
    tf.keras.models.load_model(f"{migrated.path}/model.keras")


def test_each_tower_is_asked_alone(published):
    both = _asked(published, "serving_default")
    for side in ("user", "item"):
        np.testing.assert_allclose(_asked(published, side)[side], both[side], atol=1e-6)
    served = published.served()
    body = {"signature_name": "item", "instances": [{"item": "i1", "price": 1.0}]}
    np.testing.assert_allclose(served.predict(body)["predictions"][0], both["item"][0], atol=1e-6)


def _pack(row):
    """Returns a row as a request has a serialized Example."""
    packed = examples.example(
        **{n: x.encode() if isinstance(x, str) else x for n, x in row.items()}
    )
    return {"b64": base64.b64encode(packed).decode()}


@pytest.mark.parametrize(
    ("side", "row", "problem"),
    [
        ("item", {"item": "i1", "price": -1.0}, "'price' is -1.0, allowed is 0 or more"),
        ("user", {"user": 31, "age": 1.0, "seen": ["i1"]}, "'user' is 31, allowed is 0 to 30"),
        (
            "user",
            {"user": 3, "age": 1.0, "seen": ["i1"] * 4},
            "'seen' is \"['i1', 'i1', 'i1', 'i1']\", allowed are 3 items; see max_items and "
            "on_longer",
        ),
    ],
)
def test_a_tower_is_served_rows_by_the_rules_of_its_columns(published, side, row, problem):
    served = published.served()
    lists = {name: [x.encode() for x in v] for name, v in row.items() if isinstance(v, list)}
    for signature, given in ((side, row), (f"examples:{side}", _pack(row | lists))):
        with pytest.raises(BadRequest) as failed:
            served.predict({"signature_name": signature, "instances": [given]})
        assert str(failed.value) == f"instances[0]: column {problem}"


def test_a_tower_is_served_no_infinite_number(published):
    row = {"user": 3, "age": float("inf"), "seen": []}
    with pytest.raises(BadRequest, match=r"^instances\[0\]: column 'age' is inf, not a finite num"):
        published.served().predict({"signature_name": "user", "instances": [row]})


def test_predictions_have_the_vectors(published):
    [first, *_] = rows = published.predicted_table(published.csv)
    assert len(rows) == 600
    user, item = (np.array(eval(first[side])) for side in ("user", "item"))
    assert float(first["score"]) == pytest.approx(user @ item, abs=1e-5)
    assert np.linalg.norm(user) == pytest.approx(1, abs=1e-5)


def test_an_index_of_items_is_made_of_their_columns_alone(published, tmp_path):
    table = tmp_path / "items.csv"
    table.write_text("item,price\ni1,1\ni4,2\nnew,3\n")
    path, export = str(tmp_path / "index.parquet"), published.export
    taken = exported.input_columns(export.path, "item")
    assert sorted(taken) == OF["item"]
    asked = inputs.open_files(str(table), published.job, classes=None, part=taken)
    where = predictions.choose_output(
        published.run, export, str(table), path=path, kind=None, part="item"
    )
    predictions.predict(published.job, export, asked, output=where, part="item")
    found = pq.read_table(path).to_pydict()
    assert found["key_item"] == ["i1", "i4", "new"] and found["price"] == [1, 2, 3]
    wanted = _asked(published, "item")["item"]
    np.testing.assert_allclose(np.array(found["item"]), wanted, atol=1e-6)
    by_default = predictions.choose_output(
        published.run, export, None, path=None, kind=None, part="user"
    )
    assert by_default.path.endswith("/user-test.csv")


def test_a_part_that_is_not_there_is_named(published):
    message = r"--signature: the model has no part 'itm' \(did you mean 'item'\?\); it has "
    with pytest.raises(errors.UsageError, match=message):
        exported.input_columns(published.export.path, "itm")


@pytest.mark.parametrize("signature", ["item", "examples:item"])
def test_a_tower_that_answers_otherwise_is_not_published(published, monkeypatch, signature):
    """The vectors of items alone are of signatures of their own."""
    serving = parity.Gate.serve

    @contextlib.contextmanager
    def other(self, *args, **kwargs):
        def answers():
            # Asked for its features it answers with nothing else.
            moved = {f"{signature}/item": 0.1}
            return {name: x + moved[name] if name in moved else x for name, x in served().items()}

        with serving(self, *args, **kwargs) as served:
            yield answers

    monkeypatch.setattr(parity.Gate, "serve", other)
    gate = parity.Gate(published.records)
    checkpoint = tf.train.latest_checkpoint(published.run.path)
    with pytest.raises(errors.ModelError, match=f"{signature}/item of row"):
        gate.check(published.estimator, checkpoint, published.export.path)


def test_metrics_are_those_of_a_batch(published):
    found = published.estimator.evaluate(published.records.build_eval_input_fn("eval"))
    assert {"average_loss", "hit_rate@5", "mrr@5", "loss"} <= set(found)
    assert 0.2 < found["mrr@5"] < found["hit_rate@5"] < 1
