"""The model of the last step is compared with the best one, where that is another."""

from __future__ import annotations

import pytest

from pipeline.reports import better_model
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder

BEST = {"step": 400, "metric": "average_loss", "value": 604.6, "export": "export/best/400"}
RESULT = {"final_step": 1000, "metrics": {"eval": {"average_loss": 653.8}}}


def _describe(folder, step, best=BEST, result=RESULT):
    run = RunFolder(str(folder / "runs" / "r1"))
    for name, content in ((run_folder.BEST, best), (run_folder.RESULT, result)):
        if content is not None:
            run.write(name, content)
    return better_model.describe(run, step, "make predict EXPORT=best")


def test_both_models_and_the_setting_for_the_better_one_are_named(tmp_path):
    assert _describe(tmp_path, 1000) == (
        "note: this is the model of the last step, 1,000; that of step 400 did better on eval "
        "(average_loss 604.6000, the last has 653.8000): make predict EXPORT=best RUN=r1 "
        f"STORAGE={tmp_path}"
    )


def test_a_last_model_whose_metric_is_not_known(tmp_path):
    said = _describe(tmp_path, 1000, result={**RESULT, "metrics": {"eval": {"accuracy": 0.5}}})
    assert "the model of the last step, 1,000; that" in said
    assert "did better on eval (average_loss 604.6000): make predict" in said


@pytest.mark.parametrize("result", [None, RESULT, {"metrics": RESULT["metrics"]}])
def test_a_model_of_an_earlier_step_has_not_the_value_of_the_last(tmp_path, result):
    """The newest checkpoint is damaged, or the run trains on."""
    assert _describe(tmp_path, 800, result=result).startswith(
        "note: this is the model of step 800; that of step 400 did better on eval "
        "(average_loss 604.6000): make predict"
    )


@pytest.mark.parametrize(
    ("step", "best"), [(400, BEST), (1000, None), (1000, {"replacement": {"step": 400}})]
)
def test_nothing_is_said_of_the_best_or_without_one(tmp_path, step, best):
    assert _describe(tmp_path, step, best=best) == ""
