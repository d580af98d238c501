"""The model of the reader's own in docs/models.md, as printed there, trained on the sample."""

from __future__ import annotations

import json

import pytest

from pipeline.config import config_file
from tests.support import pages, samples


@pytest.fixture
def project(tmp_path):
    """A folder with the module and the config of the page."""
    (tmp_path / "my_model.py").write_text(pages.find_block("models.md", "python"))
    config = pages.find_block("models.md", "yaml", "name: my_delay\n")
    (tmp_path / "my_delay.yaml").write_text(config)
    return tmp_path


def test_its_config_is_valid(project):
    job = config_file.load(str(project / "my_delay.yaml"))
    assert job.model.params == {"quantile": 0.9}
    assert not job.eval.higher_is_better


@pytest.mark.slow
def test_it_trains_as_printed(project):
    settings = (f"--set={samples.FLIGHTS}", "--set=train.steps=1500")
    done = pages.run(project, "train", "--config=my_delay.yaml", "--run=r", *settings)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    result = json.loads((project / "output" / "runs" / "r" / "RESULT.json").read_text())
    assert result["metrics"]["eval"]["below"] == pytest.approx(0.9, abs=0.05)
