"""`estimator-pipeline completion`."""

from __future__ import annotations

import pytest

from tests.support import commands


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_it_prints_a_script_with_the_names_of_shipped_configs(shell):
    done = commands.run_pipeline("completion", shell)
    assert done.returncode == 0, done.stderr
    assert 'words="flights flights_delay images mnist mnist_mlp ranking"' in done.stdout


def test_a_shell_that_is_not_known():
    done = commands.run_pipeline("completion", "fish")
    assert done.returncode == 64
    assert done.stderr.startswith("error: --shell=fish: value should be one of <bash|zsh>")
    assert commands.run_pipeline("completion").stderr == "error: SHELL is missing. Which shell.\n"
