"""What is removed beside checkpoints, and above all what is not."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.trainer.small_checkpoints import list_known_steps, save, steps
from trainer.checkpoints import checkpoint_files
from trainer.checkpoints.cleanup import Janitor


@pytest.fixture
def ten(tmp_path):
    """Ten checkpoints, as a run with `keep_checkpoints: 10` leaves them."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        saver = v1.train.Saver(max_to_keep=10, save_relative_paths=True)
        session.run(v1.global_variables_initializer())
        for number in range(10, 110, 10):
            session.run(step.assign(number))
            saver.save(session, str(tmp_path / "model.ckpt"), global_step=step)
    assert list_known_steps(tmp_path) == steps(tmp_path) == [*range(10, 110, 10)]
    return tmp_path


def test_a_smaller_number_is_kept_after_one_save(ten):
    """As the Saver of a resumed run does it: it continues the list it finds."""
    cleaner = Janitor(str(ten), 3)
    cleaner.open()
    assert list_known_steps(ten) == [80, 90, 100]
    assert steps(ten) == [*range(10, 110, 10)]
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        saver = v1.train.Saver(max_to_keep=3, save_relative_paths=True)
        state = tf.train.get_checkpoint_state(str(ten))
        saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        saver.restore(session, checkpoint_files.find_newest(str(ten)))
        session.run(step.assign(110))
        saver.save(session, str(ten / "model.ckpt"), global_step=step)
    cleaner.clean()
    assert list_known_steps(ten) == steps(ten) == [90, 100, 110]
    assert checkpoint_files.read_current_step(str(ten)) == 110


def test_a_larger_number_changes_nothing(ten):
    cleaner = Janitor(str(ten), 20)
    cleaner.open()
    cleaner.clean()
    assert list_known_steps(ten) == steps(ten) == [*range(10, 110, 10)]


def test_the_newest_is_kept_wherever_the_list_has_it(ten):
    paths = [str(ten / f"model.ckpt-{step}") for step in (100, 70, 80, 90)]
    tf.compat.v1.train.update_checkpoint_state(str(ten), paths[0], paths)
    Janitor(str(ten), 2).open()
    assert list_known_steps(ten) == [90, 100]
    assert checkpoint_files.read_current_step(str(ten)) == 100


def test_halves_and_folders_of_workers_go(tmp_path):
    save(tmp_path, 7)
    for name in ("model.ckpt-9_temp", "model.ckpt-9_temp_1f2e", "tmp_worker_0", "tmp_worker_12"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part-00000-of-00001").touch()
    (tmp_path / "model.ckpt-9.index.tempstate123").touch()
    Janitor(str(tmp_path), 5).open()
    assert {path.name.partition(".")[0] for path in tmp_path.iterdir()} == {"checkpoint", "model"}
    assert steps(tmp_path) == [7]


def test_running_workers_keep_their_folders(tmp_path):
    save(tmp_path, 7)
    (tmp_path / "tmp_worker_0").mkdir()
    Janitor(str(tmp_path), 5).clean()
    assert (tmp_path / "tmp_worker_0").exists()


def test_parts_of_a_lost_checkpoint_go(tmp_path):
    save(tmp_path, 7)
    (tmp_path / "model.ckpt-3.data-00001-of-00002").touch()
    Janitor(str(tmp_path), 5).clean()
    assert steps(tmp_path) == [7]


def test_what_is_newer_than_the_list_stays(tmp_path):
    """It may be about to be named."""
    save(tmp_path, 7)
    (tmp_path / "model.ckpt-9.data-00000-of-00001").touch()
    Janitor(str(tmp_path), 5).clean()
    assert steps(tmp_path) == [7, 9]


def test_other_files_stay(tmp_path):
    save(tmp_path, 7)
    others = ("run.json", "model.ckpt-best.index", "model.ckpt-3.txt", "tmp_worker", "my_temp")
    for name in others:
        (tmp_path / name).touch()
    cleaner = Janitor(str(tmp_path), 2)
    cleaner.open()
    cleaner.clean()
    assert all((tmp_path / name).exists() for name in others)


def test_without_a_list_nothing_is_taken_for_an_orphan(tmp_path):
    (tmp_path / "model.ckpt-3.index").touch()
    cleaner = Janitor(str(tmp_path), 2)
    cleaner.open()
    cleaner.clean()
    assert (tmp_path / "model.ckpt-3.index").exists()
    Janitor(str(tmp_path / "absent"), 2).open()
