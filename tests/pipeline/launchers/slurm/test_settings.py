"""What the `slurm:` section of a config may hold."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.config import config_file


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--array=1-2", "'--array=1-2' is not allowed: use slurm.array"),
        ("--arr 1-2", "'--arr 1-2' is not allowed: use slurm.array"),
        ("--ntasks=3", "'--ntasks=3' is not allowed: use cluster.workers and cluster.ps"),
        ("--nodes=3", "is not allowed: use slurm.nodes"),
        ("--signal=USR1", "is not allowed: use slurm.warn_seconds"),
        ("--output=/x", "is not allowed: make logs shows it"),
        ("--no-requeue", "is not allowed: use slurm.requeue"),
        ("--job-name=x", "is not allowed: use RUN="),
        ("--wait", "is not allowed: the command follows the job"),
        ("--exclusive -a 1-2", "must be one option; give each an item of its own"),
        ("--exclusive --array=1-2", "must be one option; give each an item of its own"),
        ("--comment='a", "No closing quotation"),
    ],
)
def test_options_that_would_make_another_job_are_refused(option, words):
    with pytest.raises(errors.UsageError, match=r"slurm\.options: ") as caught:
        config_file.load("mnist", [f'slurm.options=["{option}"]'])
    assert words in str(caught.value)


def test_other_options_are_left_to_the_user():
    options = ("--exclusive", "--nodelist n7", "--mem=0", "--gres=gpu:1", "--dependency=singleton")
    found = config_file.load("mnist", [f"slurm.options=[{', '.join(options)}]"])
    assert found.slurm.options == options


@pytest.mark.parametrize(
    ("array", "indexes"),
    [
        ("0-4%2", [0, 1, 2, 3, 4]),
        ("7,1-2,2", [1, 2, 7]),
        ("'3'", [3]),
        ('"3"', [3]),
        ("0-10:5", [0, 5, 10]),
        ("1-8:3%2", [1, 4, 7]),
        ("0-4:2,9", [0, 2, 4, 9]),
        ("null", []),
    ],
)
def test_indexes_of_an_array(array, indexes):
    assert config_file.load("mnist", [f"slurm.array={array}"]).slurm.indexes == indexes


@pytest.mark.parametrize(
    ("array", "words"),
    [
        ("5", "got 5: must be a text; '5' is one run, 0-4 are five runs"),
        ("0-3:", "got {'0-3': None}: must be a text such as 0-4%2, or 0-10:5 for every fifth"),
        ("[0, 1]", "got [0, 1]: must be a text such as 0-4%2"),
        ("4-0", "'4-0': must not end before it begins"),
        ("4-0:2", "'4-0:2': must not end before it begins"),
        ("0-9:0", "must look like '0-4%2', got '0-9:0'"),
        ("3:2", "must look like '0-4%2', got '3:2'"),
        ("0-4%0", "must look like '0-4%2'"),
        ("0-500", "'0-500': 501 runs; must be at most 500"),
    ],
)
def test_other_indexes_are_refused(array, words):
    with pytest.raises(errors.UsageError, match=r"slurm\.array: ") as caught:
        config_file.load("mnist", [f"slurm.array={array}"])
    assert words in str(caught.value)


def test_a_time_limit_needs_no_quotes():
    assert config_file.load("mnist", ["slurm.time=12:00:00"]).slurm.time == "12:00:00"


@pytest.mark.parametrize("time", ["00:03:00", "00:01:00"])
def test_a_time_limit_that_ends_before_its_warning_is_refused(time):
    words = rf"slurm: warn_seconds=180: must be less than time={time}, which is (180|60) s; else"
    with pytest.raises(errors.UsageError, match=words):
        config_file.load("mnist", [f"slurm.time={time}"])


@pytest.mark.parametrize("time", ["00:03:01", "1-00:00:00", "00:00:00"])
def test_a_time_limit_after_its_warning(time):
    assert config_file.load("mnist", [f"slurm.time={time}"]).slurm.time == time
