"""The page beside an exported model."""

from __future__ import annotations

import dataclasses

import pytest

from pipeline.steps import categories, numbers
from tests.trainer import small_table
from trainer.export import model_card
from trainer.metrics import intervals, slice_metrics

METRICS = {"eval": {"accuracy": 0.75, "global_step": 20}, "test": {"accuracy": 0.5, "loss": 0.1}}


@pytest.fixture
def card(tmp_path):
    def render(*overrides, **others):
        table = small_table.Table(tmp_path, *overrides, **others)
        plan = table.records.transforms.plan
        return table, model_card.render(
            table.job, table.contents, plan, step=20, metrics=METRICS, intervals={}, results={}
        )

    return render


def test_it_says_what_is_known(card):
    table, text = card()
    assert text.startswith("# table, step 20\n\n`linear`, trained for 20 steps of batches of 20")
    assert "Records: 200 train, 100 eval." in text
    assert table.contents.sha256 in text
    assert "| `late` | int64 |  | label |" in text
    assert "| `unused` | string |  | not used |" in text
    assert "| `size` | float32 [2] |  | size |" in text
    steps = "`missing {fill: 0, indicator: True}`, `z_score {mean: 600, deviation: 300}`"
    assert f"| dep time | dep time | {steps} |" in text
    assert "| split | accuracy | loss |" in text
    assert "| eval | 0.75000 |  |" in text
    assert "`day` 1 to 31" in text
    assert "no test split" in text
    assert "## Metrics by slice\n\nNone: `eval.slices` names no column." in text


@pytest.mark.parametrize(
    ("step", "filled", "told"),
    [
        (numbers.ZScore(), {"mean": 2 / 3, "deviation": 0.5}, "{mean: 0.666667, deviation: 0.5}"),
        (categories.Vocabulary(oov=2), {"values": tuple("ab")}, "{oov: 2, values: [a, b]}"),
        (
            categories.Vocabulary(),
            {"values": tuple("abcdefg")},
            "{values: [a, b, c, d, e, … 7 in all]}",
        ),
    ],
)
def test_what_statistics_filled_in_is_reported(tmp_path, step, filled, told):
    """And not the settings of the config, in which it is None."""
    table = small_table.Table(tmp_path)
    plan = table.records.transforms.plan
    first = dataclasses.replace(plan.features[0], steps=(step.model_copy(update=filled),))
    plan = dataclasses.replace(plan, features=(first,))
    text = model_card.render(
        table.job, table.contents, plan, step=20, metrics=METRICS, intervals={}, results={}
    )
    assert f"`{step.step} {told}` |" in text


def test_metrics_of_too_few_records_say_so(card, tmp_path):
    table, text = card()
    assert "| eval | 0.75000 |  |" in text
    splits = {
        name: of.model_copy(update={"records": 4}) for name, of in table.contents.splits.items()
    }
    few = table.contents.model_copy(update={"splits": splits})
    plan = table.records.transforms.plan
    text = model_card.render(
        table.job, few, plan, step=20, metrics=METRICS, intervals={}, results={}
    )
    assert "| eval | 0.75000 (too few records: 4) |  |" in text


def test_slices_are_in_a_table_with_their_baseline(tmp_path):
    table = small_table.Table(tmp_path)
    accuracy = intervals.MetricEstimate(0.75, 0.5, 0.9)
    row = slice_metrics.SliceRow("carrier=AA", 1200, {"accuracy": accuracy}, {"accuracy": 0.25})
    plan = table.records.transforms.plan
    results = {"test": slice_metrics.SliceResult([row], notes=("Only one label occurs in a=b.",))}
    text = model_card.render(
        table.job, table.contents, plan, step=20, metrics=METRICS, intervals={}, results=results
    )
    line = "| test | carrier=AA | 1,200 | accuracy | 0.7500 | [0.5000, 0.9000] | 0.2500 |"
    assert f"| --- |\n{line}\n\n- test: Only one label occurs in a=b.\n\n## Limits" in text


def test_what_is_wrong_with_its_data_comes_first_of_its_limits(tmp_path):
    table = small_table.Table(tmp_path)
    plan = table.records.transforms.plan
    text = model_card.render(
        table.job,
        table.contents,
        plan,
        step=20,
        metrics=METRICS,
        intervals={},
        results={},
        warnings=["9 are left out"],
    )
    assert "## Limits\n\n- 9 are left out\n- It was trained" in text


def test_sensitive_columns_are_named_and_nothing_of_them_is_shown(card):
    marked = small_table.CONFIG.replace(
        "carrier: {type: string,", "carrier: {type: string, sensitive: true,"
    )
    _, text = card(text=marked)
    assert "columns that are declared sensitive: `carrier`" in text


def test_a_line_break_or_bar_in_a_name_keeps_the_table_whole(card):
    broken = small_table.CONFIG.replace("unused:", '"un|us\\ned":')
    _, text = card(text=broken)
    assert "| `un\\|us ed` | string |  | not used |" in text


def test_metrics_have_their_intervals(tmp_path):
    table = small_table.Table(tmp_path)
    found = {
        "eval": {"accuracy": [0.7, 0.8]},
        "test": {"accuracy": "too few records: 7", "loss": "x"},
    }
    text = model_card.render(
        table.job,
        table.contents,
        table.records.transforms.plan,
        step=20,
        metrics=METRICS,
        intervals=found,
        results={},
    )
    assert "| eval | 0.75000 [0.7000, 0.8000] |  |" in text
    assert "| test | 0.50000 (too few records: 7) | 0.10000 |" in text
    assert "In brackets: 95 % intervals. No interval: loss (x)." in text


def test_columns_that_a_model_takes_as_they_are_have_their_own_names(tmp_path):
    table = small_table.Table(tmp_path)
    plan = dataclasses.replace(table.records.transforms.plan, features=())
    text = model_card.render(
        table.job, table.contents, plan, step=20, metrics=METRICS, intervals={}, results={}
    )
    assert "The columns as they are." in text
    assert "| `size` | float32 [2] |  | size |" in text
    assert "| `late` | int64 |  | label |" in text
    assert "| `unused` | string |  | not used |" in text
