"""Beam is imported without noise, and without Google's packages where they are not needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

_IMPORT = "import gc, sys; from preprocessing.runners.beam_import import import_beam; "


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


@pytest.mark.parametrize("cloud", [True, False])
def test_it_is_quiet_and_leaves_the_collector_on(cloud):
    done = _python(_IMPORT + f"import_beam(cloud={cloud}); print(gc.isenabled())")
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_without_the_cloud_google_s_packages_are_not_imported():
    loaded = "print([m in sys.modules for m in ('google.cloud.storage', 'apache_beam')])"
    assert _python(_IMPORT + f"import_beam(cloud=False); {loaded}").stdout == "[False, True]\n"
    assert _python(_IMPORT + f"import_beam(); {loaded}").stdout == "[True, True]\n"


def test_they_can_be_imported_later():
    later = "import apache_beam.io.gcp.gcsio as found; print(found.__name__)"
    done = _python(_IMPORT + f"import_beam(cloud=False); {later}")
    assert done.stdout == "apache_beam.io.gcp.gcsio\n"
