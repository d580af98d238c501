"""What is shown of a disturbed run."""

from __future__ import annotations

import dataclasses
import json

from pipeline.faults import outcome_page
from pipeline.faults.draw import Fault
from pipeline.faults.experiment import Outcome
from pipeline.faults.metric_band import Band

BAND = Band("accuracy", 0.98, 0.99, 5)
LEFT_OUT = {"a slow disk": "it needs <a device>"}


def outcome(*wrong):
    faults = [
        Fault("kill", "chief-0", 10, 0.0, 1.0, 12, 2.5, 7, 3, 0, "a & b"),
        Fault("stop", "worker-0", 900, 4.0),
    ]
    more = {"seconds": 61.0, "step": 100, "wanted": 100, "exports": 1, "value": 0.985}
    return Outcome(faults, "run", list(wrong), **more, doubled=3, bound=256, launches=2)


def test_the_table_has_each_fault_and_the_end():
    lines = outcome_page.lines(outcome(), BAND, LEFT_OUT)
    assert " ".join(lines[1].split()) == "1 12 kill chief-0 2.5 s 7 3 0 a & b"
    assert lines[2].split()[:5] == ["2", "900", "stop,", "4", "s"]
    assert lines[2].endswith("not reached before training ended")
    assert "not tried: a slow disk: it needs <a device>" in lines
    assert "accuracy: 0.9850 (allowed 0.9800 to 0.9900)" in lines
    assert "records applied more than once: 3 (at most 256)" in lines
    assert lines[-1] == "verdict: the end is right; the band of accuracy is ±0.51 % by 5 runs"


def test_updates_that_the_ledger_does_not_have_are_reported():
    found = dataclasses.replace(outcome(), doubled=0, uncounted=256)
    lines = outcome_page.lines(found, BAND, {})
    said = "0 by the ledger, 256 of updates that it does not have (at most 256)"
    assert f"records applied more than once: {said}" in lines


def test_a_wide_band_is_reported_with_the_verdict():
    lines = outcome_page.lines(outcome(), Band("loss", 0.8, 1.2, 3), {})
    wide = "the band of loss is wide: ±20 % by 3 runs; BASELINE=8 narrows it"
    assert lines[-1] == f"verdict: the end is right; {wide}"


def test_what_is_wrong_is_reported_on_both():
    found = outcome("0 final exports", "3 records never applied")
    assert outcome_page.lines(found, None, {})[-3:] == [
        "wrong: 0 final exports",
        "wrong: 3 records never applied",
        "verdict: 2 wrong",
    ]
    page = outcome_page.page("Chaos", found, allowed=None, left_out={}, command="make chaos")
    assert "2 wrong" in page and "wrong: 0 final exports" in page


def test_the_page_escapes_and_repeats_the_command():
    page = outcome_page.page(
        "Chaos", outcome(), allowed=BAND, left_out=LEFT_OUT, command='make chaos SET="a<b"'
    )
    assert "a &amp; b" in page and "&lt;a device&gt;" in page
    assert "make chaos SET=&quot;a&lt;b&quot;" in page
    assert "the end is right" in page


def test_json_has_everything():
    content = json.loads(outcome_page.format_json(outcome(), BAND, "make chaos SEED=1"))
    assert content["command"] == "make chaos SEED=1"
    assert content["band"]["low"] == 0.98
    assert content["faults"][0]["steps_lost"] == 7
