import dataclasses
import functools
import io
import json
import re
import sys

import pytest

from pipeline.console import terminal
from pipeline.console.progress import Progress
from pipeline.jobs import display, job
from pipeline.jobs.display import Display
from pipeline.runs.run_folder import Status
from pipeline.runs.run_record import LauncherProcess, Restart, RunRecord
from tests.pipeline import terminals


class Clock:
    """A clock that moves on by ten seconds whenever it is asked."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 10.0
        return self.now


@pytest.fixture
def stream():
    return io.StringIO()


@pytest.fixture
def shown(stream):
    def progress(*args, **options):
        return Progress(*args, **options, clock=Clock())

    with Display(100, stream=stream, progress=progress) as started:
        yield started


def status(task, **values):
    state, time = values.pop("state", "training"), values.pop("time", 1.0)
    return {task: Status(task, 1, "h", state, time, **values)}


def test_without_a_terminal_there_is_a_plain_line_now_and_then(shown, stream):
    shown.show(status("chief-0", step=0))
    shown.show(status("chief-0", step=1))
    shown.show(status("chief-0", step=2, examples_per_second=900.0))
    both = {
        **status("chief-0", step=40, loss=0.5, examples_per_second=1000.0, time=2.0),
        **status("worker-0", step=41, loss=0.25, examples_per_second=500.0, time=3.0),
        **status("ps-0"),
    }
    shown.show(both)
    assert stream.getvalue().splitlines()[-1].startswith("training: 41 of 100 steps, ")
    assert stream.getvalue().endswith(" left, loss 0.2500, 1,500 examples/s\n")


def test_a_note_is_shown_once_what_is_added_too(shown, stream):
    for note in ("one; two", "one; two", "one; two; three"):
        shown.show(status("chief-0", note=note))
    assert stream.getvalue().splitlines() == ["chief-0: one; two", "chief-0: three"]


def test_a_process_that_evaluates_between_steps_is_shown_to_do_so(shown, stream):
    """A loss and a rate of minutes ago would say that it trains, and slower every time."""
    shown.show(status("chief-0", step=0))
    shown.show(status("chief-0", step=1))
    old = {"step": 40, "loss": 0.5, "examples_per_second": 1000.0, "time": 2.0}
    work = {"what": "checking the exported model", "done": 0, "total": None}
    one = status("chief-0", **old)["chief-0"]
    shown.show({"chief-0": dataclasses.replace(one, state="exporting", work=work)})
    line = stream.getvalue().splitlines()[-1]
    assert line.startswith("training: 40 of 100 steps, ")
    assert line.endswith(" left, exporting, checking the exported model")


def test_a_run_without_progress_has_no_time_left(stream):
    """It would grow for as long as the run stands still."""
    now = [0.0]

    def progress(*args, **options):
        return Progress(*args, **options, clock=lambda: now[0])

    options = {"stall_seconds": 120.0, "clock": lambda: now[0]}
    with Display(100, stream=stream, progress=progress, **options) as shown:
        for seconds, step in ((0, 0), (60, 1), (10, 41), (119, 41), (60, 41), (60, 42)):
            now[0] += seconds
            shown.show(status("chief-0", step=step, loss=0.5))
    assert stream.getvalue().splitlines() == [
        "training: 1 of 100 steps, loss 0.5000",
        "training: 41 of 100 steps, 4.0/s, 15 s left, loss 0.5000",
        "training: 41 of 100 steps, 0.3/s, 3 min 10 s left, loss 0.5000",
        "training: 41 of 100 steps, no progress for 2 min 59 s",
        "training: 42 of 100 steps, 0.2/s, 5 min 52 s left, loss 0.5000",
    ]


def test_steps_per_second_are_of_the_steps_that_examples_per_second_are_of(stream):
    """Processes measure neither the first step, which they prepare, nor the one after it."""
    now = [0.0]

    def progress(*args, **options):
        return Progress(*args, **options, clock=lambda: now[0])

    with Display(100, stream=stream, progress=progress) as shown:
        for seconds, step, rate in ((0, 0, None), (60, 1, None), (10, 3, 64.0), (5, 23, 64.0)):
            now[0] += seconds
            shown.show(status("chief-0", step=step, loss=0.5, examples_per_second=rate))
    assert stream.getvalue().splitlines() == [
        "training: 1 of 100 steps, loss 0.5000",
        "training: 3 of 100 steps, loss 0.5000, 64 examples/s",
        "training: 23 of 100 steps, 4.0/s, 19 s left, loss 0.5000, 64 examples/s",
    ]


def test_each_evaluation_is_reported_once(shown, stream):
    evaluation = {"step": 50, "global_step": 50.0, "accuracy": 0.98765, "loss": 0.1}
    for _ in range(2):
        shown.show(status("evaluator-0", evaluation=evaluation))
    assert stream.getvalue() == "evaluation at step 50: accuracy 0.9877, loss 0.1000\n"


def test_each_epoch_that_ends_is_reported_once(shown, stream):
    for told in (None, [], ["epoch 0: all"], ["epoch 0: all"], ["epoch 0: all", "epoch 1: all"]):
        shown.show(status("chief-0", step=5, epochs=told))
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("epoch")]
    assert lines == ["epoch 0: all", "epoch 1: all"]


def test_training_that_ends_before_its_last_step_is_over(shown, stream):
    """Its bar would go on to count the time that seems to be left."""
    shown.show({**status("chief-0", step=40), **status("worker-0", step=41)})
    shown.show({**status("chief-0", step=42, state="done"), **status("worker-0", step=41)})
    (line,) = [text for text in stream.getvalue().splitlines() if "made" in text]
    assert line == "training: 42 steps made; final evaluation and export"


def test_the_end_of_training_is_reported_once(shown, stream):
    shown.show(status("chief-0", step=90))
    for _ in range(2):
        shown.show(status("chief-0", step=101))
    (line,) = [text for text in stream.getvalue().splitlines() if "made" in text]
    assert line == "training: all 100 steps made; final evaluation and export"


def test_the_time_in_a_queue_is_not_part_of_the_rate(stream):
    clock = Clock()
    options = {"stream": stream, "progress": functools.partial(Progress, clock=clock)}
    with Display(100, **options) as shown:
        for step in (0, 1, 41):
            shown.show(status("chief-0", step=step))
        shown.pause()
        clock.now += 10_000.0
        for step in (41, 42, 82):
            shown.show(status("chief-0", step=step))
    before, after = re.findall(r"training: \d+ of 100 steps, (\S+)/s", stream.getvalue())
    assert before == after != "0"


def test_the_time_until_the_first_step_is_not_part_of_the_rate(stream):
    """Graphs that take minutes to build would make it seem to be hours until the end."""
    now = [0.0]
    options = {"stream": stream, "progress": functools.partial(Progress, clock=lambda: now[0])}
    with Display(1000, **options) as shown:
        for seconds, step in ((0, 0), (300, 0), (60, 10), (10, 110)):
            now[0] += seconds
            shown.show(status("chief-0", step=step))
    assert stream.getvalue().splitlines() == [
        "training: 0 of 1,000 steps",
        "training: 10 of 1,000 steps",
        "training: 110 of 1,000 steps, 10/s, 1 min 29 s left",
    ]


def test_the_global_step_may_fall_back(shown, stream):
    for step in (0, 50, 30):
        shown.show(status("chief-0", step=step))
    assert "training: 30 of 100 steps" in stream.getvalue()


def test_epochs_that_end_alike_share_lines(shown, stream):
    told = [f"epoch {number}: 60 of 60 records applied once" for number in range(100)]
    for number in range(100):
        shown.show(status("chief-0", step=5, epochs=told[: number + 1]))
    shown.show(status("chief-0", step=100, epochs=told))
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("epoch")]
    assert len(lines) == 9
    assert lines[-1] == "epochs 96 to 99, each: 60 of 60 records applied once"


PROGRAM = """
from pipeline.jobs.display import Display
from pipeline.runs.run_folder import Status
def status(step, **values):
    return {"chief-0": Status("chief-0", 1, "h", "training", 1.0, step=step, **values)}
with Display(1500) as shown:
    shown.show(status(10, loss=0.123456789, examples_per_second=1574.3))
    shown.show_line("worker-0: killed")
"""


@pytest.mark.parametrize("columns", [0, 40, 80, 120])
def test_on_a_terminal_there_is_a_bar_and_lines_go_above_it(columns):
    screen = terminals.run([sys.executable, "-c", PROGRAM], columns=columns)
    (bar,), *_, redrawn, end = screen.frames()
    assert bar.startswith("training   1% ") and "10/1,500" in bar
    assert ("loss 0.1235" in bar) == (columns != 40)
    assert len(bar) < (columns or 80)
    assert redrawn == ["worker-0: killed", bar]
    assert end == ["worker-0: killed", ""]


@pytest.fixture
def wanted(tmp_path):
    return job.plan("mnist", [], run="r1", storage_root=str(tmp_path))


@pytest.fixture
def record(tmp_path):
    return RunRecord(
        status="done",
        reason="all steps made",
        config="mnist",
        strategy="parameter_server",
        topology={"chief": 1},
        launcher=LauncherProcess(host="h", pid=1),
        final_step=1501,
        metrics={
            "eval": {"accuracy": 0.99, "average_loss": 0.03, "global_step": 1501.0},
            "test": {"accuracy": 0.9912},
        },
        best={"metric": "accuracy", "value": 0.9905, "step": 1200, "export": "x"},
        exports={"final": "export/final/1501", "best": None},
        seconds={"total": 103.0, "to_first_step": 12.0, "training": 75.0, "evaluation": 16.0},
        examples_per_second=2345.6,
    )


def test_the_summary_says_result_time_places_and_what_to_try(wanted, record, tmp_path):
    text = display.summary(wanted, record)
    lines = text.splitlines()
    assert lines[0] == (
        "result   step 1501, test accuracy 0.9912, eval accuracy 0.9900, "
        "eval average_loss 0.0300, best accuracy 0.9905 at step 1200"
    )
    assert lines[1] == (
        "time     1 min 43 s: 12 s to the first step, 1 min 15 s training, "
        "16 s final evaluation and export; 2,346 examples/s"
    )
    assert f"logs     {tmp_path}/runs/r1/logs" in lines
    assert f"export   {tmp_path}/runs/r1/export/final/1501 (final)" in lines
    assert not any("best)" in line for line in lines)
    for command in ("make predict RUN=r1", "make tensorboard", "make train STRATEGY=none"):
        assert f"{command} STORAGE={tmp_path}" in text
    assert "EXPORT=best" not in text


@pytest.mark.parametrize(("last", "is_named"), [(1501, True), (1200, False)])
def test_the_summary_names_the_command_for_a_better_model(wanted, record, tmp_path, last, is_named):
    exports = {"final": f"export/final/{last}", "best": "export/best/1200"}
    record = record.model_copy(update={"exports": exports, "final_step": last})
    text = display.summary(wanted, record)
    command = f"make predict RUN=r1 STORAGE={tmp_path} EXPORT=best"
    assert (command in text) is ("those of step 1200, the best on eval" in text) is is_named


def test_the_result_is_next_to_what_a_constant_answer_reaches(wanted, record):
    better = {"test": {"accuracy": 0.1135, "auc": 0.5}, "eval": {"accuracy": 0.125}}
    text = display.summary(wanted, record.model_copy(update={"baselines": better}))
    assert text.splitlines()[0] == (
        "result   step 1501, test accuracy 0.9912 (baseline 0.1135), eval accuracy 0.9900 "
        "(baseline 0.1250), eval average_loss 0.0300, best accuracy 0.9905 at step 1200"
    )


def test_a_result_of_too_few_records_reports_it(wanted, record):
    given = {
        "metrics": {"eval": {"auc": 1.0, "accuracy": 0.9}, "test": {"auc": 1.0, "label/mean": 0.1}},
        "baselines": {"eval": {"auc": 0.5}},
        "evaluated": {"eval": 4, "test": 40},
        "best": {"metric": "auc", "value": 1.0, "step": 1200, "export": "x"},
    }
    text = " ".join(display.summary(wanted, record.model_copy(update=given)).split())
    assert text.startswith(
        "result step 1501, test auc 1.0000 (too few records: 4 of one label), "
        "eval auc 1.0000 (baseline 0.5000, too few records: 4), "
        "eval accuracy 0.9000 (too few records: 4), "
        "best auc 1.0000 at step 1200 (too few records: 4)"
    )


def test_a_result_that_is_no_better_than_a_constant_answer_is_a_warning(wanted, record):
    for simple, warned in ((0.9912, True), (0.9911, False)):
        told = record.model_copy(update={"baselines": {"test": {"accuracy": simple}}})
        lines = display.summary(wanted, told).splitlines()
        assert lines[1].startswith("warning  test accuracy 0.9912 is no better than") is warned
        assert any(line.startswith("warning") for line in lines) is warned


def test_of_losses_that_of_all_records_is_shown(wanted, record):
    """The other is the mean of batches: in eval one of 500 records and one of 2."""
    classes = {
        "metrics": {
            "eval": {"accuracy": 0.8, "average_loss": 0.5277, "loss": 0.3897},
            "test": {"accuracy": 0.7, "loss": 44.5},  # of a model_fn of the user's own
        },
        "best": {"metric": "accuracy", "value": 0.8, "step": 240, "export": "x"},
    }
    text = display.summary(wanted, record.model_copy(update=classes))
    assert text.splitlines()[0] == (
        "result   step 1501, test accuracy 0.7000, test loss 44.5000, eval accuracy 0.8000, "
        "eval average_loss 0.5277, best accuracy 0.8000 at step 240"
    )
    classes["best"] = {"metric": "loss", "value": 0.3, "step": 240, "export": "x"}
    text = display.summary(wanted, record.model_copy(update=classes))
    assert "eval average_loss 0.5277, eval loss 0.3897, best loss 0.3" in text


def test_what_to_try_is_of_this_job_and_can_be_typed(wanted, record, tmp_path):
    root = f"{tmp_path}/my output"
    flights = job.plan("flights", [], run="r1", storage_root=root)
    text = display.summary(flights, record)
    assert f"make train STRATEGY=none CONFIG=flights STORAGE='{root}'" in text
    own = job.plan("flights", ["name=ours"], run="r1", storage_root=root)
    text = display.summary(own, record)
    assert f"make predict RUN=r1 STORAGE='{root}'" in text and "make train" not in text


def test_a_changed_setting_is_not_left_out_of_the_same_job(record, tmp_path):
    for given, same in (["cluster.workers=2"], True), (["train.batch_size=64"], False):
        one = job.plan("mnist", given, run="r1", storage_root=str(tmp_path))
        assert ("make train STRATEGY=none" in display.summary(one, record)) is same


@pytest.mark.parametrize("columns", [79, 200])
def test_each_command_to_try_is_in_one_line(wanted, record, monkeypatch, columns):
    """Broken lines cannot be copied."""
    monkeypatch.setattr(terminal, "width", lambda stream: columns)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    wanted = dataclasses.replace(wanted, storage_root="/data/of the team")
    lines = [line[9:] for line in display.summary(wanted, record).splitlines()]
    (at,) = (n for n, line in enumerate(lines) if line.startswith("make predict"))
    command = "make predict RUN=r1 STORAGE='/data/of the team'"
    if columns == 79:
        assert lines[at] == command
        assert lines[at + 1].strip() == "predictions of the exported model on the test split"
    else:
        assert lines[at].startswith(f"{command}  ") and lines[at].endswith("the test split")


def test_where_nothing_was_trained_only_the_whole_time_is_reported(wanted, record):
    record.seconds, record.examples_per_second = {"total": 6.0}, None
    assert "time     6 s" in display.summary(wanted, record).splitlines()


def test_restarts_are_reported(wanted, record):
    record.restarts = [Restart(role="ps", index=0, cause="killed by SIGKILL")]
    assert "restarts ps-0 (killed by SIGKILL)" in display.summary(wanted, record).splitlines()


def test_paths_below_the_current_folder_are_shown_relative_to_it(tmp_path, monkeypatch, record):
    monkeypatch.chdir(tmp_path)
    text = display.summary(job.plan("mnist", [], run="r1", storage_root="output"), record)
    assert "run      output/runs/r1 (run.json" in text
    assert "STORAGE=" not in text


def test_the_summary_warns_of_records_that_were_left_out(wanted, record):
    assert "warning" not in display.summary(wanted, record)
    counts = {"train": {"unreadable": 256}, "eval": {"repaired": 9}}
    text = display.summary(wanted, record.model_copy(update={"left_out": counts}))
    warnings = [line for line in text.splitlines() if line.startswith("warning  ")]
    assert warnings[0].startswith("warning  256 records of split train are left out: unreadable")
    assert warnings[1].startswith("warning  9 records of split eval are left out: their shards")


def test_the_introduction_says_what_starts(wanted):
    text = display.introduction(wanted, resumes=False)
    assert text == (
        f"starting run r1 in {wanted.run.path}: "
        "parameter_server with 1 chief, 1 worker, 1 ps, 1 evaluator\n"
        "each step: 128 examples, learning rate 0.001"
    )
    assert display.introduction(wanted, resumes=True).startswith("resuming run r1")


def test_a_record_of_a_run_without_metrics_can_be_shown(wanted, record):
    bare = record.model_copy(update={"metrics": {}, "best": None, "seconds": {}, "exports": {}})
    assert display.summary(wanted, bare).startswith("result   step 1501\n")
    assert json.loads(bare.model_dump_json())["final_step"] == 1501


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ([], "each step: 128 examples, learning rate 0.001"),
        (
            ["cluster={strategy: mirrored, replicas: 4}", "train.optimizer.scale=sqrt"],
            "each step: 4 replicas of 128: 512 examples, learning rate 0.002 (0.001, scaled sqrt)",
        ),
        (
            ["cluster={strategy: multi_worker_mirrored}", "train.batch_size_is=global"],
            "each step: 2 replicas of 64: 128 examples, learning rate 0.001",
        ),
    ],
)
def test_what_a_step_comes_to_is_reported_at_the_start(tmp_path, overrides, line):
    wanted = job.plan("mnist", overrides, run="r1", storage_root=str(tmp_path))
    first, second = display.introduction(wanted, resumes=False).splitlines()
    assert first.startswith(f"starting run r1 in {tmp_path}/runs/r1: ")
    assert second == line


def test_the_number_of_steps_may_be_the_chiefs_to_say(stream):
    """It follows from the checkpoint how many steps the epochs of a run come to."""
    with Display(None, stream=stream) as shown:
        shown.show(status("chief-0"))
        shown.show(status("chief-0", step=0, max_steps=534))
        shown.show(status("chief-0", step=534, max_steps=534))
    assert "training: all 534 steps made; final evaluation and export" in stream.getvalue()


def test_of_a_script_steps_are_shown_without_an_end_and_then_its_end(stream):
    def progress(*args, **options):
        return Progress(*args, **options, clock=Clock())

    with Display(None, stream=stream, progress=progress, is_script=True) as shown:
        for step in (0, 1, 40):
            shown.show(status("chief-0", step=step, loss=0.5))
        done = Status("chief-0", 1, "h", "done", 2.0, step=40, loss=0.5)
        for _ in range(2):
            shown.show({"chief-0": done})
    *_, line, end = stream.getvalue().splitlines()
    assert line.startswith("training: 40 steps, ") and line.endswith("/s, loss 0.5000")
    assert end == "training: 40 steps made; the script does the rest"


def test_the_result_says_that_few_records_carry_a_figure(wanted, record):
    remark = "few records carry this error: the interval may be too narrow"
    ends = [0.02, 0.04, remark]
    given = {
        "intervals": {"eval": {"average_loss": ends}, "test": {}},
        "baselines": {"eval": {"average_loss": 0.5}},
        "best": {**record.best, "interval": ends},
    }
    text = " ".join(display.summary(wanted, record.model_copy(update=given)).split())
    assert f"eval average_loss 0.0300 [0.0200, 0.0400] (baseline 0.5000, {remark})" in text
    assert f"[0.0200, 0.0400] at step 1200 ({remark})" in text


def test_the_result_has_intervals_and_counts_groups(wanted, record):
    few = "too few groups: 5, of 300 records"
    given = {
        "intervals": {
            "eval": {"accuracy": [0.981, 0.995], "average_loss": "unknown: all alike"},
            "test": {"accuracy": few},
        },
        "baselines": {"eval": {"accuracy": 0.125}, "test": {"accuracy": 0.25}},
        "evaluated": {"eval": 3000, "test": 300},
        "best": {**record.best, "interval": few},
    }
    text = display.summary(wanted, record.model_copy(update=given))
    assert " ".join(text.split()).startswith(
        f"result step 1501, test accuracy 0.9912 (baseline 0.2500, {few}), "
        "eval accuracy 0.9900 [0.9810, 0.9950] (baseline 0.1250), "
        "eval average_loss 0.0300 (unknown: all alike), "
        f"best accuracy 0.9905 at step 1200 ({few})"
    )


_BEST = {"step": 5, "metric": "accuracy", "value": 0.5}


@pytest.mark.parametrize(
    ("metric", "best", "more"),
    [
        ("accuracy", None, ""),
        ("accuracy", _BEST, ""),
        ("loss", None, ""),
        (
            "loss",
            _BEST,
            ". Its best is by accuracy: another eval.metric counts when training continues",
        ),
    ],
)
def test_a_finished_run_has_the_best_by_the_metric_that_it_had(tmp_path, metric, best, more):
    root = str(tmp_path)
    wanted = job.plan("mnist", [f"eval.metric={metric}"], run="r", storage_root=root)
    record = RunRecord(
        status="done",
        reason="all steps",
        config="mnist",
        strategy="none",
        topology={"chief": 1},
        launcher=None,
        started=1.0,
        best=best,
    )
    said = display.describe_finished(wanted, record)
    assert said == f"run r is already finished; nothing to do{more}"
