"""Processes whose image has other code than that which their job was submitted with."""

from __future__ import annotations

import json

import pytest

from pipeline import errors, versions
from pipeline.runs import submitted_code
from tests.pipeline.jobs.jobs import plan
from tests.pipeline.process_help import ROOT


def require(**known: str) -> None:
    submitted_code.require({submitted_code.VARIABLE: json.dumps(known)})


def test_a_process_with_the_same_code_continues():
    config = plan("model.name=tests.trainer.user_code:model_fn").config
    known = submitted_code.variable(config)
    assert json.loads(known).keys() == {"pipeline", "tests.trainer.user_code"}
    submitted_code.require({submitted_code.VARIABLE: known})
    submitted_code.require({})


def test_an_image_of_another_version():
    ours = versions.code_version()
    with pytest.raises(
        errors.UsageError,
        match=rf"^the pipeline: its code is {ours} here, and was 0123 where the job was "
        r"submitted\. Build the image again with make image, and submit with it; or",
    ):
        require(pipeline="0123")


def test_another_version_of_a_module_of_the_user():
    with pytest.raises(
        errors.UsageError,
        match=r"^module tests\.trainer\.user_code: its code is .{12} here, and was 0123 .*make "
        r"image, or the wheel of gcp\.package",
    ):
        require(**{"pipeline": versions.code_version(), "tests.trainer.user_code": "0123"})


def test_a_module_that_one_side_does_not_have_is_not_compared():
    """The submitter may have it in a wheel only; here, importing it says more."""
    config = plan("model.name=nowhere.models:net").config
    assert json.loads(submitted_code.variable(config)).keys() == {"pipeline"}
    require(**{"pipeline": versions.code_version(), "nowhere.models": "0123", "tests.none": "4"})


def test_a_module_is_the_same_wherever_it_is_installed(tmp_path, monkeypatch):
    for name in ("mine/__init__.py", "mine/inner/__init__.py", "single.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("raise AssertionError('is not imported')\n")
    content = (ROOT / "tests" / "trainer" / "user_code.py").read_bytes()
    (tmp_path / "mine" / "models.py").write_bytes(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ["mine", "mine.inner", "mine.models", "single", "mine.none"]
    found = submitted_code.own_code.files([*names, "tests.trainer.user_code", "pipeline.steps"])
    assert found.keys() == {*names[:-1], "tests.trainer.user_code"}
    assert found["mine.models"] == found["tests.trainer.user_code"]
