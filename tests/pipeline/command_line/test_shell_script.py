"""Completion in a real bash."""

from __future__ import annotations

import re
import subprocess

import pytest

from pipeline.command_line import shell_script, table

CONFIGS = ("flights", "mnist", "mnist_mlp")


def complete(typed, shell="bash"):
    """Returns what bash offers after some words; the last is the one under the cursor."""
    script = shell_script.script(shell, CONFIGS)
    words = " ".join(f"'{word}'" for word in typed)
    code = (
        f"{script if shell == 'bash' else script.partition(chr(10))[2]}\n"
        f"COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}\n"
        '_estimator_pipeline; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-uc", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["sta"], ["stats", "status"]),
        (["trai"], ["train"]),
        (["train", "--wo"], ["--workers"]),
        (["train", "--config", "mn"], ["mnist", "mnist_mlp"]),
        (["train", "--config", "=", "fl"], ["flights"]),
        (["train", "--config", "="], [*CONFIGS]),
        (["train", "--config=fl"], ["--config=flights"]),
        (["train", "--storage", "x"], []),
        (["preprocess", "--force", "--dry"], ["--dry_run"]),
        (["preprocess", "--cluster", "=", "g"], ["gcp"]),
        (["predict", "--format", "p"], []),
        (["completion", "z"], ["zsh"]),
        (["nonesuch", "--"], []),
    ],
)
def test_bash_offers_what_may_follow(typed, offered):
    assert complete(["estimator-pipeline", *typed]) == offered


def test_all_commands_are_offered_at_first():
    assert complete(["estimator-pipeline", ""]) == [*table.COMMANDS, "--help", "--version"]


def test_zsh_reads_the_same_function():
    script = shell_script.script("zsh", CONFIGS)
    assert script.startswith("autoload -U +X bashcompinit && bashcompinit\n")
    assert re.search(r"^complete .* estimator-pipeline$", script, re.M)
