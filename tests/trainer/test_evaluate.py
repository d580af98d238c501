"""The command that evaluates a checkpoint again."""

from __future__ import annotations

import json
import re
import shutil
import types

import pytest

from pipeline.runs import exported, run_search
from tests.trainer.commands import error_line
from trainer import evaluate
from trainer.metrics.slice_metrics import SliceResult
from trainer.reevaluation import CheckpointMetrics

EVALUATE = "trainer.evaluate"


def test_flags_are_a_contract(commands):
    listing = commands.run(EVALUATE, "--help")
    assert re.findall(r"^ +--(\w+): ", listing, re.MULTILINE) == [
        "checkpoint",
        "config",
        "group",
        "run",
        "slices",
        "split",
        "storage",
    ]


def test_it_prints_what_the_run_found(commands, finished, small_records):
    output = commands.run(EVALUATE, f"--storage={small_records.storage}", "--run=finished")
    # What is evaluated for long says how far it is, before the table.
    title, head, *rows = output[output.index("run finished") :].splitlines()
    rows, table = rows[: rows.index("")], rows[rows.index("") :]
    shown = [line for line in table if not line.startswith(("plots in ", "note: "))]
    assert max(map(len, [head, *rows, *shown])) <= 80
    assert title == "run finished, step 300"
    assert head.split() == ["metric", "eval", "test"]
    columns = list(zip(*map(str.split, rows), strict=True))
    names = columns[0]
    assert {"accuracy", "loss"} <= set(names)
    found = {
        split: dict(zip(names, column, strict=True))
        for split, column in zip(("eval", "test"), columns[1:], strict=True)
    }
    for split, metrics in finished.result["metrics"].items():
        for name in names:
            assert float(found[split][name]) == pytest.approx(metrics[name], abs=1e-5)
    of_test = next(line for line in table if line.split()[:3] == ["300", "test", "all"])
    content = json.loads((finished.path / "evaluation.json").read_text())
    assert [(one["step"], one["split"]) for one in content] == [(300, "eval"), (300, "test")]
    assert content[1]["metrics"] == pytest.approx(finished.result["metrics"]["test"])
    accuracy = finished.result["metrics"]["test"]["accuracy"]
    assert content[1]["slices"][0]["metrics"]["accuracy"]["value"] == pytest.approx(accuracy)
    assert of_test.split()[3:6] == ["500", "accuracy", f"{accuracy:.4f}"]


def test_slices_of_every_checkpoint(commands, finished, small_records):
    flags = ("--run=finished", "--split=test", "--slices=label", "--checkpoint=all")
    output = commands.run(EVALUATE, f"--storage={small_records.storage}", *flags)
    lines = [line.split() for line in output.splitlines()]
    steps = {line[0] for line in lines if line[1:3] == ["test", "label=7"]}
    assert {"200", "300"} <= steps
    page = finished.path / "evaluation.html"
    assert output.splitlines()[-1] == f"plots in {page}"
    assert "<h2>step 300, test</h2>" in page.read_text()
    assert "Most frequent confusions" in page.read_text()


def test_all_that_was_written_can_be_moved(commands, finished, small_records, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(small_records.storage / "records", moved / "records")
    shutil.copytree(finished.path, moved / "runs" / "elsewhere")
    commands.run(EVALUATE, f"--storage={moved}", "--run=elsewhere", "--split=eval")
    run = run_search.find_run(str(moved), None)
    for kind in exported.KINDS:
        export = exported.find(run, kind)
        assert export.path.startswith(f"{moved}/runs/elsewhere/export/{kind}/")
        export.verify()
    assert str(finished.path.parent) not in (moved / "runs/elsewhere/RESULT.json").read_text()


def test_a_run_without_a_checkpoint(commands, finished, small_records):
    finished.copy(finished.path.parent / "no-checkpoint")
    flags = (f"--storage={small_records.storage}", "--run=no-checkpoint")
    line = error_line(commands.run(EVALUATE, *flags, code=64))
    assert re.search("run 'no-checkpoint': has no checkpoint yet", line)


def test_an_unknown_run_names_the_nearest(commands, finished, small_records):
    flags = (f"--storage={small_records.storage}", "--run=finishedd")
    line = error_line(commands.run(EVALUATE, *flags, code=64))
    assert re.search(r"run 'finishedd': not in .* \(did you mean 'finished'\?\)", line)


def test_of_several_labels_each_has_its_own_part(capsys):
    """Metrics of the model are of all labels at once."""
    of_model = {
        "eval": {"loss": 0.5, "global_step": 60.0},
        "test": {"loss": 0.7, "global_step": 60.0},
    }
    judged = types.SimpleNamespace(
        format_table=lambda found: f"table of {', '.join(found)}",
        evaluate=lambda checkpoint: {
            split: CheckpointMetrics(
                metrics,
                {label: SliceResult([], notes=(label,)) for label in ("clicked", "time spent")},
            )
            for split, metrics in of_model.items()
        },
    )
    found, metrics = evaluate.look_at(judged, "model.ckpt-60")
    assert capsys.readouterr().out == "table of eval, test\n"
    assert evaluate.build_content(found, metrics) == [
        {
            "step": 60,
            "split": split,
            "label": label,
            "metrics": of_model[split],
            "slices": [],
            "notes": [label],
        }
        for split in ("eval", "test")
        for label in ("clicked", "time spent")
    ]


def test_a_single_label_is_not_named():
    (one,) = evaluate.build_content({"60 eval": SliceResult([])}, {"60 eval": {"loss": 0.5}})
    assert one == {"step": 60, "split": "eval", "metrics": {"loss": 0.5}, "slices": [], "notes": []}
