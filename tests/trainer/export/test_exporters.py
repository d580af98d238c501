"""What is published, with real checkpoints, a real Estimator and a fresh process that serves."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors, storage
from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.runs import export_files, exported, run_folder
from tests.pipeline.process_help import child_environment
from tests.trainer import small_table
from tests.trainer.saved_again import parameters, save_again
from trainer import experiment
from trainer.checkpoints import checkpoint_files, cleanup
from trainer.export import exporters
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
def scene(finished, small_records, evaluation_of, tmp_path):
    return Scene(finished, evaluation_of, tmp_path)


class Scene:
    """A run with three checkpoints, judged with whatever values a test makes up."""

    def __init__(self, finished, evaluation_of, folder):
        self.run = finished.copy(folder, 100, 200, 300)
        self._evaluation_of = evaluation_of

    def judge(self, step, value, *overrides, **records):
        """Starts anew, as after a restart, and judges one evaluation."""
        evaluation = self._evaluation_of(self.run, *overrides, **records)
        checkpoint = f"{self.run.path}/model.ckpt-{step}"
        metrics = {"accuracy": np.float32(value), "loss": 1.0, "global_step": np.int64(step)}
        return evaluation.judge.export(
            evaluation._estimator, "unused", checkpoint, metrics, step == 300
        )

    @property
    def records(self):
        return self._evaluation_of(self.run)._records

    @property
    def best(self):
        return self.run.read(exporters.BEST)

    @property
    def exported(self):
        return sorted(p.name for p in pathlib.Path(self.run.exports).glob("best/*"))

    @property
    def leftovers(self):
        return sorted(p.name for p in pathlib.Path(self.run.exports).glob(".*"))


def test_the_best_survives_a_restart_with_a_worse_evaluation(scene):
    path = scene.judge(100, 0.9)
    assert path == f"{scene.run.exports}/best/100"
    assert scene.judge(200, 0.5) is None
    assert scene.best == {
        "step": 100,
        "metric": "accuracy",
        "value": pytest.approx(0.9),
        "records": scene.records.identity("eval"),
        "checkpoint": "best/model.ckpt-100",
        "export": "export/best/100",
        "sha256": export_files.digests(path),
    }
    assert scene.exported == ["100"]
    scene.judge(300, 0.95)
    assert scene.best["step"] == 300
    assert scene.exported == ["300"]
    assert scene.leftovers == []


def test_the_checkpoint_of_the_best_survives_rotation_and_a_restart(scene, finished):
    scene.judge(100, 0.9)
    rotation = cleanup.Janitor(scene.run.path, keep=1)
    rotation.open()
    rotation.clean()
    assert not pathlib.Path(scene.run.path, "model.ckpt-100.index").exists()
    assert scene.judge(300, 0.5) is None
    (kept,) = checkpoint_files.chosen(scene.run.path, "best")
    assert kept == f"{scene.run.path}/best/model.ckpt-100"
    assert checkpoint_files.step_of(kept) == 100
    for path in finished.path.glob("model.ckpt-100.*"):
        assert pathlib.Path(scene.run.path, "best", path.name).read_bytes() == path.read_bytes()


def test_one_checkpoint_is_kept_that_of_the_best(scene):
    for step, value in ((100, 0.9), (200, 0.95), (300, 0.7)):
        scene.judge(step, value)
    assert checkpoint_files.chosen(scene.run.path, "best") == [
        f"{scene.run.path}/best/model.ckpt-200"
    ]
    kept = pathlib.Path(scene.run.path, "best")
    assert {path.name.split(".")[1] for path in kept.iterdir()} == {"ckpt-200"}


def test_one_that_was_removed_gives_way_to_the_best_there_is(scene):
    shutil.rmtree(scene.judge(100, 0.9))
    scene.judge(200, 0.5)
    assert (scene.best["step"], scene.exported) == (200, ["200"])


def test_the_best_by_another_metric_is_not_compared(scene):
    """An accuracy of 0.9 is no loss that one of 1 would have to beat."""
    lower = ("eval.metric=loss", "eval.higher_is_better=false")
    scene.judge(100, 0.9)
    scene.judge(200, 0.5, *lower)
    assert (scene.best["metric"], scene.best["value"], scene.best["step"]) == ("loss", 1.0, 200)
    assert scene.exported == ["200"]


def swapped(contents, split, other):
    """The manifest with the records of another split in the place of one."""
    splits = {**contents.splits, split: contents.splits[other]}
    return contents.model_copy(update={"splits": splits})


def test_the_best_on_other_eval_records_is_not_compared(scene, small_records):
    """0.9 on an easy split says nothing of 0.5 on another."""
    scene.judge(100, 0.9)
    other = swapped(small_records.contents, "eval", "test")
    scene.judge(200, 0.5, contents=other)
    assert (scene.best["step"], scene.exported) == (200, ["200"])
    assert scene.judge(300, 0.4, contents=other) is None


def test_the_best_is_compared_after_other_records_to_train_on(scene, small_records):
    scene.judge(100, 0.9)
    other = swapped(small_records.contents, "train", "test")
    assert scene.judge(200, 0.5, contents=other) is None
    assert (scene.best["step"], scene.exported) == (100, ["100"])


PATIENCE = "eval.early_stopping={patience: 1}"


@pytest.mark.parametrize(
    ("changed", "stops"),
    [
        ([], True),
        # Where it trains says nothing of how good it can get.
        (["cluster.strategy=mirrored"], True),
        (["train.optimizer.learning_rate=0.5"], False),
        (["train.steps=1000"], False),
        (["eval.metric=loss"], False),
        (["eval.early_stopping={patience: 1, min_delta: 0.01}"], False),
    ],
)
def test_early_stopping_counts_evaluations_under_equal_settings(scene, monkeypatch, changed, stops):
    """A run that was stopped early is resumed with other settings."""
    monkeypatch.setattr(exporters.Judge, "_publish", lambda *_: None)
    scene.judge(100, 0.9, PATIENCE)
    scene.judge(200, 0.8, PATIENCE)
    assert scene.run.read(run_folder.STOP)["reason"].startswith("early stopping: accuracy has not")
    scene.run.remove(run_folder.STOP)
    scene.judge(300, 0.7, PATIENCE, *changed)
    assert (scene.run.read(run_folder.STOP) is not None) is stops
    assert len(scene.run.read("evaluations.json")["evaluations"]) == 3


@pytest.mark.parametrize("split", ["train", "eval"])
def test_early_stopping_begins_again_with_new_records(scene, small_records, monkeypatch, split):
    monkeypatch.setattr(exporters.Judge, "_publish", lambda *_: None)
    scene.judge(100, 0.9, PATIENCE)
    other = swapped(small_records.contents, split, "test")
    scene.judge(200, 0.8, PATIENCE, contents=other)
    assert scene.run.read(run_folder.STOP) is None
    scene.judge(300, 0.7, PATIENCE, contents=other)
    assert scene.run.read(run_folder.STOP) is not None


def test_what_a_killed_process_was_writing_is_removed(scene):
    (pathlib.Path(scene.run.exports) / ".staging-0" / "1").mkdir(parents=True)
    scene.judge(100, 0.9)
    assert scene.leftovers == []


def test_nan_neither_wins_nor_blocks(scene):
    assert scene.judge(100, float("nan")) is None
    assert scene.best is None
    scene.judge(200, 0.5)
    assert scene.judge(300, float("nan")) is None
    assert scene.best["step"] == 200


@pytest.mark.parametrize("value", [-np.inf, np.inf])
def test_what_is_not_finite_is_no_best_and_is_valid_json(scene, value):
    lower = ("eval.metric=accuracy", "eval.higher_is_better=false")
    assert scene.judge(100, value, *lower) is None
    assert (scene.best, scene.exported) == (None, [])

    def refused(constant):
        raise AssertionError(f"{constant} is not JSON")

    for path in pathlib.Path(scene.run.path).rglob("*.json"):
        json.loads(path.read_text(), parse_constant=refused)
    (kept,) = scene.run.read("evaluations.json")["evaluations"]
    assert kept["accuracy"] == value


def test_the_config_says_which_way_is_better(scene):
    lower = ("eval.metric=loss", "eval.higher_is_better=false")
    scene.judge(100, 0.5, *lower)
    assert scene.best["metric"] == "loss"
    assert scene.judge(200, 0.9, *lower) is None  # the loss is the same: the older stays


def test_the_same_checkpoint_judged_again_changes_nothing(scene):
    path = scene.judge(100, 0.9)
    before = (pathlib.Path(path) / "saved_model.pb").stat().st_mtime_ns
    assert scene.judge(100, 0.9) is None
    assert (pathlib.Path(path) / "saved_model.pb").stat().st_mtime_ns == before
    evaluations = scene.run.read("evaluations.json")["evaluations"]
    assert [m["global_step"] for m in evaluations] == [100]


def test_a_metric_the_model_does_not_report_names_the_nearest(scene):
    with pytest.raises(
        errors.UsageError,
        match=r"eval\.metric 'acuracy': the model reports accuracy, loss "
        r"\(did you mean 'accuracy'\?\)",
    ):
        scene.judge(100, 0.9, "eval.metric=acuracy")


def test_a_step_saved_again_with_other_parameters_replaces_its_best_export(scene):
    first = scene.judge(100, 0.5)
    before = parameters(f"{first}/variables/variables")
    checkpoint = save_again(scene.run, 100)
    assert parameters(checkpoint) != before
    assert scene.judge(100, 0.9) == first
    assert parameters(f"{first}/variables/variables") == parameters(checkpoint)
    assert parameters(f"{scene.run.path}/{scene.best['checkpoint']}") == parameters(checkpoint)
    assert scene.best["value"] == pytest.approx(0.9)
    assert "replacement" not in scene.best
    exported.find(scene.run, "best").verify()
    metrics = json.loads(pathlib.Path(first, "assets.extra", "metrics.json").read_text())
    assert metrics["metrics"]["eval"]["accuracy"] == pytest.approx(0.9)
    assert (scene.exported, scene.leftovers) == (["100"], [])
    kept = pathlib.Path(scene.run.path, "best")
    assert len([path for path in kept.rglob("*") if path.is_file()]) == 3


def test_a_worse_one_saved_under_the_best_step_changes_nothing(scene):
    first = scene.judge(100, 0.9)
    before = parameters(f"{first}/variables/variables")
    save_again(scene.run, 100)
    assert scene.judge(100, 0.5) is None
    assert parameters(f"{first}/variables/variables") == before
    assert parameters(f"{scene.run.path}/{scene.best['checkpoint']}") == before


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_while_the_best_is_replaced_loses_neither(scene, monkeypatch, moment):
    """Whichever model is there is the one that `best.json` has a digest of, and a restart keeps
    the better one although its newest checkpoint is worse."""
    path = scene.judge(100, 0.5)
    checkpoint = save_again(scene.run, 100)
    real = storage.replace_folder

    def killed(*args, **kwargs):
        if moment == "after":
            real(*args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(storage, "replace_folder", killed)
        with pytest.raises(KeyboardInterrupt):
            scene.judge(100, 0.9)
    exported.find(scene.run, "best").verify()
    assert scene.judge(200, 0.7) is None
    assert parameters(f"{path}/variables/variables") == parameters(checkpoint)
    assert (scene.best["step"], scene.best["value"]) == (100, pytest.approx(0.9))
    exported.find(scene.run, "best").verify()
    assert (scene.exported, scene.leftovers) == (["100"], [])


def test_a_replacement_must_pass_the_check_too(scene, monkeypatch):
    path = scene.judge(100, 0.5)
    before = parameters(f"{path}/variables/variables")
    save_again(scene.run, 100)

    def differs(*_):
        raise errors.ModelError("differs")

    monkeypatch.setattr("trainer.export.parity.Gate.check", differs)
    with pytest.raises(errors.ModelError, match="differs"):
        scene.judge(100, 0.9)
    assert parameters(f"{path}/variables/variables") == before
    exported.find(scene.run, "best").verify()


def test_publishing_the_same_checkpoint_again_leaves_the_export_alone(scene, evaluation_of):
    evaluation = evaluation_of(scene.run)
    publish = evaluation._publisher.publish
    checkpoint = f"{scene.run.path}/model.ckpt-100"
    first = publish(evaluation._estimator, "final", checkpoint, 100, {})
    before = (pathlib.Path(first.path) / "saved_model.pb").stat().st_ino
    assert publish(None, "final", checkpoint, 100, {}) == first
    assert (pathlib.Path(first.path) / "saved_model.pb").stat().st_ino == before


@pytest.mark.parametrize("changed", ["parameters", "config", "unknown"])
def test_what_was_made_from_something_else_is_replaced(scene, evaluation_of, changed):
    evaluation = evaluation_of(scene.run)
    checkpoint = f"{scene.run.path}/model.ckpt-100"
    first = evaluation._publisher.publish(evaluation._estimator, "final", checkpoint, 100, {})
    if changed == "parameters":
        save_again(scene.run, 100)
    elif changed == "config":
        evaluation = evaluation_of(scene.run, "eval.batch_size=100")
    else:  # exported by an earlier version, which did not say from what
        (pathlib.Path(first.path) / "assets.extra" / "checkpoint.sha256").unlink()
    second = evaluation._publisher.publish(evaluation._estimator, "final", checkpoint, 100, {})
    assert second.path == first.path
    assert parameters(f"{first.path}/variables/variables") == parameters(checkpoint)
    assert second.sha256 == export_files.digests(second.path)


def test_a_failed_export_leaves_nothing(scene, evaluation_of):
    evaluation = evaluation_of(scene.run)
    with pytest.raises(Exception, match=r"ckpt-7"):
        evaluation._publisher.publish(
            evaluation._estimator, "final", f"{scene.run.path}/model.ckpt-7", 7, {}
        )
    assert not (pathlib.Path(scene.run.exports) / "final" / "7").exists()
    assert scene.leftovers == []


def test_a_fresh_process_serves_what_the_estimator_predicts(
    finished, small_records, transforms, tmp_path
):
    images = small_records.images["test"][:50]
    np.save(tmp_path / "images.npy", images)
    done = subprocess.run(
        [
            *(sys.executable, "-c", SERVE),
            *(finished.export("final"), str(tmp_path / "images.npy")),
        ],
        cwd=tmp_path,
        env={**child_environment(), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    served = json.loads(done.stdout)

    estimator = experiment.estimator(
        finished.job, finished.run, topology.Task(topology.EVALUATOR, 0), transforms
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


def test_another_model_than_the_checkpoint_is_not_published(scene, evaluation_of):
    """The export holds the parameters of step 200, the Estimator those of step 100."""
    evaluation = evaluation_of(scene.run)
    old, new = (f"{scene.run.path}/model.ckpt-{step}" for step in (100, 200))

    class Mistaken:
        """An Estimator that exports another checkpoint than it is asked to."""

        config = evaluation._estimator.config
        model_fn = staticmethod(evaluation._estimator.model_fn)

        def export_saved_model(self, folder, receiver, checkpoint_path):
            return evaluation._estimator.export_saved_model(folder, receiver, checkpoint_path=new)

    with pytest.raises(errors.ModelError, match=r"otherwise than Estimator\.predict"):
        evaluation._publisher.publish(Mistaken(), "final", old, 100, {})
    assert not (pathlib.Path(scene.run.exports) / "final").exists()
    assert scene.leftovers == []


def test_what_lies_beside_the_model(finished, small_records):
    for kind, metrics in (("final", {"eval", "test"}), ("best", {"eval"})):
        folder = pathlib.Path(finished.export(kind))
        extra = folder / "assets.extra"
        assert sorted(path.name for path in extra.iterdir()) == [
            *("checkpoint.sha256", "config.yaml", "manifest.sha256"),
            *("metrics.json", "model_card.md"),
        ]
        assert config_file.load(str(extra / "config.yaml")) == finished.run.read_config()
        assert (extra / "manifest.sha256").read_text().strip() == small_records.contents.sha256
        found = json.loads((extra / "metrics.json").read_text())
        assert set(found["metrics"]) == metrics
        assert found["step"] == int(folder.name)
        assert "## Limits" in (extra / "model_card.md").read_text()
    assert found["metrics"]["eval"]["global_step"] == int(folder.name)


def test_slices_lie_beside_the_model_too(tmp_path):
    table = small_table.Table(tmp_path, "eval.slices=[carrier]")
    publisher = exporters.Publisher(table.job, table.run, table.records)
    found = publisher.publish(table.estimator, "final", table.checkpoint, 20, {"eval": {}})
    extra = pathlib.Path(found.path) / "assets.extra"
    slices = json.loads((extra / "metrics.json").read_text())["slices"]["eval"]
    wanted = slice_metrics.rows(
        table.records, table.estimator, table.checkpoint, "eval", ["carrier"]
    )
    assert slices == json.loads(json.dumps(list(map(dataclasses.asdict, wanted))))
    assert "| eval | carrier=AA | 25 | accuracy |" in (extra / "model_card.md").read_text()


def test_the_signatures_have_plain_names(finished):
    model = tf.saved_model.load(finished.export("final"))
    assert sorted(model.signatures) == ["examples", "serving_default"]


def test_the_digests_of_a_run_are_those_of_its_files(finished):
    for kind in finished.result["exports"]:
        assert finished.result["sha256"][kind] == export_files.digests(finished.export(kind))


def test_the_exported_model_refuses_images_of_another_size(finished):
    model = exported.Model(finished.export("final"))
    for rows in ([b"x" * 783], [b"x" * 392] * 2):
        with pytest.raises(exported.Refused, match="values, but the requested shape"):
            model.call(exported.COLUMNS, {"image": np.array(rows, dtype=object)})


def test_what_is_served_takes_every_feature_but_the_label(transforms):
    with tf.Graph().as_default():
        receiver = exporters.serving_input_fn(transforms)()
        assert list(receiver.receiver_tensors) == list(receiver.features) == ["image"]
        assert receiver.receiver_tensors["image"].dtype == tf.string
        assert receiver.features["image"].shape.as_list() == [None, 28, 28, 1]
