"""The report of a run: what is on it, and that it fetches nothing."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import xml.etree.ElementTree as ElementTree

import pytest

from pipeline.pages import document
from pipeline.reports import facts, goodput, page, processes
from pipeline.runs import accounts, history, run_folder, run_record
from pipeline.runs.server_loads import ServerLoad
from tests.pipeline.reports import scene


def _page(run):
    return page.render(facts.gather(run, now=scene.BEGAN + 200))


def test_every_part_is_there(tmp_path):
    text = _page(scene.make(tmp_path))
    headings = re.findall("<h2>(.*?)</h2>", text)
    assert headings == [
        "Result",
        "Curves",
        "Processes",
        "Goodput",
        "Timeline",
        "Ledger",
        "Config",
        "Versions and machines",
    ]
    assert "<td>accuracy</td><td class=right>0.90000</td>" in text
    assert "goodput<b>40%</b>" in text and "100.0%" in text
    assert "killed by SIGKILL &lt;&amp;&gt;" in text and "<&>" not in text
    assert "make evaluate RUN=r" in text and "host-a" in text
    assert "steps: 200" in text and "57,000" in text


def test_records_whose_gradients_may_be_dropped_are_not_reported_as_trained_on(tmp_path):
    note = "How often records have trained the model, by the newest checkpoint.<"
    assert note in _page(scene.make(tmp_path))
    sync = "cluster={strategy: parameter_server_sync, workers: 2, backup_workers: 1}"
    text = _page(scene.make(tmp_path, "dropping", sync))
    assert "have trained the model" not in text
    assert "How often records were handed out" in text
    assert "Late gradients were dropped (cluster.backup_workers=1)." in text


def test_the_time_is_that_of_all_launches(tmp_path):
    run = scene.make(tmp_path)
    record = run_record.read(run)
    first = run_record.Launch(
        started=scene.BEGAN - 500, ended=scene.BEGAN - 470, topology=record.topology
    )
    run_record.write(run, record.model_copy(update={"earlier": [first], "launches": 2}))
    text = _page(run)
    assert "time<b>2 min 10 s</b>" in text
    assert text.index("launch 1 began") < text.index("launch 2 began")


def test_a_split_has_one_color_in_all_plots(tmp_path):
    text = _page(scene.make(tmp_path))
    found = re.findall(r'<span style="color:([^"]+)">&#9632;</span> (train|eval)\b', text)
    assert {name for _, name in found} == {"train", "eval"} and len(found) > 2
    assert len(set(found)) == 2


def test_a_result_that_is_no_better_than_a_constant_answer_is_reported(tmp_path):
    found = facts.gather(scene.make(tmp_path), now=scene.BEGAN + 200)
    assert "no better than the baseline" not in page.render(found)
    found.record.baselines = {"eval": {"accuracy": 0.9}}
    assert "eval accuracy 0.9000 is no better than the baseline 0.9000" in page.render(found)
    surely = {"value": 0.9, "low": 0.85, "high": 0.95, "few": False}
    row = {"slice": "all", "records": 99, "metrics": {"accuracy": surely}}
    for simple, told in ((0.9, True), (0.89, False)):
        slices = {"eval": [{**row, "baseline": {"accuracy": simple}}]}
        text = page.render(dataclasses.replace(found, slices=slices))
        assert ("no better than the baseline" in text) is told


def test_each_process_has_a_bar_of_where_its_time_went(tmp_path):
    text = _page(scene.make(tmp_path))
    figure = text[text.index("Where the time of each process went") :].partition("</figure>")[0]
    rows = re.findall(r"<tr><td>([a-z]+-\d)</td>.*?</tr>", figure)
    assert rows == ["chief-0", "worker-0"]
    chief, worker = figure.split("<tr><td>")[1:]
    assert "<title>saving 2.0%</title>" in chief and "<title>recovery" in worker
    assert "start-up" in chief and "input 10%" in chief.partition("</svg>")[2]


def test_what_a_step_asks_of_each_server_is_shown_with_its_share_of_the_mean(tmp_path):
    run = scene.make(tmp_path)
    assert "<h2>Servers</h2>" not in _page(run)
    # While it runs only the processes know.
    status = run_folder.read_statuses(run)["chief-0"]
    asked = [{"rows": 300.0, "bytes": 60_000.0}, {"rows": 100.0, "bytes": 60_000.0}]
    run_folder.write_status(run, dataclasses.replace(status, servers=asked))
    shown = [("ps-0", "300", "150%", "60.0", "100%"), ("ps-1", "100", "50%", "60.0", "100%")]
    assert _servers(_page(run)) == shown
    record = run_record.read(run)
    record.servers = {"ps-0": ServerLoad(rows=0, bytes=2000), "ps-1": ServerLoad(rows=0, bytes=0)}
    run_record.write(run, record)
    # Without tables there are no rows to ask for.
    assert _servers(_page(run)) == [("ps-0", "2.0", "200%"), ("ps-1", "0.0", "0%")]
    assert ">rows</th>" not in _page(run) and "rows of tables" not in _page(run)


def _servers(text):
    part = text.partition("<h2>Servers</h2>")[2].partition("</section>")[0]
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in part.split("<tr>")]
    return [tuple(filter(None, row)) for row in rows if row]


def test_a_process_of_which_there_is_one_sample_is_drawn(tmp_path):
    run = scene.make(tmp_path)
    kept = history.read(run).model_dump()
    kept["samples"] = kept["samples"][:1]
    run.write(history.FILE_NAME, kept)
    figure = _page(run).partition("Throughput by process")[2].partition("</figure>")[0]
    assert figure.count("<circle") == 2


@pytest.mark.parametrize(
    ("resumed_at", "later", "pieces"),
    [
        (None, 0, [5]),
        (45, 0, [3, 2]),
        (110, 76, [3, 2]),  # after a pause
        (None, 76, [3, 2]),  # trains again, in the same launch
        (65, 10, [4, 1]),
    ],
)
def test_no_line_is_drawn_through_a_time_without_processes(tmp_path, resumed_at, later, pieces):
    """Of samples at 20, 30, 40, 50 and 60 s those of the second piece are so much later."""
    found = facts.gather(scene.make(tmp_path), now=scene.BEGAN + 200)
    for sample in found.history.samples[pieces[0] :]:
        sample.time += later
    if resumed_at is not None:
        (one,) = found.launches
        again = dataclasses.replace(one, began=scene.BEGAN + resumed_at)
        found.launches.append(again)
    figure = page.render(found).partition("Throughput by process")[2].partition("</figure>")[0]
    lines = re.findall('<path d="M([^"]*)" fill="none"', figure)
    assert [line.count("L") + 1 for line in lines] == 2 * pieces


def test_a_result_of_too_few_records_reports_it(tmp_path):
    found = facts.gather(scene.make(tmp_path), now=scene.BEGAN + 200)
    assert "too few" not in page.render(found)
    found.record.evaluated = {"eval": 4}
    text = page.render(found)
    assert "<td>accuracy</td><td class=right>0.90000 too few records: 4</td>" in text
    assert "best accuracy, too few records: 4<b>0.9000</b>" in text


def test_each_cause_has_a_color_of_its_own():
    assert len({*processes.CAUSE_COLORS}) == len(processes.CAUSE_COLORS) == len(goodput.WHAT) - 1


def test_it_fetches_nothing_and_is_well_formed(tmp_path):
    text = _page(scene.make(tmp_path))
    assert not re.search(r"https?:|<script|src=|url\(|@import", text)
    for chart in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(chart)
    assert "nan" not in text and "inf" not in re.sub("info|infer", "", text)


def test_only_what_is_there_is_linked(tmp_path):
    run = scene.make(tmp_path)
    assert 'href="evaluation.html"' not in _page(run)
    (pathlib.Path(run.path) / "evaluation.html").touch()
    assert 'href="evaluation.html"' in _page(run)


def test_machines_are_described(tmp_path):
    run = scene.make(tmp_path)
    machine = {"cores": 8, "memory": 16_000_000_000, "gpus": 2, "system": "Linux 6.1 x86_64"}
    status = run_folder.read_statuses(run)["chief-0"]
    run_folder.write_status(run, dataclasses.replace(status, machine=machine))
    assert "8 processors, 16.0 GB of memory, 2 GPUs, Linux 6.1 x86_64: chief-0" in _page(run)


@pytest.mark.parametrize("step", [200, 100])
def test_an_evaluation_brings_intervals_and_calibration(tmp_path, step):
    run = scene.make(tmp_path)
    assert "Calibration" not in _page(run)
    one = {"value": 0.9, "low": 0.85, "high": 0.95, "few": False}
    row = {"slice": "all", "records": 99, "metrics": {"accuracy": one}, "baseline": {}}
    run.write("evaluation.json", [{"step": step, "split": "eval", "slices": [row]}])
    plots = document.figures(
        document.figure("ROC", "curve"), document.figure("Calibration", "bars")
    )
    drawn = document.document("E", "", [document.section(f"step {step}, eval", plots)])
    (pathlib.Path(run.path) / "evaluation.html").write_text(drawn)
    text = _page(run)
    assert "<h2>Calibration</h2>" in text
    assert f"<figcaption>step {step}, eval</figcaption>bars</figure>" in text
    # Those of another step are not of the result.
    assert ("[0.85" in text) is (step == 200) and "curve" not in text


def test_a_run_that_failed_before_its_first_step(tmp_path):
    run = scene.make(tmp_path)
    for path in pathlib.Path(run.path).glob("*/events*"):
        path.unlink()
    kept = [f"{accounts.FOLDER}/{path.name}" for path in pathlib.Path(run.path, "time").iterdir()]
    for name in ("history.json", "status/chief-0.json", *kept, *_events(run)):
        (pathlib.Path(run.path) / name).unlink()
    record = run_record.read(run)
    record.status, record.reason = "failed", "the port is taken. Wait for it."
    record.metrics, record.seconds, record.input = {}, {"total": 3.0}, None
    record.restarts, record.step_seconds, record.best, record.final_step = [], {}, None, None
    run_record.write(run, record)
    text = _page(run)
    assert "the port is taken. Wait for it. <" in text and "no final evaluation yet" in text
    assert "Goodput" not in text and "Curves" not in text


def _events(run):
    return [path.name for path in pathlib.Path(run.path).glob("events*")]


def test_values_that_are_no_numbers_are_left_out_of_curves(tmp_path):
    run = scene.make(tmp_path)
    from tests.pipeline.reports import event_files

    event_files.write(
        pathlib.Path(run.path),
        event_files.scalar(scene.BEGAN + 90, 210, loss=float("nan")),
        name="2.h",
    )
    assert "nan" not in _page(run)


def test_a_curve_without_any_number_is_left_out(tmp_path):
    run = scene.make(tmp_path)
    from tests.pipeline.reports import event_files

    nothing = event_files.scalar(scene.BEGAN + 85, 200, loss=0.3, accuracy=float("nan"))
    event_files.write(pathlib.Path(run.path) / "eval_eval", nothing)
    text = _page(run)
    assert "<figcaption>loss<" in text and "<figcaption>accuracy<" not in text


def test_long_runs_have_small_pages(tmp_path):
    run = scene.make(tmp_path)
    from tests.pipeline.reports import event_files

    many = (event_files.scalar(scene.BEGAN + 90 + n, 300 + n, loss=1.0) for n in range(20_000))
    event_files.write(pathlib.Path(run.path), *many, name="2.h")
    assert len(_page(run)) < 100_000


def test_the_result_has_intervals_or_says_why_not(tmp_path):
    run = scene.make(tmp_path)
    record = run_record.read(run)
    record.metrics["eval"] |= {"auc": 1.0, "average_loss": 0.25, "rmse": 0.5}
    remark = "few records carry this error: the interval may be too narrow"
    record.intervals = {
        "eval": {
            "accuracy": [0.85, 0.95],
            "auc": "too few groups: 5, of 300 records",
            "average_loss": "unknown: all alike",
            "loss": "in <units> of its own",
            "rmse": [0.4, 0.6, remark],
        }
    }
    record.best["interval"] = [0.85, 0.95]
    run_record.write(run, record)
    text = _page(run)
    assert ">0.90000 [0.8500, 0.9500]</td>" in text
    assert ">1.00000 too few groups: 5, of 300 records</td>" in text
    assert f">0.50000 [0.4000, 0.6000], {remark}</td>" in text
    assert ">0.25000 unknown: all alike</td>" in text and ">0.30000</td>" in text
    assert "In brackets: 95 % intervals. No interval: loss (in &lt;units&gt; of its own)." in text
    assert "best accuracy [0.8500, 0.9500]<b>0.9000</b>" in text
    assert "make evaluate" not in text


def test_intervals_of_groups_say_what_is_independent(tmp_path):
    run = scene.make(tmp_path)
    record = run_record.read(run)
    record.intervals = {"eval": {"accuracy": [0.85, 0.95]}}
    run_record.write(run, record)
    found = facts.gather(run, now=scene.BEGAN + 200)
    assert "95 % intervals.<" in page.render(found)
    by_user = found.job.model_copy(
        update={"eval": found.job.eval.model_copy(update={"group": "user"})}
    )
    text = page.render(dataclasses.replace(found, job=by_user))
    assert "In brackets: 95 % intervals, for which groups by user are independent." in text
