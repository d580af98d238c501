"""One process of a run from its flags to its exit code."""

from __future__ import annotations


def test_a_single_process_trains_evaluates_and_exports(finished):
    result = finished.result
    assert result["final_step"] == 300
    assert result["metrics"]["test"]["accuracy"] > 0.8
