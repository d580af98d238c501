"""The model of the reader's own in docs/models.md, as printed there, trained on the sample."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from pipeline.config import config_file
from tests.e2e.test_shipped_jobs import SAMPLE
from tests.pipeline.process_help import ROOT, child_environment


@pytest.fixture
def project(tmp_path):
    """A folder with the module and the config of the page."""
    page = (ROOT / "docs" / "models.md").read_text()
    [code] = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    [config] = re.findall(r"^```yaml\n(name: my_delay\n.*?)^```$", page, re.M | re.S)
    (tmp_path / "my_model.py").write_text(code)
    (tmp_path / "my_delay.yaml").write_text(config)
    return tmp_path


def test_its_config_is_valid(project):
    job = config_file.load(str(project / "my_delay.yaml"))
    assert job.model.params == {"quantile": 0.9}
    assert not job.eval.higher_is_better


@pytest.mark.slow
def test_it_trains_as_printed(project):
    command = [sys.executable, "-m", "pipeline", "train", "--config=my_delay.yaml", "--run=r"]
    done = subprocess.run(
        [*command, f"--set={SAMPLE}", "--set=train.steps=1500"],
        cwd=project,
        env={**child_environment(), "PYTHONPATH": f"{ROOT}:{project}"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    result = json.loads((project / "output" / "runs" / "r" / "RESULT.json").read_text())
    assert result["metrics"]["eval"]["below"] == pytest.approx(0.9, abs=0.05)
