"""Real checkpoints are evaluated while they come, and when no more will come."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.runs import exported, run_folder, run_record
from tests.trainer.saved_again import parameters, save_again
from trainer.checkpoints import checkpoint_files
from trainer.evaluation import skipped
from trainer.input.dataset import RecordDataset

pytestmark = pytest.mark.usefixtures("unchecked")


def _no_sleep(_: float) -> None:
    raise AssertionError("waits for something that is there")


class Scene:
    """Stands in for the passing of time: each sleep of `follow` lets something happen."""

    def __init__(self, *happenings):
        self._happenings = list(happenings)

    def sleep(self, _: float) -> None:
        assert self._happenings, "still waiting after all has happened"
        self._happenings.pop(0)()

    @property
    def is_over(self) -> bool:
        return not self._happenings


def _remove(prefix: str) -> None:
    for part in pathlib.Path(prefix).parent.glob(f"{pathlib.Path(prefix).name}.*"):
        part.unlink()


def _done(run, step, reason="steps"):
    run.write(run_folder.TRAINING_DONE, {"final_step": step, "reason": reason})


def _steps_evaluated(run) -> list[int]:
    found = run.read("evaluations.json") or {"evaluations": []}
    return [int(metrics["global_step"]) for metrics in found["evaluations"]]


def _labels(records, split: str) -> np.ndarray:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batches = records.build_eval_input_fn(split)()
        _, labels = tf.compat.v1.data.make_one_shot_iterator(batches).get_next()
        found = []
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                found.append(session.run(labels))
    return np.concatenate(found)


def test_a_wrong_metric_is_found_before_there_is_a_checkpoint(evaluation_of, tmp_path):
    run = run_folder.RunFolder(str(tmp_path))
    evaluation_of(run).check_model()
    evaluation_of(run, "eval.metric=loss").check_model()
    with pytest.raises(
        errors.UsageError,
        match=r"eval\.metric 'acuracy': the model reports accuracy, .*loss "
        r"\(did you mean 'accuracy'\?\)",
    ):
        evaluation_of(run, "eval.metric=acuracy").check_model()


def test_a_known_model_is_built_before_training_only_for_slices(
    evaluation_of, tmp_path, monkeypatch
):
    """The graph of many columns takes seconds, and the config says all there is to know."""
    built = []
    build = RecordDataset.build_eval_input_fn

    def note(records, split):
        batches = build(records, split)
        return lambda: built.append(split) or batches()

    monkeypatch.setattr(RecordDataset, "build_eval_input_fn", note)
    run = run_folder.RunFolder(str(tmp_path))
    evaluation_of(run).check_model()
    assert built == []
    evaluation_of(run, "eval.slices=[label]").check_model()
    assert built == ["eval"]


def test_follows_until_training_is_done(finished, evaluation_of, side_of, tmp_path):
    run = finished.copy(tmp_path, 0)
    seen = []
    scene = Scene(
        lambda: finished.copy(tmp_path, 0, 100),
        lambda: seen.append(_steps_evaluated(run)),
        lambda: (finished.copy(tmp_path, 0, 100, 300), _done(run, 300)),
    )
    evaluation_of(run).follow(scene.sleep)
    assert scene.is_over
    assert seen == [[100]]  # and not step 0, which has learned nothing
    assert _steps_evaluated(run) == [100, 300]
    result = run.read(run_folder.RESULT)
    assert result["final_step"] == 300
    assert result["metrics"]["test"] == pytest.approx(finished.result["metrics"]["test"])
    labels = _labels(side_of(run).records, "test")
    constant = np.bincount(labels).max() / len(labels)
    assert result["baselines"]["test"] == pytest.approx({"accuracy": constant})
    assert result["evaluated"]["test"] == len(labels)
    for split, found in result["metrics"].items():
        assert result["intervals"][split].keys() == found.keys() - {"global_step"}
        for name, (low, high, *_) in result["intervals"][split].items():
            assert low < found[name] < high
    assert result["best"]["interval"][0] < result["best"]["value"]
    assert set(result["exports"]) == {"final", "best"}
    for path in result["exports"].values():
        assert (pathlib.Path(run.path) / path / "saved_model.pb").exists()


def test_a_metric_that_was_never_finite_is_warned_of(
    finished, evaluation_of, tmp_path, monkeypatch
):
    run = finished.copy(tmp_path, 300)
    _done(run, 300)
    evaluation = evaluation_of(run)
    evaluate = evaluation.evaluate

    def undefined(split, checkpoint):
        metrics, evaluated = evaluate(split, checkpoint)
        return {**metrics, "accuracy": float("nan")}, evaluated

    monkeypatch.setattr(evaluation, "evaluate", undefined)
    evaluation.finish()
    assert run.read(run_folder.RESULT)["best"] is None
    (status,) = run_folder.read_statuses(run).values()
    assert status.note == (
        "no best export: eval.metric accuracy was not a finite number in any evaluation; see why, "
        "or choose another eval.metric"
    )


def test_it_looks_less_often_while_there_is_nothing_new(finished, evaluation_of, tmp_path):
    run, pauses = finished.copy(tmp_path, 0), []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 20:
            finished.copy(tmp_path, 0, 100)
        if len(pauses) == 22:
            finished.copy(tmp_path, 0, 100, 300)
            _done(run, 300)

    evaluation_of(run).follow(sleep)
    assert pauses[0] == pauses[20] == 0.2
    assert pauses[:20] == sorted(pauses[:20])
    assert pauses[19] == 1.0


def test_checkpoints_that_were_passed_over_are_named(finished, evaluation_of, tmp_path, caplog):
    """Also those that are gone: of 100 and 200 only the list of saves is left."""
    run = finished.copy(tmp_path, 300)
    shutil.copy(finished.path / skipped.SAVED, run.path)
    evaluation_of(run).follow(Scene(lambda: _done(run, 300)).sleep)
    line = (
        "2 of 3 checkpoints were not evaluated (superseded, or throttled by "
        "eval.throttle_seconds): steps 100, 200"
    )
    assert line in caplog.messages
    assert run_folder.read_statuses(run)["evaluator-0"].note == line
    assert run.read("evaluations.json")["skipped"] == [100, 200]
    assert run.read(run_folder.RESULT)["skipped"] == [100, 200]
    record = run_record.begin(finished.job, run)
    run_record.add_result(record, run)
    assert record.skipped == [100, 200]


def test_checkpoints_evaluated_before_a_restart_are_not_skipped(finished, evaluation_of, tmp_path):
    run = finished.copy(tmp_path, 100)
    shutil.copy(finished.path / skipped.SAVED, run.path)
    with pytest.raises(AssertionError, match="still waiting"):
        evaluation_of(run).follow(Scene().sleep)
    assert run.read("evaluations.json")["skipped"] == []  # the later ones may yet be
    finished.copy(tmp_path, 100, 300)
    _done(run, 300)
    evaluation_of(run).follow(_no_sleep)
    assert run.read(run_folder.RESULT)["skipped"] == [200]


def test_what_training_continues_from_is_evaluated_unless_it_has_been(
    finished, evaluation_of, tmp_path
):
    """After a kill between a save and its evaluation."""
    run = finished.copy(tmp_path, 0)
    evaluation_of(run).catch_up()
    assert _steps_evaluated(run) == []
    finished.copy(tmp_path, 0, 100, 200)
    evaluation_of(run).catch_up()
    assert _steps_evaluated(run) == [200] == [run.read("best.json")["step"]]
    again = evaluation_of(run)
    again.evaluate = lambda *_: pytest.fail("it has been evaluated")
    again.catch_up()


def test_what_was_saved_again_after_a_fall_back_is_evaluated_at_the_next_start(
    finished, evaluation_of, tmp_path
):
    """Its step has been evaluated, but with other parameters."""
    run = finished.copy(tmp_path, 0, 100)
    evaluation_of(run).catch_up()
    before = run.read("evaluations.json")
    save_again(run, 100)
    evaluation_of(run).catch_up()
    after = run.read("evaluations.json")
    assert after["judged"] == before["judged"] == [100]
    assert after["digests"] != before["digests"]
    assert after["evaluations"] != before["evaluations"]


def test_a_step_that_is_saved_again_is_evaluated_again(finished, evaluation_of, tmp_path):
    """A chief that went back to an older checkpoint gets to the same step with other parameters;
    the evaluator stays."""
    run = finished.copy(tmp_path, 0)
    seen = []

    def save_both():
        finished.copy(tmp_path, 0, 300)
        seen.append(parameters(f"{run.path}/model.ckpt-300"))

    scene = Scene(
        save_both,
        lambda: seen.append(parameters(save_again(run, 300))),
        lambda: _done(run, 300),
    )
    evaluation = evaluation_of(run)
    evaluation.follow(scene.sleep)
    assert scene.is_over
    assert seen[0] != seen[1]
    result = run.read(run_folder.RESULT)
    assert parameters(f"{run.path}/{result['exports']['final']}/variables/variables") == seen[1]
    truth, _ = evaluation.evaluate("eval", f"{run.path}/model.ckpt-300")
    assert result["metrics"]["eval"] == pytest.approx(truth)
    exported.find(run, "final").verify()
    exported.find(run, "best").verify()


def test_a_finished_step_saved_again_is_exported_again(finished, evaluation_of, tmp_path):
    """After the end, and then a resumed run that got to the same step otherwise."""
    run = finished.copy(tmp_path, 300)
    evaluation_of(run).finish()
    checkpoint = save_again(run, 300)
    evaluation_of(run).finish()
    final = exported.find(run, "final")
    final.verify()
    assert parameters(f"{final.path}/variables/variables") == parameters(checkpoint)
    best = exported.find(run, "best")
    best.verify()
    kept = f"{run.path}/{run.read('best.json')['checkpoint']}"
    assert parameters(f"{best.path}/variables/variables") == parameters(kept)


def test_the_last_checkpoint_is_not_evaluated_twice(finished, side_of, tmp_path, monkeypatch):
    """In a single process `train_and_evaluate` has evaluated the last checkpoint."""
    run = finished.copy(tmp_path, 300)
    side, checkpoint = side_of(run), f"{run.path}/model.ckpt-300"
    evaluation = side.evaluation
    metrics, _ = evaluation.evaluate("eval", checkpoint)
    evaluation.best_exporter.export(side.estimator, "", checkpoint, metrics, True)
    evaluate, splits = evaluation.evaluate, []

    def counted(split, path):
        splits.append(split)
        return evaluate(split, path)

    monkeypatch.setattr(evaluation, "evaluate", counted)
    evaluation.finish()
    assert splits == ["test"] and run.read(run_folder.RESULT)["metrics"]["eval"] == metrics


def test_an_evaluator_that_starts_late_evaluates_once(finished, evaluation_of, tmp_path):
    run = finished.copy(tmp_path, 100, 300)
    _done(run, 300)
    evaluation_of(run).follow(_no_sleep)
    assert _steps_evaluated(run) == [300]


def test_a_done_file_of_fewer_steps_is_stale(finished, evaluation_of, tmp_path):
    run = finished.copy(tmp_path, 100, 200)
    _done(run, 200)  # before the run was given 300 steps
    results = []
    scene = Scene(
        lambda: results.append(run.read(run_folder.RESULT)),
        lambda: (finished.copy(tmp_path, 100, 200, 300), _done(run, 300)),
    )
    evaluation_of(run).follow(scene.sleep)
    assert results == [None]
    assert run.read(run_folder.RESULT)["final_step"] == 300


def test_fewer_steps_are_final_if_there_was_a_reason(finished, evaluation_of, tmp_path):
    run = finished.copy(tmp_path, 200)
    _done(run, 200, reason="stop requested")
    evaluation_of(run).follow(_no_sleep)
    assert run.read(run_folder.RESULT)["final_step"] == 200


@pytest.mark.parametrize("read", ["find_newest", "read_step"])
def test_a_checkpoint_may_vanish_between_listing_and_reading(
    finished, evaluation_of, tmp_path, monkeypatch, read
):
    """The chief keeps the newest few only. Here step 100 goes just after `read` has seen it."""
    run = finished.copy(tmp_path, 100)
    real = getattr(checkpoint_files, read)
    gone = []

    def slow(path):
        answer = real(path)
        if not gone:
            gone.append(f"{run.path}/model.ckpt-100")
            finished.copy(tmp_path, 100, 300)
            _remove(gone[0])
        return answer

    monkeypatch.setattr(checkpoint_files, read, slow)
    monkeypatch.setattr("trainer.evaluation.evaluator.time.sleep", lambda _: None)
    evaluation_of(run).follow(Scene(lambda: _done(run, 300)).sleep)
    assert _steps_evaluated(run) == [300]
    assert run.read(run_folder.RESULT)["final_step"] == 300


def test_a_checkpoint_that_lacks_a_variable_is_read_only_once(
    finished, side_of, tmp_path, monkeypatch
):
    run = finished.copy(tmp_path, 100)
    side, asked = side_of(run), []

    def evaluate(*given, **options):
        asked.append(options["checkpoint_path"])
        raise tf.errors.NotFoundError(None, None, "failed:\nKey late not found in checkpoint\nat x")

    monkeypatch.setattr(side.estimator, "evaluate", evaluate)
    with pytest.raises(tf.errors.NotFoundError, match="Key late"):
        side.evaluation.evaluate("eval", f"{run.path}/model.ckpt-100")
    assert len(asked) == 1


def test_training_without_a_checkpoint_is_an_error(finished, evaluation_of, tmp_path):
    run = finished.copy(tmp_path)
    with pytest.raises(errors.ModelError, match="training ended without a checkpoint"):
        evaluation_of(run).finish()
    assert run.read(run_folder.RESULT) is None


def test_the_result_is_written_last(finished, evaluation_of, tmp_path):
    """A run that fails in its last step has none."""
    run = finished.copy(tmp_path, 300)
    (tmp_path / "export").write_text("in the way")
    with pytest.raises(Exception, match="export"):
        evaluation_of(run).finish()
    assert run.read(run_folder.RESULT) is None


def test_what_it_does_is_in_its_status(finished, evaluation_of, tmp_path):
    run = finished.copy(tmp_path, 100)
    states = []
    scene = Scene(
        lambda: states.append(run_folder.read_statuses(run)["evaluator-0"]),
        lambda: _done(run, 300),
    )
    with pytest.raises(AssertionError, match="still waiting"):
        evaluation_of(run, "train.steps=400").follow(scene.sleep)
    assert states[0].state in ("evaluating", "waiting")
    assert states[0].evaluation["step"] == 100
    assert 0.5 < states[0].evaluation["accuracy"] < 1.0


def test_every_piece_of_an_export_is_reported_as_one(
    finished, evaluation_of, tmp_path, monkeypatch
):
    """In the state of an evaluation it would be given no longer than a batch of one."""
    run = finished.copy(tmp_path, 300)
    reported = []
    monkeypatch.setattr(
        run_folder,
        "write_status",
        lambda _, status: reported.append((status.state, (status.work or {}).get("what"))),
    )
    evaluation_of(run, "eval.slices=[label]").finish()
    pieces = [
        "writing the model",
        "checking the exported model",
        "reading checksums",
        "publishing the model",
    ]
    seen = dict.fromkeys(reported)
    exporting = [what for state, what in seen if state == "exporting" and what]
    # The final model is the best one.
    assert exporting == ["copying the checkpoint", *pieces, "copying the model"]
    assert [state for state, _ in itertools.groupby(state for state, _ in reported)] == [
        "evaluating",
        "exporting",  # the eval split, then the best
        "evaluating",
        "exporting",  # the test split, then the final one
    ]
