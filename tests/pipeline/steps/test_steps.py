"""Steps are found by their names, without TensorFlow."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from pipeline import errors, steps

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_classes_are_called_by_the_config_as_in_python():
    assert steps.STEPS["z_score"].__name__ == "ZScore"
    assert steps.STEPS["log1p"]().step == "log1p"
    assert list(steps.STEPS) == sorted(steps.STEPS)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("zscore", r"no step is called 'zscore' \(did you mean 'z_score'\?\); known: augment, bu"),
        ("no_such_module:Step", r"no module 'no_such_module'; is its folder on PYTHONPATH\?"),
        ("string:Formater", "step 'string:Formater': AttributeError: .* no attribute 'Formater'"),
        ("string:Formatter", "must be a subclass of pipeline.steps.base.Step, got <class 'string"),
        (":Step", "step ':Step': ValueError: Empty module name"),
    ],
)
def test_names_that_are_none(name, message):
    with pytest.raises(errors.UsageError, match=message):
        steps.find(name)


@pytest.mark.parametrize("given", [3, None, {}, {"clip": {}, "log1p": {}}, ["log1p"]])
def test_what_is_written_otherwise(given):
    with pytest.raises(ValueError, match=r"must be the name of a step, or \{name: \{its settings"):
        steps.build_step(given)


def test_steps_are_read_without_tensorflow():
    code = "import sys, pipeline.steps; print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "False\n"
