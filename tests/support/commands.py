"""Commands as processes, forked from one that has imported what most of them import.

Each is what `python -m MODULE` is, without half a second of imports, or two with Beam. Those of
the trainer, which need TensorFlow, are run by `tests.trainer.commands`.
"""

from __future__ import annotations

import atexit
import gc
import multiprocessing
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping

from tests.pipeline.process_help import ROOT, child_environment

SECONDS = 600  # no command may take this long; it keeps a hanging test from hanging all
# One for all tests of a process: the standard library knows no second.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload([__name__, "pipeline.jobs.job", "preprocessing.build.beam_pipeline"])


def run(
    module: str,
    *arguments: str,
    folder: pathlib.Path = ROOT,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs `python -m module arguments` in a folder, with more environment variables, to its
    end."""
    variables = {**child_environment(), **(environment or {})}
    with tempfile.TemporaryDirectory() as scratch:
        outputs = [pathlib.Path(scratch, name) for name in ("stdout", "stderr")]
        given = {"folder": str(folder), "variables": variables, "outputs": [*map(str, outputs)]}
        process = SERVER.Process(target=_become, args=(module, *arguments), kwargs=given)
        process.start()
        process.join(SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
        texts = [path.read_text() if path.exists() else "" for path in outputs]
    assert process.exitcode is not None
    return subprocess.CompletedProcess([module, *arguments], process.exitcode, *texts)


def run_pipeline(
    *arguments: str, cwd: pathlib.Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs `estimator-pipeline arguments` in a folder, to its end."""
    return run("pipeline", *arguments, folder=cwd, environment=environment)


def read_error_line(done: subprocess.CompletedProcess[str], code: int = 64) -> str:
    """Returns the one line of error that a command ended with; fails if there are others."""
    assert done.returncode == code, done
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def _become(
    module: str, *arguments: str, folder: str, variables: dict[str, str], outputs: list[str]
) -> None:
    """What the forked process does."""
    gc.freeze()  # what is loaded stays shared with the other processes
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    for descriptor, path in enumerate((os.devnull, *outputs)):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    sys.path[:0] = [folder, *filter(None, variables["PYTHONPATH"].split(os.pathsep))]
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()
