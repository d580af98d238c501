"""What tests of gs:// start from."""

import subprocess
import sys

from tests.cloud.fixtures import build_cloud
from tests.pipeline.process_help import ROOT

CODE = """
from types import SimpleNamespace
from tests.cloud.fixtures import build_cloud
print(build_cloud(SimpleNamespace(api=None, environment={}), "f").root)
"""


def test_two_sessions_on_one_machine_have_folders_of_their_own(service):
    """The lock of a run on gs:// is a file of the machine, named after the path of the run."""
    other = subprocess.run(
        [sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert other.stdout.startswith("gs://bucket/f")
    assert other.stdout.strip() != build_cloud(service, "f").root
