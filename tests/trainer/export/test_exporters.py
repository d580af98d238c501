"""What is published, with real checkpoints, a real Estimator and a fresh process that serves."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.runs import export_files, exported
from tests.pipeline.process_help import child_environment
from tests.trainer import small_table
from tests.trainer.saved_again import parameters, save_again
from tests.trainer.scene import Scene
from trainer import experiment
from trainer.evaluation import best_exporter
from trainer.export import exporters, serving_graph
from trainer.metrics import slice_metrics

# Serves without any code of the project, as a server would.
SERVE = """
import json, sys
import numpy as np
import tensorflow as tf

model = tf.saved_model.load(sys.argv[1])
images = np.load(sys.argv[2])
serve = model.signatures["serving_default"]
answer = serve(image=tf.constant([image.tobytes() for image in images]))
json.dump({name: value.numpy().tolist() for name, value in answer.items()}, sys.stdout)
assert not any(name.split(".")[0] in ("trainer", "pipeline") for name in sys.modules)
"""


@pytest.fixture
def scene(finished, small_records, side_of, tmp_path):
    return Scene(finished, side_of, tmp_path)


def test_what_a_killed_process_was_writing_is_removed(scene):
    (pathlib.Path(scene.run.exports) / ".staging-0" / "1").mkdir(parents=True)
    scene.evaluated(100, 0.9)
    assert scene.leftovers == []


def test_publishing_the_same_checkpoint_again_leaves_the_export_alone(scene, side_of):
    side = side_of(scene.run)
    publish = side.publisher.publish
    checkpoint = f"{scene.run.path}/model.ckpt-100"
    first = publish(side.estimator, "final", checkpoint, step=100, metrics={})
    before = (pathlib.Path(first.path) / "saved_model.pb").stat().st_ino
    assert publish(None, "final", checkpoint, step=100, metrics={}) == first
    assert (pathlib.Path(first.path) / "saved_model.pb").stat().st_ino == before


def _model(export):
    return {name: sha for name, sha in export.sha256.items() if not name.startswith("assets.extra")}


def test_the_final_model_is_the_best_one_s_if_it_is_the_same(scene, side_of):
    side = side_of(scene.run)
    publish = side.publisher.publish
    checkpoint = f"{scene.run.path}/model.ckpt-100"
    best = publish(side.estimator, "best", checkpoint, step=100, metrics={"eval": {"loss": 1.0}})
    metrics = {"eval": {"loss": 1.0}, "test": {"loss": 2.0}}
    final = publish(None, "final", checkpoint, step=100, metrics=metrics, like=best)
    assert _model(final) == _model(best)
    assert export_files.digests(final.path) == final.sha256
    extras = pathlib.Path(final.path) / "assets.extra"
    assert json.loads((extras / "metrics.json").read_text())["metrics"] == metrics
    assert scene.leftovers == []


@pytest.mark.parametrize("damage", ["altered", "removed", "of another step"])
def test_an_export_that_is_not_the_same_is_not_copied(scene, side_of, damage):
    side = side_of(scene.run)
    publish = side.publisher.publish
    checkpoint = f"{scene.run.path}/model.ckpt-100"
    other = checkpoint if damage != "of another step" else f"{scene.run.path}/model.ckpt-200"
    best = publish(side.estimator, "best", other, step=100, metrics={})
    data = pathlib.Path(best.path) / "variables" / "variables.data-00000-of-00001"
    if damage == "altered":
        data.write_bytes(data.read_bytes()[:-1] + b"?")
    elif damage == "removed":
        data.unlink()
    final = publish(side.estimator, "final", checkpoint, step=100, metrics={}, like=best)
    assert parameters(f"{final.path}/variables/variables") == parameters(checkpoint)
    assert scene.leftovers == []


@pytest.mark.parametrize("changed", ["parameters", "config", "unknown"])
def test_what_was_made_from_something_else_is_replaced(scene, side_of, changed):
    side = side_of(scene.run)
    checkpoint = f"{scene.run.path}/model.ckpt-100"
    first = side.publisher.publish(side.estimator, "final", checkpoint, step=100, metrics={})
    if changed == "parameters":
        save_again(scene.run, 100)
    elif changed == "config":
        side = side_of(scene.run, "eval.batch_size=100")
    else:  # exported by an earlier version, which did not say from what
        (pathlib.Path(first.path) / "assets.extra" / "checkpoint.sha256").unlink()
    second = side.publisher.publish(side.estimator, "final", checkpoint, step=100, metrics={})
    assert second.path == first.path
    assert parameters(f"{first.path}/variables/variables") == parameters(checkpoint)
    assert second.sha256 == export_files.digests(second.path)


def test_a_failed_export_leaves_nothing(scene, side_of):
    side = side_of(scene.run)
    with pytest.raises(Exception, match=r"ckpt-7"):
        side.publisher.publish(
            side.estimator, "final", f"{scene.run.path}/model.ckpt-7", step=7, metrics={}
        )
    assert not (pathlib.Path(scene.run.exports) / "final" / "7").exists()
    assert scene.leftovers == []


# In `make test`, the gate of each export compares the same (tests/trainer/export/test_parity.py).
@pytest.mark.slow
def test_where_no_export_can_be_written_is_named(scene, side_of):
    pathlib.Path(scene.run.exports).write_text("in the way")
    side = side_of(scene.run)
    said = f"cannot create folder '{scene.run.exports}/.staging-.*': .*Choose a place you can write"
    with pytest.raises(errors.UsageError, match=said):
        checkpoint = f"{scene.run.path}/model.ckpt-100"
        side.publisher.publish(side.estimator, "final", checkpoint, step=100, metrics={})


def test_a_fresh_process_serves_what_the_estimator_predicts(
    finished, small_records, transforms, tmp_path
):
    images = small_records.images["test"][:50]
    np.save(tmp_path / "images.npy", images)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            SERVE,
            finished.export("final"),
            str(tmp_path / "images.npy"),
        ],
        cwd=tmp_path,
        env={**child_environment(), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    served = json.loads(done.stdout)

    estimator = experiment.build_estimator(
        finished.job, finished.run, topology.Task(topology.EVALUATOR, 0), transforms=transforms
    )
    wanted = list(
        estimator.predict(
            lambda: tf.data.Dataset.from_tensors({"image": images[..., np.newaxis]}),
            checkpoint_path=str(finished.path / "model.ckpt-300"),
        )
    )
    assert served["class"] == [int(p["class_ids"][0]) for p in wanted]
    probabilities = np.array([p["probabilities"] for p in wanted])
    np.testing.assert_allclose(served["probabilities"], probabilities, atol=1e-6)


def test_another_model_than_the_checkpoint_is_not_published(scene, side_of):
    """The export holds the parameters of step 200, the Estimator those of step 100."""
    side = side_of(scene.run)
    old, new = (f"{scene.run.path}/model.ckpt-{step}" for step in (100, 200))

    class Mistaken:
        """An Estimator that exports another checkpoint than it is asked to."""

        config = side.estimator.config
        model_fn = staticmethod(side.estimator.model_fn)

        def export_saved_model(self, folder, receiver, checkpoint_path):
            return side.estimator.export_saved_model(folder, receiver, checkpoint_path=new)

    with pytest.raises(errors.ModelError, match=r"Estimator\.predict differ on"):
        side.publisher.publish(Mistaken(), "final", old, step=100, metrics={})
    assert not (pathlib.Path(scene.run.exports) / "final").exists()
    assert scene.leftovers == []


@pytest.mark.parametrize("kind", ["best", "final"])
def test_a_model_with_nan_in_it_is_not_published(scene, side_of, kind):
    side = side_of(scene.run)
    checkpoint = save_again(scene.run, 100, np.nan)
    with pytest.raises(errors.ModelError, match=r"ckpt-100': \S+ holds NaN, so the model is not"):
        side.publisher.publish(side.estimator, kind, checkpoint, step=100, metrics={})
    assert not (pathlib.Path(scene.run.exports) / kind).exists()
    assert scene.leftovers == []


def test_the_files_next_to_the_model(finished, small_records):
    for kind, metrics in (("final", {"eval", "test"}), ("best", {"eval"})):
        folder = pathlib.Path(finished.export(kind))
        extra = folder / "assets.extra"
        assert sorted(path.name for path in extra.iterdir()) == [
            "checkpoint.sha256",
            "config.yaml",
            "evaluation.html",
            "manifest.sha256",
            "metrics.json",
            "model_card.md",
        ]
        assert config_file.load(str(extra / "config.yaml")) == finished.run.read_config()
        assert (extra / "manifest.sha256").read_text().strip() == small_records.contents.sha256
        found = json.loads((extra / "metrics.json").read_text())
        assert set(found["metrics"]) == metrics
        assert found["step"] == int(folder.name)
        for split, of in found["metrics"].items():
            for name, (low, high, *_) in found["intervals"][split].items():
                assert low < of[name] < high
        assert "## Limits" in (extra / "model_card.md").read_text()
    assert found["metrics"]["eval"]["global_step"] == int(folder.name)


def test_slices_are_exported_with_the_model(tmp_path):
    table = small_table.Table(tmp_path, "eval.slices=[carrier]")
    publisher = exporters.Publisher(table.job, table.run, table.records)
    found = publisher.publish(
        table.estimator, "final", table.checkpoint, step=20, metrics={"eval": {}}
    )
    extra = pathlib.Path(found.path) / "assets.extra"
    slices = json.loads((extra / "metrics.json").read_text())["slices"]["eval"]
    wanted = slice_metrics.evaluate(
        table.records, table.estimator, table.checkpoint, split="eval", slices=["carrier"]
    )[None].rows
    assert slices == json.loads(json.dumps(list(map(dataclasses.asdict, wanted))))
    assert "| eval | carrier=AA | 25 | accuracy |" in (extra / "model_card.md").read_text()


def test_an_evaluation_has_slices_for_its_export(tmp_path, monkeypatch):
    """Its records are not read again."""
    table = small_table.Table(tmp_path, "eval.slices=[carrier]")
    publisher = exporters.Publisher(table.job, table.run, table.records)
    wanted = slice_metrics.evaluate(
        table.records, table.estimator, table.checkpoint, split="eval", slices=["carrier"]
    )[None].rows
    table.estimator.evaluate(
        table.records.build_eval_input_fn("eval"),
        hooks=publisher.build_hooks("eval"),
        checkpoint_path=table.checkpoint,
    )
    publisher.keep_results("eval", table.checkpoint)
    monkeypatch.setattr(slice_metrics, "evaluate", None)
    found = publisher.publish(
        table.estimator, "final", table.checkpoint, step=20, metrics={"eval": {}}
    )
    slices = json.loads((pathlib.Path(found.path) / "assets.extra/metrics.json").read_text())
    assert slices["slices"]["eval"] == json.loads(json.dumps(list(map(dataclasses.asdict, wanted))))


def test_a_large_split_has_intervals_of_some_of_its_records(tmp_path, monkeypatch):
    """Memory does not grow with it."""
    monkeypatch.setattr(slice_metrics, "_KEPT", 30)
    table = small_table.Table(tmp_path)
    publisher = exporters.Publisher(table.job, table.run, table.records)
    metrics = table.estimator.evaluate(
        table.records.build_eval_input_fn("eval"),
        hooks=publisher.build_hooks("eval"),
        checkpoint_path=table.checkpoint,
    )
    publisher.keep_results("eval", table.checkpoint)
    metrics = best_exporter.convert_to_floats(metrics)
    found = publisher.publish(
        table.estimator, "final", table.checkpoint, step=20, metrics={"eval": metrics}
    )
    extra = pathlib.Path(found.path) / "assets.extra"
    content = json.loads((extra / "metrics.json").read_text())
    low, high = content["intervals"]["eval"]["accuracy"]
    assert low < metrics["accuracy"] < high
    assert content["slices"]["eval"] == []
    assert "one record in 4, 25 of 100" in (extra / "model_card.md").read_text()


def named_like_columns(features, labels, mode):
    variables = [
        tf.compat.v1.get_variable(name, [2], initializer=tf.compat.v1.ones_initializer())
        for name in ("size", "day", "Cast", "ParseExample/ParseExampleV2")
    ]
    p = tf.sigmoid(tf.linalg.matvec(features["size"], tf.add_n(variables)))
    output = tf.estimator.export.PredictOutput({"p": p})
    step = tf.compat.v1.train.get_or_create_global_step()
    return tf.estimator.EstimatorSpec(
        mode,
        predictions={"p": p},
        loss=tf.reduce_mean(p),
        train_op=tf.compat.v1.assign_add(step, 1),
        export_outputs={"serving_default": output},
    )


def test_variables_may_have_the_names_of_columns_and_of_ops_of_features(tmp_path):
    table = small_table.Table(tmp_path, f"model.name={__name__}:named_like_columns")
    publisher = exporters.Publisher(table.job, table.run, table.records)
    found = publisher.publish(table.estimator, "final", table.checkpoint, step=20, metrics={})
    assert set(exported.LoadedModel(found.path).signatures) >= {"serving_default", "examples"}


def test_the_signatures_have_plain_names(finished):
    model = tf.saved_model.load(finished.export("final"))
    assert sorted(model.signatures) == ["examples", "serving_default"]


def test_the_digests_of_a_run_are_those_of_its_files(finished):
    for kind in finished.result["exports"]:
        assert finished.result["sha256"][kind] == export_files.digests(finished.export(kind))


def test_the_exported_model_refuses_images_of_another_size(finished):
    model = exported.LoadedModel(finished.export("final"))
    for rows in ([b"x" * 783], [b"x" * 392] * 2):
        with pytest.raises(exported.Refused, match="values, but the requested shape"):
            model.call(exported.COLUMNS, {"image": np.array(rows, dtype=object)})


def test_what_is_served_takes_every_feature_but_the_label(transforms):
    with tf.Graph().as_default():
        receiver = serving_graph.build_serving_input_fn(transforms)()
        assert list(receiver.receiver_tensors) == list(receiver.features) == ["image"]
        assert receiver.receiver_tensors["image"].dtype == tf.string
        assert receiver.features["image"].shape.as_list() == [None, 28, 28, 1]
