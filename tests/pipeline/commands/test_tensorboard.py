"""Starting TensorBoard."""

from __future__ import annotations

import subprocess
import sys

from tests.pipeline.process_help import ROOT, child_environment

# In place of the real one.
MAIN = """
import os, sys, warnings
warnings.warn("pkg_resources is deprecated as an API. See there", UserWarning)
print(*sys.argv[1:], os.environ["TF_CPP_MIN_LOG_LEVEL"])
"""


def test_nothing_is_reported_but_what_tensorboard_says(tmp_path):
    (tmp_path / "tensorboard").mkdir()
    (tmp_path / "tensorboard" / "__init__.py").touch()
    (tmp_path / "tensorboard" / "main.py").write_text(MAIN)
    environment = child_environment()
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    environment["PYTHONPATH"] = f"{tmp_path}:{environment['PYTHONPATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "tensorboard", "--storage=there", "--port=7"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("--logdir=there/runs --port=7 3\n", "")
