"""A clock that jumps for all processes of a run, and for the one that disturbs it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from pipeline.faults.clock import MovedClock

_PROGRAM = """
import os, sys, time
from time import time as bound_at_import
def show(who):
    print(who, round(time.time()), round(bound_at_import()), round(time.time_ns() / 1e9),
          round(time.monotonic()), flush=True)
show("first")
sys.stdin.readline()
show("then")
if os.fork() == 0:
    show("forked")
    os._exit(0)
os.wait()
"""


@pytest.fixture
def clock(tmp_path):
    made = MovedClock(tmp_path / "clock")
    yield made
    made.close()


def test_it_jumps_for_processes_that_run(clock):
    real, steady = time.time(), time.monotonic()
    program = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        env=dict(clock.environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdin and program.stdout
    lines = [program.stdout.readline()]
    clock.jump(-5000)
    assert time.time() - real == pytest.approx(-5000, abs=60)
    lines += program.communicate("\n")[0].splitlines()
    assert [line.split()[0] for line in lines] == ["first", "then", "forked"]
    for line, jump in zip(lines, (0, -5000, -5000), strict=True):
        *days, monotonic = map(float, line.split()[1:])
        assert days == pytest.approx([real + jump] * 3, abs=60)
        assert monotonic == pytest.approx(steady, abs=60)


def test_it_is_the_real_one_afterwards(tmp_path):
    real, before = time.time, os.environ.copy()
    clock = MovedClock(tmp_path / "clock")
    clock.jump(100)
    assert clock.moved == 100
    clock.close()
    assert time.time is real and os.environ == before
