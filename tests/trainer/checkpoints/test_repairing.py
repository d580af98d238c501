"""What the chief makes of checkpoints that are damaged or lost, on real ones."""

from __future__ import annotations

import pathlib
import shutil

import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.runs import fallbacks, run_folder
from pipeline.runs.run_folder import RunFolder
from tests.trainer.small_checkpoints import cut, cut_data, flip_data, remove, save
from trainer.checkpoints import checkpoint_files, checkpoint_list, repairing
from trainer.checkpoints.cleanup import Janitor


def test_whole_checkpoints_are_left_as_they_are(tmp_path):
    assert repairing.repair(str(tmp_path)) is None
    paths = save(tmp_path, 3, 12)
    assert repairing.repair(str(tmp_path)) is None
    assert checkpoint_list.read(str(tmp_path)) == paths[::-1]
    assert not (tmp_path / "damaged").exists()


def test_a_list_with_absolute_paths_is_made_relative(tmp_path):
    """TensorFlow's Saver writes them; a copy of the folder would use the original's."""
    paths = save(tmp_path / "first", 3, 12)
    assert not checkpoint_list.is_relative(str(tmp_path / "first"))
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    cut_data(paths[1])
    assert repairing.repair(str(tmp_path / "copy")) is None
    assert tf.train.latest_checkpoint(str(tmp_path / "copy")) == f"{tmp_path}/copy/model.ckpt-12"


@pytest.mark.parametrize("damage", [cut_data, flip_data, remove])
def test_a_damaged_newest_one_is_passed_over_and_reported(tmp_path, damage):
    paths = save(tmp_path, 3, 12, 20)
    damage(paths[2])
    note = repairing.repair(str(tmp_path))
    assert note is not None and note.startswith(f"checkpoint '{paths[2]}' is damaged (")
    assert note.endswith("; continuing from step 12")
    assert checkpoint_files.find_newest(str(tmp_path)) == paths[1]
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert list(state.all_model_checkpoint_paths) == paths[:2]
    assert repairing.repair(str(tmp_path)) is None, "told once"


def test_several_damaged_ones_are_passed_over(tmp_path):
    paths = save(tmp_path, 3, 12, 20)
    cut_data(paths[2])
    flip_data(paths[1])
    assert repairing.repair(str(tmp_path)).endswith("; continuing from step 3")


def test_damaged_ones_are_kept_and_nothing_cleans_them_up(tmp_path):
    """Though the same step is damaged twice."""
    kept = []
    for name in ("model.ckpt-12", "model.ckpt-12.1"):
        (_, path) = save(tmp_path, 3, 12)
        flip_data(path)
        contents = {file.name: file.read_bytes() for file in tmp_path.glob("model.ckpt-12.*")}
        note = repairing.repair(str(tmp_path))
        assert f"is wrong), and was moved to '{tmp_path}/damaged/{name}'; cont" in note
        kept.append((tmp_path / "damaged" / name, contents))
    for step in (20, 30, 40):
        save(tmp_path, step)
        Janitor(str(tmp_path), 1).open()
        Janitor(str(tmp_path), 1).clean()
    assert not list(tmp_path.glob("model.ckpt-3.*"))
    for folder, contents in kept:
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == contents


def test_an_older_one_that_lacks_a_file_is_not_listed_again_but_kept(tmp_path):
    paths = save(tmp_path, 3, 12, 20)
    pathlib.Path(f"{paths[0]}.data-00000-of-00001").unlink()
    cut_data(paths[2])
    assert "model.ckpt-3' is damaged (" in repairing.repair(str(tmp_path))
    assert checkpoint_list.read(str(tmp_path)) == [paths[1]]
    assert (tmp_path / "damaged" / "model.ckpt-3" / "model.ckpt-3.index").exists()


def test_with_all_damaged_training_does_not_begin_again(tmp_path):
    paths = save(tmp_path, 3, 12)
    for path in paths:
        cut_data(path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(errors.DataError, match=r"-12' is damaged .*-3' is damaged .*no other in"):
        repairing.repair(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("state", ["damaged", "missing"])
def test_a_list_that_cannot_be_read_is_written_again(tmp_path, state):
    """TensorFlow takes it for no checkpoints, and would begin again."""
    paths = save(tmp_path, 3, 12)
    if state == "damaged":
        (tmp_path / "checkpoint").write_text("model_checkpoint_pa")
    else:
        (tmp_path / "checkpoint").unlink()
    # Nothing is damaged but the list.
    assert repairing.repair(str(tmp_path)) == (
        f"the list of checkpoints in '{tmp_path}' was {state}; continuing from step 12"
    )
    assert checkpoint_files.find_newest(str(tmp_path)) == paths[1]
    assert repairing.repair(str(tmp_path)) is None, "told once"


def test_without_a_list_a_damaged_newest_one_is_passed_over(tmp_path):
    paths = save(tmp_path, 3, 12)
    (tmp_path / "checkpoint").unlink()
    flip_data(paths[1])
    note = repairing.repair(str(tmp_path))
    assert "was missing; checkpoint" in note and note.endswith("; continuing from step 3")
    assert checkpoint_list.read(str(tmp_path)) == paths[:1]


def test_without_a_list_and_with_all_damaged_training_does_not_begin_again(tmp_path):
    for path in save(tmp_path, 3, 12):
        cut_data(path)
    (tmp_path / "checkpoint").unlink()
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(errors.DataError, match=r"-12' is damaged .*-3' is damaged .*no other in"):
        repairing.repair(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def _interrupt_first_save(folder: pathlib.Path) -> str:
    """Leaves what a save does before TensorFlow writes the list, and then `.meta`."""
    (path,) = save(folder, 0)
    (folder / "checkpoint").unlink()
    (folder / "model.ckpt-0.meta").unlink()
    return path


def test_a_first_save_that_was_cut_off_before_the_list_is_continued(tmp_path):
    path = _interrupt_first_save(tmp_path)
    assert repairing.repair(str(tmp_path)) == (
        f"the list of checkpoints in '{tmp_path}' was missing; continuing from step 0"
    )
    assert checkpoint_files.find_newest(str(tmp_path)) == path


def test_after_a_first_save_that_was_cut_off_training_begins_again(tmp_path):
    """Nothing is lost with it."""
    path = _interrupt_first_save(tmp_path)
    cut(pathlib.Path(f"{path}.index"), 50)
    note = repairing.repair(str(tmp_path))
    assert note.startswith(f"checkpoint '{path}' is damaged (")
    assert note.endswith(
        f", and was moved to '{tmp_path}/damaged/model.ckpt-0'; starting from step 0"
    )
    assert checkpoint_files.read_current_step(str(tmp_path)) == 0
    assert repairing.repair(str(tmp_path)) is None, "told once"


@pytest.mark.parametrize("damage", [remove, flip_data])
def test_one_beside_the_list_is_taken_if_none_of_the_list_is_whole(tmp_path, damage):
    paths = save(tmp_path, 3, 12, 20)
    checkpoint_list.write(str(tmp_path), paths[2:])
    damage(paths[2])
    note = repairing.repair(str(tmp_path))
    assert note.startswith(f"checkpoint '{paths[2]}' is damaged (")
    assert note.endswith("; continuing from step 12")
    assert checkpoint_list.read(str(tmp_path)) == paths[1::-1]
    assert repairing.repair(str(tmp_path)) is None, "told once"


def _keep(run: RunFolder, name: str) -> None:
    """Removes all that tells of checkpoints, but one file of the run, or parts of checkpoints."""
    parts = [path for path in pathlib.Path(run.path).iterdir() if not path.name.endswith(name)]
    for path in parts:
        path.unlink()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("saved.json", {"steps": [3, 12]}),
        (run_folder.BEST, {"step": 12}),
        (run_folder.TRAINING_DONE, {"final_step": 12}),
        (run_folder.RESULT, {"final_step": 12}),
        (".meta", None),
        (".data-00000-of-00001", None),
    ],
)
def test_with_all_lost_training_does_not_begin_again(tmp_path, name, content):
    run = RunFolder(str(tmp_path))
    save(tmp_path, 3, 12)
    if content is not None:
        run.write(name, content)
    _keep(run, name)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(errors.DataError, match=r"has no model.ckpt-\*.index, though .* step 12: "):
        repairing.repair(run.path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_tells_of_no_training_is_one_to_begin_in(tmp_path):
    run = RunFolder(str(tmp_path))
    save(tmp_path, 0)
    run.write("saved.json", {"steps": []})
    _keep(run, ".data-00000-of-00001")
    assert repairing.repair(run.path) is None


def test_a_fall_back_is_noted_once(tmp_path):
    run = RunFolder(str(tmp_path))
    paths = save(tmp_path, 3, 12, 20)
    repairing.repair(run.path)
    assert fallbacks.read(run) == []
    flip_data(paths[2])
    repairing.repair(run.path)
    [found] = fallbacks.read(run)
    assert (found.step, found.newest) == (12, 20)
    # It is stopped before it has got that far again.
    run.write("saved.json", {"steps": [3, 12, 15, 20]})
    save(tmp_path, 15)
    repairing.repair(run.path)
    assert fallbacks.read(run) == [found]


def test_a_list_that_was_lost_with_the_newest_one_is_a_fall_back(tmp_path):
    """What lists the saves for the evaluator tells of it."""
    run = RunFolder(str(tmp_path))
    paths = save(tmp_path, 3, 12)
    run.write("saved.json", {"steps": [3, 12]})
    (tmp_path / "checkpoint").unlink()
    repairing.repair(run.path)
    assert fallbacks.read(run) == []
    (tmp_path / "checkpoint").unlink()
    remove(paths[1])
    repairing.repair(run.path)
    [found] = fallbacks.read(run)
    assert (found.step, found.newest) == (3, 12)
