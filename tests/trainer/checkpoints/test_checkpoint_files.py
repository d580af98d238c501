"""Reading real checkpoints, and ones that cannot be read."""

from __future__ import annotations

import pathlib

import pytest
import tensorflow as tf

from pipeline import errors, storage
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import patience
from tests.pipeline.read_faults import faults
from tests.trainer.small_checkpoints import cut, flip_data, remove, save
from trainer.checkpoints import checkpoint_files, repairing


def test_the_newest_is_found_and_its_step_read(tmp_path):
    paths = save(tmp_path, 3, 12)
    assert checkpoint_files.find_newest(str(tmp_path)) == paths[1]
    assert checkpoint_files.read_step(paths[0]) == 3
    assert checkpoint_files.read_current_step(str(tmp_path)) == 12


def test_one_is_chosen_by_the_step_it_is_named_after_or_the_later_one_it_holds(tmp_path):
    """Asynchronous workers train while one is saved."""
    folder, late = str(tmp_path), tmp_path / "late"
    early, newest = save(tmp_path, 3, 12)
    save(late, 5)
    for part in late.glob("model.ckpt-5.*"):
        part.replace(tmp_path / part.name.replace("-5.", "-3."))
    assert checkpoint_files.read_step(early) == 5
    assert (
        checkpoint_files.find_intact(folder, "3")
        == checkpoint_files.find_intact(folder, "5")
        == [early]
    )
    assert checkpoint_files.find_intact(folder, "all") == [early, newest]
    with pytest.raises(errors.UsageError, match=r"'4': must be best, all or one of 5, 12$"):
        checkpoint_files.find_intact(folder, "4")


def test_without_checkpoints_training_begins_at_0(tmp_path):
    assert checkpoint_files.find_newest(str(tmp_path)) is None
    assert checkpoint_files.read_current_step(str(tmp_path)) == 0
    assert checkpoint_files.read_current_step(str(tmp_path / "absent")) == 0


damaged = pytest.mark.parametrize(
    "damage",
    [
        lambda prefix: cut(pathlib.Path(f"{prefix}.index"), 50),
        lambda prefix: cut(pathlib.Path(f"{prefix}.index"), 0),
        lambda prefix: pathlib.Path(f"{prefix}.index").write_bytes(b"x" * 300),
        lambda prefix: cut(pathlib.Path(f"{prefix}.data-00000-of-00001"), 4),
        lambda prefix: pathlib.Path(f"{prefix}.data-00000-of-00001").unlink(),
    ],
    ids=["index cut", "index empty", "index altered", "data cut", "data gone"],
)


@damaged
def test_one_that_is_damaged_is_not_chosen(tmp_path, damage):
    folder, (early, late, newest) = str(tmp_path), save(tmp_path, 3, 5, 12)
    damage(late)
    assert checkpoint_files.find_intact(folder, None) == [newest]
    assert checkpoint_files.find_intact(folder, "3") == [early]
    for wanted in ("5", "all"):
        with pytest.raises(
            errors.DataError,
            match=r"model\.ckpt-5': is damaged \(.*\. Take another with --checkpoint: 3, 12$",
        ):
            checkpoint_files.find_intact(folder, wanted)


@damaged
def test_the_newest_that_is_damaged_is_passed_over_as_training_does(tmp_path, damage, capsys):
    """And nothing is changed."""
    folder, (_, early, newest) = str(tmp_path), save(tmp_path, 3, 5, 12)
    damage(newest)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert checkpoint_files.find_intact(folder, None) == [early]
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: checkpoint '{newest}' is damaged (")
    assert line.endswith(f"); taking '{early}'")
    assert checkpoint_files.find_whole(folder, contents=False) == early
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert repairing.repair(folder).endswith("continuing from step 5")


@pytest.mark.parametrize("text", [None, "", "model_checkpo", 'model_checkpoint_path: "x-999"\n'])
def test_without_a_list_of_use_the_newest_there_is_is_taken(tmp_path, text):
    folder, paths = str(tmp_path), save(tmp_path, 3, 12)
    (tmp_path / "checkpoint").unlink()
    if text is not None:
        (tmp_path / "checkpoint").write_text(text)
    assert checkpoint_files.find(folder, None) == [paths[1]]
    assert checkpoint_files.find_intact(folder, None) == [paths[1]]
    assert checkpoint_files.find_intact(folder, "all") == paths
    assert checkpoint_files.find_intact(folder, "3") == paths[:1]
    flip_data(paths[1])
    assert checkpoint_files.find_intact(folder, None) == paths[:1]


def test_that_the_newest_is_gone_is_told_until_training_continues(tmp_path, capsys):
    folder, paths = str(tmp_path), save(tmp_path, 3, 12)
    RunFolder(folder).write("saved.json", {"steps": [3, 12]})
    (tmp_path / "checkpoint").unlink()
    remove(paths[1])
    assert checkpoint_files.find_whole(folder) == paths[0]
    line = f"warning: the checkpoint of step 12 in '{folder}' is gone; taking '{paths[0]}'\n"
    assert capsys.readouterr().err == line
    repairing.repair(folder)
    assert checkpoint_files.find_whole(folder) == paths[0]
    assert capsys.readouterr().err == ""


def test_of_a_run_whose_checkpoints_are_lost_it_is_not_said_that_it_has_none_yet(tmp_path):
    paths = save(tmp_path, 3, 12)
    for path in paths:
        remove(path)
    for find in (checkpoint_files.find, checkpoint_files.find_intact):
        with pytest.raises(errors.DataError, match=r"though checkpoint tells of step 12: its chec"):
            find(str(tmp_path), "all")
    with pytest.raises(errors.DataError, match=r"-12' is damaged .*-3' is damaged .*no other in"):
        checkpoint_files.find_intact(str(tmp_path), None)


def test_of_many_checkpoints_that_are_lost_the_newest_are_named(tmp_path):
    for path in save(tmp_path, *range(1, 5)):
        remove(path)
    told = (
        r"^checkpoint \S+-4' is damaged [^;]*; checkpoint \S+-3' is damaged [^;]*; so are 2 more, a"
    )
    with pytest.raises(errors.DataError, match=told):
        checkpoint_files.find_intact(str(tmp_path), None)


def test_one_that_was_removed_is_none(tmp_path):
    folder, [_, late] = str(tmp_path), save(tmp_path, 3, 12)
    for part in tmp_path.glob("model.ckpt-3.*"):
        part.unlink()
    assert (
        checkpoint_files.find_intact(folder, "all")
        == checkpoint_files.find_intact(folder, None)
        == [late]
    )
    with pytest.raises(errors.UsageError, match=r"'3': must be best, all or one of 12$"):
        checkpoint_files.find_intact(folder, "3")


@damaged
def test_one_that_cannot_be_read_is_an_error_and_not_step_0(tmp_path, damage):
    (prefix,) = save(tmp_path, 7)
    damage(prefix)
    with pytest.raises(
        errors.DataError, match=f"checkpoint '{prefix}': cannot be read .*Remove it, or choose"
    ):
        checkpoint_files.read_current_step(str(tmp_path))


def test_one_that_is_gone_is_an_error_and_not_step_0(tmp_path):
    (prefix,) = save(tmp_path, 7)
    for path in tmp_path.glob("model.ckpt-7*"):
        path.unlink()
    with pytest.raises(errors.DataError, match=f"checkpoint '{prefix}': is gone, though the list"):
        checkpoint_files.read_current_step(str(tmp_path))


def test_one_without_a_global_step_is_an_error(tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("weights", [1], initializer=v1.zeros_initializer())
        session.run(v1.global_variables_initializer())
        path = v1.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    with pytest.raises(errors.DataError, match="global_step"):
        checkpoint_files.read_step(path)


@faults
def test_one_that_cannot_be_read_now_is_not_damaged(open_to_all, monkeypatch, fault):
    folder = pathlib.Path(open_to_all)
    save(folder, 3, 12)
    repairing.repair(open_to_all)
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    monkeypatch.setattr(patience, "PATIENCE", 0.0)
    with fault(open_to_all):
        for read in (
            repairing.repair,
            checkpoint_files.find_newest,
            checkpoint_files.read_current_step,
        ):
            with pytest.raises(errors.RetryableError, match="Run the same command again"):
                read(open_to_all)
        for read in (checkpoint_files.read_step, lambda path: checkpoint_files.find_problem(path)):
            with pytest.raises(errors.RetryableError, match=r"-12\.index': cannot be read"):
                read(f"{open_to_all}/model.ckpt-12")
    assert {path.name: path.stat().st_ino for path in folder.iterdir()} == before
    assert checkpoint_files.read_current_step(open_to_all) == 12


def test_the_newest_that_is_deleted_while_it_is_chosen_is_not_called_damaged(tmp_path, monkeypatch):
    """Training continues, and has saved another."""
    save(tmp_path, 3)
    check = checkpoint_files.find_problem

    def checked_meanwhile(path, **options):
        if path.endswith("-3"):
            remove(path)
            save(tmp_path, 12)
        return check(path, **options)

    monkeypatch.setattr(checkpoint_files, "find_problem", checked_meanwhile)
    assert checkpoint_files.find_intact(str(tmp_path), None) == [f"{tmp_path}/model.ckpt-12"]


def test_a_pinned_one_stays_when_its_writer_deletes_it(tmp_path):
    (prefix,) = save(tmp_path, 7)
    with checkpoint_files.pin(prefix) as copy:
        remove(prefix)
        assert checkpoint_files.read_step(copy) == 7
    assert not (tmp_path / "pinned").exists()
    with pytest.raises(FileNotFoundError), checkpoint_files.pin(prefix):
        pass


def test_a_pinned_one_stays_when_its_step_is_saved_again(tmp_path):
    """After a rollback; the index is then written in place, where a link would change with it."""
    (prefix,) = save(tmp_path, 7)
    with checkpoint_files.pin(prefix) as copy:
        before = {path.name: path.read_bytes() for path in (tmp_path / "pinned").iterdir()}
        for path in tmp_path.glob("model.ckpt-7.*"):
            if path.suffix == ".index":
                path.write_bytes(b"of another save")
            else:
                path.unlink()
        assert {p.name: p.read_bytes() for p in (tmp_path / "pinned").iterdir()} == before
        assert checkpoint_files.read_step(copy) == 7


def test_a_kept_one_is_whole_and_stays_when_its_writer_deletes_it(tmp_path):
    first, second = save(tmp_path, 3, 12)
    folder = str(tmp_path / "kept")
    for prefix in (first, second, second):  # again: what is there may be half a copy
        kept = checkpoint_files.keep(prefix, folder)
        assert kept == prefix.replace("model", "kept/model")
    remove(second)
    assert checkpoint_files.read_step(kept) == 12
    checkpoint_files.keep_only(kept, folder)
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        "model.ckpt-12.data-00000-of-00001",
        "model.ckpt-12.index",
        "model.ckpt-12.meta",
    ]
    with pytest.raises(FileNotFoundError, match=r"model\.ckpt-12"):
        checkpoint_files.keep(second, folder)


@damaged
def test_the_best_is_chosen_unless_it_is_damaged(tmp_path, damage):
    """Also if no other is left."""
    (prefix,) = save(tmp_path, 7)
    kept = checkpoint_files.keep(prefix, str(tmp_path / "best"))
    RunFolder(str(tmp_path)).write("best.json", {"checkpoint": "best/model.ckpt-7"})
    remove(prefix)
    assert checkpoint_files.find_intact(str(tmp_path), "best") == [kept]
    damage(kept)
    with pytest.raises(errors.DataError, match=r"best/model\.ckpt-7': is damaged"):
        checkpoint_files.find_intact(str(tmp_path), "best")


def test_a_kept_one_does_not_change_with_its_step_saved_again(tmp_path):
    (prefix,) = save(tmp_path, 7)
    kept = checkpoint_files.keep(prefix, str(tmp_path / "kept"))
    for path in tmp_path.glob("model.ckpt-7.*"):
        path.write_bytes(b"of another save")
    assert checkpoint_files.read_step(kept) == 7


@damaged
def test_a_kept_one_that_is_damaged_is_copied_again(tmp_path, damage):
    (prefix,) = save(tmp_path, 3)
    folder = str(tmp_path / "best")
    damage(checkpoint_files.keep(prefix, folder))
    kept = checkpoint_files.keep(prefix, folder)
    assert checkpoint_files.find_problem(kept) is None
    assert checkpoint_files.read_step(kept) == 3


def test_what_a_kill_leaves_of_others_is_no_checkpoint(tmp_path, monkeypatch):
    """Neither in the folder nor below: there an index without its data would be damage."""
    first, second = save(tmp_path, 3, 12)
    folder = tmp_path / "best"
    checkpoint_files.keep(first, str(folder))
    checkpoint_files.keep(first, str(folder / "other"))
    kept = checkpoint_files.keep(second, str(folder))
    killed = []
    real = storage.remove

    def remove(path):
        if not path.endswith(".index"):
            killed.append(path)
            raise KeyboardInterrupt
        real(path)

    monkeypatch.setattr(storage, "remove", remove)
    with pytest.raises(KeyboardInterrupt):
        checkpoint_files.keep_only(kept, str(folder))
    assert killed
    assert [str(path) for path in folder.rglob("*.index")] == [f"{kept}.index"]


def test_the_best_is_that_of_the_result_if_its_own_file_is_gone(tmp_path):
    (prefix,) = save(tmp_path, 7)
    kept = checkpoint_files.keep(prefix, str(tmp_path / "best"))
    result = {"final_step": 7, "best": {"checkpoint": "best/model.ckpt-7"}}
    RunFolder(str(tmp_path)).write("RESULT.json", result)
    assert checkpoint_files.find_intact(str(tmp_path), "best") == [kept]
    remove(kept)
    text = "has ended, and its best checkpoint 'best/model.ckpt-7' is gone; take another$"
    with pytest.raises(errors.UsageError, match=text):
        checkpoint_files.find_intact(str(tmp_path), "best")


def test_if_no_other_is_whole_none_is_offered(tmp_path):
    (prefix,) = save(tmp_path, 7)
    flip_data(prefix)
    with pytest.raises(errors.DataError, match=r"No other is whole; choose a new RUN=$"):
        checkpoint_files.find_intact(str(tmp_path), "7")


@pytest.mark.parametrize("content", [None, {"step": 12, "export": "export/best/12"}])
def test_a_run_without_a_best_model_is_reported(tmp_path, content):
    """So does one that was trained before the best was kept."""
    save(tmp_path, 12)
    run = RunFolder(str(tmp_path))
    if content is not None:
        run.write("best.json", content)
    with pytest.raises(errors.UsageError, match=f"run '{run.name}': has kept no best checkpoint"):
        checkpoint_files.find_intact(run.path, "best")


def test_one_that_is_saved_again_while_it_is_pinned_counts_as_gone(tmp_path, monkeypatch):
    (prefix,) = save(tmp_path, 7)
    hold = checkpoint_files.hold

    def held_meanwhile(source, target):
        hold(source, target)
        pathlib.Path(f"{prefix}.index").write_bytes(b"of another save")

    monkeypatch.setattr(checkpoint_files, "hold", held_meanwhile)
    with pytest.raises(FileNotFoundError), checkpoint_files.pin(prefix):
        pass
