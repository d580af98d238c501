"""What the end of a disturbed run has to be, and that nothing of the user's is touched."""

from __future__ import annotations

import io
import pathlib
import random
import types

import pytest

from pipeline import errors
from pipeline.config import config_file
from pipeline.console import progress
from pipeline.faults import actions, experiment, metric_band, promises
from pipeline.faults.experiment import BaselineRun, Outcome
from pipeline.records import builds
from pipeline.runs import run_folder


def ended(value):
    return BaselineRun("run", 100, value, 10.0, whole=True)


@pytest.fixture
def job():
    return config_file.load("mnist", ["train.epochs=2", "train.steps=null"])


def judged(job, value, *first):
    """Returns what is wrong with the value, and how many undisturbed runs there were in the end;
    more than the first reach 0.91, 0.92, 0.93."""
    known, more = [ended(one) for one in first], iter((0.91, 0.92, 0.93))
    found = outcome(value=value, launches=1)
    experiment.check_metric(job, found, known, train=lambda of: known.append(ended(next(more))))
    return found.wrong, len(known)


def test_five_undisturbed_runs_decide_what_two_do_not_allow(job):
    """Also what three or four would allow meanwhile: their bands are so wide that all is right."""
    assert judged(job, 0.925, 0.90, 0.92) == ([], 2)
    assert judged(job, 0.95, 0.90, 0.92) == ([], 5)
    (line,), runs = judged(job, 0.80, 0.90, 0.92)
    assert (line.partition(",")[0], runs) == ("accuracy is 0.8000", 5)
    assert (
        metric_band.check_metric(metric_band.compute_band("accuracy", (0.90, 0.92, 0.91)), 0.80)
        == []
    )


def test_no_run_is_made_for_a_value_that_is_missing_or_of_a_run_that_was_lost(job):
    (line,), runs = judged(job, None, 0.90, 0.92)
    assert (line.partition(",")[0], runs) == ("accuracy is missing", 2)
    lost = outcome(value=None)
    assert experiment.check_metric(job, lost, [ended(0.9)], train=lambda of: None).runs == 1
    assert lost.wrong == []


def row(epoch, more=0, never=0, left=0):
    return {"epoch": epoch, "more": more, "never": never, "left": left}


def outcome(**values):
    return Outcome([], "run", [], **values)


def test_the_ledger_may_show_no_more_than_is_promised(job):
    fine = outcome(doubled=10, bound=10)
    assert experiment.check_ledger(job, fine, [row(0, more=10), row(1), row(2, left=500)]) == []
    assert experiment.check_ledger(job, outcome(doubled=11, bound=10), []) == [
        "11 records applied more than once, 10 allowed"
    ]
    assert experiment.check_ledger(job, outcome(missed=1, bound=10), []) == [
        "1 records never applied, 0 allowed"
    ]
    assert experiment.check_ledger(job, fine, [row(1, left=11)]) == [
        "11 records of the last epoch left, 10 allowed"
    ]


@pytest.mark.parametrize("mode", ["none", "parameter_server", "parameter_server_sync"])
@pytest.mark.parametrize(
    ("by_block", "by_process", "rightly"),
    [
        (0, 0, ("none", "parameter_server", "parameter_server_sync")),
        (-200, -200, ("parameter_server",)),  # updates that were not counted
        (-500, -500, ()),  # of these more than the bound
        (50, 0, ()),  # a position that passes over records
        (50, 50, ()),
        (-150, -150, ()),  # it hides behind updates that were not counted
        (-200, 50, ()),
        (100, 100, ()),  # a batch of records that no step has applied
    ],
)
def test_the_ledger_must_have_what_the_steps_have_applied(mode, by_block, by_process, rightly):
    cluster = [] if mode == "none" else ["cluster.workers=1"]
    size = ["train.batch_size=100", "train.batch_size_is=global"]
    job = config_file.load("mnist", [f"cluster.strategy={mode}", *size, *cluster])
    found = outcome(step=11, bound=400 if mode == "parameter_server" else 0)
    rows = [{"once": 1000 + by_block, "more": 30}, {"once": 40, "more": 0}]
    wrong = experiment.check_totals(job, found, rows, by_process=1100 + by_process)
    assert bool(wrong) == (mode not in rightly)
    assert found.uncounted == max(0, -by_block)
    if by_block == by_process == 50 and mode != "parameter_server":
        assert wrong == ["1,150 records applied by the ledger, but 11 steps apply 1,100"]


def test_gradients_that_were_dropped_count_in_the_ledger():
    backup = [f"cluster.{one}" for one in ("strategy=parameter_server_sync", "workers=2")]
    size = ["train.batch_size=100", "train.batch_size_is=global"]
    job = config_file.load("mnist", [*backup, "cluster.backup_workers=1", *size])
    assert promises.check_total(job, 11, 1450, most=0) == []
    assert promises.check_total(job, 11, 1050, most=0)


def test_updates_that_the_ledger_does_not_have_count_as_applied_again(job):
    found = outcome(doubled=1, uncounted=10, bound=10)
    assert experiment.check_ledger(job, found, []) == [
        "11 records applied more than once, 10 allowed"
    ]


def test_the_bound_is_zero_where_all_step_together():
    job = config_file.load("mnist", ["cluster.strategy=multi_worker_mirrored"])
    assert promises.bound(job, 3, [2, 2]) == 0
    job = config_file.load("mnist", ["cluster.workers=1", "train.batch_size=100"])
    assert promises.bound(job, 3, [2]) == 100 * (3 + 2 + 2)


def test_a_final_step_may_be_late_only_where_processes_step_alone():
    job = config_file.load("mnist", ["train.steps=100", "cluster.workers=1"])
    assert promises.check_step(job, 104) == []
    assert promises.check_step(job, 105) == ["final step 105, not 100 to 104"]
    job = config_file.load("mnist", ["train.steps=100", "cluster.strategy=none"])
    assert promises.check_step(job, 101) == ["final step 101, not 100"]


def test_a_shard_is_altered_in_the_private_copy_alone(small_records, tmp_path):
    """The user's records keep their bytes, whichever name they are reached by."""
    name, there = small_records.job.name, pathlib.Path(small_records.folder)
    before = {path: path.read_bytes() for path in there.rglob("*") if path.is_file()}
    for target in ("one", "two"):
        experiment.share_records(str(small_records.storage), str(tmp_path / target), name)
    copies = [
        pathlib.Path(builds.find_current(run_folder.records_folder(str(tmp_path / target), name)))
        for target in ("one", "two")
    ]
    shard = small_records.contents.split("train").shards[0].path
    assert (copies[0] / shard).samefile(there / shard)
    actions.alter(copies[0] / shard, random.Random(1))
    changed = (copies[0] / shard).read_bytes()
    whole = before[there / shard]
    assert sum(a != b for a, b in zip(changed, whole, strict=True)) == 1
    assert {path: path.read_bytes() for path in before} == before
    assert (copies[1] / shard).read_bytes() == whole
    actions.link(str(copies[1] / shard), str(copies[0] / shard))
    assert (copies[0] / shard).read_bytes() == whole


def test_records_can_be_shared_again(small_records, tmp_path):
    """Each `make chaos` shares them with the undisturbed runs, which share them with each seed."""
    name, there = small_records.job.name, pathlib.Path(small_records.folder)
    for source, target in [(small_records.storage, "a"), (small_records.storage, "a")] + [
        ("a", "b")
    ] * 2:
        experiment.share_records(str(tmp_path / source), str(tmp_path / target), name)
    for target in ("a", "b"):
        shared = pathlib.Path(run_folder.records_folder(str(tmp_path / target), name), there.name)
        assert {path.name for path in shared.iterdir()} == {path.name for path in there.iterdir()}


def test_undisturbed_runs_of_other_code_or_records_are_not_used_again(
    tmp_path, monkeypatch, capsys
):
    """They would say what is right for code that is to be compared with them."""
    (tmp_path / "own_hooks.py").write_text("FIRST = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    job = config_file.load("mnist", ["train.hooks=['own_hooks:Hook']"])
    asked = experiment.ChaosExperiment(job, [], tmp_path / "chaos", str(tmp_path / "storage"))
    run = asked.undisturbed / "runs" / "undisturbed-1"

    def is_kept():
        run.mkdir(parents=True, exist_ok=True)
        asked.prepare()
        return run.exists()

    asked.prepare()
    assert is_kept() and is_kept()
    (tmp_path / "own_hooks.py").write_text("FIRST = 2\n")
    assert not is_kept() and is_kept()
    assert "the code or the records have changed" in capsys.readouterr().out
    monkeypatch.setattr(builds, "find_current_name", lambda folder: "b2")
    monkeypatch.setattr(experiment, "share_records", lambda *given: None)
    assert not is_kept()


def test_without_records_there_is_nothing_to_share(tmp_path):
    experiment.share_records(str(tmp_path / "a"), str(tmp_path / "b"), "mnist")
    assert not (tmp_path / "b").exists()


def test_cut_training_has_as_many_checkpoints_as_the_whole(tmp_path):
    job = config_file.load("mnist", ["train.steps=3000", "train.save_steps=1000"])
    first = BaselineRun(str(tmp_path), 300, 0.9, 10.0, whole=False)
    assert experiment.cut_to(job, first) == [
        "train.steps=300",
        "train.epochs=null",
        "train.save_steps=100",
    ]


@pytest.mark.parametrize(
    ("codes", "code"),
    [([0], 70), ([75, 0], 75), ([65], 65), ([], 75)],  # [] if it hangs
)
def test_an_undisturbed_run_in_which_something_was_wrong_is_a_failure(
    tmp_path, monkeypatch, codes, code
):
    """Also if its launcher has ended well, such as one that processes outlive."""

    def follow(run, act, wrong):
        run.codes = codes
        wrong("processes outlive the launcher: [17]")

    monkeypatch.setattr(experiment.LaunchedRun, "start", lambda run: None)
    monkeypatch.setattr(experiment.launched, "follow", follow)
    job = config_file.load("mnist")
    asked = experiment.ChaosExperiment(job, [], tmp_path, str(tmp_path / "storage"))
    with pytest.raises(errors.PipelineError, match="processes outlive the launcher") as caught:
        experiment.train_baseline(asked, "undisturbed-1", [], label="undisturbed")
    assert caught.value.exit_code == code


def test_training_ends_by_the_fewer_seconds():
    assert experiment.length_within(config_file.load("mnist"), 300) == "train.max_seconds=300"
    job = config_file.load("mnist", ["train.max_seconds=20"])
    assert experiment.length_within(job, 300) == "train.max_seconds=20.0"


def test_training_that_seconds_end_shows_how_many_are_left():
    """The steps of the whole job would take hours, and are not made."""
    now, stream, run = [10.0], io.StringIO(), types.SimpleNamespace()
    shown = progress.Progress("undisturbed", unit="steps", stream=stream, clock=lambda: now[0])
    show = experiment.build_display(run, shown, 300.0, clock=lambda: now[0])
    for now[0], run.top_step in ((20.0, 0), (30.0, 5), (60.0, 5), (90.0, 90)):
        show()
    assert [line.rpartition(", ")[2] for line in stream.getvalue().splitlines()] == [
        "at most 5 min 0 s left",
        "at most 4 min 0 s left",
    ]
