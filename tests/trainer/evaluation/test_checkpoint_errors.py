"""What the evaluator makes of files that are missing, damaged or just being written."""

from __future__ import annotations

import pathlib

import pytest

from pipeline import errors
from pipeline.runs import run_folder
from tests.trainer import small_checkpoints
from trainer.checkpoints import checkpoint_files

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("trainer.evaluation.evaluator.time.sleep", lambda _: None)


def _wait(_: float) -> None:
    raise AssertionError("waits, and says nothing")


def _nonsense(prefix: str) -> None:
    pathlib.Path(f"{prefix}.index").write_bytes(b"nonsense")


def _end(run) -> None:
    run.write(run_folder.TRAINING_DONE, {"final_step": 300, "reason": "steps"})


@pytest.mark.parametrize("during", ["training", "finish"])
def test_a_file_that_the_users_own_code_misses_ends_the_evaluator(
    finished, side_of, tmp_path, monkeypatch, during
):
    """Estimator calls an `input_fn` in Python: what that opens may be gone since the start."""
    run = finished.copy(tmp_path, 300)
    side, asked = side_of(run), []

    def evaluate(*given, **options):
        asked.append(options["checkpoint_path"])
        assert len(asked) < 3, "tries again and again"
        pathlib.Path("/none/eval.csv").read_text()

    monkeypatch.setattr(side.estimator, "evaluate", evaluate)
    if during == "finish":
        _end(run)
    with pytest.raises(FileNotFoundError, match=r"/none/eval\.csv"):
        side.evaluation.follow(_wait)
    assert len(asked) == 1


def test_a_file_that_an_export_misses_ends_the_evaluator(finished, side_of, tmp_path, monkeypatch):
    """As one that the user's own `serving_input_fn` opens."""
    run = finished.copy(tmp_path, 300)
    side = side_of(run)

    def export(*given, **options):
        pathlib.Path("/none/words.txt").read_text()

    monkeypatch.setattr(side.evaluation.best_exporter, "publish", export)
    with pytest.raises(FileNotFoundError, match=r"/none/words\.txt"):
        side.evaluation.follow(_wait)


@pytest.mark.parametrize("during", ["training", "finish"])
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (small_checkpoints.cut_data, "data-00000-of-00001"),
        (small_checkpoints.flip_data, "the checksum of dense/bias is wrong"),
        (_nonsense, "index"),
    ],
)
def test_a_damaged_checkpoint_asks_for_the_same_command_again(
    finished, evaluation_of, tmp_path, damage, said, during
):
    """The chief passes over it when it is started again, so the failure is not final."""
    run = finished.copy(tmp_path, 200, 300)
    damage(f"{run.path}/model.ckpt-300")
    if during == "finish":
        _end(run)
    with pytest.raises(errors.RetryableError) as caught:
        evaluation_of(run).follow(_wait)
    line = str(caught.value)
    assert line.startswith(f"checkpoint '{run.path}/model.ckpt-300': is damaged (")
    assert said in line
    assert line.endswith("Run the same command again: training continues from an older one")
    assert run.read(run_folder.RESULT) is None


def test_an_index_that_is_just_being_written_is_read_later(
    finished, evaluation_of, tmp_path, monkeypatch
):
    """A chief that is started again saves the restored step under the same name."""
    run = finished.copy(tmp_path, 300)
    index = pathlib.Path(f"{run.path}/model.ckpt-300.index")
    content, slept = index.read_bytes(), []
    index.write_bytes(b"")

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        index.write_bytes(content)

    monkeypatch.setattr("trainer.evaluation.evaluator.time.sleep", sleep)
    evaluation_of(run).follow(lambda _: _end(run))
    assert slept == [1]
    assert run.read(run_folder.RESULT)["final_step"] == 300


def test_a_whole_checkpoint_without_a_step_is_an_error(
    finished, evaluation_of, tmp_path, monkeypatch
):
    """Nothing repairs it."""
    run = finished.copy(tmp_path, 300)

    def read_step(checkpoint: str) -> int:
        raise errors.DataError("it has no global_step")

    monkeypatch.setattr(checkpoint_files, "read_step", read_step)
    with pytest.raises(errors.DataError, match="no global_step"):
        evaluation_of(run).follow(_wait)
