"""Beam is imported without noise, and without Google's packages where they are not needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

_IMPORT = "import gc, sys; from preprocessing.runners.beam_import import import_beam; "


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


@pytest.mark.parametrize("cloud", [True, False])
def test_it_is_quiet_and_google_s_packages_are_imported_where_they_are_needed(cloud):
    """Later, too. The collector stays on."""
    loaded = "print(*(m in sys.modules for m in ('google.cloud.storage', 'apache_beam')))"
    # Those of Google are not quiet by themselves.
    later = "import os; os.dup2(os.open(os.devnull, os.O_WRONLY), 2); "
    later += "import apache_beam.io.gcp.gcsio as found; print(found.__name__, gc.isenabled())"
    done = _python(f"{_IMPORT}import_beam(cloud={cloud}); {loaded}; {later}")
    assert (done.stdout, done.stderr) == (f"{cloud} True\napache_beam.io.gcp.gcsio True\n", "")
