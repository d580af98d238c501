"""A comparison as text and as a page."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ElementTree

import pytest

from pipeline import errors
from tests.trainer.comparison.compared import WORSE, change, result
from trainer.comparison import page
from trainer.comparison.paired import Difference
from trainer.comparison.result import ComparedSlice
from trainer.metrics.intervals import MetricEstimate

ALIKE = Difference(0.8, 0.7, MetricEstimate(-0.1, -0.1, -0.1, few=True, alike=True))


def test_the_table():
    lines = page.format_lines([result(WORSE)])
    assert lines[:4] == [
        "A: one, step 1,000",
        "B: two, step 20",
        "compared on 90 records of eval (the same content); 7 more are left out, because one of "
        "the two was trained on them",
        "a note",
    ]
    text = "\n".join(lines)
    assert f"  train.steps  5  {'6' * 59}…" in text
    assert re.search(r"  records of train +100, 20 only here +80, 0 only here", text)
    assert "versions: what differs: none" in text
    assert re.search(r"all +90  auc +0.8000  0.7000  -0.1000  \[-0.1500, -0.0500\]  worse\n", text)
    assert re.search(r"all +90  log_loss .* -0.1000 .* better\n", text)
    assert re.search(r"c=<A> +4  auc .* too few records\n", text)
    assert lines[-1] == "B is worse than A: auc -0.1000 [-0.1500, -0.0500]"


def test_a_metric_that_is_not_defined_on_so_few_records():
    parts = [ComparedSlice("all", 1, {"log_loss": WORSE})]
    few = dataclasses.replace(result(WORSE, metric=None), slices=parts, defined=("auc",))
    assert page.describe_verdict(few) == (
        "No verdict, there are too few records: 'auc' is not defined on these 1"
    )


def test_what_there_are_too_few_of():
    grouped = MetricEstimate(-0.1, -0.2, 0.1, few=True, units="groups: 4, of 90 records")
    found = result(Difference(0.8, 0.7, grouped))
    assert page.describe_verdict(found) == (
        "No verdict, there are too few groups: auc -0.1000 too few groups: 4, of 90 records"
    )
    assert page.render_page([found]).count("<td>too few groups: 4, of 90 records</td>") == 1
    none = dataclasses.replace(found, metric=None, wanted="ndcg@5", defined=("ndcg@5",))
    assert page.describe_verdict(none) == (
        "No verdict, there are too few groups with both labels: 'ndcg@5' is not defined on these "
        "90 records"
    )


def test_a_metric_that_there_is_not():
    other = result(WORSE, metric=None, wanted="mine")
    assert page.describe_verdict(other).startswith(
        "No verdict: 'mine' has no paired interval; name one of"
    )


@pytest.mark.parametrize(
    ("change", "higher", "words"),
    [
        (WORSE, False, "B is better than A: auc"),
        (WORSE, None, "B is different from A: auc"),
        (change(0.8, 0.7, 0.2), True, "B is neither certainly better nor certainly worse than A"),
        (change(0.8, 0.7, 0.01, few=True), True, "No verdict, there are too few records: auc -0.1"),
        (ALIKE, True, "No verdict, all records change alike: auc -0.1000 unknown: all alike"),
    ],
)
def test_the_verdict(change, higher, words):
    assert page.describe_verdict(result(change, higher=higher)).startswith(words)


def test_a_verdict_of_several_names_its_run():
    found = result(WORSE)
    assert page.attribute_verdict(found, 1) == page.describe_verdict(found)
    assert page.attribute_verdict(found, 2).startswith("two: B is worse than A: auc")


@pytest.mark.parametrize(
    ("split", "checkpoint", "name"),
    [
        ("eval", None, "one-a-b.html"),
        ("test", "500", "one-a-b-test-step-500.html"),
        ("eval", "best", "one-a-b-best.html"),
    ],
)
def test_pages_of_other_records_or_checkpoints_have_names_of_their_own(split, checkpoint, name):
    assert page.build_file_name(["one", "a b"], split, checkpoint) == name


def test_a_metric_without_an_interval():
    found = result(WORSE, metric=None, wanted="precision", higher=None)
    assert found.verdict == ""
    assert page.describe_verdict(found) == (
        "No verdict: 'precision' has no paired interval; name one of auc, log_loss with METRIC="
    )
    assert "No verdict" in page.render_page([found])


def test_the_page_fetches_nothing_and_is_well_formed():
    text = page.render_page([result(WORSE)])
    assert not re.search(r"https?:|<script|src=|url\(|@import", text)
    charts = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(charts) == 3
    for chart in charts:
        ElementTree.fromstring(chart)
    assert '<b class="bad">B is worse than A' in text and "c=&lt;A&gt;" in text
    assert re.findall("<h2>(.*?)</h2>", text) == [
        "Metrics",
        "Slices",
        "Config: what differs",
        "Data: what differs",
        "Versions: what differs",
        "Outcome",
    ]


def test_intervals_without_width_can_be_drawn():
    same = dataclasses.replace(result(change(0.8, 0.8, 0.0)), metric="auc")
    assert "nan" not in page.render_page([same])


def _several():
    better = dataclasses.replace(result(change(0.8, 0.9, 0.05)), names=("one", "<three>"))
    undecided = result(WORSE, metric=None, wanted="precision", higher=None)
    return [result(WORSE), better, undecided]


def test_several_runs_end_with_an_overview():
    lines = page.format_lines(_several())
    assert [line for line in lines if line.startswith("B: ")] == [
        "B: two, step 20",
        "B: <three>, step 20",
        "B: two, step 20",
    ]
    head, *rows = lines[-4:]
    assert head.split()[:3] == ["B", "records", "metric"]
    assert re.fullmatch(r"two +90  auc +0.8000  0.7000  -0.1000  \[.*\] +worse", rows[0])
    assert re.fullmatch(r"<three> +90  auc +0.8000  0.9000  \+0.1000  \[.*\] +better", rows[1])
    assert re.fullmatch(r"two +90  precision +no verdict", rows[2])


@pytest.mark.parametrize("number", [1, 3])
def test_runs_that_are_not_compared_are_named(number):
    refused = {"gone": errors.UsageError("no run 'gone' in <x>; make runs lists them")}
    lines = page.format_lines(_several()[:number], refused)
    assert lines[-2:] == ["", "gone: not compared: no run 'gone' in <x>; make runs lists them"]
    text = page.render_page(_several()[:number], refused)
    assert text.count("<h2>Not compared</h2>") == 1
    assert re.search("<td>gone</td><td.*?>no run &#x27;gone&#x27; in &lt;x&gt;; make runs", text)


def test_the_page_of_several_runs():
    text = page.render_page(_several())
    assert "<h1>3 runs compared with one</h1>" in text
    headings = re.findall("<h[12]>(.*?)</h[12]>", text)
    assert headings[1:4] == ["Overview", "two compared with one", "Metrics"]
    assert headings.count("Outcome") == 3
    assert "&lt;three&gt;" in text and "<three>" not in text


@pytest.mark.parametrize(("units", "named"), [("records: 90", "records"), ("groups: 12", "groups")])
def test_a_difference_that_few_records_carry_is_undecided(units, named):
    carried = MetricEstimate(-0.1, -0.2, -0.05, few_carry=True, units=units)
    found = result(Difference(0.8, 0.7, carried))
    ends = f"[-0.2000, -0.0500], few {named} carry it"
    assert found.verdict == "undecided"
    assert page.describe_verdict(found) == (
        f"Undecided, few {named} carry the difference: auc -0.1000 {ends}"
    )
    text = "\n".join(page.format_lines([found]))
    assert re.search(rf"all +90  auc .* {re.escape(ends)}  undecided\n", text)
    drawn = page.render_page([found])
    assert f"<td>{ends}</td>" in drawn and ">undecided</span>" in drawn
    assert "its interval may be too narrow" in drawn
    unsure = Difference(0.8, 0.7, dataclasses.replace(carried, high=0.1))
    assert page.describe_verdict(result(unsure)).startswith("B is neither certainly better nor")
