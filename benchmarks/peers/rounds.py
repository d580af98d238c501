"""Runs the programs of a suite in turn, several rounds, and keeps what each has reported.

Kept as plain JSON, for bench-peers.json: of each program its title, versions, the results of all
rounds, and why there is none, if so.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.peers import environments
from benchmarks.peers.environments import PeerError
from benchmarks.peers.suites import Program, Suite
from pipeline.storage import strict_json

_TIMEOUT = 1200  # seconds, of one program
# Threads of OpenMP that wait would spin, which costs whoever shares the machine more than the work.
_QUIET = {"OMP_WAIT_POLICY": "passive", "TF_CPP_MIN_LOG_LEVEL": "3"}

Kept = dict[str, Any]


def run(
    suite: Suite,
    programs: Sequence[Program],
    kept: dict[str, Kept],
    *,
    rounds: int,
    root: pathlib.Path,
) -> Iterator[None]:
    """Adds the results of `programs` to `kept`, by name, and yields after each. One that fails is
    not run again."""
    settings = root / "peers" / f"{suite.name}.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(strict_json.dumps(suite.prepare(root)), encoding="utf-8")
    for program in programs:
        kept.setdefault(program.name, {"rounds": [], "versions": {}})
        kept[program.name] |= {"title": program.title, "failure": program.without}
    for number in range(rounds):
        for program in programs:
            of_program = kept[program.name]
            if of_program["failure"]:
                continue
            print(f"{suite.name}, round {number + 1} of {rounds}: {program.title}", flush=True)
            try:
                result = _run(suite, program, of_program, settings=settings)
            except PeerError as error:
                of_program["failure"] = str(error)
                print(f"  failed: {error}", flush=True)
            else:
                of_program["rounds"].append(result)
                print(f"  {json.dumps(result)}", flush=True)
            yield


def _run(suite: Suite, program: Program, kept: Kept, *, settings: pathlib.Path) -> dict[str, float]:
    found = environments.make(program.environment, settings.parent / "environments")
    kept["versions"] = found.versions()
    command = [found.python, "-m", suite.module(program), str(settings)]
    command += [program.argument] if program.argument else []
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT, env=os.environ | _QUIET
        )
    except subprocess.TimeoutExpired:
        raise PeerError(f"took more than {_TIMEOUT} s") from None
    (settings.parent / f"{suite.name}-{program.name}.log").write_text(done.stderr, encoding="utf-8")
    if done.returncode:
        raise PeerError((done.stderr.strip().splitlines() or ["no message"])[-1])
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result
