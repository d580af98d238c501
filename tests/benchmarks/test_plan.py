"""Topologies that are measured against plans."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks import plan
from tests.pipeline.process_help import ROOT, child_environment


def test_each_cell_has_a_name_of_its_own():
    names = [case.name for case in plan.CASES]
    assert len(set(names)) == len(names) >= 16


@pytest.mark.parametrize(
    ("programs", "why"),
    [
        ({"unshare": "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1"},
         "unshare: unshare failed: Operation not permitted"),
        ({}, "'unshare' is not installed"),
    ],
    ids=["no right", "no program"],
)  # fmt: skip
def test_without_the_right_to_shape_links_it_says_so_in_one_line(tmp_path, programs, why):
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!{os.path.realpath('/bin/sh')}\n{text}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.main", "--only=plan", f"--storage={tmp_path}/out"],
        cwd=ROOT,
        env={**child_environment(), "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 64
    assert done.stderr == (
        f"error: plan: links cannot be shaped here: {why}. Install iproute2 and util-linux, and "
        "permit network namespaces\n"
    )
