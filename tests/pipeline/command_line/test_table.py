"""The table of commands, held against the Makefile."""

from __future__ import annotations

import re

import pytest

from pipeline.command_line import table
from tests.pipeline.process_help import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
# They need what a checkout has: tests, benchmarks, lock files, a .venv.
OF_DEVELOPERS = {
    "help",
    "setup",
    "test",
    "test-fast",
    "test-slow",
    "test-matrix",
    "test-gcp",
    "soak",
    "docs",
    "lint",
    "bench",
    "bench-peers",
    "lock",
    "clean",
}
# They are about the command itself, a folder without a Makefile, or a command line, which no
# variable of make holds.
WITHOUT_MAKE = {"completion", "init", "run"}


def test_make_and_the_command_have_the_same_commands():
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.M))
    assert targets - OF_DEVELOPERS == set(table.COMMANDS) - WITHOUT_MAKE


@pytest.mark.parametrize("name", sorted({*table.COMMANDS} - WITHOUT_MAKE))
def test_a_target_calls_the_command_of_its_name(name):
    recipe = re.search(rf"^{name}:.*\n((?:\t.*\n)+)", MAKEFILE, re.M)[1]
    assert f"@$(CLI) {name} " in recipe, f"make {name} must call $(CLI) {name}"


@pytest.mark.parametrize("name", table.COMMANDS)
def test_the_modules_exist(name):
    assert (ROOT / f"{table.COMMANDS[name].module.replace('.', '/')}.py").is_file()
