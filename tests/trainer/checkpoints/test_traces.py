"""What tells of checkpoints that were saved."""

from __future__ import annotations

from pipeline import storage
from pipeline.runs.run_folder import RunFolder
from tests.trainer.small_checkpoints import remove, save
from trainer.checkpoints import traces


def test_a_save_counts_once_it_is_in_the_list(tmp_path):
    folder = str(tmp_path)
    assert (traces.find_saved(folder), traces.find_trained(folder)) == (0, (0, ""))
    paths = save(tmp_path, 3, 12)
    for part in ("index", "data-00000-of-00001"):
        storage.write_text(f"{tmp_path}/model.ckpt-20.{part}", "being written")
    assert traces.find_saved(folder) == 12
    assert traces.find_trained(folder) == (20, "model.ckpt-20.index")
    remove(paths[1])
    assert traces.find_saved(folder) == 12
    (tmp_path / "checkpoint").unlink()
    assert traces.find_saved(folder) == 3
    RunFolder(folder).write("saved.json", {"steps": [3, 15]})
    assert traces.find_saved(folder) == 15


def test_files_that_are_damaged_tell_nothing(tmp_path):
    for name in ("saved.json", "best.json", "RESULT.json", "checkpoint"):
        storage.write_text(f"{tmp_path}/{name}", "{")
    assert traces.find_trained(str(tmp_path)) == (0, "")


def test_the_step_of_a_name():
    assert traces.read_step("/runs/r-7/model.ckpt-12") == 12
    assert traces.read_step("/runs/r/model.ckpt") == 0
