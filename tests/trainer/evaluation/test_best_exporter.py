"""Which evaluation is the best, and when training stops, with real checkpoints and exports."""

from __future__ import annotations

import json
import pathlib
import shutil

import numpy as np
import pytest

from pipeline import errors, storage
from pipeline.runs import export_files, exported, run_folder
from tests.trainer.saved_again import parameters, save_again
from tests.trainer.scene import Scene
from trainer.checkpoints import checkpoint_files, cleanup, shapes
from trainer.evaluation import best, best_exporter, best_files
from trainer.metrics import reported

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture
def scene(finished, small_records, side_of, tmp_path):
    return Scene(finished, side_of, tmp_path)


def test_the_best_survives_a_restart_with_a_worse_evaluation(scene):
    path = scene.evaluated(100, 0.9)
    assert path == f"{scene.run.exports}/best/100"
    assert scene.evaluated(200, 0.5) is None
    assert scene.best == {
        "step": 100,
        "metric": "accuracy",
        "value": pytest.approx(0.9),
        "higher_is_better": True,
        "interval": reported.OWN,
        "records": scene.records.identify("eval"),
        "goal": scene.best["goal"],
        "checkpoint": "best/model.ckpt-100",
        "export": "export/best/100",
        "sha256": export_files.digests(path),
        "checksum": scene.best["checksum"],
    }
    assert scene.exported == ["100"]
    scene.evaluated(300, 0.95)
    assert scene.best["step"] == 300
    assert scene.exported == ["300"]
    assert scene.leftovers == []


def test_the_checkpoint_of_the_best_survives_rotation_and_a_restart(scene, finished):
    scene.evaluated(100, 0.9)
    rotation = cleanup.Janitor(scene.run.path, keep=1)
    rotation.open()
    rotation.clean()
    assert not pathlib.Path(scene.run.path, "model.ckpt-100.index").exists()
    assert scene.evaluated(300, 0.5) is None
    (kept,) = checkpoint_files.find_intact(scene.run.path, "best")
    assert kept == f"{scene.run.path}/best/model.ckpt-100"
    assert checkpoint_files.read_step(kept) == 100
    for path in finished.path.glob("model.ckpt-100.*"):
        assert pathlib.Path(scene.run.path, "best", path.name).read_bytes() == path.read_bytes()


def test_only_the_checkpoint_of_the_best_is_kept(scene):
    for step, value in ((100, 0.9), (200, 0.95), (300, 0.7)):
        scene.evaluated(step, value)
    assert checkpoint_files.find_intact(scene.run.path, "best") == [
        f"{scene.run.path}/best/model.ckpt-200"
    ]
    kept = pathlib.Path(scene.run.path, "best")
    assert {path.name.split(".")[1] for path in kept.iterdir()} == {"ckpt-200"}


LOST = {
    "the export": "export '{run}/export/best/100' is missing",
    "the record": "'{run}/best.json' is missing",
    "half of the record": "'{run}/best.json': not JSON (Unterminated string starting at: ",
    "most of the record": "'{run}/best.json' lacks export, metric, records, value",
    "all but the checkpoint": "'{run}/best.json' is missing",
}


def _lose(scene, what):
    folder = pathlib.Path(scene.run.path)
    if what in ("the export", "all but the checkpoint"):
        shutil.rmtree(folder / "export" / "best")
    if what in ("the record", "all but the checkpoint"):
        (folder / "best.json").unlink()
    elif what == "half of the record":
        (folder / "best.json").write_text('{"step": 100, "met')
    elif what == "most of the record":
        (folder / "best.json").write_text('{"step": 100}')


@pytest.mark.parametrize("what", LOST)
def test_the_best_is_found_again_from_its_checkpoint(scene, what):
    """A worse one must not replace it."""
    scene.evaluated(100, 0.9)
    before = scene.best
    _lose(scene, what)
    assert scene.evaluated(200, 0.5) is None
    record = {name: value for name, value in scene.best.items() if name != "sha256"}
    assert record == {name: value for name, value in before.items() if name != "sha256"}
    exported.find(scene.run, "best").verify()
    kept = f"{scene.run.path}/best/model.ckpt-100"
    assert parameters(f"{scene.run.path}/export/best/100/variables/variables") == parameters(kept)
    assert scene.note.startswith(LOST[what].format(run=scene.run.path))
    assert scene.note.endswith("; the best is that of step 100 (accuracy 0.9000)")
    assert (scene.exported, scene.leftovers) == (["100"], [])


@pytest.mark.parametrize("what", ["the record", "half of the record", "all but the checkpoint"])
def test_a_best_that_is_not_kept_any_more_is_looked_for_in_what_training_has_left(scene, what):
    for step, value in ((100, 0.9), (200, 0.95), (300, 0.5)):
        scene.evaluated(step, value)
    shutil.rmtree(f"{scene.run.path}/best")
    _lose(scene, what)
    _remove_checkpoint(scene, 200)
    scene.started()
    assert (scene.best["step"], scene.best["value"]) == (100, pytest.approx(0.9))
    assert scene.exported == ["100"]
    assert LOST[what].format(run=scene.run.path) in scene.note
    assert scene.note.endswith("; the best is that of step 100 (accuracy 0.9000)")


@pytest.mark.parametrize("part", ["index", "data-00000-of-00001"])
@pytest.mark.parametrize("what", ["the export", "half of the record"])
def test_a_damaged_best_is_taken_from_what_training_has_left(scene, what, part):
    scene.evaluated(100, 0.9)
    scene.evaluated(200, 0.5)
    _cut_kept(scene, part)
    _lose(scene, what)
    scene.started()
    assert f"; checkpoint '{scene.run.path}/best/model.ckpt-100' is damaged (" in scene.note
    assert scene.note.endswith("; the best is that of step 100 (accuracy 0.9000)")
    assert scene.exported == ["100"]


@pytest.mark.parametrize("what", ["the export", "half of the record"])
def test_a_best_that_cannot_be_found_again_is_named(scene, what):
    scene.evaluated(100, 0.9)
    _cut_kept(scene)
    _remove_checkpoint(scene, 100)
    _lose(scene, what)
    scene.started()
    assert f"; checkpoint '{scene.run.path}/best/model.ckpt-100' is damaged (" in scene.note
    assert scene.note.endswith("; the next evaluation sets a new best")
    assert scene.best is None
    scene.evaluated(200, 0.5)
    assert (scene.best["step"], scene.exported) == (200, ["200"])


def test_training_may_delete_what_it_has_left_while_the_best_is_looked_for_there(scene):
    for step, value in ((100, 0.9), (200, 0.95), (300, 0.5)):
        scene.evaluated(step, value)
    shutil.rmtree(f"{scene.run.path}/best")
    _lose(scene, "all but the checkpoint")
    side = scene.started(settle=False)
    made_up = side.evaluation.measure

    def measure(split, checkpoint):
        for step in (100, 200, 300):
            _remove_checkpoint(scene, step)
        return made_up(split, checkpoint)

    side.evaluation.measure = measure
    side.evaluation.settle_best()
    assert (scene.best["step"], scene.exported) == (200, ["200"])
    assert scene.best["checkpoint"] == "best/model.ckpt-200"
    assert not pathlib.Path(scene.run.path, "pinned").exists()


def test_checkpoints_of_another_model_are_named_where_they_are_and_not_all(scene):
    for step, value in ((100, 0.9), (200, 0.7), (300, 0.5)):
        scene.evaluated(step, value)
    _lose(scene, "all but the checkpoint")
    side = scene.started(settle=False)

    def measure(split, checkpoint):
        raise shapes.OtherShapes(f"checkpoint {checkpoint!r}: is of another model. Change it back")

    side.evaluation.measure = measure
    side.evaluation.settle_best()
    side.reporter.report("waiting")
    places = ["best/model.ckpt-100", "model.ckpt-100", "model.ckpt-200"]
    told = [f"checkpoint '{scene.run.path}/{one}': is of another model; " for one in places]
    assert scene.note.endswith(
        f"{''.join(told)}1 more checkpoint cannot be compared; the next evaluation sets a new best"
    )


@pytest.mark.parametrize("what", ["gone", "index", "data-00000-of-00001"])
def test_a_kept_checkpoint_that_is_lost_is_copied_again(scene, what):
    """While its export is there nothing else tells that it is lost."""
    scene.evaluated(100, 0.9)
    scene.evaluated(200, 0.5)
    before = parameters(f"{scene.run.path}/best/model.ckpt-100")
    if what == "gone":
        shutil.rmtree(f"{scene.run.path}/best")
    else:
        _cut_kept(scene, what)
    scene.started()
    kept = f"{scene.run.path}/{scene.best['checkpoint']}"
    assert parameters(kept) == before
    assert f"was copied from '{scene.run.path}/model.ckpt-100'; the best is" in scene.note
    scene.started()
    assert scene.note is None


def test_a_kept_checkpoint_that_is_lost_for_good_is_named(scene):
    scene.evaluated(100, 0.9)
    shutil.rmtree(f"{scene.run.path}/best")
    save_again(scene.run, 100)
    scene.started()
    assert f"checkpoint '{scene.run.path}/best/model.ckpt-100' is lost (" in scene.note
    assert f"; its export '{scene.run.path}/export/best/100' is there; the best is" in scene.note


def _cut_kept(scene, part="index"):
    kept = pathlib.Path(scene.run.path, "best", f"model.ckpt-100.{part}")
    kept.write_bytes(kept.read_bytes()[:100])


def _remove_checkpoint(scene, step):
    for file in pathlib.Path(scene.run.path).glob(f"model.ckpt-{step}.*"):
        file.unlink()


@pytest.mark.parametrize("what", ["the record", "half of the record"])
def test_an_export_of_which_nothing_is_known_is_kept(scene, what):
    """It may be better than what replaces it."""
    scene.evaluated(100, 0.9)
    before = scene.best["sha256"]
    _lose(scene, what)
    shutil.rmtree(f"{scene.run.path}/best")
    _remove_checkpoint(scene, 100)
    scene.evaluated(200, 0.5)
    assert (scene.best["step"], scene.exported) == (200, ["200"])
    kept = f"{scene.run.path}/damaged/export-best-100"
    assert export_files.digests(kept) == before
    export = f"{scene.run.path}/export/best/100"
    assert f"nothing tells how good export {export!r} is; it was moved to {kept!r}" in scene.note


def test_a_removed_checkpoint_and_export_of_the_best_are_named(scene):
    scene.evaluated(100, 0.9)
    shutil.rmtree(f"{scene.run.path}/best")
    _remove_checkpoint(scene, 100)
    _lose(scene, "the export")
    scene.started()
    assert scene.note == (
        f"export '{scene.run.path}/export/best/100' is missing; checkpoint "
        f"'{scene.run.path}/best/model.ckpt-100' is missing; the next evaluation "
        "sets a new best"
    )


def test_an_export_that_nobody_vouches_for_is_made_again(scene):
    """With the record the digests are lost, too."""
    path = scene.evaluated(100, 0.9)
    before = parameters(f"{path}/variables/variables")
    (data,) = pathlib.Path(path, "variables").glob("variables.data-*")
    data.write_bytes(bytes(len(data.read_bytes())))
    _lose(scene, "the record")
    scene.started()
    assert parameters(f"{path}/variables/variables") == before


def test_the_best_stays_while_its_export_is_gone(scene):
    """Removed by a person while it trains; at the end it is exported again."""
    scene.evaluated(100, 0.9)
    side = scene.started()
    _lose(scene, "all but the checkpoint")
    assert scene.evaluate(side, 200, 0.5) is None
    side.evaluation.settle_best()
    assert (scene.best["step"], scene.exported) == (100, ["100"])


LOWER = ("eval.metric=loss", "eval.higher_is_better=false")


@pytest.mark.parametrize(("loss", "step"), [(0.5, 100), (2.0, 200)])
def test_the_best_by_another_metric_is_compared_by_the_new_one(scene, loss, step):
    """An accuracy of 0.9 is no loss that one of 1 would have to beat."""
    scene.evaluated(100, 0.9, loss=loss)
    scene.evaluated(200, 0.5, *LOWER)
    assert (scene.best["metric"], scene.best["step"]) == ("loss", step)
    assert scene.exported == [str(step)]
    assert "the best of step 100 was chosen by accuracy, not by loss; the best is" in scene.note


def test_a_best_that_was_chosen_by_the_other_end_is_chosen_again(scene):
    """The highest of a metric is no bar for the lowest."""
    scene.evaluated(100, 0.9)
    scene.evaluated(300, 0.2)
    turned = "eval.higher_is_better=false"
    scene.started(turned, settle=False).evaluation.catch_up()
    assert (scene.best["step"], scene.exported) == (300, ["300"])
    scene.started(turned, settle=False).evaluation.catch_up()
    assert scene.evaluated(200, 0.5, turned) is None
    scene.started()
    assert "was chosen by another higher_is_better of accuracy; the best is that" in scene.note


def test_the_best_of_other_labels_is_compared_on_the_new_ones(scene):
    """A value that is easier to reach must not replace a better model."""
    scene.evaluated(100, 0.6)
    scene.change(100, 0.95)
    scene.evaluated(200, 0.9, "label.threshold=4.5")
    assert (scene.best["step"], scene.best["value"]) == (100, pytest.approx(0.95))
    told = "was chosen by accuracy of other labels, weights, groups or batches; the best is"
    assert told in scene.note
    scene.started("label.threshold=4.5")
    assert scene.note is None


def test_the_best_of_other_batches_is_compared_in_those_of_now(scene):
    """Some metrics compare the examples of a batch, as those of two towers do."""
    scene.evaluated(100, 0.6)
    scene.change(100, 0.95)
    scene.evaluated(200, 0.9, "eval.batch_size=20")
    assert (scene.best["step"], scene.best["value"]) == (100, pytest.approx(0.95))


@pytest.mark.parametrize("value", [0.5, 0.95])
def test_a_record_with_another_value_is_no_record(scene, value):
    """As after one flipped bit; nothing else tells that it is not the value of the best."""
    scene.evaluated(100, 0.9)
    scene.run.write("best.json", {**scene.best, "value": value})
    assert scene.evaluated(200, 0.7) is None
    assert (scene.best["step"], scene.best["value"]) == (100, pytest.approx(0.9))
    assert scene.note.startswith(f"'{scene.run.path}/best.json' was altered; the best is that")


@pytest.mark.parametrize("field", ["step", "metric", "value", "records", "export"])
@pytest.mark.parametrize("given", [None, []])
def test_a_record_with_a_field_of_another_type_is_no_record(scene, field, given):
    scene.evaluated(100, 0.9)
    scene.run.write("best.json", {**scene.best, field: given})
    scene.started()
    assert (scene.best["step"], scene.best["value"]) == (100, pytest.approx(0.9))
    assert scene.note.startswith(f"'{scene.run.path}/best.json' lacks {field}; the best is that")


def test_a_better_one_that_a_kill_and_a_loss_leave_is_found(scene):
    """Killed after its evaluation was noted; then its copy was lost."""
    scene.evaluated(100, 0.8)
    before = scene.best
    side = scene.started()
    side.evaluation.best_exporter.publish = lambda *given: None
    for step, value in ((200, 0.9), (300, 0.85)):
        scene.evaluate(side, step, value)
    for path in pathlib.Path(scene.run.path, "best").glob("model.ckpt-[23]00.*"):
        path.unlink()
    assert scene.best == before
    scene.started()
    assert (scene.best["step"], scene.exported) == (200, ["200"])
    assert "a better checkpoint was not exported yet; the best is that of step 200" in scene.note
    scene.started()
    assert scene.note is None


def test_the_best_of_an_earlier_version_is_compared_with_those_of_now(scene):
    """Which labels it was chosen by is not in its record."""
    scene.evaluated(100, 0.9)
    added = {"goal", "checksum"}
    scene.run.write("best.json", {k: v for k, v in scene.best.items() if k not in added})
    assert scene.evaluated(200, 0.5) is None
    assert scene.best["step"] == 100


def test_what_training_continues_from_is_compared_by_the_new_metric(scene):
    scene.evaluated(100, 0.9, loss=0.9)
    scene.evaluated(300, 0.5, loss=0.1)
    scene.started(*LOWER, settle=False).evaluation.catch_up()
    assert (scene.best["step"], scene.best["value"]) == (300, pytest.approx(0.1))
    assert scene.best["checkpoint"] == "best/model.ckpt-300"
    assert (scene.exported, scene.steps) == (["300"], [100, 300])


def test_a_best_of_another_metric_that_is_damaged_is_named(scene):
    scene.evaluated(100, 0.9, loss=0.1)
    kept = pathlib.Path(scene.run.path, "best", "model.ckpt-100.index")
    kept.write_bytes(b"")
    _remove_checkpoint(scene, 100)
    scene.evaluated(200, 0.5, *LOWER)
    assert scene.note.startswith(
        "the best of step 100 was chosen by accuracy, not by loss; checkpoint "
        f"'{scene.run.path}/best/model.ckpt-100' is damaged ("
    )
    assert scene.note.endswith("; the next evaluation sets a new best")
    assert (scene.best["step"], scene.exported) == (200, ["200"])


LOSS = ("eval.metric=loss", "eval.higher_is_better=false", "eval.early_stopping={patience: 1}")


def test_a_best_loss_of_an_earlier_version_is_evaluated_again(scene):
    """It was the mean of the batches, and of a regression in units of the label: what is smaller
    now need not be better, and what is larger not worse."""
    scene.evaluated(100, 0.9, *LOSS)
    old = {key: value for key, value in scene.best.items() if key not in {"meaning", "checksum"}}
    scene.run.write(run_folder.BEST, {**old, "value": 0.01})
    assert scene.evaluated(200, 0.9, *LOSS, loss=0.5) is not None
    assert (scene.best["step"], scene.best["value"]) == (200, 0.5)
    assert "was chosen by another loss, of an earlier version; the best is that" in scene.note
    assert scene.evaluated(300, 0.9, *LOSS, loss=0.5) is None


def test_patience_begins_again_after_losses_of_an_earlier_version(scene, monkeypatch):
    monkeypatch.setattr(best_exporter.BestExporter, "publish", lambda *_, **__: None)
    with monkeypatch.context() as earlier:
        earlier.setattr(best, "describe_metric", lambda metric: None)
        scene.evaluated(100, 0.9, *LOSS)
    scene.evaluated(200, 0.9, *LOSS)
    assert scene.run.read(run_folder.STOP) is None
    scene.evaluated(300, 0.9, *LOSS)
    assert scene.run.read(run_folder.STOP) is not None


@pytest.mark.parametrize(
    ("metric", "told"), [("loss", True), ("dwell/loss", True), ("average_loss", False)]
)
def test_metrics_whose_meaning_changed_are_reported(metric, told):
    assert (best.describe_metric(metric) is not None) is told


def swapped(contents, split, other):
    """The manifest with the records of another split in the place of one."""
    splits = {**contents.splits, split: contents.splits[other]}
    return contents.model_copy(update={"splits": splits})


def test_the_best_on_other_eval_records_is_compared_on_the_new_ones(scene, small_records):
    """0.9 on an easy split says nothing of 0.5 on another."""
    scene.evaluated(100, 0.9)
    other = swapped(small_records.contents, "eval", "test")
    scene.change(100, 0.4)
    scene.evaluated(200, 0.5, contents=other)
    assert (scene.best["step"], scene.exported) == (200, ["200"])
    assert scene.evaluated(300, 0.4, contents=other) is None
    scene.change(200, 0.7)
    assert scene.evaluated(100, 0.6) is None
    assert (scene.best["value"], scene.exported) == (pytest.approx(0.7), ["200"])


def test_the_best_is_compared_after_other_records_to_train_on(scene, small_records):
    scene.evaluated(100, 0.9)
    other = swapped(small_records.contents, "train", "test")
    assert scene.evaluated(200, 0.5, contents=other) is None
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
    monkeypatch.setattr(best_exporter.BestExporter, "publish", lambda *_, **__: None)
    scene.evaluated(100, 0.9, PATIENCE)
    scene.evaluated(200, 0.8, PATIENCE)
    request = scene.run.read(run_folder.STOP)
    assert request["reason"].startswith("early stopping: accuracy has not")
    assert request["final"] is True
    scene.run.remove(run_folder.STOP)
    scene.evaluated(300, 0.7, PATIENCE, *changed)
    assert (scene.run.read(run_folder.STOP) is not None) is stops
    assert len(scene.run.read("evaluations.json")["evaluations"]) == 3


@pytest.mark.parametrize("split", ["train", "eval"])
def test_early_stopping_begins_again_with_new_records(scene, small_records, monkeypatch, split):
    monkeypatch.setattr(best_exporter.BestExporter, "publish", lambda *_, **__: None)
    scene.evaluated(100, 0.9, PATIENCE)
    other = swapped(small_records.contents, split, "test")
    scene.evaluated(200, 0.8, PATIENCE, contents=other)
    assert scene.run.read(run_folder.STOP) is None
    scene.evaluated(300, 0.7, PATIENCE, contents=other)
    assert scene.run.read(run_folder.STOP) is not None


def test_nan_neither_wins_nor_blocks(scene):
    assert scene.evaluated(100, float("nan")) is None
    assert scene.best is None
    scene.evaluated(200, 0.5)
    assert scene.evaluated(300, float("nan")) is None
    assert scene.best["step"] == 200


@pytest.mark.parametrize("value", [-np.inf, np.inf])
def test_a_metric_that_is_not_finite_is_never_the_best_and_valid_json(scene, value):
    lower = ("eval.metric=accuracy", "eval.higher_is_better=false")
    assert scene.evaluated(100, value, *lower) is None
    assert (scene.best, scene.exported) == (None, [])

    def refused(constant):
        raise AssertionError(f"{constant} is not JSON")

    for path in pathlib.Path(scene.run.path).rglob("*.json"):
        json.loads(path.read_text(), parse_constant=refused)
    (kept,) = scene.run.read("evaluations.json")["evaluations"]
    assert kept["accuracy"] == value


def test_the_config_says_which_way_is_better(scene):
    lower = ("eval.metric=loss", "eval.higher_is_better=false")
    scene.evaluated(100, 0.5, *lower)
    assert scene.best["metric"] == "loss"
    assert scene.evaluated(200, 0.9, *lower) is None  # the loss is the same: the older stays


def test_evaluating_the_same_checkpoint_again_changes_nothing(scene):
    path = scene.evaluated(100, 0.9)
    before = (pathlib.Path(path) / "saved_model.pb").stat().st_mtime_ns
    assert scene.evaluated(100, 0.9) is None
    assert (pathlib.Path(path) / "saved_model.pb").stat().st_mtime_ns == before
    evaluations = scene.run.read("evaluations.json")["evaluations"]
    assert [m["global_step"] for m in evaluations] == [100]


def test_a_metric_the_model_does_not_report_names_the_nearest(scene):
    with pytest.raises(
        errors.UsageError,
        match=r"eval\.metric 'acuracy': the model reports accuracy, loss "
        r"\(did you mean 'accuracy'\?\)",
    ):
        scene.evaluated(100, 0.9, "eval.metric=acuracy")


@pytest.mark.parametrize("label", ["", "click/"])
def test_a_metric_of_earlier_versions_names_its_successor(label):
    reported = [f"{label}{name}" for name in ("average_precision", "precision")]
    with pytest.raises(errors.UsageError, match=rf"\(did you mean '{label}average_precision'\?\)"):
        best_exporter.check_metric(f"{label}auc_precision_recall", reported)


def test_a_step_saved_again_with_other_parameters_replaces_its_best_export(scene):
    first = scene.evaluated(100, 0.5)
    before = parameters(f"{first}/variables/variables")
    checkpoint = save_again(scene.run, 100)
    assert parameters(checkpoint) != before
    assert scene.evaluated(100, 0.9) == first
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
    first = scene.evaluated(100, 0.9)
    before = parameters(f"{first}/variables/variables")
    save_again(scene.run, 100)
    assert scene.evaluated(100, 0.5) is None
    assert parameters(f"{first}/variables/variables") == before
    assert parameters(f"{scene.run.path}/{scene.best['checkpoint']}") == before


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_while_the_best_is_replaced_loses_neither(scene, monkeypatch, moment):
    """Whichever model is there is the one that `best.json` has a digest of, and a restart keeps
    the better one although its newest checkpoint is worse."""
    path = scene.evaluated(100, 0.5)
    checkpoint = save_again(scene.run, 100)
    real = storage.replace_folder

    def killed(*args, **kwargs):
        if moment == "after":
            real(*args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(storage, "replace_folder", killed)
        with pytest.raises(KeyboardInterrupt):
            scene.evaluated(100, 0.9)
    exported.find(scene.run, "best").verify()
    assert scene.evaluated(200, 0.7) is None
    assert parameters(f"{path}/variables/variables") == parameters(checkpoint)
    assert (scene.best["step"], scene.best["value"]) == (100, pytest.approx(0.9))
    exported.find(scene.run, "best").verify()
    assert (scene.exported, scene.leftovers) == (["100"], [])


KILLED = {
    "while it is copied": (storage, "copy"),
    "before anybody hears of it": (best_exporter.BestExporter, "_note"),
    "before it is exported": (best_exporter.BestExporter, "publish"),
    "before it is recorded": (best_files.BestFiles, "write"),
}


@pytest.mark.parametrize("moment", [moment for moment in KILLED if "copied" not in moment])
@pytest.mark.parametrize("first", [None, 100])
def test_a_kill_between_the_evaluation_and_its_export_loses_no_best(
    scene, monkeypatch, moment, first
):
    """A restart makes a better one the best although its newest checkpoint is worse, and training
    has deleted it."""
    if first:
        scene.evaluated(first, 0.5)
    _kill(scene, monkeypatch, moment)
    assert (scene.best or {}).get("step") == first
    for path in pathlib.Path(scene.run.path).glob("model.ckpt-200.*"):
        path.unlink()
    assert scene.evaluated(300, 0.7) is None
    assert scene.steps == [*([first] if first else []), 200, 300]
    assert (scene.best["step"], scene.best["value"]) == (200, pytest.approx(0.9))
    assert "replacement" not in scene.best
    assert scene.best["checkpoint"] == "best/model.ckpt-200"
    exported.find(scene.run, "best").verify()
    assert (scene.exported, scene.leftovers) == (["200"], [])


def _raise(*_, **__):
    raise KeyboardInterrupt


def _kill(scene, monkeypatch, moment):
    """Is killed at a moment of an evaluation at step 200 that is the best."""

    with monkeypatch.context() as patch:
        patch.setattr(*KILLED[moment], _raise)
        with pytest.raises(KeyboardInterrupt):
            scene.evaluated(200, 0.9)


def test_an_export_that_may_be_tried_again_loses_no_best(scene, monkeypatch):
    """As when the storage cannot be reached for a while."""

    def fail(*_, **__):
        raise errors.RetryableError("unreachable")

    scene.evaluated(100, 0.5)
    with monkeypatch.context() as patch:
        patch.setattr(best_exporter.BestExporter, "publish", fail)
        with pytest.raises(errors.RetryableError):
            scene.evaluated(200, 0.9)
    scene.evaluated(300, 0.7)
    assert (scene.best["step"], scene.exported) == (200, ["200"])


@pytest.mark.parametrize("first", [None, 100])
def test_a_better_one_is_not_heard_of_before_it_is_kept(scene, monkeypatch, first):
    """Training may have deleted it when the evaluator comes back."""
    if first:
        scene.evaluated(first, 0.8)
    _kill(scene, monkeypatch, "while it is copied")
    assert scene.steps == ([first] if first else [])
    scene.evaluated(300, 0.7)
    assert (scene.best["step"], "replacement" in scene.best) == (first or 300, False)


def test_what_a_kill_has_left_is_removed_at_the_next_start(scene, monkeypatch):
    scene.evaluated(100, 0.5)
    clean = best_files.BestFiles.clean

    def killed(files):
        if files.record["step"] == 200:
            raise KeyboardInterrupt
        clean(files)

    with monkeypatch.context() as patch:
        patch.setattr(best_files.BestFiles, "clean", killed)
        with pytest.raises(KeyboardInterrupt):
            scene.evaluated(200, 0.9)
    pinned = pathlib.Path(scene.run.path, "pinned")
    pinned.mkdir()
    assert scene.exported == ["100", "200"]
    scene.started()
    assert (scene.best["step"], scene.exported, pinned.exists()) == (200, ["200"], False)
    kept = pathlib.Path(scene.run.path, "best")
    assert {path.name.split(".")[1] for path in kept.iterdir()} == {"ckpt-200"}
    assert scene.note is None


def test_a_best_that_is_no_longer_exported_makes_room_for_the_next_one(scene, monkeypatch):
    """Its export was removed, and a new one does not answer as the Estimator does."""
    scene.evaluated(100, 0.5)
    with monkeypatch.context() as patch:
        patch.setattr(best_exporter.BestExporter, "publish", _raise)
        with pytest.raises(KeyboardInterrupt):
            scene.evaluated(200, 0.9)
    _lose(scene, "the export")

    def differs(_, estimator, checkpoint, folder):
        if checkpoint.endswith("200"):
            raise errors.ModelError("differs")

    monkeypatch.setattr("trainer.export.parity.Gate.check", differs)
    scene.started()
    assert (scene.best["step"], scene.exported) == (100, ["100"])
    assert "is missing; differs; the best is that of step 100 (accuracy 0.5000)" in scene.note


def test_a_replacement_must_pass_the_check_too(scene, monkeypatch):
    path = scene.evaluated(100, 0.5)
    before = parameters(f"{path}/variables/variables")
    save_again(scene.run, 100)

    def differs(*_):
        raise errors.ModelError("differs")

    monkeypatch.setattr("trainer.export.parity.Gate.check", differs)
    with pytest.raises(errors.ModelError, match="differs"):
        scene.evaluated(100, 0.9)
    assert parameters(f"{path}/variables/variables") == before
    assert "replacement" not in scene.best
    exported.find(scene.run, "best").verify()
