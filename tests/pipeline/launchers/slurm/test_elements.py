"""The runs of an array, and which of them a job is."""

from __future__ import annotations

import pytest

from pipeline import errors, storage
from pipeline.config import config_file
from pipeline.jobs import job as jobs
from pipeline.launchers.slurm import elements
from pipeline.launchers.slurm.settings import Slurm


@pytest.fixture
def wanted(tmp_path):
    settings = ["train.seed=7", "slurm.array=0-4%2"]
    return jobs.plan("mnist", settings, run="r", storage_root=str(tmp_path))


def test_a_run_has_a_name_and_a_seed_of_its_own(wanted):
    one = elements.run_of(wanted, 3)
    assert one.name == one.run.name == "r-3"
    assert one.run == elements.folder_of(wanted.run, 3)
    assert one.config.train.seed == 10
    assert one.config == config_file.load("mnist", ["train.seed=10"])


def test_a_run_of_that_name_with_another_seed_is_left_alone(wanted):
    one = elements.run_of(wanted, 3)
    other = config_file.load("mnist", ["train.seed=3"])
    storage.write_text(one.run.config_path, config_file.dump(other), parents=True)
    with pytest.raises(errors.UsageError, match=r"^run 'r-3' was begun .*train.seed: 3 -> 10"):
        elements.run_of(wanted, 3)


def test_the_array_of_some_runs_has_the_same_bound(wanted):
    assert elements.select_runs(wanted, range(5)) is wanted
    assert Slurm.of(elements.select_runs(wanted, [4, 1]).config).array == "1,4%2"


def test_some_runs_of_an_array_with_a_step(tmp_path):
    wanted = jobs.plan("mnist", ["slurm.array=0-10:5%2"], run="r", storage_root=str(tmp_path))
    assert elements.select_runs(wanted, [0, 5, 10]) is wanted
    assert Slurm.of(elements.select_runs(wanted, [5, 10]).config).array == "5,10%2"


def test_the_index_of_a_job():
    assert elements.index_of({"SLURM_ARRAY_TASK_ID": "3"}) == 3
    with pytest.raises(errors.UsageError, match=r"this script is of an array. Give it to sbatch$"):
        elements.index_of({})
