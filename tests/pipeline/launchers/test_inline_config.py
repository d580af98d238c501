"""A config that travels inside a job."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.config import config_file
from pipeline.jobs import job as jobs
from pipeline.launchers import inline_config

OWN = "model.name=tests.trainer.user_code:model_fn"
WORDS = ", ".join(["abcdefghij"] * 12_000)


@pytest.fixture
def planned(tmp_path):
    def plan(*overrides):
        return jobs.plan("mnist", overrides, run="r", storage_root=str(tmp_path))

    return plan


def test_it_is_read_as_it_was(planned, monkeypatch):
    job = planned("train.steps=7", 'slurm.constraint="a\'b $HOME"')
    monkeypatch.setenv(inline_config.VARIABLE, inline_config.text(job))
    assert config_file.load(inline_config.NAME) == job.config


def test_a_variable_that_is_not_there_is_named(monkeypatch):
    monkeypatch.delenv(inline_config.VARIABLE, raising=False)
    with pytest.raises(
        errors.UsageError, match=r"^config 'env:PIPELINE_CONFIG': there is no such environment va"
    ):
        config_file.load(inline_config.NAME)


def test_a_secret_is_not_shown(planned):
    job = planned(OWN, "model.params={api_token: abcdefghijklmnop0123456789}")
    with pytest.raises(
        errors.UsageError, match=r"^DRY_RUN=1: model\.params\.api_token looks like a secret, and "
    ):
        inline_config.text(job)


def test_what_does_not_fit_into_a_variable_is_refused(planned):
    job = planned(OWN, f"model.params={{words: [{WORDS}]}}")
    with pytest.raises(errors.UsageError, match=r"the config has \d{3},\d{3} bytes, and a job can"):
        inline_config.text(job)
